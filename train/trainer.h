// trainer.h: the insides of the trainer, for this folder.
#ifndef HST_TRAINER_H
#define HST_TRAINER_H

#include "models/language_model.h"
#include "train/train.h"

struct hst_trainer {
    hst_context *ctx;
    hst_train_options options; // steps is filled in by the plan
    const hst_corpus *text, *held_out;
    hst_lm *model;
    hst_optimizer *optimizer;
    hst_stream *stream;
    hst_tensor *ids, *targets;        // (L, B)
    hst_tensor *state;                // (N, B, D): what the lanes carry from step to step
    int64_t step;                     // steps done
    double loss, norm, rate;          // of the last step
    double smooth_loss, step_seconds; // running means
    double validation, best;          // NaN before the first evaluation
    int64_t best_step;
    int64_t evaluated;  // the step of the last evaluation
    int64_t text_bytes; // of text: a run goes on with the same
};

// hst_lm_evaluate, for as long as go_on says so; what *nats is after a refusal is nobody's loss.
hst_status hst_evaluate_while(const hst_lm *model, const uint8_t *bytes, int64_t count, int64_t reset, double *nats,
                              bool (*go_on)(void *user), void *user);

double hst_seconds(void); // a clock that only goes forward

// Writes folder/last.safetensors, the last one becoming previous.safetensors; or folder/model.safetensors.
hst_status hst_trainer_save_last(hst_trainer *trainer, const char *folder, char *path, size_t path_size);
hst_status hst_trainer_save_best(hst_trainer *trainer, const char *folder, char *path, size_t path_size);

#endif
