// where.c: y = condition ? a : b, operands of different shapes repeated as broadcast.h says; and masked_fill, where b
// is one number.
#include <string.h>
#include "ops/broadcast.h"
#include "ops/ops.h"
#include "ops/table.h"

enum { CONDITION, A, B };

static bool shape(hst_call *call, hst_type *out) {
    hst_tensor *const *in = call->in;
    if (!hst_check_index(call, CONDITION) || !hst_check_float(call, A) || !hst_check_float(call, B)) return false;
    hst_type y = {.dtype = hst_promote(in[A]->dtype, in[B]->dtype)};
    for (int i = CONDITION; i <= B; i++)
        if (!hst_broadcast_shape(&y, in[i]->rank, in[i]->shape)) {
            char c[64], a[64], b[64];
            hst_fail(call->ctx, HST_ERROR_SHAPE, "where: condition is %s, a is %s and b is %s; " HST_BROADCAST_RULE,
                     hst_describe(in[CONDITION], c), hst_describe(in[A], a), hst_describe(in[B], b));
            return false;
        }
    out[0] = y;
    return true;
}

static bool forward(hst_call *call) {
    const hst_tensor *c = call->in[CONDITION], *a = call->in[A], *b = call->in[B];
    hst_type y = hst_type_of(call->out[0]);
    hst_select_args s = {.rank = y.rank,
                         .c = hst_source_of(c),
                         .a = hst_source_of(a),
                         .b = hst_source_of(b),
                         .y = hst_target_of(call->out[0])};
    memcpy(s.shape, y.shape, sizeof s.shape);
    hst_broadcast_stride(&y, c->rank, c->shape, c->stride, s.c_stride);
    hst_broadcast_stride(&y, a->rank, a->shape, a->stride, s.a_stride);
    hst_broadcast_stride(&y, b->rank, b->shape, b->stride, s.b_stride);
    return call->ctx->backend->select(call->ctx, &s);
}

// da = dy where the condition holds, db = dy where it does not, 0 elsewhere; summed over the repetitions of a, of b
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *c = call->in[CONDITION];
    hst_type y = hst_type_of(dy[0]);
    for (int i = A; i <= B; i++) {
        if (dx[i].request == HST_NULL) continue;
        const hst_tensor *into = dx[i].into;
        hst_select_grad_args s = {.rank = y.rank,
                                  .c = hst_source_of(c),
                                  .dy = hst_source_of(dy[0]),
                                  .when = i == A,
                                  .d = hst_gradient_target(dx[i])};
        memcpy(s.shape, y.shape, sizeof s.shape);
        hst_broadcast_stride(&y, c->rank, c->shape, c->stride, s.c_stride);
        hst_broadcast_stride(&y, into->rank, into->shape, into->stride, s.d_stride);
        if (!call->ctx->backend->select_grad(call->ctx, &s)) return false;
    }
    return true;
}

const hst_op hst_op_where = {
    .name = "where",
    .inputs = {"condition", "a", "b"},
    .outputs = {"y"},
    .reads_inputs = 1 << CONDITION,
    .constants = 1 << CONDITION,
    .takes_strides = 1 << CONDITION | 1 << A | 1 << B,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_where(hst_tensor *condition, hst_tensor *a, hst_tensor *b) {
    return hst_apply(&hst_op_where, (hst_tensor *[HST_MAX_INPUTS]){condition, a, b}, NULL, 0, NULL);
}

hst_tensor *hst_masked_fill(hst_tensor *x, hst_tensor *mask, double value) {
    hst_tensor *known = x ? x : mask;
    if (!known || known->ctx->status != HST_OK) return NULL;
    if (!x || !mask) {
        hst_fail(known->ctx, HST_ERROR_VALUE, "masked_fill: argument %s is NULL", x ? "mask" : "x");
        return NULL;
    }
    char have[64], holes[64];
    hst_describe(x, have), hst_describe(mask, holes);
    hst_type y = hst_type_of(x);
    if (!hst_is_float(x->dtype))
        hst_fail(x->ctx, HST_ERROR_DTYPE, "masked_fill: argument x is %s; f32, f16 or bf16 is needed", have);
    else if (mask->dtype != HST_U8 && mask->dtype != HST_I32 && mask->dtype != HST_I64)
        hst_fail(x->ctx, HST_ERROR_DTYPE, "masked_fill: argument mask is %s; u8, i32 or i64 is needed", holes);
    else if (!hst_broadcast_shape(&y, mask->rank, mask->shape) || y.rank != x->rank ||
             memcmp(y.shape, x->shape, sizeof y.shape) != 0)
        hst_fail(x->ctx, HST_ERROR_SHAPE,
                 "masked_fill: mask is %s and x is %s; the mask is what is repeated; " HST_BROADCAST_RULE, holes, have);
    if (x->ctx->status != HST_OK) return NULL;
    return hst_where(mask, hst_full(x->ctx, x->dtype, HST_SCALAR, value), x);
}
