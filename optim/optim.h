// optim.h: parameters and what moves them.
//
//     hst_parameters *list = hst_parameters_new(ctx);
//     hst_tensor *w = hst_parameter(list, "w", hst_uniform(ctx, HST_F32, HST_SHAPE(4, 4), -1, 1));
//     hst_optimizer *adam = hst_optimizer_new(list, NULL);
//     ...forward, hst_backward...
//     double norm = hst_gradient_norm(list);
//     hst_optimizer_step(adam, hst_schedule_rate(&schedule, step), hst_clip_factor(norm, 1.0));
#ifndef HST_OPTIM_H
#define HST_OPTIM_H

#include "autograd/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

// An ordered list of named parameters: fp32 masters with fp32 gradients.
typedef struct hst_parameters hst_parameters;

HST_API hst_parameters *hst_parameters_new(hst_context *ctx); // free with hst_parameters_free; NULL after an error
HST_API void hst_parameters_free(hst_parameters *list); // releases the tensors, shown as they are; NULL is accepted

// Adds a parameter: the list keeps `value` (f32, contiguous) and attaches an fp32 gradient (HST_WRITE). The name is
// copied and must be new. Tensors of two or more dimensions decay, others do not. Returns value.
HST_API hst_tensor *hst_parameter(hst_parameters *list, const char *name, hst_tensor *value);

// Parameter i, from 0 to hst_parameter_count - 1; NULL where there is none.
HST_API int hst_parameter_count(const hst_parameters *list);
HST_API const char *hst_parameter_name(const hst_parameters *list, int i);
HST_API hst_tensor *hst_parameter_value(const hst_parameters *list, int i);
HST_API int64_t hst_parameter_elements(const hst_parameters *list); // of all together
HST_API hst_context *hst_parameters_context(const hst_parameters *list);

// From now on operations see every parameter of the list in `dtype`: HST_F16 or HST_BF16, a shadow of the fp32 master
// that is rounded again whenever the master has changed, by the optimizer's step in the same pass; or HST_F32, as at
// first, the master itself. Gradients go to the master, in fp32, and files hold the masters. With no_master the
// parameters have no other value than the 16-bit one: they are rounded now and after each step, so that updates below
// half a unit in the last place are lost; it is there to show why masters are. HST_ERROR_DTYPE for other dtypes.
HST_API hst_status hst_show_parameters(hst_parameters *list, hst_dtype dtype, bool no_master);

// The 2-norm of all gradients together, summed in double. NaN or infinite where a gradient is.
HST_API double hst_gradient_norm(const hst_parameters *list);

// What gradients must be multiplied by so that their norm is at most `limit`: min(1, limit / norm); NaN for NaN. limit
// <= 0: 1.
HST_API double hst_clip_factor(double norm, double limit);

// What backward does with the gradients of all parameters that have one, in the buffers that are there: HST_WRITE, as
// it is at first, or HST_ADD. A gradient over several batches: the first one's backward with HST_WRITE, the others'
// with HST_ADD. HST_WRITE gives up what was accumulated, and what scaling.h knows of it: a step comes before. It is
// HST_ERROR_VALUE for any other request.
HST_API hst_status hst_request_gradients(hst_parameters *list, hst_request request);

// ---- optimizers ----

typedef enum hst_optimizer_kind {
    HST_ADAMW, // Loshchilov & Hutter 2019: decay beside the step and times the rate
    HST_SGD,   // with momentum, plain or Nesterov's; decay in the gradient
    HST_ADAM,  // Kingma & Ba 2015; decay in the gradient
    HST_RADAM  // Liu et al. 2020: the first steps, whose v knows too little, are not divided by it; decay in the
               // gradient
} hst_optimizer_kind;

typedef struct hst_optimizer_options {
    hst_optimizer_kind kind;
    double beta1, beta2, eps; // of all but SGD: 0.9, 0.99, 1e-8
    double momentum;          // of SGD, 0.9; 0: none
    bool nesterov;            // of SGD, which needs momentum for it; false
    double decay;             // on matrices: AdamW 0.01, the others 0
} hst_optimizer_options;

// A kind with its defaults, above.
HST_API hst_optimizer_options hst_optimizer_defaults(hst_optimizer_kind kind);

// "adamw", "sgd", "adam", "radam"; NULL where there is no such kind.
HST_API const char *hst_optimizer_name(hst_optimizer_kind kind);
HST_API bool hst_optimizer_find(const char *name, hst_optimizer_kind *kind); // false where there is no such name

// options NULL: AdamW with its defaults. Only what the kind uses is looked at. The list must outlive the optimizer and
// get no further parameters. NULL after recording HST_ERROR_VALUE for an option out of its range.
typedef struct hst_optimizer hst_optimizer;
HST_API hst_optimizer *hst_optimizer_new(hst_parameters *list, const hst_optimizer_options *options);
HST_API void hst_optimizer_free(hst_optimizer *optimizer); // NULL is accepted

// One update of every parameter at learning rate `rate`, its gradient first multiplied by `factor`. A parameter whose
// gradient was taken away (hst_attach_grad with HST_NULL) is frozen. Of one whose gradient is row-sparse
// (hst_attach_grad_rows) only the gradient's rows are updated, weights and state, and no others decay: see README.md.
HST_API hst_status hst_optimizer_step(hst_optimizer *optimizer, double rate, double factor);

HST_API hst_parameters *hst_optimizer_parameters(const hst_optimizer *optimizer); // that it moves

// The optimizer's state, for checkpoints: the step count and f32 tensors that it owns, named "adam.m.<parameter>",
// "adam.v.<parameter>" or "sgd.momentum.<parameter>". i runs from 0 to hst_optimizer_state_count - 1.
HST_API int64_t hst_optimizer_steps(const hst_optimizer *optimizer);
HST_API void hst_optimizer_set_steps(hst_optimizer *optimizer, int64_t steps);
HST_API int hst_optimizer_state_count(const hst_optimizer *optimizer);
HST_API hst_tensor *hst_optimizer_state(const hst_optimizer *optimizer, int i, char *name, size_t name_size);

// ---- averaged weights ----

// An exponential moving average of every parameter (Polyak & Juditsky 1992; as TensorFlow's ExponentialMovingAverage),
// in f32. It starts as the weights are, and update t, from 1, makes
//     average = d average + (1 - d) w,   d = min(decay, (1 + t) / (10 + t)),
// so that the early average follows the weights closely and forgets where they started.
typedef struct hst_ema hst_ema;

// decay in [0, 1). The list must outlive it and get no further parameters. NULL after recording an error.
HST_API hst_ema *hst_ema_new(hst_parameters *list, double decay);
HST_API void hst_ema_free(hst_ema *ema); // NULL is accepted

// Once after each hst_optimizer_step. HST_ERROR_STATE while the averages are swapped in.
HST_API hst_status hst_ema_update(hst_ema *ema);

// Exchanges every parameter's value with its average, exactly, to evaluate or save the averages; a second call
// exchanges them back, also while an error stands. No training step in between. NULL is accepted.
HST_API void hst_ema_swap(hst_ema *ema);

// For checkpoints: the number of updates, and the average of parameter i of the list, "ema.<parameter>", owned by
// `ema`.
HST_API int64_t hst_ema_updates(const hst_ema *ema);
HST_API void hst_ema_set_updates(hst_ema *ema, int64_t updates);
HST_API int hst_ema_state_count(const hst_ema *ema);
HST_API hst_tensor *hst_ema_state(const hst_ema *ema, int i, char *name, size_t name_size);

// ---- schedules ----

// u runs from 0, after the warm-up, to 1 at the end: u = (step - warmup) / (steps - warmup).
typedef enum hst_schedule_kind {
    HST_COSINE,       // peak (floor + (1 - floor) (1 + cos(pi u)) / 2)
    HST_LINEAR,       // peak (floor + (1 - floor) (1 - u))
    HST_CONSTANT,     // peak
    HST_INVERSE_SQRT, // peak sqrt(w / (step + 1)), w = max(warmup, 1), at least floor peak
    HST_STEP_DECAY    // peak factor^k, at least floor peak; k = step / every, whole: how often `every` steps are over
} hst_schedule_kind;

typedef struct hst_schedule {
    hst_schedule_kind kind;
    double peak;    // the highest rate
    int64_t warmup; // steps of linear rise; the first step has peak / warmup
    int64_t steps;  // the whole run
    double floor;   // the share of peak that the rate ends at, or does not fall below
    int64_t every;  // of HST_STEP_DECAY: steps from one drop to the next, counted from the start of the run
    double factor;  // of HST_STEP_DECAY: what a drop multiplies the rate by
} hst_schedule;

// A cosine from 1, without a warm-up, to 0; a drop is to a tenth. steps, and `every`, are left to set.
static inline hst_schedule hst_schedule_defaults(void) {
    hst_schedule s = {HST_COSINE, 1, 0, 0, 0, 0, 0.1};
    return s;
}

// The rate of a step, which counts from 0; after `steps` it stays at the end's where the schedule has one.
HST_API double hst_schedule_rate(const hst_schedule *schedule, int64_t step);

// "cosine", "linear", "constant", "invsqrt", "step"; NULL where there is no such kind.
HST_API const char *hst_schedule_name(hst_schedule_kind kind);
HST_API bool hst_schedule_find(const char *name, hst_schedule_kind *kind); // false where there is no such name

#ifdef __cplusplus
}
#endif
#endif
