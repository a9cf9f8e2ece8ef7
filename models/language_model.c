// language_model.c: embedding -> SRU stack -> layer norm -> dropout -> output layer.
#include <math.h>
#include <string.h>
#include "autograd/casts.h"
#include "models/language_model.h"
#include "ops/table.h"

static bool check(hst_context *ctx, const hst_lm_config *c) {
    if (c->vocabulary >= 1 && c->hidden >= 1) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "hst_lm_new: vocabulary %lld and hidden %lld must be positive",
             (long long)c->vocabulary, (long long)c->hidden);
    return false;
}

// What a stack's configuration and the model's share, under the same names.
#define SHARED(copy)                                                                                                   \
    copy(hidden) copy(layers) copy(dropout) copy(highway_bias) copy(layer_norm) copy(rescale) copy(has_skip_term)      \
        copy(normalize_after) copy(use_tanh) copy(v1) copy(projection_size) copy(rnn_dropout) copy(weight_c_init)      \
            copy(rules)

hst_sru_config hst_lm_stack(const hst_lm_config *c) {
    hst_sru_config s = {.input = c->hidden};
#define COPY(field) s.field = c->field;
    SHARED(COPY)
#undef COPY
    return s;
}

void hst_lm_take_stack(const hst_sru_config *s, hst_lm_config *c) {
#define COPY(field) c->field = s->field;
    SHARED(COPY)
#undef COPY
}

static void make_parts(hst_lm *m) {
    const hst_lm_config *c = &m->config;
    hst_context *ctx = m->ctx;
    hst_parameters *list = m->parameters;
    double bound = 1 / sqrt((double)c->hidden);
    m->embedding = hst_parameter(list, "embedding_layer.weight",
                                 hst_uniform(ctx, HST_F32, HST_SHAPE(c->vocabulary, c->hidden), -0.1, 0.1));
    hst_sru_config stack = hst_lm_stack(c);
    m->sru = hst_sru_new(list, "rnn.", &stack);
    if (c->layer_norm && !c->skip_output_norm) {
        m->norm_gain = hst_parameter(list, "output_norm.weight", hst_full(ctx, HST_F32, HST_SHAPE(c->hidden), 1));
        m->norm_bias = hst_parameter(list, "output_norm.bias", hst_zeros(ctx, HST_F32, HST_SHAPE(c->hidden)));
    }
    m->output = c->tied ? m->embedding
                        : hst_parameter(list, "output_layer.weight",
                                        hst_uniform(ctx, HST_F32, HST_SHAPE(c->vocabulary, c->hidden), -bound, bound));
    m->output_bias = hst_parameter(list, "output_layer.bias", hst_zeros(ctx, HST_F32, HST_SHAPE(c->vocabulary)));
}

hst_lm *hst_lm_new(hst_context *ctx, const hst_lm_config *config) {
    hst_lm_config standard = hst_lm_defaults();
    if (!config) config = &standard;
    hst_lm *m =
        hst_get_status(ctx) == HST_OK && check(ctx, config) ? hst_allocate(ctx, sizeof *m, HST_WORKSPACE) : NULL;
    if (!m) return NULL;
    *m = (hst_lm){.ctx = ctx, .config = *config, .parameters = hst_parameters_new(ctx)};
    hst_category category = ctx->category;
    ctx->category = HST_WEIGHTS;
    hst_scope_begin(ctx);
    if (m->parameters) make_parts(m);
    hst_scope_end(ctx, NULL);
    ctx->category = category;
    if (ctx->status == HST_OK) return m;
    hst_lm_free(m);
    return NULL;
}

void hst_lm_free(hst_lm *m) {
    if (!m) return;
    hst_free(m->ctx, m->tokenizer);
    hst_sru_free(m->sru);
    hst_parameters_free(m->parameters);
    hst_free(m->ctx, m);
}

const hst_lm_config *hst_lm_configuration(const hst_lm *m) {
    if (!m) return NULL;
    return &m->config;
}
hst_parameters *hst_lm_parameters(const hst_lm *m) {
    if (!m) return NULL;
    return m->parameters;
}

hst_status hst_lm_set_tokenizer(hst_lm *m, const char *text) {
    if (!m) return HST_ERROR_STATE;
    char *copy = text && m->ctx->status == HST_OK ? hst_allocate(m->ctx, strlen(text) + 1, HST_WORKSPACE) : NULL;
    if (m->ctx->status != HST_OK) return m->ctx->status;
    if (copy) strcpy(copy, text);
    hst_free(m->ctx, m->tokenizer);
    m->tokenizer = copy;
    return HST_OK;
}
const char *hst_lm_tokenizer(const hst_lm *m) {
    if (!m) return NULL;
    return m->tokenizer;
}

hst_tensor *hst_lm_hidden(const hst_lm *m, hst_tensor *ids, hst_tensor *c0, bool training, hst_tensor **c_last) {
    hst_tensor *h = hst_sru_forward_symbols(m->sru, &(hst_sru_symbols){m->embedding, ids}, c0, training, c_last);
    if (m->norm_gain) h = hst_norm_for_product(h, m->norm_gain, m->norm_bias, &hst_op_linear);
    return training ? hst_dropout(h, m->config.dropout) : h;
}

hst_tensor *hst_lm_logits(const hst_lm *m, hst_tensor *hidden) {
    return hst_linear(hidden, hst_transpose(m->output, 0, 1), m->output_bias);
}

hst_tensor *hst_lm_forward(const hst_lm *m, hst_tensor *ids, hst_tensor *c0, bool training, hst_tensor **c_last) {
    if (c_last) *c_last = NULL;
    if (!m) return NULL;
    return hst_lm_logits(m, hst_lm_hidden(m, ids, c0, training, c_last));
}

// Few symbols at a time read each weight for themselves, and the time is that of reading it: 16 bits are half of it.
// Products take any mix of dtypes, so nothing else changes.
static void lower_weights(hst_lm_lowered *l, hst_dtype dtype) {
    hst_lm *m = &l->model;
    size_t bytes = (size_t)m->config.layers * sizeof *l->sru.layers;
    hst_sru_layer *layers = hst_workspace(m->ctx, bytes);
    if (!layers) return;
    memcpy(layers, m->sru->layers, bytes);
    for (int i = 0; i < m->config.layers; i++) {
        layers[i].weight = hst_shadow(layers[i].weight, dtype);
        if (layers[i].weight_proj) layers[i].weight_proj = hst_shadow(layers[i].weight_proj, dtype);
    }
    l->sru = *m->sru;
    l->sru.layers = layers;
    m->sru = &l->sru;
    m->output = hst_shadow(m->output, dtype);
}

bool hst_lm_lower(const hst_lm *m, const char *asked, hst_dtype dtype, hst_lm_lowered *lowered) {
    *lowered = (hst_lm_lowered){.model = *m};
    if (dtype == HST_F16 || dtype == HST_BF16)
        lower_weights(lowered, dtype);
    else if (dtype != HST_F32)
        hst_fail(m->ctx, HST_ERROR_DTYPE, "%s: weights cannot be read as %s; f32, f16 or bf16 are possible", asked,
                 hst_dtype_name(dtype));
    return m->ctx->status == HST_OK;
}

void hst_lm_lowered_free(hst_lm_lowered *l) { hst_workspace_free(l->model.ctx, l->sru.layers); }

hst_tensor *hst_lm_loss(const hst_lm *m, hst_tensor *ids, hst_tensor *targets, hst_tensor *c0, bool training,
                        hst_tensor **c_last) {
    if (c_last) *c_last = NULL;
    if (!m) return NULL;
    return hst_linear_cross_entropy(hst_lm_hidden(m, ids, c0, training, c_last), m->output, m->output_bias, targets);
}
