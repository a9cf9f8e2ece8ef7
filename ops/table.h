// table.h: every operation of the library, one row each, in the order of the chapter: the op `name` is the record
// hst_op_<name>. The documentation, the gradient checks and the dtype sweeps walk this table.
//
// Its columns are the op lists of mixed precision (hst_op_list): what autocast regions ask of the operation. Behind
// halfstep's own they are what PyTorch 2 does on CUDA and on CPUs, MXNet 1.9 in fp16 and bf16, APEX O1, for the
// operations that they have, and NONE for the others. sru_recurrence's h follows a rule of its own.
#ifndef HST_OP_TABLE_H
#define HST_OP_TABLE_H

#include "autograd/op.h"
#include "ops/ops.h"

// clang-format off
//    operation       halfstep torch   torch   mxnet   mxnet   apex
//                            _cuda   _cpu    _fp16   _bf16   _o1
#define HST_OPS(X) \
    X(linear,         LOWER,   LOWER,   LOWER,   LOWER,   LOWER,   LOWER) \
    X(matmul,         LOWER,   LOWER,   LOWER,   LOWER,   NONE,    LOWER) \
    X(embedding,      NONE,    NONE,    NONE,    NONE,    F32,     NONE) \
    X(layer_norm,     F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(rms_norm,       F32,     F32,     NONE,    NONE,    NONE,    NONE) \
    X(dropout,        NONE,    NONE,    NONE,    NONE,    F32,     NONE) \
    X(sru_recurrence, NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(add,            WIDEST,  NONE,    NONE,    WIDEST,  NONE,    WIDEST) \
    X(sub,            WIDEST,  NONE,    NONE,    WIDEST,  NONE,    WIDEST) \
    X(mul,            WIDEST,  NONE,    NONE,    WIDEST,  NONE,    WIDEST) \
    X(div,            WIDEST,  NONE,    NONE,    WIDEST,  NONE,    WIDEST) \
    X(sigmoid,        NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(tanh,           NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(relu,           NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(gelu,           NONE,    NONE,    NONE,    NONE,    NONE,    F32) \
    X(exp,            F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(log,            F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(sqrt,           NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(pow,            F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(scale,          NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(cast,           NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(sum,            F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(mean,           F32,     NONE,    NONE,    F32,     NONE,    NONE) \
    X(max,            NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(softmax,        F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(log_softmax,    F32,     F32,     NONE,    F32,     NONE,    F32) \
    X(token_losses,   F32,     F32,     F32,     F32,     NONE,    F32) \
    X(linear_cross_entropy, \
                      LOWER,   LOWER,   LOWER,   LOWER,   LOWER,   LOWER) \
    X(binary_cross_entropy, \
                      BANNED,  BANNED,  F32,     NONE,    NONE,    BANNED) \
    X(binary_cross_entropy_with_logits, \
                      F32,     F32,     F32,     NONE,    NONE,    F32) \
    X(reshape,        NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(slice,          NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(transpose,      NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(broadcast_to,   NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(cat,            WIDEST,  NONE,    WIDEST,  WIDEST,  NONE,    WIDEST) \
    X(where,          WIDEST,  NONE,    NONE,    WIDEST,  NONE,    NONE) \
    X(take,           NONE,    NONE,    NONE,    NONE,    NONE,    NONE) \
    X(one_hot,        NONE,    NONE,    NONE,    NONE,    NONE,    NONE)
// clang-format on

#define HST_OP_DECLARATION(name, ...) extern const hst_op hst_op_##name;
HST_OPS(HST_OP_DECLARATION)

extern const hst_op *const hst_op_table[];
extern const int hst_op_count;

// Where an operation stands in the table, -1 for an application's; and the class that a list has for a place.
int hst_op_place(const hst_op *op);
hst_cast_class hst_cast_class_at(int place, hst_op_list list);

#endif
