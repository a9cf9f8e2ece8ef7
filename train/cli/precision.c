// precision.c: the options of mixed precision: which of them go together, and what the plan says of them. Their rows
// stand in train_options.c.
#include "train/cli/train_options.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool cli_is_of_precision(const cli_option *option) {
    while (option->name) option--;
    return !strcmp(option->help, CLI_PRECISION_HEADING);
}

// The first given one of a list of options that ends with NULL, or NULL.
static const char *find_given(const cli_train_values *v, const char *const *names) {
    while (*names && !cli_train_is_given(v, *names)) names++;
    return *names;
}

static hst_scaler_profile profile_of(const cli_train_values *v) {
    if (v->loss_scale > 0) return HST_SCALER_STATIC;
    return v->train.scaler >= 0 ? (hst_scaler_profile)v->train.scaler : hst_precision_of(v->train.precision)->scaler;
}

static bool is_dynamic(hst_scaler_profile profile) {
    return profile != HST_SCALER_NONE && profile != HST_SCALER_STATIC;
}

// ---- what goes together ----

static bool check_region(const cli_train_values *v) {
    const hst_precision *preset = hst_precision_of(v->train.precision);
    if (!cli_train_is_given(v, "op-list") || preset->region.dtype != HST_F32) return true;
    cli_error("--op-list is for a preset with an autocast region, and %s has none; amp-fp16, amp-bf16, apex-O1 and "
              "mxnet-amp have",
              preset->name);
    return false;
}

static bool check_scale(const cli_train_values *v) {
    hst_scaler_profile profile = profile_of(v);
    bool number = v->loss_scale > 0, scaler = cli_train_is_given(v, "scaler");
    if (number && scaler && v->train.scaler != HST_SCALER_STATIC)
        cli_error("--loss-scale %g is a constant, and --scaler %s is not; leave one of them out", v->loss_scale,
                  hst_scaler_name((hst_scaler_profile)v->train.scaler));
    else if (v->loss_scale == 0 && !is_dynamic(profile))
        cli_error("--loss-scale dynamic needs a scaler that changes it, and %s is the one of %s; --scaler torch does",
                  hst_scaler_name(profile), scaler ? "--scaler" : hst_precision_of(v->train.precision)->name);
    else
        return true;
    return false;
}

// Options that the scaler at hand has no use for.
static bool check_machine(const cli_train_values *v) {
    static const char *const dynamic[] = {"init-scale",      "growth-factor", "backoff-factor",
                                          "growth-interval", "hysteresis",    "consecutive-hysteresis",
                                          "min-scale",       "max-scale",     NULL};
    static const char *const holding[] = {"hysteresis", "consecutive-hysteresis", NULL};
    hst_scaler_profile profile = profile_of(v);
    bool holds = profile == HST_SCALER_TORCH || profile == HST_SCALER_APEX || profile == HST_SCALER_DEEPSPEED_ZERO;
    int64_t hysteresis = v->train.hysteresis > 0 ? v->train.hysteresis : hst_scaler_defaults(profile).hysteresis;
    const char *name = find_given(v, dynamic);
    if (name && !is_dynamic(profile))
        cli_error("--%s is for a loss scale that changes, and the scaler is %s%s", name, hst_scaler_name(profile),
                  profile == HST_SCALER_STATIC ? ", whose constant is --loss-scale" : "; --scaler names one");
    else if ((name = find_given(v, holding)) && !holds)
        cli_error("--%s is for the scalers torch, apex and deepspeed_zero; %s lowers the scale at every overflow", name,
                  hst_scaler_name(profile));
    else if (v->train.consecutive_hysteresis && hysteresis < 2)
        cli_error("--consecutive-hysteresis needs a --hysteresis above 1");
    else if (cli_train_is_given(v, "max-skips") && profile == HST_SCALER_NONE)
        cli_error("--max-skips is for a loss scaler, and there is none; --scaler names one");
    else
        return true;
    return false;
}

static bool check_range(const cli_train_values *v) {
    hst_scaler_options o = hst_scaler_defaults(profile_of(v));
    if (!is_dynamic(o.profile)) return true;
    if (v->train.init_scale > 0) o.init_scale = v->train.init_scale;
    if (v->train.min_scale >= 0) o.min_scale = v->train.min_scale;
    if (v->train.max_scale >= 0) o.max_scale = v->train.max_scale > 0 ? v->train.max_scale : INFINITY;
    if (o.min_scale <= o.init_scale && o.init_scale <= o.max_scale) return true;
    cli_error("the first loss scale, %.9g, must be between --min-scale, %.9g, and --max-scale, %.9g", o.init_scale,
              o.min_scale, o.max_scale);
    return false;
}

const cli_option *cli_precision_find_given(const cli_train_values *v) {
    for (const cli_option *o = cli_train_options; cli_table_goes_on(o); o++)
        if (o->name && cli_is_of_precision(o) && cli_is_given(cli_train_options, v, o)) return o;
    return NULL;
}

// A run goes on in its own precision, or in one that is described as that of a new run is.
static bool check_resume(const cli_train_values *v) {
    const cli_option *given = v->resume ? cli_precision_find_given(v) : NULL;
    if (!given || cli_train_is_given(v, "precision")) return true;
    cli_error("--%s with --resume needs --precision, be it that of the run", given->name);
    return false;
}

bool cli_precision_fit(cli_train_values *v) {
    if (!check_resume(v) || !check_region(v) || !check_scale(v) || !check_machine(v) || !check_range(v)) return false;
    if (v->loss_scale > 0) {
        v->train.scaler = HST_SCALER_STATIC;
        v->train.init_scale = v->loss_scale;
    }
    return true;
}

void cli_precision_take(cli_train_values *v) {
    v->loss_scale = is_dynamic((hst_scaler_profile)v->train.scaler) ? 0 : v->train.init_scale;
}

// ---- what the plan says ----

static void print_types(const hst_train_options *o, FILE *out) {
    const hst_precision *preset = hst_precision_of(o->precision);
    const char *lower = hst_dtype_name(preset->region.dtype);
    fprintf(out, "types: %s", preset->name);
    if (preset->region.dtype != HST_F32)
        fprintf(out, ", weights seen as %s, operations in %s by the list %s, recurrence hands on %s",
                hst_dtype_name(preset->parameters), lower, hst_op_list_name((hst_op_list)o->op_list),
                o->recurrence_f32 ? "f32" : lower);
    else if (preset->parameters != HST_F32)
        fprintf(out, ", weights seen as %s, %s, recurrence hands on what it gets", hst_dtype_name(preset->parameters),
                preset->no_master ? "without masters" : "with f32 masters");
    fputc('\n', out);
}

static void print_scaler(const hst_train_options *o, FILE *out) {
    hst_scaler_profile profile = (hst_scaler_profile)o->scaler;
    if (profile == HST_SCALER_NONE) return;
    fprintf(out, "scale: %s, %.9g", hst_scaler_name(profile), o->init_scale);
    if (is_dynamic(profile)) {
        fprintf(out, " at first, x %.6g after %" PRId64 " steps without an overflow, x %.6g after ", o->growth,
                o->growth_interval, o->backoff);
        if (o->hysteresis > 1)
            fprintf(out, "%" PRId64 " overflows%s", o->hysteresis, o->consecutive_hysteresis ? " in a row" : "");
        else
            fprintf(out, "one");
        if (o->min_scale > 0) fprintf(out, ", at least %.6g", o->min_scale);
        if (o->max_scale > 0) fprintf(out, ", at most %.6g", o->max_scale);
    }
    if (o->max_consecutive_skips > 0)
        fprintf(out, "; %" PRId64 " skipped steps in a row end the run", o->max_consecutive_skips);
    fputc('\n', out);
}

void cli_precision_print(const cli_train_values *v, FILE *out) {
    const hst_precision *preset = hst_precision_of(v->train.precision);
    print_types(&v->train, out);
    print_scaler(&v->train, out);
    if (preset->region.dtype == HST_F32 && cli_train_is_given(v, "amp-recurrence-fp16"))
        fprintf(out, "note: --amp-recurrence-fp16 has no effect in %s, which has no autocast region\n", preset->name);
}
