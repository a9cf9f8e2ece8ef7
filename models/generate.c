// generate.c: sampling from the language model, one symbol at a time with a carried state.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/language_model.h"

enum { PROMPT_CHUNK = 256 };

typedef struct candidate {
    double logit, weight;
    int id;
} candidate;

// Higher logits first, equal ones by id.
static int compare(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->logit > y->logit ? -1 : x->logit < y->logit ? 1 : (x->id > y->id) - (x->id < y->id);
}

// Weights exp((logit - max) / T) of the candidates that top_k and top_p leave; returns how many those are.
static int64_t weigh(candidate *c, int64_t count, double most, const hst_sampling *s, double *total) {
    int64_t kept = s->top_k > 0 && s->top_k < count ? s->top_k : count;
    double all = 0;
    for (int64_t i = 0; i < kept; i++) all += c[i].weight = exp((c[i].logit - most) / s->temperature);
    *total = 0;
    for (int64_t i = 0; i < kept; i++) {
        *total += c[i].weight;
        if (*total >= s->top_p * all) return i + 1;
    }
    return kept;
}

// Where the greatest logit is, the first of equals.
static int64_t find_greatest(const candidate *c, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (c[i].logit > c[best].logit) best = i;
    return best;
}

// All candidates stay in the order of their ids; only where some are left out, the most likely go to the front.
static int choose(candidate *c, int64_t count, const hst_sampling *s, uint64_t position) {
    int64_t greatest = find_greatest(c, count);
    if (s->temperature == 0) return c[greatest].id;
    if (s->top_k > 0 || s->top_p < 1) qsort(c, (size_t)count, sizeof *c, compare), greatest = 0;
    double total;
    int64_t kept = weigh(c, count, c[greatest].logit, s, &total);
    uint32_t words[4];
    hst_philox((hst_random_key){.seed = s->seed}, position, words);
    double left = total * ((double)words[0] + (double)words[1] * 0x1p-32) * 0x1p-32;
    for (int64_t i = 0; i < kept; i++)
        if ((left -= c[i].weight) < 0) return c[i].id;
    return c[kept - 1].id;
}

typedef struct generator {
    hst_lm_lowered as;
    hst_tensor *state; // (N, 1, D), carried
    candidate *last;   // one a symbol: the logits after the last input
} generator;

// Feeds symbols in; leaves the state and the logits after the last of them.
static bool feed(generator *g, hst_symbols symbols) {
    hst_context *ctx = g->as.model.ctx;
    hst_scope_begin(ctx);
    hst_tensor *c, *ids = hst_from_array(ctx, symbols.dtype, HST_SHAPE(symbols.count, 1), symbols.dtype, symbols.data);
    hst_tensor *logits = hst_lm_forward(&g->as.model, ids, g->state, false, &c);
    if (logits) {
        int64_t v = g->as.model.config.vocabulary;
        hst_copy_tensor(g->state, c, false);
        for (int64_t i = 0; i < v; i++) {
            g->last[i] =
                (candidate){.logit = hst_load(hst_source_of(logits), (symbols.count - 1) * v + i), .id = (int)i};
            if (isnan(g->last[i].logit) || g->last[i].logit == INFINITY)
                hst_fail(ctx, HST_ERROR_DIVERGED,
                         "hst_lm_generate: the model's logits are not finite numbers; its weights have diverged");
        }
    }
    hst_scope_end(ctx, NULL);
    return ctx->status == HST_OK;
}

static bool check(const hst_lm *m, hst_symbols prompt, const hst_sampling *s) {
    if (!(s->temperature >= 0 && s->top_k >= 0 && s->top_p > 0 && s->top_p <= 1))
        hst_fail(m->ctx, HST_ERROR_VALUE,
                 "hst_lm_generate: temperature %g and top_k %lld must not be negative, top_p %g in (0, 1]",
                 s->temperature, (long long)s->top_k, s->top_p);
    else if (prompt.count < 1)
        hst_fail(m->ctx, HST_ERROR_VALUE, "hst_lm_generate: the prompt is empty; a symbol is needed to start from");
    return m->ctx->status == HST_OK;
}

// `count` symbols from the first-th on.
static hst_symbols part(hst_symbols s, int64_t first, int64_t count) {
    return (hst_symbols){(const char *)s.data + (size_t)first * hst_dtype_size(s.dtype), s.dtype, count};
}

static void run(generator *g, hst_symbols prompt, int64_t tokens, const hst_sampling *s,
                bool (*emit)(int64_t symbol, void *user), void *user) {
    for (int64_t i = 0, left; (left = prompt.count - i) > 0; i += PROMPT_CHUNK)
        if (!feed(g, part(prompt, i, left < PROMPT_CHUNK ? left : PROMPT_CHUNK))) return;
    for (int64_t i = 0; i < tokens; i++) {
        int32_t symbol = choose(g->last, g->as.model.config.vocabulary, s, (uint64_t)i);
        if (!emit(symbol, user) || i + 1 == tokens || !feed(g, (hst_symbols){&symbol, HST_I32, 1})) return;
    }
}

// The output layer is (V, D). One symbol at a time reads it faster, row after row, if (D, V) is what lies in memory.
static void turn_output(hst_lm *m) {
    m->output = hst_transpose(hst_contiguous(hst_transpose(m->output, 0, 1)), 0, 1);
}

hst_status hst_lm_generate(const hst_lm *m, hst_symbols prompt, int64_t tokens, const hst_sampling *sampling,
                           bool (*emit)(int64_t symbol, void *user), void *user) {
    if (!m) return HST_ERROR_STATE;
    hst_context *ctx = m->ctx;
    hst_sampling standard = hst_sampling_defaults();
    if (!sampling) sampling = &standard;
    if (ctx->status != HST_OK || !check(m, prompt, sampling)) return ctx->status;
    if (!emit) return hst_fail(ctx, HST_ERROR_VALUE, "hst_lm_generate: emit is NULL; it takes the symbols");
    hst_no_grad_begin(ctx);
    hst_scope_begin(ctx);
    generator g = {.state = hst_zeros(ctx, HST_F32, HST_SHAPE(m->config.layers, 1, m->config.hidden)),
                   .last = hst_workspace(ctx, (size_t)m->config.vocabulary * sizeof *g.last)};
    if (hst_lm_lower(m, "hst_lm_generate", sampling->weights, &g.as) && g.state && g.last) {
        turn_output(&g.as.model);
        run(&g, prompt, tokens, sampling, emit, user);
    }
    hst_lm_lowered_free(&g.as);
    hst_workspace_free(ctx, g.last);
    hst_scope_end(ctx, NULL);
    hst_no_grad_end(ctx);
    return ctx->status;
}
