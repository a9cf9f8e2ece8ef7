// models.h: modules with named parameters, the language model, its files, sampling.
//
//     hst_lm *model = hst_lm_new(ctx, &config);                            // or hst_lm_load(ctx, "model.safetensors")
//     hst_tensor *next, *logits = hst_lm_forward(model, ids, state, true, &next); // ids (L, B) -> (L, B, V)
//     hst_lm_save(model, "model.safetensors");
#ifndef HST_MODELS_H
#define HST_MODELS_H

#include <string.h>
#include "ops/ops.h"
#include "optim/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- a stack of SRU layers ----
// A layer, its options named as in the `sru` package: n = layer_norm(x) (pre-norm, or not), U = n W, or (n P) W with a
// projection, (h, c) = recurrence(U, x, ...), h = layer_norm(h) (normalize_after). Parameters of layer i:
// rnn_lst.{i}.weight (in, k out) [in memory as k planes of `out` columns], or .weight_proj (in, p) and .weight
// (p, k out), .weight_c (2 out), .bias (2 out), .layer_norm.weight/bias (in, or out after); input_to_hidden.weight
// (out, input). k is 4 where a layer with a skip term changes the width, else 3.

typedef enum hst_sru_rules {
    HST_SRU_HALFSTEP = 0, // as 2.x, but layer norm does not divide the initial weights by ten
    HST_SRU_2 = 2,        // initial values of SRU 2.x; a projection only where it is smaller than both sides
    HST_SRU_3 = 3         // of 3.x; a projection in every layer
} hst_sru_rules;

// A transform of the program's own instead of the product: n (L, B, in), after norm and dropout, to U (L, B, k out) as
// planes. It may give gate weights for each step too: *v (L, B, 2 out), forget, then reset, to which weight_c is added.
typedef hst_tensor *(*hst_sru_transform)(void *user, int layer, hst_tensor *n, hst_tensor **v);

typedef struct hst_sru_config {
    int64_t input, hidden;           // width of x, and of h in each direction: out = hidden, or 2 hidden
    int layers;                      // N
    double dropout;                  // on c, in every layer but the last (as the package does)
    double highway_bias;             // initial reset bias; -2: the layer starts close to a copy of its input
    bool layer_norm;                 // in each layer: before its product, the skip term going around it
    bool rescale;                    // x' = sqrt(1 + 2 exp(highway_bias)) x where k is 3
    bool has_skip_term;              // x' is x or a plane of U, else 0
    bool normalize_after;            // layer norm of h instead
    bool bidirectional;              // h's first half runs forwards, the second backwards
    bool use_tanh;                   // h from tanh(c)
    bool v1;                         // weight_c is 0 and stays so
    bool proj_input_to_hidden_first; // where input != out: x becomes input_to_hidden x, so that no layer has k = 4
    bool nn_rnn_compatible_return;   // states as (N directions, B, hidden) instead of (N, B, out)
    int64_t projection_size;         // p; 0: one matrix
    double rnn_dropout;              // on n, one mask for all steps, in every layer
    double weight_c_init;            // uniform on +- this; 0: as the rules say
    hst_sru_rules rules;
    hst_sru_transform transform; // NULL: the product, and weight and weight_proj are parameters
    void *user;                  // handed to transform
    bool transform_gives_v;      // files then hold weight_c as the package's does, forget and reset in turn
} hst_sru_config;

// The package's defaults: 2 layers, all options off but the skip term. Only what an option's default is not, input and
// hidden, is left to set. HST_SRU_HALFSTEP: what the language model uses, 4 layers, highway_bias -2, layer norm,
// rescale.
static inline hst_sru_config hst_sru_defaults(hst_sru_rules rules) {
    hst_sru_config c;
    memset(&c, 0, sizeof c);
    bool own = rules == HST_SRU_HALFSTEP;
    c.layers = own ? 4 : 2;
    c.highway_bias = own ? -2 : 0;
    c.layer_norm = c.rescale = own;
    c.has_skip_term = true;
    c.weight_c_init = rules == HST_SRU_3 ? 1 : 0;
    c.rules = rules;
    return c;
}

typedef struct hst_sru hst_sru;

// Adds its parameters to `list` with names that start with `prefix` ("rnn."; NULL: nothing), with initial values by the
// rules. Free with hst_sru_free; the parameters stay with the list. After an error the list is as it was.
HST_API hst_sru *hst_sru_new(hst_parameters *list, const char *prefix, const hst_sru_config *config);
HST_API void hst_sru_free(hst_sru *sru); // NULL is accepted
HST_API const hst_sru_config *hst_sru_configuration(const hst_sru *sru);

// x (L, B, input) -> h (L, B, out). c0 (N, B, out) or NULL (zero); *c_last, if not NULL, gets (N, B, out) f32,
// detached: each column's c after its last step, which is t = 0 for those that run backwards. pad (L, B) u8 or NULL, 1:
// no symbol here. `training` turns dropout on.
HST_API hst_tensor *hst_sru_forward(const hst_sru *sru, hst_tensor *x, hst_tensor *c0, hst_tensor *pad, bool training,
                                    hst_tensor **c_last);

// A stack in a safetensors file, with the names and orientation of SRU 2.x or 3.x (`version` 2 or 3) in f32, f16 or
// bf16; what shapes do not tell travels in its metadata ("halfstep.config"). Saving is atomic: a temporary file beside
// it, fsync, rename. hst_sru_save is version 2 in f32.
HST_API hst_status hst_sru_save(const hst_sru *sru, const char *path);
HST_API hst_status hst_sru_export(const hst_sru *sru, const char *path, int version, hst_dtype dtype);

// A stack from such a file, of either version and any floating-point type, its parameters added to `list` under the
// names' prefix in the file; none after an error. prefix NULL: it is found; two stacks are an error that names them.
// For a file without halfstep.config (a state_dict from Python) `assumed` gives use_tanh, bidirectional,
// normalize_after, has_skip_term, v1, dropout and highway_bias as far as shapes and scale_x leave them open, and NULL
// is an error.
HST_API hst_sru *hst_sru_load(hst_parameters *list, const char *path, const char *prefix,
                              const hst_sru_config *assumed);

// The numbers of such a file into a stack of the same configuration; with a transform those of everything but it. After
// an error some of the stack's numbers may be the file's already.
HST_API hst_status hst_sru_read(hst_sru *sru, const char *path);

// ---- the language model: embedding -> SRU stack -> layer norm -> output layer ----
// Parameters: embedding_layer.weight (V, D), rnn.* as above, output_norm.weight/bias (D), output_layer.weight (V, D)
// unless tied, output_layer.bias (V).

typedef struct hst_lm_config {
    int64_t vocabulary, hidden;
    int layers;
    double dropout; // on c between layers, and on the output layer's input
    double highway_bias;
    bool layer_norm, rescale;
    bool tied;             // the output layer uses the embedding's table
    bool skip_output_norm; // layer_norm puts none before the output layer
    // as in hst_sru_config
    bool has_skip_term, normalize_after, use_tanh, v1;
    int64_t projection_size;
    double rnn_dropout, weight_c_init;
    hst_sru_rules rules;
} hst_lm_config;

static inline hst_lm_config hst_lm_defaults(void) {
    hst_lm_config c;
    memset(&c, 0, sizeof c);
    c.vocabulary = c.hidden = 256;
    c.layers = 4;
    c.highway_bias = -2;
    c.layer_norm = c.rescale = c.has_skip_term = true;
    return c;
}

typedef struct hst_lm hst_lm;

// Random weights from the context's stream; config NULL: the defaults.
HST_API hst_lm *hst_lm_new(hst_context *ctx, const hst_lm_config *config);
HST_API void hst_lm_free(hst_lm *model); // NULL is accepted
HST_API const hst_lm_config *hst_lm_configuration(const hst_lm *model);
HST_API hst_parameters *hst_lm_parameters(const hst_lm *model); // owned by the model

// ids (L, B) u8, i32 or i64 -> logits (L, B, V). c0 (N, B, D) or NULL; *c_last, if not NULL, gets the state to carry,
// detached.
HST_API hst_tensor *hst_lm_forward(const hst_lm *model, hst_tensor *ids, hst_tensor *c0, bool training,
                                   hst_tensor **c_last);

// The mean loss in nats, f32: hst_cross_entropy(hst_lm_forward(...), targets), to the same bits, but never with all
// logits at once (hst_linear_cross_entropy). targets (L, B).
HST_API hst_tensor *hst_lm_loss(const hst_lm *model, hst_tensor *ids, hst_tensor *targets, hst_tensor *c0,
                                bool training, hst_tensor **c_last);

// What the symbols stand for, a text that data/data.h's tokenizers make and read; NULL: bytes. It is copied, and
// travels in the model's file.
HST_API hst_status hst_lm_set_tokenizer(hst_lm *model, const char *text);
HST_API const char *hst_lm_tokenizer(const hst_lm *model);

// The dtype in which the file that the model was read from had all its matrices, f16 or bf16; else HST_F32.
HST_API hst_dtype hst_lm_stored_dtype(const hst_lm *model);

// A model's file: as a stack's, above. hst_lm_load takes files with a halfstep.config. hst_lm_import takes a state_dict
// from Python too, with these names behind any prefix (NULL: it is found) and `assumed` as above; a language model
// reads forwards only, so assumed->bidirectional is an error. So is a prefix for a file with a halfstep.config, whose
// model has none (a checkpoint's averages behind one are not the model that it describes).
HST_API hst_status hst_lm_save(const hst_lm *model, const char *path);
HST_API hst_status hst_lm_export(const hst_lm *model, const char *path, int version, hst_dtype dtype);
HST_API hst_lm *hst_lm_load(hst_context *ctx, const char *path);
HST_API hst_lm *hst_lm_import(hst_context *ctx, const char *path, const char *prefix, const hst_sru_config *assumed);

// ---- one file to another ----

typedef struct hst_conversion {
    const char *prefix;     // of the names to take; NULL: all, and the model's prefix is found
    int version;            // of the names and orientation in the new file: 2, 3, or 0, as it is
    bool names_dtype;       // the new file has `dtype` (f32, f16, bf16); else the old one's, f32 for f64
    hst_dtype dtype;        //
    hst_sru_config assumed; // for a file without halfstep.config
} hst_conversion;

// The file as it is, and, where it has no halfstep.config, the package's defaults.
static inline hst_conversion hst_conversion_defaults(void) {
    hst_conversion c;
    memset(&c, 0, sizeof c);
    c.assumed = hst_sru_defaults(HST_SRU_2);
    return c;
}

typedef struct hst_converted {
    bool language_model; // or a stack
    bool described;      // by a halfstep.config, so nothing had to be assumed
    int version[2];      // of names and orientation, before and after
    hst_dtype dtype[2];  // of the weights, before and after
    int64_t parameters;  // numbers
    int left_out; // tensors: what a checkpoint holds beside its model; with a prefix, what does not start with it
    hst_sru_config config; // of the stack
} hst_converted;

// A language model or a stack, in a file of halfstep's or a state_dict, written anew to the path `to`; *done, if not
// NULL, says what became what; how NULL: the defaults. A tensor that belongs to neither is an error that names it, and
// a prefix an error as in hst_lm_import.
HST_API hst_status hst_convert(hst_context *ctx, const char *from, const char *to, const hst_conversion *how,
                               hst_converted *done);

// ---- sampling ----

typedef struct hst_sampling {
    double temperature; // 0: the most likely symbol, ties to the lowest; 1: as the model says
    int64_t top_k;      // only the k most likely (0: all)
    double top_p;       // only the most likely that together have this probability (1: all)
    uint64_t seed;
    hst_dtype weights; // products read the weights in f16 or bf16, rounded once: half as many bytes, which is what
                       // takes the time; HST_F32: as they are
} hst_sampling;

static inline hst_sampling hst_sampling_defaults(void) {
    hst_sampling s = {0.8, 0, 1.0, 1, HST_F32};
    return s;
}

// Reads the prompt, of at least one symbol, then calls `emit` with each of up to `tokens` new symbols; emit returns
// false to stop. sampling NULL: the defaults.
HST_API hst_status hst_lm_generate(const hst_lm *model, hst_symbols prompt, int64_t tokens,
                                   const hst_sampling *sampling, bool (*emit)(int64_t symbol, void *user), void *user);

#ifdef __cplusplus
}
#endif
#endif
