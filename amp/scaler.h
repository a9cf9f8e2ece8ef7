// scaler.h: by what the loss is multiplied, so that small gradients survive in f16.
//
//     hst_scaler_options o = hst_scaler_defaults(HST_SCALER_TORCH);
//     hst_scaler *scaler = hst_scaler_new(ctx, &o);
//     ...the loss times hst_scaler_scale(scaler), backward, the gradients divided by it...
//     hst_scaler_report(scaler, overflow ? HST_FOUND_OVERFLOW : HST_FOUND_FINITE, "layers.0.weight");
//     hst_scaler_update(scaler); // one step of its state machine
//
// This is the state machine alone. What binds it to parameters and optimizers, and reports to it, is optim/scaling.h.
#ifndef HST_SCALER_H
#define HST_SCALER_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whose scaler it is. Each reproduces that system's scales step by step; README.md has the machines.
typedef enum hst_scaler_profile {
    HST_SCALER_NONE,            // 1
    HST_SCALER_STATIC,          // a constant
    HST_SCALER_TORCH,           // torch.cuda.amp.GradScaler
    HST_SCALER_APEX,            // apex.amp.scaler; with hysteresis and `consecutive`, its update_scale_hysteresis
    HST_SCALER_DEEPSPEED_ZERO,  // DeepSpeed's DynamicLossScaler, as ZeRO uses it
    HST_SCALER_DEEPSPEED_FUSED, // DeepSpeed's FP16_Optimizer, without ZeRO
    HST_SCALER_MXNET            // mxnet.contrib.amp, whose scales come one step late
} hst_scaler_profile;

typedef struct hst_scaler_options {
    hst_scaler_profile profile;
    double init_scale;      // the first one, positive
    double growth, backoff; // above 1; between 0 and 1
    int64_t interval;       // growth after so many steps without an overflow, at least 1
    int64_t hysteresis;     // overflows that it takes to lower the scale, at least 1; torch, apex and deepspeed_zero
                            // have it, with the others it is 1
    bool consecutive;       // every step without an overflow fills hysteresis up again, not only growth
    double min_scale;       // it is not lowered below; 0: no floor
    double max_scale;       // it does not grow above; INFINITY: no cap
    int64_t max_consecutive_skips; // so many in a row are an error; 0: no limit
} hst_scaler_options;

// A profile with its system's numbers, and halfstep's own floor 2^-14, cap 2^24 and limit 64, which no golden trace
// touches. deepspeed_fused starts at 2^32, which is then also its cap.
HST_API hst_scaler_options hst_scaler_defaults(hst_scaler_profile profile);

// "none", "static", "torch", "apex", "deepspeed_zero", "deepspeed_fused", "mxnet"; NULL where there is no such profile.
HST_API const char *hst_scaler_name(hst_scaler_profile profile);
HST_API bool hst_scaler_find(const char *name, hst_scaler_profile *profile); // false where there is no such name

// options NULL: torch with its defaults. Scales are f32 numbers; the options are rounded to them. none and static look
// at init_scale and max_consecutive_skips only, and none's init_scale must be 1. NULL after recording HST_ERROR_VALUE
// for an option out of its range.
typedef struct hst_scaler hst_scaler;
HST_API hst_scaler *hst_scaler_new(hst_context *ctx, const hst_scaler_options *options);
HST_API void hst_scaler_free(hst_scaler *scaler); // NULL is accepted

// In all that follows a NULL scaler is none: its scale is 1, and a report or an update of it does nothing.

HST_API hst_context *hst_scaler_context(const hst_scaler *scaler);

// What the next loss is to be multiplied by; never 0, never infinite.
HST_API double hst_scaler_scale(const hst_scaler *scaler);

// What a look at gradients found, the later the graver.
typedef enum hst_finding {
    HST_FOUND_NO_GRADIENTS, // nothing to look at
    HST_FOUND_FINITE,
    HST_FOUND_NAN_LOSS, // the loss itself, before it was multiplied, is not finite; no scale is to blame
    HST_FOUND_OVERFLOW  // a gradient is not finite
} hst_finding;

// Several reports between two updates, of several optimizers, say, are one: the gravest. `where` is the name of the
// first gradient that is not finite, for the sentence of an error, or NULL.
HST_API void hst_scaler_report(hst_scaler *scaler, hst_finding finding, const char *where);

// One step of the state machine, by what was reported since the last. A NaN loss is a skipped step that leaves scale
// and tracker alone; no gradients are no step. HST_ERROR_STATE where nothing was reported. HST_ERROR_DIVERGED, with the
// gradient's name, the scale and the step, for an overflow
//   - at min_scale, if the profile is torch, mxnet or deepspeed_zero (the last once its hysteresis is used up); apex
//     and deepspeed_fused stay there, as their systems do;
//   - of none, which has nothing to lower;
// and for the last of max_consecutive_skips. All has been counted then, and training may go on after hst_clear_error.
HST_API hst_status hst_scaler_update(hst_scaler *scaler);

// What an update did to the scale.
typedef enum hst_scaler_action {
    HST_SCALER_STARTED,  // no update yet
    HST_SCALER_KEPT,     // no overflow, and no growth yet
    HST_SCALER_RAISED,   // after `interval` steps without an overflow
    HST_SCALER_AT_CAP,   // growth was due, and the scale cannot
    HST_SCALER_LOWERED,  // for an overflow
    HST_SCALER_HELD,     // an overflow, which hysteresis let pass
    HST_SCALER_AT_FLOOR, // an overflow, and the scale cannot be lowered
    HST_SCALER_CONSTANT, // an overflow of a static scale
    HST_SCALER_NAN_LOSS  // the loss was not finite
} hst_scaler_action;

// All that changes, for checkpoints: an hst_scaler_new with the same options and this state goes on bit for bit. A
// profile uses only some of the fields; the others keep their first values.
typedef struct hst_scaler_state {
    hst_scaler_profile profile;
    hst_scaler_action action;         // the last update's
    float scale, before;              // hst_scaler_scale; what it was before the last update
    float next_scale;                 // mxnet: the scale after the next update; with the others the same as scale
    int64_t tracker;                  // torch, apex, mxnet: steps without an overflow
    int64_t hysteresis_left;          // overflows that it still takes to lower the scale
    int64_t iteration, last_overflow; // deepspeed: updates; which of them, from 0, had the last overflow, or -1
    int64_t steps, skipped, consecutive_skips; // updates with and without a step; the latter in a row
} hst_scaler_state;

HST_API hst_scaler_state hst_scaler_get_state(const hst_scaler *scaler); // of NULL: all zero, with scale 1

// Also forgets what was reported since the last update. HST_ERROR_VALUE for a state that this scaler cannot have: it is
// another profile's, or damaged. A tracker beyond `interval` is fine: the next step without an overflow grows.
HST_API hst_status hst_scaler_set_state(hst_scaler *scaler, const hst_scaler_state *state);

// The last update in words, "lowered 65536 to 32768" or "kept 65536, hysteresis 1 of 2 used", into text[size], as
// snprintf does.
HST_API size_t hst_scaler_describe(const hst_scaler *scaler, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
