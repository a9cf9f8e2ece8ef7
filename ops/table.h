// table.h: every operation of the library, one row each, in the order of the chapter: the op `name` is the record
// hst_op_<name>. The documentation, the gradient checks and the dtype sweeps walk this table.
#ifndef HST_OP_TABLE_H
#define HST_OP_TABLE_H

#include "autograd/op.h"

// clang-format off
#define HST_OPS(X) \
    X(linear) \
    X(matmul) \
    X(embedding) \
    X(layer_norm) \
    X(rms_norm) \
    X(dropout) \
    X(sru_recurrence) \
    X(add) \
    X(sub) \
    X(mul) \
    X(div) \
    X(sigmoid) \
    X(tanh) \
    X(relu) \
    X(gelu) \
    X(exp) \
    X(log) \
    X(sqrt) \
    X(pow) \
    X(scale) \
    X(cast) \
    X(sum) \
    X(mean) \
    X(max) \
    X(softmax) \
    X(log_softmax) \
    X(token_losses) \
    X(reshape) \
    X(slice) \
    X(transpose) \
    X(broadcast_to) \
    X(cat) \
    X(where) \
    X(take) \
    X(one_hot)
// clang-format on

#define HST_OP_DECLARATION(name) extern const hst_op hst_op_##name;
HST_OPS(HST_OP_DECLARATION)

extern const hst_op *const hst_op_table[];
extern const int hst_op_count;

#endif
