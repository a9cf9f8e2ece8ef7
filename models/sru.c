// sru.c: a stack of SRU layers. A layer's only product is over all time steps at once; what runs through time is cheap.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/sru.h"

// ---- making ----

static hst_tensor *add(hst_parameters *list, const char *prefix, int layer, const char *name, hst_tensor *value) {
    char full[160];
    snprintf(full, sizeof full, "%srnn_lst.%d.%s", prefix, layer, name);
    return hst_parameter(list, full, value);
}

static void scale_plane(hst_tensor *weight, int64_t d, int m, double factor) {
    hst_real *w = hst_mutable_data(weight);
    int64_t columns = weight->shape[1];
    for (int64_t i = 0; i < weight->shape[0]; i++)
        for (int64_t j = m * d; j < (m + 1) * d; j++) w[i * columns + j] *= (hst_real)factor;
}

// Dropout acts on c in every layer but the last.
static double dropout_of(const hst_sru *sru, int i) { return i + 1 < sru->config.layers ? sru->config.dropout : 0; }

// The initial values of SRU 2.x: uniform with variance 1 / in; the candidate smaller where dropout will enlarge it, the
// gates' planes with half the variance, the skip plane as large as x' would be. (With layer norm that package also
// divides all by ten; this one does not.)
static hst_tensor *initial_weight(const hst_sru *sru, int i, int64_t in) {
    const hst_sru_layer *layer = &sru->layers[i];
    const hst_sru_config *c = &sru->config;
    double bound = sqrt(3.0 / (double)in);
    hst_tensor *w = hst_uniform(sru->ctx, HST_F32, HST_SHAPE(in, layer->k * c->hidden), -bound, bound);
    if (!w) return NULL;
    scale_plane(w, c->hidden, 0, sqrt(1 - dropout_of(sru, i)));
    scale_plane(w, c->hidden, 1, sqrt(0.5));
    scale_plane(w, c->hidden, 2, sqrt(0.5));
    if (layer->k == 4) scale_plane(w, c->hidden, 3, layer->scale_x);
    return w;
}

static hst_tensor *initial_bias(const hst_sru *sru) {
    int64_t d = sru->config.hidden;
    hst_tensor *bias = hst_zeros(sru->ctx, HST_F32, HST_SHAPE(2 * d));
    hst_real *b = bias ? hst_mutable_data(bias) : NULL;
    for (int64_t j = d; b && j < 2 * d; j++) b[j] = (hst_real)sru->config.highway_bias;
    return bias;
}

static void make_layer(hst_sru *sru, hst_parameters *list, const char *prefix, int i) {
    const hst_sru_config *c = &sru->config;
    int64_t in = i == 0 ? c->input : c->hidden;
    hst_sru_layer *layer = &sru->layers[i];
    layer->k = in == c->hidden ? 3 : 4;
    layer->scale_x = c->rescale ? sqrt(1 + 2 * exp(c->highway_bias)) : 1;
    double bound = sqrt(1.5);
    layer->weight = add(list, prefix, i, "weight", initial_weight(sru, i, in));
    layer->weight_c =
        add(list, prefix, i, "weight_c", hst_uniform(sru->ctx, HST_F32, HST_SHAPE(2 * c->hidden), -bound, bound));
    layer->bias = add(list, prefix, i, "bias", initial_bias(sru));
    if (!c->layer_norm) return;
    layer->norm_gain = add(list, prefix, i, "layer_norm.weight", hst_full(sru->ctx, HST_F32, HST_SHAPE(in), 1));
    layer->norm_bias = add(list, prefix, i, "layer_norm.bias", hst_zeros(sru->ctx, HST_F32, HST_SHAPE(in)));
}

static bool check(hst_context *ctx, const hst_sru_config *c) {
    if (c->input >= 1 && c->hidden >= 1 && c->layers >= 1 && c->dropout >= 0 && c->dropout < 1 &&
        isfinite(c->highway_bias))
        return true;
    hst_fail(ctx, HST_ERROR_VALUE,
             "hst_sru_new: input %lld, hidden %lld and layers %d must be positive, dropout %g in [0, 1), highway_bias "
             "%g finite",
             (long long)c->input, (long long)c->hidden, c->layers, c->dropout, c->highway_bias);
    return false;
}

hst_sru *hst_sru_new(hst_parameters *list, const char *prefix, const hst_sru_config *config) {
    if (!list) return NULL;
    hst_context *ctx = hst_parameters_context(list);
    if (ctx->status != HST_OK || !check(ctx, config)) return NULL;
    hst_sru *sru = hst_allocate(ctx, sizeof *sru, HST_WORKSPACE);
    size_t bytes = (size_t)config->layers * sizeof *sru->layers;
    if (!sru) return NULL;
    *sru = (hst_sru){.ctx = ctx, .config = *config, .layers = hst_allocate(ctx, bytes, HST_WORKSPACE)};
    if (sru->layers) memset(sru->layers, 0, bytes);
    hst_category category = ctx->category;
    ctx->category = HST_WEIGHTS;
    hst_scope_begin(ctx);
    for (int i = 0; i < config->layers && ctx->status == HST_OK; i++) make_layer(sru, list, prefix, i);
    hst_scope_end(ctx, NULL);
    ctx->category = category;
    if (ctx->status == HST_OK) return sru;
    hst_sru_free(sru);
    return NULL;
}

void hst_sru_free(hst_sru *sru) {
    if (!sru) return;
    hst_free(sru->ctx, sru->layers);
    hst_free(sru->ctx, sru);
}

hst_tensor *hst_sru_file_view(const hst_sru *sru, hst_tensor *parameter) {
    for (int i = 0; i < sru->config.layers; i++)
        if (sru->layers[i].weight == parameter) {
            int64_t planes[] = {parameter->shape[0], sru->layers[i].k, sru->config.hidden};
            hst_no_grad_begin(sru->ctx);
            hst_tensor *view = hst_transpose(hst_reshape(parameter, 3, planes), 1, 2);
            hst_no_grad_end(sru->ctx);
            return view;
        }
    return parameter;
}

// ---- forward ----

// Element i of the stack of states, (B, D).
static hst_tensor *state_of(hst_tensor *c, int i) {
    if (!c) return NULL;
    int64_t shape[] = {c->shape[1], c->shape[2]};
    return hst_reshape(hst_slice(c, 0, i, i + 1), 2, shape);
}

static hst_tensor *layer_forward(const hst_sru *sru, int i, hst_tensor *x, hst_tensor *c0, hst_tensor *pad,
                                 bool training, hst_tensor *c_last) {
    const hst_sru_config *config = &sru->config;
    const hst_sru_layer *layer = &sru->layers[i];
    hst_scope_begin(sru->ctx);
    hst_tensor *n = config->layer_norm ? hst_layer_norm(x, layer->norm_gain, layer->norm_bias, HST_NORM_EPS) : x;
    hst_tensor *u = hst_matmul(n, layer->weight), *mask = NULL, *c = NULL;
    if (u && training && dropout_of(sru, i) > 0)
        mask = hst_dropout(hst_full(sru->ctx, HST_F32, HST_SHAPE(u->shape[1], config->hidden), 1), dropout_of(sru, i));
    hst_recurrence options = {.k = layer->k, .scale_x = layer->scale_x};
    hst_tensor *h = hst_sru_recurrence(u, layer->k == 3 ? x : NULL, layer->weight_c, NULL, layer->bias, state_of(c0, i), mask,
                                       pad, options, &c);
    if (h && c_last) hst_copy_tensor(state_of(c_last, i), c, false);
    return hst_scope_end(sru->ctx, h);
}

hst_tensor *hst_sru_forward(const hst_sru *sru, hst_tensor *x, hst_tensor *c0, hst_tensor *pad, bool training,
                            hst_tensor **c_last) {
    if (c_last) *c_last = NULL;
    if (!sru || !x || sru->ctx->status != HST_OK) return NULL;
    if (x->rank != 3 || x->shape[2] != sru->config.input) {
        char text[64];
        hst_fail(sru->ctx, HST_ERROR_SHAPE, "hst_sru_forward: x is %s; (L, B, %lld) is needed", hst_describe(x, text),
                 (long long)sru->config.input);
        return NULL;
    }
    if (c0 && (c0->rank != 3 || c0->shape[0] != sru->config.layers || c0->shape[1] != x->shape[1] ||
               c0->shape[2] != sru->config.hidden)) {
        char text[64];
        hst_fail(sru->ctx, HST_ERROR_SHAPE, "hst_sru_forward: c0 is %s; (%d, %lld, %lld) is needed",
                 hst_describe(c0, text), sru->config.layers, (long long)x->shape[1], (long long)sru->config.hidden);
        return NULL;
    }
    hst_tensor *c =
        c_last ? hst_new(sru->ctx, HST_F32, HST_SHAPE(sru->config.layers, x->shape[1], sru->config.hidden)) : NULL;
    for (int i = 0; i < sru->config.layers; i++) x = layer_forward(sru, i, x, c0, pad, training, c);
    if (c_last && x) *c_last = c;
    return x;
}
