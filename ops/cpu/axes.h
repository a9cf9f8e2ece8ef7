// axes.h: index spaces that several operands share, each with strides of its own, and walks through them.
#ifndef HST_AXES_H
#define HST_AXES_H

#include "ops/cpu/blocks.h"

enum { MOST_OPERANDS = 4 };

typedef struct space {
    int rank;
    int64_t shape[HST_MAX_RANK], stride[MOST_OPERANDS][HST_MAX_RANK];
} space;

// Where an element lies: its index, and its offset in each operand.
typedef struct place {
    int64_t index[HST_MAX_RANK], at[MOST_OPERANDS];
} place;

INLINE int64_t elements(const space *s) {
    int64_t count = 1;
    for (int axis = 0; axis < s->rank; axis++) count *= s->shape[axis];
    return count;
}

INLINE void append_axis(space *to, const space *from, int axis, int operands) {
    to->shape[to->rank] = from->shape[axis];
    for (int o = 0; o < operands; o++) to->stride[o][to->rank] = from->stride[o][axis];
    to->rank++;
}

// The same space without axes of one element, and with neighbouring axes made one where all operands allow it. One axis
// remains at least.
static inline space with_fewest_axes(const space *from, int operands) {
    space s = {0};
    for (int axis = 0; axis < from->rank; axis++) {
        int64_t n = from->shape[axis];
        if (n == 1) continue;
        int last = s.rank - 1;
        bool merge = last >= 0;
        for (int o = 0; merge && o < operands; o++) merge = s.stride[o][last] == n * from->stride[o][axis];
        if (!merge) {
            append_axis(&s, from, axis, operands);
            continue;
        }
        s.shape[last] *= n;
        for (int o = 0; o < operands; o++) s.stride[o][last] = from->stride[o][axis];
    }
    if (s.rank == 0) s.shape[s.rank++] = 1;
    return s;
}

// Element i, counted with the last axis fastest.
INLINE place place_of(const space *s, int operands, int64_t i) {
    place p = {0};
    for (int axis = s->rank - 1; axis >= 0; axis--) {
        p.index[axis] = i % s->shape[axis];
        i /= s->shape[axis];
        for (int o = 0; o < operands; o++) p.at[o] += p.index[axis] * s->stride[o][axis];
    }
    return p;
}

// To the next element; from the last to the first.
INLINE void step(const space *s, int operands, place *p) {
    for (int axis = s->rank - 1; axis >= 0; axis--) {
        for (int o = 0; o < operands; o++) p->at[o] += s->stride[o][axis];
        if (++p->index[axis] < s->shape[axis]) return;
        p->index[axis] = 0;
        for (int o = 0; o < operands; o++) p->at[o] -= s->shape[axis] * s->stride[o][axis];
    }
}

// n <= VL elements `stride` apart as a vector; the other lanes are 0.
static vf gather(hst_source s, int64_t i, int64_t stride, int64_t n) {
    float lanes[VL] = {0};
    for (int64_t l = 0; l < n && l < VL; l++) lanes[l] = (float)hst_load(s, i + l * stride);
    return get(from_f32(lanes), 0, VL);
}

// As get, of elements that are 1 apart, or `stride`, or 0: then all lanes are `repeated`, the element at i.
INLINE vf fetch(hst_source s, int64_t i, int64_t stride, int64_t n, vf repeated) {
    return stride == 1 ? get(s, i, n) : stride == 0 ? repeated : gather(s, i, stride, n);
}
INLINE vf repeated_at(hst_source s, int64_t i, int64_t stride) {
    return splat(s.data && stride == 0 ? (float)hst_load(s, i) : 0);
}

#endif
