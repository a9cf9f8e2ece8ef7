// table.h: every operation of the library, one row each; the documentation, the gradient checks and the dtype sweeps
// walk this table.
#ifndef HST_OP_TABLE_H
#define HST_OP_TABLE_H

#include "autograd/op.h"

extern const hst_op hst_op_linear, hst_op_embedding, hst_op_layer_norm, hst_op_dropout, hst_op_sru_recurrence,
    hst_op_add, hst_op_scale, hst_op_cast, hst_op_sum, hst_op_mean, hst_op_token_losses, hst_op_reshape, hst_op_slice,
    hst_op_transpose;

extern const hst_op *const hst_op_table[];
extern const int hst_op_count;

#endif
