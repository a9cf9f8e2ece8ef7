// evaluate.c: the loss on a text, exactly: every symbol but the first is predicted once, from those before it.
#include <math.h>
#include "train/trainer.h"

enum { CHUNK = HST_EVALUATED_CHUNK, LANES = 4096 }; // predictions of one lane, and of all together, in a forward pass

// Lane b reads `length` symbols from place first + b * length on; all lanes start from an empty state.
typedef struct group {
    const hst_lm *model;
    hst_symbols text;
    int64_t first, lanes, length;
    hst_tensor *state;         // (N, lanes, D)
    float *losses;             // of every prediction of the text, or NULL
    bool (*go_on)(void *user); // asked before each chunk
    void *user;
} group;

// Row r of a chunk is prediction r / lanes of lane r % lanes, counted from the lane's `done`-th on.
static int64_t place(const group *g, int64_t done, int64_t row) {
    return g->first + row % g->lanes * g->length + done + row / g->lanes;
}

// The losses of a chunk's rows, from `hidden` of all lanes, added to *sum: at most as many logits at once as in
// training.
static bool add_losses(const group *g, int64_t done, hst_tensor *hidden, hst_tensor *targets, double *sum) {
    hst_context *ctx = g->model->ctx;
    int64_t rows = hst_count(targets), most = hst_loss_rows(g->model->config.vocabulary);
    hidden = hst_reshape(hidden, HST_SHAPE(rows, g->model->config.hidden));
    for (int64_t at = 0, end; at < rows && ctx->status == HST_OK; at = end) {
        end = rows - at < most ? rows : at + most;
        hst_scope_begin(ctx);
        hst_tensor *logits = hst_lm_logits(g->model, hst_slice(hidden, 0, at, end));
        hst_tensor *losses = hst_token_losses(logits, hst_slice(targets, 0, at, end));
        for (int64_t i = at; losses && i < end; i++) {
            double loss = hst_load(hst_source_of(losses), i - at);
            *sum += loss;
            if (g->losses) g->losses[place(g, done, i)] = (float)loss;
        }
        hst_scope_end(ctx, NULL);
    }
    return ctx->status == HST_OK;
}

// `count` predictions of each lane from its `done`-th on; adds their losses to *sum.
static bool evaluate_chunk(const group *g, int64_t done, int64_t count, double *sum) {
    hst_context *ctx = g->model->ctx;
    hst_source text = {g->text.data, g->text.dtype};
    hst_scope_begin(ctx);
    hst_tensor *ids = hst_new(ctx, HST_I32, HST_SHAPE(count, g->lanes)),
               *targets = hst_new(ctx, HST_I32, HST_SHAPE(count * g->lanes));
    for (int64_t i = 0; targets && i < count * g->lanes; i++) {
        ((int32_t *)hst_raw(ids))[i] = (int32_t)hst_index_at(text, place(g, done, i));
        ((int32_t *)hst_raw(targets))[i] = (int32_t)hst_index_at(text, place(g, done, i) + 1);
    }
    hst_tensor *c, *hidden = hst_lm_hidden(g->model, ids, g->state, false, &c);
    if (hidden && add_losses(g, done, hidden, targets, sum)) hst_copy_tensor(g->state, c, false);
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

static bool evaluate_group(group g, double *sum) {
    hst_context *ctx = g.model->ctx;
    const hst_lm_config *c = &g.model->config;
    hst_scope_begin(ctx);
    g.state = hst_zeros(ctx, HST_F32, HST_SHAPE(c->layers, g.lanes, c->hidden));
    for (int64_t done = 0; g.state && done < g.length; done += CHUNK)
        if (!g.go_on(g.user) || !evaluate_chunk(&g, done, g.length - done < CHUNK ? g.length - done : CHUNK, sum))
            break;
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

hst_status hst_evaluate_while(const hst_lm *model, hst_symbols text, int64_t reset, float *losses, double *nats,
                              bool (*go_on)(void *user), void *user) {
    hst_context *ctx = model->ctx;
    int64_t predictions = text.count - 1, length = reset > 0 && reset < predictions ? reset : predictions;
    if (ctx->status != HST_OK) return ctx->status;
    if (predictions < 1 || reset < 0)
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_lm_evaluate: %lld symbols and reset %lld; at least 2 and no negative reset are needed",
                        (long long)text.count, (long long)reset);
    int64_t blocks = predictions / length, rest = predictions % length, most = length < LANES ? LANES / length : 1;
    group g = {.model = model, .text = text, .losses = losses, .go_on = go_on, .user = user, .length = length};
    double sum = 0;
    hst_no_grad_begin(ctx);
    for (int64_t b = 0; b < blocks && ctx->status == HST_OK; b += g.lanes) {
        g.first = b * length;
        g.lanes = blocks - b < most ? blocks - b : most;
        evaluate_group(g, &sum);
    }
    g.first = blocks * length, g.lanes = 1, g.length = rest;
    if (rest > 0 && ctx->status == HST_OK) evaluate_group(g, &sum);
    hst_no_grad_end(ctx);
    *nats = sum / (double)predictions;
    if (ctx->status == HST_OK && !isfinite(sum))
        hst_fail(ctx, HST_ERROR_DIVERGED, "the model's loss is not a finite number; its weights have diverged");
    return ctx->status;
}

static bool always(void *user) { return (void)user, true; }

hst_status hst_lm_evaluate_as(const hst_lm *model, hst_dtype weights, hst_symbols text, int64_t reset, float *losses,
                              double *nats) {
    hst_lm_lowered as;
    if (!model) return HST_ERROR_STATE;
    if (hst_lm_lower(model, "hst_lm_evaluate", weights, &as))
        hst_evaluate_while(&as.model, text, reset, losses, nats, always, NULL);
    hst_lm_lowered_free(&as);
    return model->ctx->status;
}

hst_status hst_lm_evaluate(const hst_lm *model, hst_symbols text, int64_t reset, float *losses, double *nats) {
    return hst_lm_evaluate_as(model, HST_F32, text, reset, losses, nats);
}
