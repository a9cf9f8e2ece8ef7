// lookup.h: what embedding and take share.
#ifndef HST_LOOKUP_H
#define HST_LOOKUP_H

#include "autograd/op.h"

// False after an error if there is no such mode.
bool hst_check_index_mode(const hst_call *call, hst_index_mode mode);

// The gradient of a lookup along `axis` of a table: dense, or, along axis 0 of a leaf that asked for it, as rows.
// `args` has all but outer, rows and dtable.
bool hst_lookup_backward(hst_call *call, hst_lookup_grad_args args, hst_gradient into, int axis);

static inline int64_t hst_product(const int64_t *shape, int begin, int end) {
    int64_t count = 1;
    for (int i = begin; i < end; i++) count *= shape[i];
    return count;
}

#endif
