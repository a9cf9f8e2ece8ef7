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
        .warmup = 0.02,
        .floor = 0.03,
        .clip = 1,
        .weight_decay = 0.3,
        .momentum = 0.9,
        .seed = 1,
    };
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
    options->size = size;
}
