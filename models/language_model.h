// language_model.h: the insides of the language model, for this folder.
#ifndef HST_LANGUAGE_MODEL_H
#define HST_LANGUAGE_MODEL_H

#include "models/sru.h"

struct hst_lm {
    hst_context *ctx;
    hst_lm_config config;
    hst_parameters *parameters;
    hst_sru *sru;
    hst_dtype stored; // of the matrices in the file that it was read from, f16 or bf16; else f32
    char *tokenizer;  // NULL: symbols are bytes
    hst_tensor *embedding, *norm_gain, *norm_bias, *output, *output_bias; // output is embedding when tied
};

hst_sru_config hst_lm_stack(const hst_lm_config *config); // of the model's SRU stack
void hst_lm_take_stack(const hst_sru_config *stack, hst_lm_config *config);

// hst_lm_forward in two parts: what the output layer reads, (L, B, D), and the output layer, of any rows of D.
hst_tensor *hst_lm_hidden(const hst_lm *model, hst_tensor *ids, hst_tensor *c0, bool training, hst_tensor **c_last);
hst_tensor *hst_lm_logits(const hst_lm *model, hst_tensor *hidden);

// A model as it is read: the weights of its products in another dtype. `model` is a view, of m while that is there.
typedef struct hst_lm_lowered {
    hst_lm model;
    hst_sru sru;
} hst_lm_lowered;

// With HST_F32 it is m as it is. HST_ERROR_DTYPE for what is no dtype of weights, after the name of the function asked.
bool hst_lm_lower(const hst_lm *m, const char *asked, hst_dtype dtype, hst_lm_lowered *lowered);
void hst_lm_lowered_free(hst_lm_lowered *lowered);

#endif
