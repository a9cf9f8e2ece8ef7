// sru.h: the insides of the SRU stack, for this folder.
#ifndef HST_SRU_H
#define HST_SRU_H

#include "autograd/op.h"
#include "models/models.h"

#define HST_NORM_EPS 1e-5 // of every layer norm in the model, as upstream's

typedef struct hst_sru_layer {
    hst_tensor *weight, *weight_c, *bias, *norm_gain, *norm_bias; // the list's; the last two NULL without layer norm
    int k;                                                        // 4 where input and output differ in width
    double scale_x;
} hst_sru_layer;

struct hst_sru {
    hst_context *ctx;
    hst_sru_config config;
    hst_sru_layer *layers;
};

// A parameter as files hold it: a layer's weight with its columns in the order [j][m] of the `sru` package instead of
// the planes [m][j] in memory, as a view that can be copied from and to; any other tensor is returned as it is.
hst_tensor *hst_sru_file_view(const hst_sru *sru, hst_tensor *parameter);

#endif
