// reduce.c: sum and mean of all elements, in double, rounded once to f32.
#include "ops/ops.h"
#include "ops/table.h"

static bool shape(hst_call *call, hst_type *out) {
    if (!hst_check_float(call, 0)) return false;
    out[0] = (hst_type){.dtype = HST_F32, .rank = 0};
    return true;
}

static bool reduce(const hst_call *call, double factor) {
    const hst_tensor *x = call->in[0];
    hst_sum_args s = {
        .rows = hst_count(x), .width = 1, .factor = factor, .x = hst_source_of(x), .y = hst_target_of(call->out[0])};
    return call->ctx->backend->sum(call->ctx, &s);
}

// dx_i = dy / divisor
static bool spread(const hst_call *call, double divisor, const hst_tensor *dy, hst_gradient dx) {
    hst_binary_args b = {.function = HST_OVER,
                         .rank = 1,
                         .shape = {hst_count(dx.into)},
                         .a = hst_source_of(dy),
                         .b = {&divisor, HST_F64},
                         .y = hst_gradient_target(dx)};
    return call->ctx->backend->binary(call->ctx, &b);
}

static bool sum_forward(hst_call *call) { return reduce(call, 1); }
static bool sum_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return spread(call, 1, dy[0], dx[0]);
}

static bool mean_forward(hst_call *call) { return reduce(call, 1.0 / (double)hst_count(call->in[0])); }
static bool mean_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return spread(call, (double)hst_count(dx[0].into), dy[0], dx[0]);
}

const hst_op hst_op_sum = {
    .name = "sum",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_F32,
    .shape = shape,
    .forward = sum_forward,
    .backward = sum_backward,
};
const hst_op hst_op_mean = {
    .name = "mean",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_F32,
    .shape = shape,
    .forward = mean_forward,
    .backward = mean_backward,
};

hst_tensor *hst_sum(hst_tensor *x) { return hst_apply(&hst_op_sum, (hst_tensor *[HST_MAX_INPUTS]){x}, NULL, 0, NULL); }
hst_tensor *hst_mean(hst_tensor *x) {
    return hst_apply(&hst_op_mean, (hst_tensor *[HST_MAX_INPUTS]){x}, NULL, 0, NULL);
}
