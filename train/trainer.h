// trainer.h: the insides of the trainer, for this folder.
#ifndef HST_TRAINER_H
#define HST_TRAINER_H

#include "models/config.h"
#include "models/language_model.h"
#include "models/language_model_file.h"
#include "train/train.h"

struct hst_trainer {
    hst_context *ctx;
    hst_train_options options; // steps is filled in by the plan
    const hst_corpus *text, *held_out;
    hst_lm *model;
    hst_optimizer *optimizer;
    hst_scaler *scaler; // NULL: none
    hst_ema *ema;       // NULL: none
    hst_stream *stream;
    hst_tensor *ids, *targets; // (L, B)
    hst_tensor *state;         // (N, B, D): what the lanes carry from step to step
    hst_tensor *carried;       // the same within a step, from batch to batch
    bool (*go_on)(void *user); // asked between the batches of a step, if not NULL; false: it is as if not begun
    void *user;
    double loss, norm, rate, scale;         // of the last step
    hst_step_result result;                 // the same
    char scaler_did[HST_FIELD_TEXT_SIZE];   // what the scaler did after it
    hst_scaler_state scaler_state;          // the scaler's, as files hold it
    char text_sum[HST_FIELD_TEXT_SIZE];     // SHA-256 of text, once it was needed: a run goes on with the same
    char held_out_sum[HST_FIELD_TEXT_SIZE]; // the same of held_out; "": there is none
    char isa[HST_FIELD_TEXT_SIZE];          // of the kernels that the last checkpoint was made with
    bool saved;                             // in this run: the folder's last checkpoint is its own
    bool ends_with_text;                    // the stream knows its end; runs of before this was so do not
    struct {                                // what the run has got to; with the tensors, all that it needs to go on
        int64_t step;                       // steps done
        int64_t skipped;                    // steps that were skipped
        int64_t evaluated, best_step;       // the steps of the last evaluation and of the best
        int64_t since_best;                 // evaluations after the best
        double validation, best;            // their losses; NaN before the first
        double smooth_loss;                 // a running mean
    } done;
};

// The options as hst_trainer_new takes them, defaults where the program knows fewer; false after an error.
bool hst_trainer_take_options(hst_context *ctx, const hst_train_options *options, hst_train_options *taken);

// hst_trainer_new with a model that the options alone do not describe, and its weights from a file, if that is not
// NULL.
hst_trainer *hst_trainer_make(hst_context *ctx, const hst_train_options *options, const hst_lm_config *model,
                              const char *path, const hst_safetensors *file, const hst_corpus *text,
                              const hst_corpus *held_out);

bool hst_can_evaluate(const hst_corpus *held_out); // there is one, of at least two symbols

// The model that options describe, of bytes if tokenizer is NULL; and a model's shape as options, all but the dropout,
// which is only for training.
hst_lm_config hst_train_model(const hst_train_options *options, const hst_tokenizer *tokenizer);
void hst_train_take_model(const hst_lm_config *config, hst_train_options *options);

// hst_lm_evaluate's predictions of one lane in one forward pass.
enum { HST_EVALUATED_CHUNK = 1024 };

// hst_lm_evaluate, for as long as go_on says so; what *nats is after a refusal is nobody's loss.
hst_status hst_evaluate_while(const hst_lm *model, hst_symbols text, int64_t reset, float *losses, double *nats,
                              bool (*go_on)(void *user), void *user);

// The batches read so far, for steps and for what was skipped.
static inline int64_t hst_batches_read(const hst_trainer *t) {
    return (t->done.step + t->done.skipped) * t->options.accumulate;
}

// Mixed precision (precision.c). Fills in what is left to the preset; false after an error. The fields of mixed
// precision of other options. The scaler and what operations see of the parameters, of a trainer whose model is there.
// The region in which its model runs.
bool hst_fill_in_precision(hst_context *ctx, hst_train_options *options);
void hst_take_precision(const hst_train_options *from, hst_train_options *to);
void hst_make_precision(hst_trainer *trainer);
void hst_precision_begin(const hst_trainer *trainer);
void hst_precision_end(const hst_trainer *trainer);

double hst_seconds(void); // a clock that only goes forward

// Writes folder/last.safetensors, the last one becoming previous.safetensors; or folder/model.safetensors.
hst_status hst_trainer_save_last(hst_trainer *trainer, const char *folder, char *path, size_t path_size);
hst_status hst_trainer_save_best(hst_trainer *trainer, const char *folder, char *path, size_t path_size);

#endif
