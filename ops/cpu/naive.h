// naive.h: what the naive kernels share: reading, adding and writing one element. naive*.c hold every kernel of the
// backend struct as plainly as its equation: read them to learn an operation. The fast kernels are compared with them,
// and the library built with REAL=double, for the gradient checks, has no others. They use one thread.
#ifndef HST_NAIVE_H
#define HST_NAIVE_H

#include "ops/cpu/kernels.h"
#include "tensor/context.h"

// Every addition of every sum whose result will be stored as `type`. Sums are formed in double and rounded once, when
// they are stored. The second set of these kernels, "unsafe", which a context gets with options.unsafe_accumulation,
// rounds here too, after each addition: then sums stall (apache/mxnet#17703), for whoever wants to see it.
static inline double add(hst_dtype type, double sum, double term) {
#ifdef HST_UNSAFE_ACCUMULATION
    hst_store((hst_target){&sum, type, false}, 0, sum + term);
    return hst_load((hst_source){&sum, type}, 0);
#else
    (void)type;
    return sum + term;
#endif
}

// x[i], or `otherwise` when x is absent.
static inline double load_or(hst_source x, int64_t i, double otherwise) { return x.data ? hst_load(x, i) : otherwise; }

// What a sum that goes into y[i] starts from: the old value, or nothing.
static inline double start(hst_target y, int64_t i) {
    return y.data && y.add ? hst_load((hst_source){y.data, y.dtype}, i) : 0;
}

// Ends a sum that began with start(y, i).
static inline void finish(hst_target y, int64_t i, double sum) {
    if (y.data) hst_store(y, i, sum);
}

// y[i] (+)= value
static inline void put(hst_target y, int64_t i, double value) {
    finish(y, i, y.add ? add(y.dtype, start(y, i), value) : value);
}

// How many elements an index space has, and where element i, counted with the last axis fastest, lies in memory.
static inline int64_t elements(int rank, const int64_t *shape) {
    int64_t count = 1;
    for (int axis = 0; axis < rank; axis++) count *= shape[axis];
    return count;
}
static inline int64_t position(int rank, const int64_t *shape, const int64_t *stride, int64_t i) {
    int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        at += i % shape[axis] * stride[axis];
        i /= shape[axis];
    }
    return at;
}

#endif
