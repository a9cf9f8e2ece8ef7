// binary_cross_entropy.c: the loss of a yes-or-no answer, from its probability p or from its logit x, p = s(x):
//     loss = -(t log p + (1 - t) log(1 - p)), each logarithm at least -100
//     loss = max(x, 0) - x t + log(1 + exp(-|x|))
//     p or logits (...), targets t (...)          losses (...), f32
// A probability in 16 bits has lost what the loss is about: in f16 there is none between 1 - 2^-11 and 1, and a
// gradient of up to 10^12 is infinite. Hence op lists of mixed precision ban the first and name the second.
#include "ops/ops.h"
#include "ops/table.h"

enum { X, TARGETS }; // X: p, or the logits

static bool from_logits(const hst_call *call) { return call->op == &hst_op_binary_cross_entropy_with_logits; }

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *x = call->in[X];
    if (!hst_check_float(call, X) || !hst_check_float(call, TARGETS)) return false;
    if (!hst_check_shape(call, TARGETS, x->rank, x->shape)) return false;
    out[0] = hst_type_of(x);
    out[0].dtype = HST_F32;
    return true;
}

static bool forward(hst_call *call) {
    hst_bce_args b = {.logits = from_logits(call),
                      .count = hst_count(call->out[0]),
                      .x = hst_source_of(call->in[X]),
                      .targets = hst_source_of(call->in[TARGETS]),
                      .loss = (hst_real *)hst_raw(call->out[0])};
    return call->ctx->backend->bce(call->ctx, &b);
}

// d loss / dp = (1 - t) / (1 - p) - t / p = (p - t) / (p (1 - p)), and dp/dx = p (1 - p):
//     dp = dloss (p - t) / max(p (1 - p), 10^-12)          dx = dloss (s(x) - t)
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_bce_grad_args b = {.logits = from_logits(call),
                           .count = hst_count(dy[0]),
                           .x = hst_source_of(call->in[X]),
                           .targets = hst_source_of(call->in[TARGETS]),
                           .dloss = hst_source_of(dy[0]),
                           .dx = hst_gradient_target(dx[X])};
    return call->ctx->backend->bce_grad(call->ctx, &b);
}

const hst_op hst_op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .inputs = {"p", "targets"},
    .outputs = {"losses"},
    .reads_inputs = 1 << X | 1 << TARGETS,
    .constants = 1 << TARGETS,
    .f32_outputs = 1,
    .instead = "hst_binary_cross_entropy_with_logits takes the logits in any dtype",
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
const hst_op hst_op_binary_cross_entropy_with_logits = {
    .name = "binary_cross_entropy_with_logits",
    .inputs = {"logits", "targets"},
    .outputs = {"losses"},
    .reads_inputs = 1 << X | 1 << TARGETS,
    .constants = 1 << TARGETS,
    .f32_outputs = 1,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_binary_cross_entropy(hst_tensor *p, hst_tensor *targets) {
    return hst_apply(&hst_op_binary_cross_entropy, (hst_tensor *[HST_MAX_INPUTS]){p, targets}, NULL, 0, NULL);
}

hst_tensor *hst_binary_cross_entropy_with_logits(hst_tensor *logits, hst_tensor *targets) {
    return hst_apply(&hst_op_binary_cross_entropy_with_logits, (hst_tensor *[HST_MAX_INPUTS]){logits, targets}, NULL, 0,
                     NULL);
}
