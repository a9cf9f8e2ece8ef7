// broadcast.h: operands of different shapes. Axes are matched from the last one; where an operand has extent 1, or no
// axis at all, it is repeated: its stride there is 0. Its gradient is the sum over the repetitions.
#ifndef HST_BROADCAST_H
#define HST_BROADCAST_H

#include "autograd/op.h"

// For the sentences about shapes that do not fit.
#define HST_BROADCAST_RULE "counted from the last, axes must be equal, or 1 or missing in what is repeated"

// Widens the shape `to` so that an operand of the given shape is repeated into it; false if the two do not fit.
static inline bool hst_broadcast_shape(hst_type *to, int rank, const int64_t *shape) {
    hst_type wide = {.dtype = to->dtype, .rank = rank > to->rank ? rank : to->rank};
    for (int i = 1; i <= wide.rank; i++) {
        int64_t a = i <= to->rank ? to->shape[to->rank - i] : 1, b = i <= rank ? shape[rank - i] : 1;
        if (a != b && a != 1 && b != 1) return false;
        wide.shape[wide.rank - i] = a == 1 ? b : a;
    }
    *to = wide;
    return true;
}

// An operand's strides over the shape `to`, into which it fits.
static inline void hst_broadcast_stride(const hst_type *to, int rank, const int64_t *shape, const int64_t *stride,
                                        int64_t *result) {
    for (int i = 1; i <= to->rank; i++) result[to->rank - i] = i <= rank && shape[rank - i] != 1 ? stride[rank - i] : 0;
}

#endif
