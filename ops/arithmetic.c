// arithmetic.c: y = a + b, a - b, a b, a / b, the operands repeated as broadcast.h says.
#include <string.h>
#include "ops/broadcast.h"
#include "ops/ops.h"
#include "ops/table.h"

enum { A, B };

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *a = call->in[A], *b = call->in[B];
    if (!hst_check_float(call, A) || !hst_check_float(call, B)) return false;
    out[0] = hst_type_of(a);
    out[0].dtype = hst_promote(a->dtype, b->dtype);
    if (hst_broadcast_shape(&out[0], b->rank, b->shape)) return true;
    char first[64], second[64];
    hst_fail(call->ctx, HST_ERROR_SHAPE, "%s: a is %s and b is %s; " HST_BROADCAST_RULE, call->op->name,
             hst_describe(a, first), hst_describe(b, second));
    return false;
}

// Steps of t along the axes of y: 0 where it is repeated, and if it is absent.
static void set_strides(int64_t *stride, const hst_tensor *t, const hst_tensor *y) {
    hst_type to = hst_type_of(y);
    if (t) hst_broadcast_stride(&to, t->rank, t->shape, t->stride, stride);
}

static hst_arithmetic function_of(const hst_call *call) {
    return *(const hst_arithmetic *)(const void *)call->attributes;
}

static bool forward(hst_call *call) {
    const hst_tensor *y = call->out[0];
    hst_binary_args b = {.function = function_of(call),
                         .rank = y->rank,
                         .a = hst_source_of(call->in[A]),
                         .b = hst_source_of(call->in[B]),
                         .y = hst_target_of(call->out[0])};
    memcpy(b.shape, y->shape, sizeof b.shape);
    set_strides(b.a_stride, call->in[A], y);
    set_strides(b.b_stride, call->in[B], y);
    return call->ctx->backend->binary(call->ctx, &b);
}

// a + b: da = dy, db = dy     a - b: da = dy, db = -dy     a b: da = dy b, db = dy a
// a / b: da = dy / b, db = -dy a / b^2          each summed over the axes along which the operand was repeated
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_binary_grad_args g = {.function = function_of(call),
                              .rank = dy[0]->rank,
                              .dy = hst_source_of(dy[0]),
                              .a = hst_source_of(call->in[A]),
                              .b = hst_source_of(call->in[B])};
    memcpy(g.shape, dy[0]->shape, sizeof g.shape);
    set_strides(g.a_stride, call->in[A], dy[0]);
    set_strides(g.b_stride, call->in[B], dy[0]);
    for (g.operand = A; g.operand <= B; g.operand++) {
        if (dx[g.operand].request == HST_NULL) continue;
        if (g.function == HST_PLUS && hst_count(dx[g.operand].into) == hst_count(dy[0])) { // nothing to sum: a copy
            hst_tensor *into = dx[g.operand].into;
            hst_tensor *same = hst_view(dy[0], into->rank, into->shape, into->stride, dy[0]->offset);
            if (!same || !hst_copy_tensor(into, same, dx[g.operand].request == HST_ADD)) return false;
            continue;
        }
        g.dx = hst_gradient_target(dx[g.operand]);
        set_strides(g.dx_stride, dx[g.operand].into, dy[0]);
        if (!call->ctx->backend->binary_grad(call->ctx, &g)) return false;
    }
    return true;
}

#define RECORD(operation, read)                                                                                        \
    const hst_op hst_op_##operation = {                                                                                \
        .name = #operation,                                                                                            \
        .inputs = {"a", "b"},                                                                                          \
        .outputs = {"y"},                                                                                              \
        .reads_inputs = read,                                                                                          \
        .takes_strides = 1 << A | 1 << B,                                                                              \
        .shape = shape,                                                                                                \
        .forward = forward,                                                                                            \
        .backward = backward,                                                                                          \
    };
RECORD(add, 0)
RECORD(sub, 0)
RECORD(mul, 1 << A | 1 << B)
RECORD(div, 1 << A | 1 << B)

static hst_tensor *apply(const hst_op *op, hst_arithmetic function, hst_tensor *a, hst_tensor *b) {
    return hst_apply(op, (hst_tensor *[HST_MAX_INPUTS]){a, b}, &function, sizeof function, NULL);
}
hst_tensor *hst_add(hst_tensor *a, hst_tensor *b) { return apply(&hst_op_add, HST_PLUS, a, b); }
hst_tensor *hst_sub(hst_tensor *a, hst_tensor *b) { return apply(&hst_op_sub, HST_MINUS, a, b); }
hst_tensor *hst_mul(hst_tensor *a, hst_tensor *b) { return apply(&hst_op_mul, HST_TIMES, a, b); }
hst_tensor *hst_div(hst_tensor *a, hst_tensor *b) { return apply(&hst_op_div, HST_OVER, a, b); }
