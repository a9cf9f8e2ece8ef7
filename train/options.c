// options.c: the trainer's defaults.
#include <string.h>
#include "train/train.h"

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
        .seed = 1,
    };
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
    options->size = size;
}
