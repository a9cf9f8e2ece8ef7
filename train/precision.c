// precision.c: mixed precision in the trainer: a preset's row, and what the options change in it.
#include <math.h>
#include "train/trainer.h"

// ---- options ----

static hst_scaler_options scaler_of(const hst_train_options *o) {
    return (hst_scaler_options){.profile = (hst_scaler_profile)o->scaler,
                                .init_scale = o->init_scale,
                                .growth = o->growth,
                                .backoff = o->backoff,
                                .interval = o->growth_interval,
                                .hysteresis = o->hysteresis,
                                .consecutive = o->consecutive_hysteresis,
                                .min_scale = o->min_scale,
                                .max_scale = o->max_scale > 0 ? o->max_scale : INFINITY,
                                .max_consecutive_skips = o->max_consecutive_skips};
}

static void fill_in(double *option, double standard) {
    if (*option < 0) *option = isfinite(standard) ? standard : 0;
}
static void fill_in_count(int64_t *option, int64_t standard) {
    if (*option < 0) *option = standard;
}

bool hst_fill_in_precision(hst_context *ctx, hst_train_options *o) {
    const hst_precision *preset = hst_precision_of(o->precision);
    if (!preset)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: there is no precision %d; presets are 0 to %d",
                        (int)o->precision, HST_PRECISIONS - 1),
               false;
    if (preset->region.dtype == HST_F32 && o->op_list > 0)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: %s has no autocast region, and no use for an op list",
                        preset->name),
               false;
    if (o->op_list < 0) o->op_list = (int)preset->region.ops;
    if (o->scaler < 0) o->scaler = (int)preset->scaler;
    if (!hst_scaler_name((hst_scaler_profile)o->scaler))
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_trainer_new: there is no loss scaler %d", o->scaler), false;
    hst_scaler_options standard = hst_scaler_defaults((hst_scaler_profile)o->scaler);
    fill_in(&o->init_scale, standard.init_scale);
    fill_in(&o->growth, standard.growth);
    fill_in(&o->backoff, standard.backoff);
    fill_in_count(&o->growth_interval, standard.interval);
    fill_in_count(&o->hysteresis, standard.hysteresis);
    fill_in(&o->min_scale, standard.min_scale);
    fill_in(&o->max_scale, standard.max_scale);
    fill_in_count(&o->max_consecutive_skips, standard.max_consecutive_skips);
    return true;
}

void hst_take_precision(const hst_train_options *from, hst_train_options *to) {
#define TAKE(field) to->field = from->field;
    TAKE(precision)
    TAKE(recurrence_f32)
    TAKE(op_list)
    TAKE(scaler)
    TAKE(init_scale)
    TAKE(growth)
    TAKE(backoff)
    TAKE(growth_interval)
    TAKE(hysteresis)
    TAKE(consecutive_hysteresis)
    TAKE(min_scale)
    TAKE(max_scale)
    TAKE(max_consecutive_skips)
#undef TAKE
}

// ---- a trainer's ----

void hst_make_precision(hst_trainer *t) {
    const hst_precision *preset = hst_precision_of(t->options.precision);
    hst_scaler_options scaler = scaler_of(&t->options);
    if (scaler.profile != HST_SCALER_NONE) t->scaler = hst_scaler_new(t->ctx, &scaler);
    hst_show_parameters(t->model->parameters, preset->parameters, preset->no_master);
}

void hst_precision_begin(const hst_trainer *t) {
    hst_autocast region = hst_precision_of(t->options.precision)->region;
    region.ops = (hst_op_list)t->options.op_list;
    region.recurrence_f32 = t->options.recurrence_f32;
    hst_autocast_begin(t->ctx, &region);
}

void hst_precision_end(const hst_trainer *t) { hst_autocast_end(t->ctx); }
