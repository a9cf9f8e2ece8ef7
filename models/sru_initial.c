// sru_initial.c: the parameters of a new SRU stack and their initial values.
#include <math.h>
#include <stdio.h>
#include "models/sru.h"

static hst_tensor *add(const hst_sru *sru, hst_parameters *list, int layer, const char *name, hst_tensor *value) {
    char full[HST_MAX_PREFIX + 64];
    snprintf(full, sizeof full, "%srnn_lst.%d.%s", sru->prefix, layer, name);
    return hst_parameter(list, full, value);
}

static void scale_planes(hst_tensor *weight, int64_t width, int first, int last, double factor) {
    hst_real *w = hst_mutable_data(weight);
    int64_t columns = weight->shape[1];
    for (int64_t i = 0; i < weight->shape[0]; i++)
        for (int64_t j = first * width; j < (last + 1) * width; j++) w[i * columns + j] *= (hst_real)factor;
}

// SRU 2.x: uniform with variance 1 / in; the candidate smaller where dropout will enlarge it, and all of it where
// rnn_dropout enlarges n; with layer norm a tenth; the skip plane as large as x' would be; the gates' planes with half
// the variance. halfstep's own rules leave out the tenth.
static hst_tensor *weight_of_2x(const hst_sru *sru, int i, int64_t in) {
    const hst_sru_layer *layer = &sru->layers[i];
    const hst_sru_config *c = &sru->config;
    int64_t out = layer->sizes.out;
    int k = layer->sizes.k;
    double bound = sqrt(3.0 / (double)in), dropout = i + 1 < c->layers ? c->dropout : 0;
    hst_tensor *w = hst_uniform(sru->ctx, HST_F32, HST_SHAPE(in, k * out), -bound, bound);
    if (!w) return NULL;
    scale_planes(w, out, 0, 0, sqrt(1 - dropout));
    if (c->rnn_dropout > 0) scale_planes(w, out, 0, k - 1, sqrt(1 - c->rnn_dropout));
    if (c->layer_norm && c->rules == HST_SRU_2) scale_planes(w, out, 0, k - 1, 0.1);
    if (!c->v1) scale_planes(w, out, 1, 2, sqrt(0.5));
    if (k == 4) scale_planes(w, out, 3, 3, layer->scale_x);
    return w;
}

// Glorot & Bengio 2010, over the matrix as a whole: uniform with variance 2 / (in + columns).
static hst_tensor *xavier(hst_context *ctx, int64_t in, int64_t columns) {
    double bound = sqrt(6.0 / (double)(in + columns));
    return hst_uniform(ctx, HST_F32, HST_SHAPE(in, columns), -bound, bound);
}

static void make_transform(hst_sru *sru, hst_parameters *list, int i) {
    hst_sru_layer *layer = &sru->layers[i];
    hst_sru_sizes s = layer->sizes;
    int64_t in = s.projection ? s.projection : s.in;
    bool third = sru->config.rules == HST_SRU_3;
    layer->weight = add(sru, list, i, "weight", third ? xavier(sru->ctx, in, s.k * s.out) : weight_of_2x(sru, i, in));
    if (!s.projection) return;
    double bound = sqrt(3.0 / (double)s.in);
    layer->weight_proj =
        add(sru, list, i, "weight_proj",
            third ? xavier(sru->ctx, s.in, in) : hst_uniform(sru->ctx, HST_F32, HST_SHAPE(s.in, in), -bound, bound));
}

// Forget 0, reset the highway bias.
static hst_tensor *initial_bias(const hst_sru *sru, int64_t out) {
    hst_tensor *bias = hst_zeros(sru->ctx, HST_F32, HST_SHAPE(2 * out));
    hst_real *b = bias ? hst_mutable_data(bias) : NULL;
    for (int64_t j = out; b && j < 2 * out; j++) b[j] = (hst_real)sru->config.highway_bias;
    return bias;
}

void hst_sru_make_layer(hst_sru *sru, hst_parameters *list, int i) {
    const hst_sru_config *c = &sru->config;
    hst_sru_layer *layer = &sru->layers[i];
    layer->sizes = hst_sru_sizes_of(c, i);
    layer->scale_x = hst_sru_scale(c);
    int64_t out = layer->sizes.out, normed = c->normalize_after ? out : layer->sizes.in;
    if (!c->transform) make_transform(sru, list, i);
    double bound = c->weight_c_init > 0 ? c->weight_c_init : c->rules == HST_SRU_3 ? 1 : sqrt(1.5);
    if (!c->v1)
        layer->weight_c =
            add(sru, list, i, "weight_c", hst_uniform(sru->ctx, HST_F32, HST_SHAPE(2 * out), -bound, bound));
    layer->bias = add(sru, list, i, "bias", initial_bias(sru, out));
    if (!c->layer_norm) return;
    layer->norm_gain = add(sru, list, i, "layer_norm.weight", hst_full(sru->ctx, HST_F32, HST_SHAPE(normed), 1));
    layer->norm_bias = add(sru, list, i, "layer_norm.bias", hst_zeros(sru->ctx, HST_F32, HST_SHAPE(normed)));
}

// As a linear layer of PyTorch: variance 1 / (3 in).
void hst_sru_make_input(hst_sru *sru, hst_parameters *list) {
    const hst_sru_config *c = &sru->config;
    if (!hst_sru_widens_first(c)) return;
    char name[HST_MAX_PREFIX + 64];
    double bound = 1 / sqrt((double)c->input);
    snprintf(name, sizeof name, "%sinput_to_hidden.weight", sru->prefix);
    sru->input_to_hidden =
        hst_parameter(list, name, hst_uniform(sru->ctx, HST_F32, HST_SHAPE(hst_sru_out(c), c->input), -bound, bound));
}
