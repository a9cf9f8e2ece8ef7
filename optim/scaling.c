// scaling.c: gradients of scaled losses: backward, unscaling, clipping, the step.
#include "optim/scaling.h"

#include <math.h>
#include "optim/parameter.h"

// ---- the gradients of one parameter ----

// By what they are multiplied. A backward that this file does not know of was not scaled.
static double scale_of(const hst_parameter_item *p) { return p->pass == p->value->pass ? p->scale : 1; }
static hst_scaler *scaler_of(const hst_parameter_item *p) { return p->pass == p->value->pass ? p->scaler : NULL; }

static void note(hst_parameter_item *p, hst_scaler *scaler, double scale) {
    p->scaler = scaler;
    p->scale = scale;
    p->pass = p->value->pass;
}

// Multiplies them in place, if there is anything to multiply; *sum is that of their squares then.
static bool multiply(hst_parameters *list, const hst_parameter_item *p, double factor, double *sum) {
    hst_context *ctx = list->ctx;
    hst_tensor *g = hst_gradient_of(p->value);
    if (factor == 1) return ctx->backend->square_sum(ctx, &(hst_square_sum_args){hst_count(g), hst_source_of(g), sum});
    if (g->dtype != HST_F32) {
        hst_fail(ctx, HST_ERROR_DTYPE,
                 "hst_unscale_gradients: the gradient of %s is %s; that of a scaled loss must be f32, or unscaling "
                 "would round it",
                 p->name, hst_dtype_name(g->dtype));
        return false;
    }
    hst_bump(g);
    return ctx->backend->unscale(ctx, &(hst_unscale_args){hst_count(g), (hst_real *)hst_raw(g), factor, sum});
}

// Unscales them and tells their scaler; *sum is that of their squares. Squares of f32 add up in double without
// overflow, so the sum is finite where all of them are.
static bool unscale(hst_parameters *list, int i, double *sum) {
    hst_parameter_item *p = &list->items[i];
    if (!multiply(list, p, (double)(float)(1 / scale_of(p)), sum)) return false;
    bool overflow = !isfinite(*sum);
    hst_finding finding = list->window.nan_loss ? HST_FOUND_NAN_LOSS
                          : p->overflowed       ? HST_FOUND_NO_GRADIENTS
                          : overflow            ? HST_FOUND_OVERFLOW
                                                : HST_FOUND_FINITE;
    hst_scaler_report(scaler_of(p), finding, p->name);
    if (finding == HST_FOUND_OVERFLOW && !scaler_of(p) && !list->window.unscaled) list->window.unscaled = p->name;
    p->overflowed |= overflow;
    list->window.overflow |= overflow;
    note(p, NULL, 1);
    return true;
}

// ---- backward ----

static bool check_lists(hst_context *ctx, const hst_scaler *scaler, int count, hst_parameters *const *lists) {
    for (int i = 0; i < count; i++) {
        if (lists && lists[i] && lists[i]->ctx == ctx) continue;
        hst_fail(ctx, HST_ERROR_STATE, "hst_scaled_backward: list %d %s", i,
                 lists && lists[i] ? "belongs to another context than the loss" : "is NULL");
        return false;
    }
    if (!scaler || hst_scaler_context(scaler) == ctx) return true;
    hst_fail(ctx, HST_ERROR_STATE, "hst_scaled_backward: the scaler belongs to another context than the loss");
    return false;
}

static bool is_finite(hst_context *ctx, hst_tensor *loss) {
    double sum = 0;
    if (!hst_is_float(loss->dtype)) return true; // hst_backward_from says what is wrong with it
    hst_tensor *values = hst_contiguous(loss);
    if (!values) return false;
    ctx->backend->square_sum(ctx, &(hst_square_sum_args){hst_count(values), hst_source_of(values), &sum});
    return isfinite(sum);
}

// What is there, and will be added to, gets the scale of what comes.
static bool rescale(hst_parameters *list, hst_scaler *scaler, double scale) {
    for (int i = 0; i < list->count; i++) {
        hst_parameter_item *p = &list->items[i];
        double sum;
        if (p->value->request != HST_ADD || !hst_gradient_of(p->value)) continue;
        if (scaler_of(p) == scaler && scale_of(p) == scale) continue;
        if (scaler_of(p) && !unscale(list, i, &sum)) return false;
        if (scale != 1 && !multiply(list, p, scale, &sum)) return false;
        note(p, scaler, scale);
    }
    return true;
}

static bool prepare(hst_parameters *list, hst_scaler *scaler, double scale, bool finite) {
    if (list->window.over) hst_begin_window(list);
    list->window.backwards++;
    list->window.checked = false;
    bool done = rescale(list, scaler, scale); // what is there is of earlier losses
    list->window.nan_loss |= !finite;
    return done;
}

hst_status hst_scaled_backward(hst_scaler *scaler, int count, hst_parameters *const *lists, hst_tensor *loss) {
    if (!loss) return HST_ERROR_STATE;
    hst_context *ctx = loss->ctx;
    if (ctx->status != HST_OK || !check_lists(ctx, scaler, count, lists)) return ctx->status;
    double scale = hst_scaler_scale(scaler);
    if (loss->dtype == HST_F16) scale = fmin(scale, 0x1p15);
    hst_scope_begin(ctx);
    hst_tensor *dy = hst_full(ctx, HST_F32, loss->rank, loss->shape, scale);
    bool finite = is_finite(ctx, loss), ready = ctx->status == HST_OK;
    for (int i = 0; i < count && ready; i++) ready = prepare(lists[i], scaler, scale, finite);
    if (ready) hst_backward_from(ctx, 1, &loss, &dy);
    hst_scope_end(ctx, NULL);
    if (!finite) hst_scaler_report(scaler, HST_FOUND_NAN_LOSS, NULL);
    for (int i = 0; i < count && ctx->status == HST_OK; i++)
        for (int k = 0; k < lists[i]->count; k++) {
            hst_parameter_item *p = &lists[i]->items[k];
            if (p->pass == p->value->pass) continue; // it was not reached
            p->overflowed &= p->value->request == HST_ADD;
            note(p, scaler, scale);
        }
    return ctx->status;
}

hst_status hst_set_accumulation(hst_parameters *list, int64_t batches) {
    if (!list) return HST_ERROR_STATE;
    if (list->ctx->status != HST_OK) return list->ctx->status;
    if (batches < 0)
        return hst_fail(list->ctx, HST_ERROR_VALUE, "hst_set_accumulation: %lld batches; 0, any number, or more",
                        (long long)batches);
    list->batches = batches;
    hst_begin_window(list);
    return HST_OK;
}

// ---- after the last backward ----

static double divisor(const hst_parameters *list) { return list->batches > 0 ? (double)list->batches : 1; }

// Whether a backward has written gradients since the last step; they are the first of a new window then.
static bool has_gradients(hst_parameters *list) {
    for (int i = 0; i < list->count; i++) {
        const hst_parameter_item *p = &list->items[i];
        if (!hst_gradient_of(p->value) || p->value->pass == p->stepped) continue;
        if (list->window.over) hst_begin_window(list);
        return true;
    }
    return false;
}

static bool is_checked(const hst_parameters *list) {
    for (int i = 0; i < list->count; i++)
        if (hst_gradient_of(list->items[i].value) && list->items[i].pass != list->items[i].value->pass) return false;
    return list->window.checked;
}

static bool check(hst_parameters *list) {
    if (is_checked(list)) return true;
    double total = 0, sum = 0;
    for (int i = 0; i < list->count; i++) {
        if (!hst_gradient_of(list->items[i].value)) continue; // frozen
        if (!unscale(list, i, &sum)) return false;
        total += sum;
    }
    list->window.norm = sqrt(total);
    return list->window.checked = true;
}

hst_status hst_unscale_gradients(hst_parameters *list, double *norm) {
    if (norm) *norm = NAN;
    if (!list) return HST_ERROR_STATE;
    if (list->ctx->status != HST_OK) return list->ctx->status;
    if (!has_gradients(list) && list->window.over)
        return hst_fail(list->ctx, HST_ERROR_STATE,
                        "hst_unscale_gradients: the step with these gradients is over; a backward comes first");
    if (check(list) && norm) *norm = list->window.norm / divisor(list);
    return list->ctx->status;
}

hst_clip_result hst_clip_gradients(hst_parameters *list, double limit, double *factor) {
    if (factor) *factor = 1;
    if (!list || list->ctx->status != HST_OK) return HST_CLIP_FAILED;
    for (int i = 0; i < list->count; i++) {
        const hst_parameter_item *p = &list->items[i];
        if (!hst_gradient_of(p->value) || scale_of(p) == 1) continue;
        hst_fail(list->ctx, HST_ERROR_STATE,
                 "hst_clip_gradients: the gradient of %s is still scaled, by %.9g; hst_unscale_gradients comes first",
                 p->name, scale_of(p));
        return HST_CLIP_FAILED;
    }
    double norm;
    if (hst_unscale_gradients(list, &norm) != HST_OK) return HST_CLIP_FAILED;
    if (!isfinite(norm)) return HST_CLIP_NOT_FINITE;
    double cut = hst_clip_factor(norm, limit);
    if (factor) *factor = cut;
    return cut < 1 ? HST_CLIP_CUT : HST_CLIP_SHORT;
}

// ---- the step ----

const char *hst_step_result_name(hst_step_result result) {
    static const char *const names[] = {"stepped", "overflow", "nan_loss", "no_gradients", "failed"};
    return (unsigned)result < sizeof names / sizeof *names ? names[result] : NULL;
}

static bool is_complete(hst_parameters *list) {
    if (list->batches == 0 || list->window.backwards == list->batches) return true;
    hst_fail(list->ctx, HST_ERROR_STATE,
             "hst_scaled_step: %lld micro-batches were accumulated; hst_set_accumulation announced %lld",
             (long long)list->window.backwards, (long long)list->batches);
    return false;
}

static hst_step_result result_of(const hst_parameters *list) {
    return list->window.nan_loss ? HST_SKIPPED_NAN_LOSS : list->window.overflow ? HST_SKIPPED_OVERFLOW : HST_STEPPED;
}

hst_step_result hst_scaled_step(hst_scaler *scaler, hst_optimizer *optimizer, double rate, double factor) {
    hst_parameters *list = hst_optimizer_parameters(optimizer);
    if (!list || list->ctx->status != HST_OK) return HST_STEP_FAILED;
    if (!isfinite(rate) || !isfinite(factor))
        return hst_fail(list->ctx, HST_ERROR_VALUE, "hst_scaled_step: rate %g and factor %g; both must be finite", rate,
                        factor),
               HST_STEP_FAILED;
    if (!has_gradients(list)) {
        hst_scaler_report(scaler, HST_FOUND_NO_GRADIENTS, NULL);
        return HST_NO_GRADIENTS;
    }
    if (!is_complete(list) || !check(list)) return HST_STEP_FAILED;
    const char *unscaled = list->window.unscaled;
    hst_scaler_report(scaler, unscaled ? HST_FOUND_OVERFLOW : HST_FOUND_FINITE, unscaled);
    hst_step_result result = result_of(list);
    if (result == HST_STEPPED && hst_optimizer_step(optimizer, rate, factor / divisor(list)) != HST_OK)
        return HST_STEP_FAILED;
    for (int i = 0; i < list->count; i++) list->items[i].stepped = list->items[i].value->pass;
    list->window.over = true;
    return result;
}
