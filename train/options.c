// options.c: the trainer's defaults, and the model in its options.
#include <string.h>
#include "train/trainer.h"

void hst_train_defaults(hst_train_options *options, size_t size) {
    static const hst_train_options defaults = {
        .hidden = 256,
        .layers = 4,
        .highway_bias = -2,
        .batch = 16,
        .length = 64,
        .fresh_share = 0.2,
        .epochs = 5,
        .optimizer = HST_ADAMW,
        .lr = 5e-3,
        .schedule = HST_COSINE,
        .warmup = 0.02,
        .floor = 0.03,
        .lr_step_every = 0.3,
        .lr_step_factor = 0.1,
        .clip = 1,
        .weight_decay = -1,
        .momentum = 0.9,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-8,
        .accumulate = 1,
        .op_list = -1,
        .scaler = -1,
        .init_scale = -1,
        .growth = -1,
        .backoff = -1,
        .growth_interval = -1,
        .hysteresis = -1,
        .min_scale = -1,
        .max_scale = -1,
        .max_consecutive_skips = -1,
        .seed = 1,
    };
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
    options->size = size;
}

hst_lm_config hst_train_model(const hst_train_options *o, const hst_tokenizer *tokenizer) {
    hst_lm_config config = hst_lm_defaults();
    if (tokenizer) config.vocabulary = hst_tokenizer_size(tokenizer);
    config.hidden = o->hidden;
    config.layers = o->layers;
    config.dropout = o->dropout;
    config.tied = o->tied;
    config.projection_size = o->projection;
    config.layer_norm = o->layer_norm != HST_NORM_NONE;
    config.normalize_after = o->layer_norm == HST_NORM_AFTER;
    config.highway_bias = o->highway_bias;
    config.rescale = !o->no_rescale;
    config.use_tanh = o->tanh;
    return config;
}

void hst_train_take_model(const hst_lm_config *config, hst_train_options *o) {
    o->hidden = config->hidden;
    o->layers = config->layers;
    o->tied = config->tied;
    o->projection = config->projection_size;
    o->layer_norm = !config->layer_norm ? HST_NORM_NONE : config->normalize_after ? HST_NORM_AFTER : HST_NORM_BEFORE;
    o->highway_bias = config->highway_bias;
    o->no_rescale = !config->rescale;
    o->tanh = config->use_tanh;
}
