// models.h: modules with named parameters, the language model, its files, sampling.
//
//     hst_lm *model = hst_lm_new(ctx, &config);                            // or hst_lm_load(ctx, "model.safetensors")
//     hst_tensor *next, *logits = hst_lm_forward(model, ids, state, true, &next); // ids (L, B) -> (L, B, V)
//     hst_lm_save(model, "model.safetensors");
#ifndef HST_MODELS_H
#define HST_MODELS_H

#include "ops/ops.h"
#include "optim/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- a stack of SRU layers ----
// Layer: U = layer_norm(x) W, (h, c) = recurrence(U, x, ...). Parameters of layer i, named as the `sru` package does:
// rnn_lst.{i}.weight (in, k D) [in memory as k planes of D columns], .weight_c (2 D), .bias (2 D),
// .layer_norm.weight/bias (in).

typedef struct hst_sru_config {
    int64_t input, hidden; // width of x, and of h
    int layers;
    double dropout;      // on c, in every layer but the last (as the package does)
    double highway_bias; // initial reset bias; -2: the layer starts close to a copy of its input
    bool layer_norm;     // before each layer's product
    bool rescale;        // x' = sqrt(1 + 2 exp(highway_bias)) x
} hst_sru_config;

typedef struct hst_sru hst_sru;

// Adds its parameters to `list` with names that start with `prefix` ("rnn."), initialised much as SRU 2.x does (sru.c).
// Free with hst_sru_free; the parameters stay with the list.
HST_API hst_sru *hst_sru_new(hst_parameters *list, const char *prefix, const hst_sru_config *config);
HST_API void hst_sru_free(hst_sru *sru); // NULL is accepted

// x (L, B, input) -> h (L, B, hidden). c0 (N, B, hidden) or NULL (zero); *c_last, if not NULL, gets (N, B, hidden) f32,
// detached. pad (L, B) u8 or NULL. `training` turns dropout on.
HST_API hst_tensor *hst_sru_forward(const hst_sru *sru, hst_tensor *x, hst_tensor *c0, hst_tensor *pad, bool training,
                                    hst_tensor **c_last);

// ---- the language model: embedding -> SRU stack -> layer norm -> output layer ----
// Parameters: embedding_layer.weight (V, D), rnn.* as above, output_norm.weight/bias (D), output_layer.weight (V, D)
// unless tied, output_layer.bias (V).

typedef struct hst_lm_config {
    int64_t vocabulary, hidden;
    int layers;
    double dropout; // on c between layers, and on the output layer's input
    double highway_bias;
    bool layer_norm, rescale;
    bool tied; // the output layer uses the embedding's table
} hst_lm_config;

static inline hst_lm_config hst_lm_defaults(void) {
    hst_lm_config c = {256, 256, 4, 0.0, -2.0, true, true, false};
    return c;
}

typedef struct hst_lm hst_lm;

HST_API hst_lm *hst_lm_new(hst_context *ctx, const hst_lm_config *config); // random weights from the context's stream
HST_API void hst_lm_free(hst_lm *model);                                   // NULL is accepted
HST_API const hst_lm_config *hst_lm_configuration(const hst_lm *model);
HST_API hst_parameters *hst_lm_parameters(const hst_lm *model); // owned by the model

// ids (L, B) u8, i32 or i64 -> logits (L, B, V). c0 (N, B, D) or NULL; *c_last, if not NULL, gets the state to carry,
// detached.
HST_API hst_tensor *hst_lm_forward(const hst_lm *model, hst_tensor *ids, hst_tensor *c0, bool training,
                                   hst_tensor **c_last);

// What the symbols stand for, a text that data/data.h's tokenizers make and read; NULL: bytes. It is copied, and
// travels in the model's file.
HST_API hst_status hst_lm_set_tokenizer(hst_lm *model, const char *text);
HST_API const char *hst_lm_tokenizer(const hst_lm *model);

// A safetensors file in the upstream layout; the configuration travels in its metadata ("halfstep.config"). Saving is
// atomic: a temporary file beside it, fsync, rename.
HST_API hst_status hst_lm_save(const hst_lm *model, const char *path);
HST_API hst_lm *hst_lm_load(hst_context *ctx, const char *path);

// ---- sampling ----

typedef struct hst_sampling {
    double temperature; // 0: the most likely symbol, ties to the lowest; 1: as the model says
    int64_t top_k;      // only the k most likely (0: all)
    double top_p;       // only the most likely that together have this probability (1: all)
    uint64_t seed;
} hst_sampling;

static inline hst_sampling hst_sampling_defaults(void) {
    hst_sampling s = {0.8, 0, 1.0, 1};
    return s;
}

// Reads the prompt, of at least one symbol, then calls `emit` with each of up to `tokens` new symbols; emit returns
// false to stop.
HST_API hst_status hst_lm_generate(const hst_lm *model, hst_symbols prompt, int64_t tokens,
                                   const hst_sampling *sampling, bool (*emit)(int64_t symbol, void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
