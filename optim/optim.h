// optim.h: parameters and what moves them.
//
//     hst_parameters *list = hst_parameters_new(ctx);
//     hst_tensor *w = hst_parameter(list, "w", hst_uniform(ctx, HST_F32, HST_SHAPE(4, 4), -1, 1));
//     hst_optimizer *adam = hst_adamw(list, hst_adamw_defaults());
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
HST_API void hst_parameters_free(hst_parameters *list);       // releases the tensors; NULL is accepted

// Adds a parameter: the list keeps `value` (f32, contiguous) and attaches an fp32 gradient (HST_WRITE). The name is
// copied and must be new. Tensors of two or more dimensions decay, others do not. Returns value.
HST_API hst_tensor *hst_parameter(hst_parameters *list, const char *name, hst_tensor *value);

HST_API int hst_parameter_count(const hst_parameters *list);
HST_API const char *hst_parameter_name(const hst_parameters *list, int i);
HST_API hst_tensor *hst_parameter_value(const hst_parameters *list, int i);
HST_API int64_t hst_parameter_elements(const hst_parameters *list); // of all together
HST_API hst_context *hst_parameters_context(const hst_parameters *list);

// The 2-norm of all gradients together, summed in double. NaN or infinite where a gradient is.
HST_API double hst_gradient_norm(const hst_parameters *list);

// What gradients must be multiplied by so that their norm is at most `limit`: min(1, limit / norm); NaN for NaN. limit
// <= 0: 1.
HST_API double hst_clip_factor(double norm, double limit);

// ---- optimizers ----

typedef struct hst_optimizer hst_optimizer;

typedef struct hst_adamw_options {
    double beta1, beta2, eps, decay;
} hst_adamw_options;
static inline hst_adamw_options hst_adamw_defaults(void) {
    hst_adamw_options o = {0.9, 0.99, 1e-8, 0.01};
    return o;
}
typedef struct hst_sgd_options {
    double momentum, decay;
} hst_sgd_options;

// AdamW (Loshchilov & Hutter 2019), decay decoupled and times the rate; SGD with optional momentum, decay in the
// gradient. The list must outlive the optimizer and get no further parameters. NULL after recording an error.
HST_API hst_optimizer *hst_adamw(hst_parameters *list, hst_adamw_options options);
HST_API hst_optimizer *hst_sgd(hst_parameters *list, hst_sgd_options options);
HST_API void hst_optimizer_free(hst_optimizer *optimizer); // NULL is accepted

// One update of every parameter at learning rate `rate`, its gradient first multiplied by `factor`. A parameter whose
// gradient was taken away (hst_attach_grad with HST_NULL) is frozen.
HST_API hst_status hst_optimizer_step(hst_optimizer *optimizer, double rate, double factor);

// The optimizer's state, for checkpoints: the step count and, under names like "adam.m.<parameter>", f32 tensors that
// it owns. i runs from 0 to hst_optimizer_state_count - 1.
HST_API int64_t hst_optimizer_steps(const hst_optimizer *optimizer);
HST_API void hst_optimizer_set_steps(hst_optimizer *optimizer, int64_t steps);
HST_API int hst_optimizer_state_count(const hst_optimizer *optimizer);
HST_API hst_tensor *hst_optimizer_state(const hst_optimizer *optimizer, int i, char *name, size_t name_size);

// ---- schedules ----

typedef struct hst_schedule {
    double peak;    // the highest rate
    int64_t warmup; // steps of linear rise; the first step has peak / warmup
    int64_t steps;  // the whole run
    double floor;   // the share of peak that the cosine ends at
} hst_schedule;

// Linear warm-up, then half a cosine from peak to floor * peak at step `steps` (step counts from 0).
HST_API double hst_schedule_rate(const hst_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
