// functions.c: functions of one number, element by element, y = f(x) and dx = dy f'(x). Where f' is a function of y it
// is computed from y, so that x is not kept for backward; the kernels have the formulas.
#include "ops/ops.h"
#include "ops/table.h"

typedef struct attributes {
    hst_function function;
    double parameter;
} attributes;

static bool shape(hst_call *call, hst_type *out) {
    if (!hst_check_float(call, 0)) return false;
    out[0] = hst_type_of(call->in[0]);
    return true;
}

static bool forward(hst_call *call) {
    const attributes *a = (const void *)call->attributes;
    hst_unary_args u = {.function = a->function,
                        .parameter = a->parameter,
                        .count = hst_count(call->in[0]),
                        .x = hst_source_of(call->in[0]),
                        .y = hst_target_of(call->out[0])};
    return call->ctx->backend->unary(call->ctx, &u);
}

// sigmoid: dx = dy y (1 - y)     tanh: dx = dy (1 - y^2)     relu: dx = dy where y > 0, else 0
// exp: dx = dy y     sqrt: dx = dy / (2 y)     log: dx = dy / x     x^p: dx = dy p x^(p - 1)
// gelu, x P(x): dx = dy (P(x) + x P'(x))
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const attributes *a = (const void *)call->attributes;
    hst_unary_grad_args u = {.function = a->function,
                             .parameter = a->parameter,
                             .count = hst_count(dy[0]),
                             .dy = hst_source_of(dy[0]),
                             .x = hst_source_of(call->in[0]),
                             .y = hst_source_of(call->out[0]),
                             .dx = hst_gradient_target(dx[0])};
    return call->ctx->backend->unary_grad(call->ctx, &u);
}

#define RECORD(function, reads)                                                                                        \
    const hst_op hst_op_##function = {                                                                                 \
        .name = #function,                                                                                             \
        .inputs = {"x"},                                                                                               \
        .outputs = {"y"},                                                                                              \
        .reads = 1,                                                                                                    \
        .shape = shape,                                                                                                \
        .forward = forward,                                                                                            \
        .backward = backward,                                                                                          \
    };
RECORD(sigmoid, reads_outputs)
RECORD(tanh, reads_outputs)
RECORD(relu, reads_outputs)
RECORD(gelu, reads_inputs)
RECORD(exp, reads_outputs)
RECORD(log, reads_inputs)
RECORD(sqrt, reads_outputs)
RECORD(pow, reads_inputs)

static hst_tensor *apply(const hst_op *op, hst_tensor *x, hst_function function, double parameter) {
    attributes a = {.function = function, .parameter = parameter};
    return hst_apply(op, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}
hst_tensor *hst_sigmoid(hst_tensor *x) { return apply(&hst_op_sigmoid, x, HST_FUNCTION_SIGMOID, 0); }
hst_tensor *hst_tanh(hst_tensor *x) { return apply(&hst_op_tanh, x, HST_FUNCTION_TANH, 0); }
hst_tensor *hst_relu(hst_tensor *x) { return apply(&hst_op_relu, x, HST_FUNCTION_RELU, 0); }
hst_tensor *hst_gelu(hst_tensor *x, bool tanh_form) {
    return apply(&hst_op_gelu, x, tanh_form ? HST_FUNCTION_GELU_TANH : HST_FUNCTION_GELU, 0);
}
hst_tensor *hst_exp(hst_tensor *x) { return apply(&hst_op_exp, x, HST_FUNCTION_EXP, 0); }
hst_tensor *hst_log(hst_tensor *x) { return apply(&hst_op_log, x, HST_FUNCTION_LOG, 0); }
hst_tensor *hst_sqrt(hst_tensor *x) { return apply(&hst_op_sqrt, x, HST_FUNCTION_SQRT, 0); }
hst_tensor *hst_pow(hst_tensor *x, double exponent) { return apply(&hst_op_pow, x, HST_FUNCTION_POW, exponent); }
