// scaling.h: a training step in mixed precision, in the order in which its parts must come.
//
//     hst_scaled_backward(scaler, 1, &list, loss);             // once for each micro-batch
//     hst_unscale_gradients(list, &norm);                      // unscales, checks and measures in one pass
//     hst_clip_gradients(list, 1.0, &factor);
//     hst_step_result r = hst_scaled_step(scaler, optimizer, rate, factor);
//     hst_scaler_update(scaler);                               // amp/scaler.h
//     if (r == HST_STEPPED) step++;                            // the schedule does not go on without a step
//
// A list remembers by what its gradients are multiplied, so the scale may change at any time. All that is said here
// holds without a scaler too (NULL, or profile none): the scale is 1, and then no gradient is rewritten.
#ifndef HST_SCALING_H
#define HST_SCALING_H

#include "amp/scaler.h"
#include "optim/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

// hst_backward of `loss` times the scaler's scale, into the gradients of `count` lists; each list notes scale and
// scaler. A loss of several elements counts as their sum. Not the loss is multiplied but the gradient with which
// backward begins, in f32, so that no loss is too large for the scale; where the loss is f16, in which that gradient
// must fit, the scale used is 2^15 at most. A loss that is not finite makes the next step of these lists a skipped one.
// HST_ADD to gradients with another scale, or of another scaler, first unscales what is there, checks it for the
// scaler it is of, and brings it to the new scale. The scaler must outlive the step. Errors as hst_backward, and of
// hst_unscale_gradients.
HST_API hst_status hst_scaled_backward(hst_scaler *scaler, int count, hst_parameters *const *lists, hst_tensor *loss);

// A step takes the mean of this many hst_scaled_backward calls (one for each micro-batch) and fails after any other
// number of them. 0, as at first: the sum of any number. They are counted from here, and from each step: what an
// abandoned step has accumulated is forgotten. HST_ERROR_VALUE below 0.
HST_API hst_status hst_set_accumulation(hst_parameters *list, int64_t batches);

// In one pass: divides the gradients by the scale noted for them, looks for any that is not finite, and gives the norm
// of what the step will take (with hst_set_accumulation the mean) in *norm, if norm is not NULL. Only gradients with a
// scale other than 1 are rewritten, once: a second call before the next backward gives the same norm. An overflow is no
// error but an infinite or NaN norm; the scaler is told of it. HST_ERROR_STATE after the step, until the next backward;
// HST_ERROR_DTYPE, naming the parameter, for a 16-bit gradient with a scale.
HST_API hst_status hst_unscale_gradients(hst_parameters *list, double *norm);

typedef enum hst_clip_result {
    HST_CLIP_SHORT,      // the norm is within the limit: *factor is 1
    HST_CLIP_CUT,        // *factor is limit / norm
    HST_CLIP_NOT_FINITE, // the norm is infinite or NaN: *factor is 1, and the step will be skipped
    HST_CLIP_FAILED      // an error was recorded, and *factor is 1
} hst_clip_result;

// *factor is what hst_scaled_step has to multiply the gradients by so that their norm is at most `limit` (<= 0: no
// limit). The gradients stay as they are in every case. HST_ERROR_STATE for gradients that are still scaled.
HST_API hst_clip_result hst_clip_gradients(hst_parameters *list, double limit, double *factor);

typedef enum hst_step_result {
    HST_STEPPED,
    HST_SKIPPED_OVERFLOW, // a gradient is not finite
    HST_SKIPPED_NAN_LOSS, // the loss was not, before it was scaled
    HST_NO_GRADIENTS,     // no backward has reached the list since the last step
    HST_STEP_FAILED       // an error was recorded
} hst_step_result;

// "stepped", "overflow", "nan_loss", "no_gradients", "failed"; NULL for what is no result.
HST_API const char *hst_step_result_name(hst_step_result result);

// hst_unscale_gradients, if that was not done, and hst_optimizer_step: only where all gradients are finite. A skipped
// step changes no weight, no state of the optimizer and not its count. The scaler is told of what was found; with
// several optimizers each skips for its own gradients only, and one hst_scaler_update follows the steps of all.
// Gradients written by hand are none; those of a plain hst_backward have scale 1, and an overflow among them is told to
// `scaler`. HST_ERROR_VALUE for a rate or factor that is not finite.
HST_API hst_step_result hst_scaled_step(hst_scaler *scaler, hst_optimizer *optimizer, double rate, double factor);

#ifdef __cplusplus
}
#endif
#endif
