// norm.c: layer norm (Ba, Kiros, Hinton 2016) and RMS norm (Zhang, Sennrich 2019). Each row is scaled to mean square 1,
// by layer norm after a shift to mean 0; then gain and bias.
//     n = (x - mean) rstd,   rstd = 1 / sqrt(mean((x - mean)^2) + eps),   y = n gain + bias       RMS norm: mean = 0
//     x (..., D), gain (D), bias (D)          y (..., D)
#include "ops/ops.h"
#include "ops/table.h"

enum { X, GAIN, BIAS };
enum { MEAN, RSTD };
typedef struct attributes {
    double eps;
    bool rms, names_dtype;
    hst_dtype dtype; // of y, if it is named
} attributes;

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *x = call->in[X];
    const attributes *a = (const void *)call->attributes;
    for (int i = X; i <= BIAS; i++)
        if (!hst_check_float(call, i)) return false;
    char text[64];
    if (x->rank < 1 || !(a->eps >= 0)) {
        hst_fail(call->ctx, HST_ERROR_VALUE, "%s: x is %s and eps is %g; x needs a dimension, eps must not be negative",
                 call->op->name, hst_describe(x, text), a->eps);
        return false;
    }
    int64_t *width = &call->in[X]->shape[x->rank - 1];
    if (!hst_check_shape(call, GAIN, 1, width) || !hst_check_shape(call, BIAS, 1, width)) return false;
    out[0] = hst_type_of(x);
    if (!a->names_dtype) return true;
    if (!hst_is_float(a->dtype))
        return hst_fail(call->ctx, HST_ERROR_DTYPE, "%s: y cannot be %s; f32, f16 or bf16 are possible", call->op->name,
                        hst_dtype_name(a->dtype)),
               false;
    out[0].dtype = a->dtype;
    call->cast = HST_CAST_NONE; // what a call names is not a region's to choose
    return true;
}

static bool forward(hst_call *call) {
    const hst_tensor *x = call->in[X];
    const attributes *a = (const void *)call->attributes;
    hst_norm_args n = {.rows = hst_rows(x),
                       .width = x->shape[x->rank - 1],
                       .rms = a->rms,
                       .eps = a->eps,
                       .x = hst_source_of(x),
                       .gain = hst_source_of(call->in[GAIN]),
                       .bias = hst_source_of(call->in[BIAS]),
                       .y = hst_target_of(call->out[0])};
    if (n.width == 0) return true; // nothing, in however many rows
    if (call->recording) {
        hst_tensor *mean = hst_call_save(call, MEAN, HST_F64, 1, &n.rows),
                   *rstd = hst_call_save(call, RSTD, HST_F64, 1, &n.rows);
        if (!mean || !rstd) return false;
        n.mean = (double *)(void *)hst_raw(mean);
        n.rstd = (double *)(void *)hst_raw(rstd);
    }
    return call->ctx->backend->norm(call->ctx, &n);
}

// dn = dy gain,   dx = rstd (dn - mean(dn) - n mean(dn n)),   dgain = sum of dy n,   dbias = sum of dy over the rows;
// RMS norm: without mean(dn)
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *x = call->in[X];
    const attributes *a = (const void *)call->attributes;
    if (x->shape[x->rank - 1] == 0) return true;
    hst_norm_grad_args n = {.rows = hst_rows(x),
                            .width = x->shape[x->rank - 1],
                            .rms = a->rms,
                            .dy = hst_source_of(dy[0]),
                            .x = hst_source_of(x),
                            .gain = hst_source_of(call->in[GAIN]),
                            .mean = (const double *)(void *)hst_raw(call->saved[MEAN]),
                            .rstd = (const double *)(void *)hst_raw(call->saved[RSTD]),
                            .dx = hst_gradient_target(dx[X]),
                            .dgain = hst_gradient_target(dx[GAIN]),
                            .dbias = hst_gradient_target(dx[BIAS])};
    return call->ctx->backend->norm_grad(call->ctx, &n);
}

const hst_op hst_op_layer_norm = {
    .name = "layer_norm",
    .inputs = {"x", "gain?", "bias?"},
    .outputs = {"y"},
    .reads_inputs = 1 << X | 1 << GAIN,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
const hst_op hst_op_rms_norm = {
    .name = "rms_norm",
    .inputs = {"x", "gain?"},
    .outputs = {"y"},
    .reads_inputs = 1 << X | 1 << GAIN,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_layer_norm(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, double eps) {
    attributes a = {.eps = eps};
    return hst_apply(&hst_op_layer_norm, (hst_tensor *[HST_MAX_INPUTS]){x, gain, bias}, &a, sizeof a, NULL);
}

hst_tensor *hst_layer_norm_as(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, double eps, hst_dtype dtype) {
    attributes a = {.eps = eps, .names_dtype = true, .dtype = dtype};
    return hst_apply(&hst_op_layer_norm, (hst_tensor *[HST_MAX_INPUTS]){x, gain, bias}, &a, sizeof a, NULL);
}

hst_tensor *hst_rms_norm(hst_tensor *x, hst_tensor *gain, double eps) {
    attributes a = {.eps = eps, .rms = true};
    return hst_apply(&hst_op_rms_norm, (hst_tensor *[HST_MAX_INPUTS]){x, gain}, &a, sizeof a, NULL);
}
