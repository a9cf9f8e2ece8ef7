// sru.c: a stack of SRU layers. A layer's only product is over all time steps at once; what runs through time is cheap.
#include <math.h>
#include <string.h>
#include "amp/autocast.h"
#include "models/config.h"
#include "models/sru.h"
#include "ops/table.h"
#include "optim/parameter.h"

// ---- sizes ----

int64_t hst_sru_out(const hst_sru_config *c) { return c->bidirectional ? 2 * c->hidden : c->hidden; }

bool hst_sru_widens_first(const hst_sru_config *c) {
    return c->proj_input_to_hidden_first && c->input != hst_sru_out(c);
}

hst_sru_sizes hst_sru_sizes_of(const hst_sru_config *c, int layer) {
    int64_t out = hst_sru_out(c), in = layer == 0 && !hst_sru_widens_first(c) ? c->input : out, p = c->projection_size;
    bool projects = c->rules == HST_SRU_3 || (p < in && p < out);
    return (hst_sru_sizes){in, out, projects ? p : 0, c->has_skip_term && in != out ? 4 : 3};
}

// x and c alike large and independent, h = (1 - r) x' + r c is as large as x if x' = scale x and r = s(highway_bias).
double hst_sru_scale(const hst_sru_config *c) {
    return c->rescale && c->has_skip_term ? sqrt(1 + 2 * exp(c->highway_bias)) : 1;
}

bool hst_sru_check(hst_context *ctx, const hst_sru_config *c) {
    if (!c) return hst_fail(ctx, HST_ERROR_VALUE, "hst_sru_new: config is NULL; hst_sru_defaults gives one"), false;
    const hst_range ranges[] = {
        {"input", (double)c->input, 1, 1 << 30},
        {"hidden", (double)c->hidden, 1, 1 << 30},
        {"layers", c->layers, 1, 1 << 20},
        {"dropout", c->dropout, 0, 1 - 0x1p-53},
        {"rnn_dropout", c->rnn_dropout, 0, 1 - 0x1p-53},
        {"highway_bias", c->highway_bias, -700, 700},
        {"projection_size", (double)c->projection_size, 0, 1 << 30},
        {"weight_c_init", c->weight_c_init, 0, 1e6},
    };
    if (!hst_check_ranges(ctx, "hst_sru_new", ranges, sizeof ranges / sizeof *ranges)) return false;
    if (c->rules == HST_SRU_HALFSTEP || c->rules == HST_SRU_2 || c->rules == HST_SRU_3) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "hst_sru_new: rules is %d; it must be HST_SRU_HALFSTEP, HST_SRU_2 or HST_SRU_3",
             (int)c->rules);
    return false;
}

// ---- making ----

hst_sru *hst_sru_new(hst_parameters *list, const char *prefix, const hst_sru_config *config) {
    if (!list) return NULL;
    hst_context *ctx = hst_parameters_context(list);
    int before = list->count;
    if (!prefix) prefix = "";
    if (ctx->status != HST_OK || !hst_sru_check(ctx, config)) return NULL;
    if (strlen(prefix) >= HST_MAX_PREFIX) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_sru_new: the prefix has %zu bytes; it may have %d", strlen(prefix),
                 HST_MAX_PREFIX - 1);
        return NULL;
    }
    hst_sru *sru = hst_allocate(ctx, sizeof *sru, HST_WORKSPACE);
    size_t bytes = (size_t)config->layers * sizeof *sru->layers;
    if (!sru) return NULL;
    *sru = (hst_sru){.ctx = ctx, .config = *config, .layers = hst_allocate(ctx, bytes, HST_WORKSPACE)};
    strcpy(sru->prefix, prefix);
    if (sru->layers) memset(sru->layers, 0, bytes);
    hst_category category = ctx->category;
    ctx->category = HST_WEIGHTS;
    hst_scope_begin(ctx);
    if (ctx->status == HST_OK) hst_sru_make_input(sru, list);
    for (int i = 0; i < config->layers && ctx->status == HST_OK; i++) hst_sru_make_layer(sru, list, i);
    hst_scope_end(ctx, NULL);
    ctx->category = category;
    if (ctx->status == HST_OK) return sru;
    hst_parameters_cut(list, before);
    hst_sru_free(sru);
    return NULL;
}

void hst_sru_free(hst_sru *sru) {
    if (!sru) return;
    hst_free(sru->ctx, sru->layers);
    hst_free(sru->ctx, sru);
}

const hst_sru_config *hst_sru_configuration(const hst_sru *sru) {
    if (!sru) return NULL;
    return &sru->config;
}

// ---- forward ----

// Element i of the stack of states, (B, out).
static hst_tensor *state_of(hst_tensor *c, int i) {
    if (!c) return NULL;
    int64_t shape[] = {c->shape[1], c->shape[2]};
    return hst_reshape(hst_slice(c, 0, i, i + 1), 2, shape);
}

// U, and with a transform of the program's own perhaps gate weights for each step.
static hst_tensor *transform(const hst_sru *sru, int i, hst_tensor *n, hst_tensor **v) {
    const hst_sru_layer *layer = &sru->layers[i];
    *v = NULL;
    if (!n) return NULL;
    if (!sru->config.transform)
        return hst_matmul(layer->weight_proj ? hst_matmul(n, layer->weight_proj) : n, layer->weight);
    hst_tensor *u = sru->config.transform(sru->config.user, i, n, v);
    int64_t columns = layer->sizes.k * layer->sizes.out;
    if (u && (u->rank != 3 || u->shape[2] != columns)) {
        char text[64];
        hst_fail(sru->ctx, HST_ERROR_SHAPE,
                 "hst_sru_forward: the transform of layer %d gave %s; (L, B, %lld) is needed", i, hst_describe(u, text),
                 (long long)columns);
        return NULL;
    }
    return u;
}

// Its result goes into a product alone: it is stored in the dtype to which the product would round it, to the same
// bits. Where dropout comes in between, its scaling is one more rounding.
hst_tensor *hst_norm_for_product(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, const hst_op *product) {
    if (!x) return NULL;
    hst_dtype dtype = hst_operand_dtype(x->ctx, product);
    return dtype == HST_F32 ? hst_layer_norm(x, gain, bias, HST_NORM_EPS)
                            : hst_layer_norm_as(x, gain, bias, HST_NORM_EPS, dtype);
}

// U of layer i from its input, row by row: norm, dropout of its own, product.
static hst_tensor *product_of(const hst_sru *sru, int i, hst_tensor *x, bool training, hst_tensor **v) {
    const hst_sru_config *config = &sru->config;
    const hst_sru_layer *layer = &sru->layers[i];
    if (config->layer_norm && !config->normalize_after)
        x = hst_norm_for_product(x, layer->norm_gain, layer->norm_bias, &hst_op_matmul);
    if (training) x = hst_variational_dropout(x, config->rnn_dropout);
    return transform(sru, i, x, v);
}

// Residual first: the skip term goes around norm and dropout, which only the transform sees.
static hst_tensor *layer_forward(const hst_sru *sru, int i, hst_tensor *x, const hst_sru_symbols *symbols,
                                 hst_tensor *c0, hst_tensor *pad, bool training, hst_tensor *c_last) {
    const hst_sru_config *config = &sru->config;
    const hst_sru_layer *layer = &sru->layers[i];
    double dropout = training && i + 1 < config->layers ? config->dropout : 0;
    hst_scope_begin(sru->ctx);
    hst_tensor *v, *mask = NULL, *c = NULL;
    hst_tensor *u = symbols ? hst_embedding(product_of(sru, i, symbols->table, training, &v), symbols->ids)
                            : product_of(sru, i, x, training, &v);
    if (u && dropout > 0)
        mask = hst_dropout(hst_full(sru->ctx, HST_F32, HST_SHAPE(u->shape[1], layer->sizes.out), 1), dropout);
    hst_recurrence options = {.k = layer->sizes.k,
                              .scale_x = layer->scale_x,
                              .use_tanh = config->use_tanh,
                              .bidirectional = config->bidirectional};
    hst_tensor *skip = layer->sizes.k == 3 && config->has_skip_term ? x : NULL;
    hst_tensor *h =
        hst_sru_recurrence(u, skip, layer->weight_c, v, layer->bias, state_of(c0, i), mask, pad, options, &c);
    if (config->layer_norm && config->normalize_after)
        h = hst_layer_norm(h, layer->norm_gain, layer->norm_bias, HST_NORM_EPS);
    if (h && c_last) hst_copy_tensor(state_of(c_last, i), c, false);
    return hst_scope_end(sru->ctx, h);
}

// (N, B, 2 hidden) to (2 N, B, hidden), or back.
static hst_tensor *states_apart(hst_tensor *c, int64_t hidden) {
    int64_t four[] = {c->shape[0], c->shape[1], 2, hidden}, three[] = {2 * c->shape[0], c->shape[1], hidden};
    hst_tensor *apart = hst_transpose(hst_reshape(c, 4, four), 1, 2);
    return hst_reshape(hst_cast(apart, c->dtype), 3, three);
}
static hst_tensor *states_together(hst_tensor *c, int64_t hidden) {
    int64_t four[] = {c->shape[0] / 2, 2, c->shape[1], hidden}, three[] = {c->shape[0] / 2, c->shape[1], 2 * hidden};
    hst_tensor *together = hst_transpose(hst_reshape(c, 4, four), 1, 2);
    return hst_reshape(hst_cast(together, c->dtype), 3, three);
}

static bool check_forward(const hst_sru *sru, const hst_tensor *x, const hst_tensor *c0, bool apart) {
    const hst_sru_config *config = &sru->config;
    char text[64];
    if (x->rank != 3 || x->shape[2] != config->input)
        return hst_fail(sru->ctx, HST_ERROR_SHAPE, "hst_sru_forward: x is %s; (L, B, %lld) is needed",
                        hst_describe(x, text), (long long)config->input),
               false;
    int64_t states = config->layers * (apart ? 2 : 1), width = apart ? config->hidden : hst_sru_out(config);
    if (!c0 || (c0->rank == 3 && c0->shape[0] == states && c0->shape[1] == x->shape[1] && c0->shape[2] == width))
        return true;
    hst_fail(sru->ctx, HST_ERROR_SHAPE, "hst_sru_forward: c0 is %s; (%lld, %lld, %lld) is needed",
             hst_describe(c0, text), (long long)states, (long long)x->shape[1], (long long)width);
    return false;
}

// x, which is looked up in symbols->table where that is given.
static hst_tensor *forward(const hst_sru *sru, hst_tensor *x, const hst_sru_symbols *symbols, hst_tensor *c0,
                           hst_tensor *pad, bool training, hst_tensor **c_last) {
    const hst_sru_config *config = &sru->config;
    bool apart = config->nn_rnn_compatible_return && config->bidirectional;
    if (!check_forward(sru, x, c0, apart)) return NULL;
    if (c0 && apart) c0 = states_together(c0, config->hidden);
    hst_tensor *c = NULL;
    if (c_last) c = hst_new(sru->ctx, HST_F32, HST_SHAPE(config->layers, x->shape[1], hst_sru_out(config)));
    if (sru->input_to_hidden) x = hst_matmul(x, hst_transpose(sru->input_to_hidden, 0, 1));
    for (int i = 0; i < config->layers && x; i++)
        x = layer_forward(sru, i, x, i == 0 ? symbols : NULL, c0, pad, training, c);
    if (c_last && x) *c_last = apart ? states_apart(c, config->hidden) : c;
    return x;
}

hst_tensor *hst_sru_forward(const hst_sru *sru, hst_tensor *x, hst_tensor *c0, hst_tensor *pad, bool training,
                            hst_tensor **c_last) {
    if (c_last) *c_last = NULL;
    if (!sru || !x || sru->ctx->status != HST_OK) return NULL;
    return forward(sru, x, NULL, c0, pad, training, c_last);
}

// The rows of a product are independent of each other, to the last bit, so it may come before the lookup. It may not
// where each place of the text has a mask of its own, or where rows are not all that goes into U.
static bool multiplies_table(const hst_sru *sru, const hst_sru_symbols *symbols, bool training) {
    int64_t vocabulary = symbols->table->shape[0], places = hst_count(symbols->ids);
    const hst_sru_config *config = &sru->config;
    return vocabulary < places && !config->transform && !sru->input_to_hidden && !(training && config->rnn_dropout > 0);
}

hst_tensor *hst_sru_forward_symbols(const hst_sru *sru, const hst_sru_symbols *symbols, hst_tensor *c0, bool training,
                                    hst_tensor **c_last) {
    if (c_last) *c_last = NULL;
    hst_tensor *x = hst_embedding(symbols->table, symbols->ids);
    if (!x) return NULL;
    return forward(sru, x, multiplies_table(sru, symbols, training) ? symbols : NULL, c0, NULL, training, c_last);
}
