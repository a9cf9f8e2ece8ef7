// sru.h: the insides of the SRU stack, for this folder.
#ifndef HST_SRU_H
#define HST_SRU_H

#include "autograd/op.h"
#include "models/entry.h"
#include "models/models.h"

#define HST_NORM_EPS 1e-5 // of every layer norm in the model, as upstream's

// A layer's sizes: what its transform takes and gives, the width between its two matrices (0: there is one), planes.
typedef struct hst_sru_sizes {
    int64_t in, out, projection;
    int k;
} hst_sru_sizes;

typedef struct hst_sru_layer {
    hst_sru_sizes sizes;
    hst_tensor *weight, *weight_proj; // the list's; NULL where there is none
    hst_tensor *weight_c, *bias, *norm_gain, *norm_bias;
    double scale_x;
} hst_sru_layer;

struct hst_sru {
    hst_context *ctx;
    hst_sru_config config;
    char prefix[HST_MAX_PREFIX];
    hst_sru_layer *layers;
    hst_tensor *input_to_hidden; // (out, input) or NULL
};

bool hst_sru_check(hst_context *ctx, const hst_sru_config *config); // false after hst_fail
int64_t hst_sru_out(const hst_sru_config *config);
bool hst_sru_widens_first(const hst_sru_config *config); // there is an input_to_hidden
hst_sru_sizes hst_sru_sizes_of(const hst_sru_config *config, int layer);
double hst_sru_scale(const hst_sru_config *config); // scale_x

// Layer norm whose result is read by this product alone.
hst_tensor *hst_norm_for_product(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, const hst_op *product);

// The stack's input as symbols: x is the rows of `table` (V, input) that ids (L, B) name. With fewer symbols than L B
// the first layer's product is formed of the table, once for each symbol, and looked up like x. It has the same bits;
// its gradient adds up dU by symbol first, and is then a product over V rows, not L B.
typedef struct hst_sru_symbols {
    hst_tensor *table, *ids;
} hst_sru_symbols;
hst_tensor *hst_sru_forward_symbols(const hst_sru *sru, const hst_sru_symbols *symbols, hst_tensor *c0, bool training,
                                    hst_tensor **c_last);

// Makes the parameters of a new stack (sru_initial.c).
void hst_sru_make_layer(hst_sru *sru, hst_parameters *list, int layer);
void hst_sru_make_input(hst_sru *sru, hst_parameters *list);

#endif
