// cross_entropy.c: the loss of a language model, fused with log-softmax: the probabilities are never stored.
//     loss_i = logsumexp(logits_i) - logits_i[target_i]
//     dlogits_i = (softmax(logits_i) - onehot(target_i)) dloss_i
//     logits (..., V), targets (...)          losses (...), f32
#include "ops/ops.h"
#include "ops/table.h"

enum { LOGITS, TARGETS };
enum { LOGSUMEXP };

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *logits = call->in[LOGITS];
    if (!hst_check_float(call, LOGITS) || !hst_check_index(call, TARGETS)) return false;
    char text[64];
    if (logits->rank < 1 || logits->shape[logits->rank - 1] < 1) {
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "cross_entropy: argument logits is %s; a last dimension of at least 1 is needed",
                 hst_describe(logits, text));
        return false;
    }
    if (!hst_check_shape(call, TARGETS, logits->rank - 1, logits->shape)) return false;
    out[0] = hst_type_of(logits);
    out[0].dtype = HST_F32;
    out[0].rank--;
    return true;
}

static bool forward(hst_call *call) {
    const hst_tensor *logits = call->in[LOGITS];
    int64_t rows = hst_count(call->out[0]);
    hst_tensor *logsumexp = hst_call_save(call, LOGSUMEXP, HST_F64, 1, &rows);
    if (!logsumexp) return false;
    hst_nll_args n = {.rows = rows,
                      .width = logits->shape[logits->rank - 1],
                      .logits = hst_source_of(logits),
                      .targets = hst_source_of(call->in[TARGETS]),
                      .loss = (hst_real *)hst_raw(call->out[0]),
                      .logsumexp = (double *)hst_raw(logsumexp)};
    return call->ctx->backend->nll(call->ctx, &n);
}

static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *logits = call->in[LOGITS];
    hst_nll_grad_args n = {.rows = hst_count(dy[0]),
                           .width = logits->shape[logits->rank - 1],
                           .logits = hst_source_of(logits),
                           .targets = hst_source_of(call->in[TARGETS]),
                           .dloss = hst_source_of(dy[0]),
                           .logsumexp = (const double *)hst_raw(call->saved[LOGSUMEXP]),
                           .dlogits = hst_gradient_target(dx[LOGITS])};
    return call->ctx->backend->nll_grad(call->ctx, &n);
}

const hst_op hst_op_token_losses = {
    .name = "token_losses",
    .inputs = {"logits", "targets"},
    .outputs = {"losses"},
    .cast = HST_CAST_F32,
    .reads_inputs = 1 << LOGITS | 1 << TARGETS,
    .always_f32 = 1,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_token_losses(hst_tensor *logits, hst_tensor *targets) {
    return hst_apply(&hst_op_token_losses, (hst_tensor *[HST_MAX_INPUTS]){logits, targets}, NULL, 0, NULL);
}

hst_tensor *hst_cross_entropy(hst_tensor *logits, hst_tensor *targets) {
    return hst_mean(hst_token_losses(logits, targets));
}
