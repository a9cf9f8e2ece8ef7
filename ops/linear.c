// linear.c: y = x w + bias.
//     x (..., K), w (K, N), bias (N)          y (..., N)
#include <string.h>
#include "ops/ops.h"
#include "ops/table.h"

enum { X, W, BIAS };

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *x = call->in[X], *w = call->in[W];
    for (int i = X; i <= BIAS; i++)
        if (!hst_check_float(call, i)) return false;
    if (x->rank < 1 || w->rank != 2 || x->shape[x->rank - 1] != w->shape[0]) {
        char a[64], b[64];
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "linear: x is %s and w is %s; w needs two dimensions, the first equal to x's last", hst_describe(x, a),
                 hst_describe(w, b));
        return false;
    }
    if (!hst_check_shape(call, BIAS, 1, &w->shape[1])) return false;
    out[0] = hst_type_of(x);
    out[0].shape[x->rank - 1] = w->shape[1];
    return true;
}

// The product's three sizes; all leading dimensions of x are rows.
static hst_gemm_args product(const hst_tensor *x, const hst_tensor *w) {
    return (hst_gemm_args){.m = hst_rows(x), .n = w->shape[1], .k = w->shape[0]};
}

static bool forward(hst_call *call) {
    const hst_tensor *x = call->in[X], *w = call->in[W];
    hst_gemm_args g = product(x, w);
    g.a = hst_source_of(x);
    g.a_row = g.k;
    g.a_col = 1;
    g.b = hst_source_of(w);
    g.b_row = w->stride[0];
    g.b_col = w->stride[1];
    g.bias = hst_source_of(call->in[BIAS]);
    g.c = hst_target_of(call->out[0]);
    g.c_row = g.n;
    g.lower = call->lower;
    return call->ctx->backend->gemm(call->ctx, &g);
}

// dx = dy w^T
static bool x_gradient(hst_call *call, const hst_gemm_args *p, hst_tensor *dy, hst_gradient dx) {
    const hst_tensor *w = call->in[W];
    hst_gemm_args g = {.m = p->m,
                       .n = p->k,
                       .k = p->n,
                       .a = hst_source_of(dy),
                       .a_row = p->n,
                       .a_col = 1,
                       .b = hst_source_of(w),
                       .b_row = w->stride[1],
                       .b_col = w->stride[0],
                       .c = hst_gradient_target(dx),
                       .c_row = p->k,
                       .lower = call->lower};
    return !g.c.data || call->ctx->backend->gemm(call->ctx, &g);
}

// dw = x^T dy
static bool w_gradient(hst_call *call, const hst_gemm_args *p, const hst_tensor *x, hst_tensor *dy, hst_gradient dw) {
    hst_gemm_args g = {.m = p->k,
                       .n = p->n,
                       .k = p->m,
                       .a = hst_source_of(x),
                       .a_row = 1,
                       .a_col = p->k,
                       .b = hst_source_of(dy),
                       .b_row = p->n,
                       .b_col = 1,
                       .c = hst_gradient_target(dw),
                       .c_row = p->n,
                       .lower = call->lower};
    return !g.c.data || call->ctx->backend->gemm(call->ctx, &g);
}

// dbias = sum of dy over the rows
static bool bias_gradient(hst_call *call, const hst_gemm_args *p, hst_tensor *dy, hst_gradient dbias) {
    hst_sum_args s = {
        .outer = 1, .rows = p->m, .width = p->n, .factor = 1, .x = hst_source_of(dy), .y = hst_gradient_target(dbias)};
    return !s.y.data || call->ctx->backend->sum(call->ctx, &s);
}

static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *x = call->in[X];
    hst_gemm_args p = product(x, call->in[W]);
    return x_gradient(call, &p, dy[0], dx[X]) && w_gradient(call, &p, x, dy[0], dx[W]) &&
           bias_gradient(call, &p, dy[0], dx[BIAS]);
}

const hst_op hst_op_linear = {
    .name = "linear",
    .inputs = {"x", "w", "bias?"},
    .outputs = {"y"},
    .reads_inputs = 1 << X | 1 << W,
    .takes_strides = 1 << W,
    .lowers = 1 << X | 1 << W | 1 << BIAS,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_linear(hst_tensor *x, hst_tensor *w, hst_tensor *bias) {
    return hst_apply(&hst_op_linear, (hst_tensor *[HST_MAX_INPUTS]){x, w, bias}, NULL, 0, NULL);
}
