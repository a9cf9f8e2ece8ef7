// train.h: the trainer. It plans, steps, evaluates and saves, reports through a callback, and never prints.
//
//     hst_train_options o;
//     hst_train_defaults(&o, sizeof o);
//     o.steps = 500;
//     hst_trainer *trainer = hst_trainer_new(ctx, &o, text, held_out);
//     hst_trainer_run(trainer, "my-run", on_progress, NULL);
//     ... hst_trainer_model(trainer) ...
//     hst_trainer_free(trainer);
#ifndef HST_TRAIN_H
#define HST_TRAIN_H

#include "data/data.h"
#include "amp/amp.h"
#include "models/models.h"
#include "optim/scaling.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hst_norm_place { HST_NORM_BEFORE, HST_NORM_AFTER, HST_NORM_NONE } hst_norm_place;

typedef struct hst_train_options {
    size_t size; // sizeof(hst_train_options)
    // the model
    int64_t hidden;            // D, 256
    int layers;                // N, 4
    double dropout;            // on c between layers and on the output layer's input, 0
    bool tied;                 // output layer = embedding, false
    int64_t projection;        // width between a layer's two matrices where smaller than D, 0: one matrix
    hst_norm_place layer_norm; // in each layer: before its product, after its recurrence, or nowhere (and none before
                               // the output layer either), HST_NORM_BEFORE
    double highway_bias;       // initial bias of the reset gates, -2
    bool no_rescale, tanh;     // leave x as it is on its way around the layers; h from tanh(c); false
    // the data
    int64_t batch;      // B lanes, 16
    int64_t length;     // L symbols a lane and step, 64
    double fresh_share; // of the lanes that start a step from an empty state instead of the carried one, 0.2
    // how long: the first of these that is not 0
    int64_t steps;  // 0; the trainer fills it in
    double seconds; // 0: plan for a duration; speed is measured first, on a throw-away copy, and becomes a step count
    double epochs;  // 5
    // the optimizer
    hst_optimizer_kind optimizer; // HST_ADAMW
    double lr;                    // peak rate, 5e-3
    hst_schedule_kind schedule;   // HST_COSINE
    double warmup;                // share of the run, 0.02
    double floor;                 // share of the peak that the rate ends at, or does not fall below, 0.03
    double lr_step_every;         // of HST_STEP_DECAY: share of the run from one drop to the next, 0.3
    double lr_step_factor;        // of HST_STEP_DECAY: what a drop multiplies the rate by, 0.1
    double clip;                  // limit of the gradient's norm, 1; 0: none
    double weight_decay;          // on matrices; below 0, the default: 0.3 for AdamW, for the others, where it is part
                                  // of the gradient, 0; the trainer fills it in
    double momentum;              // of SGD, 0.9
    bool nesterov;                // of SGD, false
    double beta1, beta2, eps;     // of all but SGD, 0.9, 0.99, 1e-8
    int64_t accumulate;           // batches a step: their mean is the loss, 1
    double ema;                   // decay of the averaged weights that are evaluated and saved; 0, the default: none
    // reports
    int64_t eval_every; // steps; 0: eight times a run, or fewer in a short one; the plan fills it in
    int64_t save_every; // steps; 0: after each evaluation, at most once a minute, and at the end
    int64_t patience;   // evaluations in a row without a new best after which the run ends; 0: never
    uint64_t seed;      // 1
    // mixed precision; what is below 0, the default, is the preset's, or its scaler's, and filled in by the trainer
    hst_precision_kind precision;       // HST_FP32
    bool recurrence_f32;                // in autocast regions the layers hand on h in f32, not in 16 bits; false
    int op_list;                        // an hst_op_list, of a preset with a region
    int scaler;                         // an hst_scaler_profile
    double init_scale, growth, backoff; // as in hst_scaler_options
    int64_t growth_interval, hysteresis;
    bool consecutive_hysteresis; // false
    double min_scale, max_scale; // 0: none
    int64_t max_consecutive_skips;
} hst_train_options;

HST_API void hst_train_defaults(hst_train_options *options, size_t size);

// Sizes for a run of so many seconds with this context, by how fast it multiplies, which takes at most a fifth of a
// second to find out: hidden, layers, batch, length, dropout, lr and precision of *options; the others stay. `symbols`:
// how many the text has. false after an error.
HST_API bool hst_train_suggest(hst_context *ctx, double seconds, int64_t vocabulary, int64_t symbols,
                               hst_train_options *options);

// The bytes that a run with these options will hold, without its texts: an estimate, within a quarter, made before
// anything is taken. The pool may keep up to half as much again for reuse.
HST_API double hst_train_memory(const hst_train_options *options, int64_t vocabulary);

typedef enum hst_event {
    HST_EVENT_PLAN, // once, before step 1: steps, parameters
    HST_EVENT_STEP, // after each step, and after each that was skipped
    HST_EVENT_EVAL, // after each evaluation
    HST_EVENT_SAVE, // after each file is in place: path
    HST_EVENT_BUSY, // now and then while something takes long: only to ask whether to go on
    HST_EVENT_END
} hst_event;

typedef struct hst_progress {
    hst_event event;
    int64_t step, steps;      // done, planned
    int64_t eval_every;       // planned
    int64_t parameters;       // numbers in the model
    double epoch;             // how often the text has been read
    double loss;              // nats a symbol, of this step
    double smooth_loss;       // running mean over about 50 steps
    double rate;              // learning rate of this step
    double norm;              // of the gradients before clipping
    double tokens_per_second; // over the last seconds, evaluations left out
    double seconds;           // since hst_trainer_run began
    double validation;        // nats a symbol, of the last evaluation; NaN before the first
    double scale;             // by which this step's loss was multiplied
    hst_step_result result;   // whether this step was one: a skipped one changed no weight, and is not counted
    int64_t skipped;          // how many were skipped so far
    const char *scaler;       // what the scaler did after this step, in words; "" without one
    double best;              // the lowest of them
    int64_t best_step;        // when that was
    const char *path;         // HST_EVENT_SAVE
} hst_progress;

typedef struct hst_trainer hst_trainer;

// Makes a model (random weights from options->seed), an optimizer and a stream over `text`. `held_out` may be NULL: no
// validation. The vocabulary is that of the text's tokenizer, bytes where it was not encoded. Both corpora must outlive
// the trainer; the context's random stream is its own while it steps. NULL after recording an error: a text too small
// for batch x length, an option out of range.
HST_API hst_trainer *hst_trainer_new(hst_context *ctx, const hst_train_options *options, const hst_corpus *text,
                                     const hst_corpus *held_out);
// The same with the weights and the shape of a model file instead of random ones, to train them further on another
// text, which must be encoded with the model's tokenizer. The file's are hidden, layers, tied, projection, layer_norm,
// highway_bias, no_rescale and tanh; the averages start from its weights. Where the file holds them in 16 bits the log
// callback is warned that masters were made of these.
HST_API hst_trainer *hst_trainer_new_from(hst_context *ctx, const char *path, const hst_train_options *options,
                                          const hst_corpus *text, const hst_corpus *held_out);
// The trainer of a run that was stopped or killed, from its last.safetensors: weights, optimizer, carried state, place
// in the text and settings. Given the same texts it ends with the same bytes as the run that was never stopped.
// HST_ERROR_VALUE for another text or held-out text, or for one where there was none.
HST_API hst_trainer *hst_trainer_resume(hst_context *ctx, const char *path, const hst_corpus *text,
                                        const hst_corpus *held_out);
// The same in another precision: of `precision` only the fields of mixed precision are looked at. Masters, optimizer
// and averages go on as they are; a loss scaler of another profile, or whose options do not allow the scale that it was
// at, starts anew. The log callback is told.
HST_API hst_trainer *hst_trainer_resume_in(hst_context *ctx, const char *path, const hst_train_options *precision,
                                           const hst_corpus *text, const hst_corpus *held_out);
// The settings of the run that a checkpoint is of, into *options, which hst_train_defaults has prepared. false where
// the file holds a model only, which is no error, and after an error.
HST_API bool hst_trainer_read_options(hst_context *ctx, const char *path, hst_train_options *options);
// The kernels that a run's checkpoint was made with, as hst_isa names them, into isa[size]; "" where an older file does
// not say. "unsafe": with unsafe_accumulation, and only a context opened so goes on to the same bytes. false as above.
HST_API bool hst_trainer_read_isa(hst_context *ctx, const char *path, char *isa, size_t size);
HST_API void hst_trainer_free(hst_trainer *trainer); // NULL is accepted

// Runs to the end of the plan. Files go to `folder`, which must exist (NULL: none): model.safetensors, the best by
// validation (without validation, the newest), last.safetensors, the newest, and previous.safetensors, the one before
// it. `progress` returns false to stop: the run then saves and returns HST_CANCELLED, which is the context's error
// until hst_clear_error. A loss that is not finite ends it with HST_ERROR_DIVERGED and overwrites nothing.
HST_API hst_status hst_trainer_run(hst_trainer *trainer, const char *folder,
                                   bool (*progress)(const hst_progress *progress, void *user), void *user);

// One training step, for programs with a loop of their own (steps or epochs must be given). *loss, if not NULL, gets
// nats a symbol. With a loss scaler it may be a step that is skipped, which is no error and does not count: see
// hst_trainer_result, that of the last call.
HST_API hst_status hst_trainer_step(hst_trainer *trainer, double *loss);
HST_API hst_step_result hst_trainer_result(const hst_trainer *trainer);

HST_API hst_lm *hst_trainer_model(hst_trainer *trainer);                    // owned by the trainer
HST_API hst_scaler *hst_trainer_scaler(hst_trainer *trainer);               // the same; NULL where there is none
HST_API hst_ema *hst_trainer_ema(hst_trainer *trainer);                     // the same; NULL where there is none
HST_API const hst_train_options *hst_trainer_options(hst_trainer *trainer); // steps is filled in once planned

// The model's loss on a text of n symbols, each predicted from those before it: n - 1 predictions. reset 0: one state
// carried through; reset N: an empty state every N predictions. *nats gets the mean, natural logarithm; losses[n - 1],
// if not NULL, each of them. HST_ERROR_DIVERGED where the mean is not finite.
HST_API hst_status hst_lm_evaluate(const hst_lm *model, hst_symbols text, int64_t reset, float *losses, double *nats);
// The same with products that read the weights in f32, f16 or bf16, rounded once, as hst_lm_generate does if its
// sampling's `weights` say so. HST_ERROR_DTYPE for another dtype.
HST_API hst_status hst_lm_evaluate_as(const hst_lm *model, hst_dtype weights, hst_symbols text, int64_t reset,
                                      float *losses, double *nats);

#ifdef __cplusplus
}
#endif
#endif
