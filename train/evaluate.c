// evaluate.c: the loss on a text, exactly: every symbol but the first is predicted once, from those before it.
#include <math.h>
#include "train/trainer.h"

enum { CHUNK = 1024, LANES = 4096 }; // predictions of one lane, and of all lanes together, in one forward pass

// Lane b reads `length` symbols from bytes + b * stride; all lanes start from an empty state. Adds the losses to *sum.
typedef struct group {
    const hst_lm *model;
    const uint8_t *bytes;
    int64_t lanes, stride, length;
    hst_tensor *state;         // (N, lanes, D)
    bool (*go_on)(void *user); // asked before each chunk
    void *user;
} group;

static bool evaluate_chunk(const group *g, int64_t first, int64_t length, double *sum) {
    hst_context *ctx = g->model->ctx;
    hst_scope_begin(ctx);
    hst_tensor *ids = hst_new(ctx, HST_U8, HST_SHAPE(length, g->lanes)),
               *targets = hst_new(ctx, HST_U8, HST_SHAPE(length, g->lanes));
    for (int64_t i = 0; targets && i < length * g->lanes; i++) {
        const uint8_t *at = g->bytes + (i % g->lanes) * g->stride + first + i / g->lanes;
        ((uint8_t *)hst_raw(ids))[i] = at[0];
        ((uint8_t *)hst_raw(targets))[i] = at[1];
    }
    hst_tensor *c, *losses = hst_token_losses(hst_lm_forward(g->model, ids, g->state, false, &c), targets);
    for (int64_t i = 0; losses && i < hst_count(losses); i++) *sum += hst_load(hst_source_of(losses), i);
    if (losses) hst_copy_tensor(g->state, c, false);
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

static bool evaluate_group(group g, double *sum) {
    hst_context *ctx = g.model->ctx;
    const hst_lm_config *c = &g.model->config;
    hst_scope_begin(ctx);
    g.state = hst_zeros(ctx, HST_F32, HST_SHAPE(c->layers, g.lanes, c->hidden));
    for (int64_t first = 0; g.state && first < g.length; first += CHUNK)
        if (!g.go_on(g.user) || !evaluate_chunk(&g, first, g.length - first < CHUNK ? g.length - first : CHUNK, sum))
            break;
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

hst_status hst_evaluate_while(const hst_lm *model, const uint8_t *bytes, int64_t count, int64_t reset, double *nats,
                              bool (*go_on)(void *user), void *user) {
    hst_context *ctx = model->ctx;
    int64_t predictions = count - 1, length = reset > 0 && reset < predictions ? reset : predictions;
    if (ctx->status != HST_OK) return ctx->status;
    if (predictions < 1 || reset < 0)
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_lm_evaluate: %lld bytes and reset %lld; at least 2 bytes and no negative reset are needed",
                        (long long)count, (long long)reset);
    int64_t blocks = predictions / length, rest = predictions % length, most = length < LANES ? LANES / length : 1;
    double sum = 0;
    hst_no_grad_begin(ctx);
    for (int64_t b = 0, lanes; b < blocks && ctx->status == HST_OK; b += lanes) {
        lanes = blocks - b < most ? blocks - b : most;
        evaluate_group((group){model, bytes + b * length, lanes, length, length, NULL, go_on, user}, &sum);
    }
    if (rest > 0 && ctx->status == HST_OK)
        evaluate_group((group){model, bytes + blocks * length, 1, 0, rest, NULL, go_on, user}, &sum);
    hst_no_grad_end(ctx);
    *nats = sum / (double)predictions;
    if (ctx->status == HST_OK && !isfinite(sum))
        hst_fail(ctx, HST_ERROR_DIVERGED, "the model's loss is not a finite number; its weights have diverged");
    return ctx->status;
}

static bool always(void *user) { return (void)user, true; }

hst_status hst_lm_evaluate(const hst_lm *model, const uint8_t *bytes, int64_t count, int64_t reset, double *nats) {
    return model ? hst_evaluate_while(model, bytes, count, reset, nats, always, NULL) : HST_ERROR_STATE;
}
