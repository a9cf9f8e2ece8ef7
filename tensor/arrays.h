// arrays.h: what a kernel sees of a tensor: plain memory with a dtype, and the entries of index arrays.
#ifndef HST_ARRAYS_H
#define HST_ARRAYS_H

#include "tensor/tensor.h"

// The type that f32 tensors are stored in: float in the product. `make REAL=double` builds a second library, for the
// gradient checks, in which it is a double, and then the naive kernels are the only ones.
#ifdef HST_REAL_DOUBLE
typedef double hst_real;
#else
typedef float hst_real;
#endif

#if __FINITE_MATH_ONLY__
#error "inf and NaN must keep their meaning: do not build with -ffast-math"
#endif

typedef struct hst_source {
    const void *data;
    hst_dtype dtype;
} hst_source;
typedef struct hst_target {
    void *data;
    hst_dtype dtype;
    bool add;
} hst_target;

// Element i of an index array: u8, i32 or i64.
static inline int64_t hst_index_at(hst_source ids, int64_t i) {
    if (ids.dtype == HST_U8) return ((const uint8_t *)ids.data)[i];
    if (ids.dtype == HST_I32) return ((const int32_t *)ids.data)[i];
    return ((const int64_t *)ids.data)[i];
}

// The strides of elements that lie in order, the last axis fastest. An axis without elements is taken as one of a
// single element: no stride is used then.
static inline void hst_row_major(int rank, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        stride[axis] = step;
        step *= shape[axis] > 0 ? shape[axis] : 1;
    }
}

// The entry of an axis of extent n that index i names; one that hst_check_ids refuses is returned as it is, or wrapped.
static inline int64_t hst_entry_at(hst_source ids, hst_index_mode mode, int64_t n, int64_t i) {
    int64_t id = hst_index_at(ids, i);
    if (mode == HST_INDEX_RAISE || (id >= 0 && id < n)) return id;
    if (mode == HST_INDEX_CLIP) return id < 0 ? 0 : n - 1;
    id %= n;
    return id < 0 ? id + n : id;
}

#endif
