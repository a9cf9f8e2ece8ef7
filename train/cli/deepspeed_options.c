// deepspeed_options.c: what DeepSpeed's keys are as options. Where a section is missing, its options stay as they are;
// what a section does not say is DeepSpeed's default, unless the command line says it. What both say is an error.
#include "train/cli/deepspeed.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static bool has(const deepspeed *file, const char *key) { return deepspeed_line(file, key) > 0; }

static bool set_text(deepspeed *file, const char *key, const cli_option *option, const char *text) {
    char expected[192];
    if (cli_is_given(cli_train_options, file->options, option)) {
        cli_error("--%s and %s in %s exclude each other", option->name, key, file->path);
        file->code = CLI_USAGE;
        return false;
    }
    if (!cli_set_value(option, file->options, text))
        return deepspeed_refuse(file, key, "becomes --%s, which must be %s, not %s", option->name,
                                cli_describe_type(option, expected, sizeof expected), text);
    cli_set_given(cli_train_options, file->options, option);
    return true;
}

// The option gets what the key says; where the file does not have the key, what DeepSpeed has then, which gives way to
// the command line.
static bool set(deepspeed *file, const char *key, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool set(deepspeed *file, const char *key, const char *name, const char *format, ...) {
    const cli_option *option = cli_find_option(cli_train_options, name, strlen(name));
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return (!has(file, key) && cli_train_is_given(file->options, name)) || set_text(file, key, option, text);
}

static bool set_flag(deepspeed *file, const char *key, const char *name, bool value) {
    return !value || set(file, key, name, "%s", "");
}

// ---- precision ----

static bool check_limits(deepspeed *file) {
    const struct {
        const char *key;
        bool wrong;
        const char *why;
    } limits[] = {
        {"bf16.enabled", file->fp16 && file->bf16, "and fp16.enabled exclude each other"},
        {"fp16.auto_cast", file->fp16 && file->auto_cast,
         "must be false: the model's inputs are symbols, which have no dtype to cast"},
        {"fp16.fp16_master_weights_and_grads", file->fp16 && file->fp16_masters,
         "must be false: masters and their gradients are f32"},
        {"bf16.bf16_master_weights_and_grads", file->bf16 && file->bf16_masters,
         "must be false: masters and their gradients are f32"},
        {"bf16.bf16_optimizer_states", file->bf16 && file->bf16_states, "must be false: the optimizer's state is f32"},
        {"bf16.check_grad_overflow", file->bf16 && !file->check_overflow,
         "must be true: a gradient that is not finite is always found, and ends the run"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].wrong) return deepspeed_refuse(file, limits[i].key, "%s", limits[i].why);
    return true;
}

// halfstep's cap is 2^24, DeepSpeed has none: one above it comes with the first scale.
static bool set_first_scale(deepspeed *file) {
    double scale = ldexp(1, (int)file->scale_power);
    if (!has(file, "fp16.initial_scale_power")) return true;
    if (scale > hst_scaler_defaults(HST_SCALER_DEEPSPEED_ZERO).max_scale &&
        !cli_train_is_given(file->options, "max-scale"))
        file->options->train.max_scale = scale;
    return set(file, "fp16.initial_scale_power", "init-scale", "%.17g", scale);
}

static bool set_least_scale(deepspeed *file) {
    double first = file->options->train.init_scale;
    if (first > 0 && file->min_loss_scale > first && has(file, "fp16.min_loss_scale"))
        return deepspeed_refuse(file, "fp16.min_loss_scale", "%.9g is above the first scale, %.9g",
                                file->min_loss_scale, first);
    return set(file, "fp16.min_loss_scale", "min-scale", "%.17g", file->min_loss_scale);
}

// DeepSpeed's scaler without ZeRO has no hysteresis, whatever the file says.
static bool set_hysteresis(deepspeed *file) {
    if (file->options->train.scaler == HST_SCALER_DEEPSPEED_FUSED || !has(file, "fp16.hysteresis")) return true;
    return set(file, "fp16.hysteresis", "hysteresis", "%" PRId64, file->hysteresis);
}

static bool set_scaler(deepspeed *file) {
    bool consecutive =
        file->consecutive && file->hysteresis > 1 && file->options->train.scaler != HST_SCALER_DEEPSPEED_FUSED;
    if (file->loss_scale > 0) return set(file, "fp16.loss_scale", "loss-scale", "%.17g", file->loss_scale);
    return set_first_scale(file) &&
           (!has(file, "fp16.loss_scale_window") ||
            set(file, "fp16.loss_scale_window", "growth-interval", "%" PRId64, file->window)) &&
           set_hysteresis(file) &&
           set_flag(file, "fp16.consecutive_hysteresis", "consecutive-hysteresis", consecutive) &&
           set_least_scale(file);
}

static bool set_precision(deepspeed *file) {
    bool said = has(file, "fp16.enabled") || has(file, "bf16.enabled");
    const char *preset = file->fp16 ? "deepspeed-fp16" : file->bf16 ? "deepspeed-bf16" : "fp32";
    if (!said) return true;
    if (!check_limits(file)) return false;
    return set(file, file->bf16 || !has(file, "fp16.enabled") ? "bf16.enabled" : "fp16.enabled", "precision", "%s",
               preset) &&
           (!file->fp16 || set_scaler(file));
}

// ---- batches: train_batch_size = micro batch x accumulation x 1 GPU, any two of which give the third ----

static bool complete_batches(deepspeed *file) {
    int64_t *all = &file->train_batch, *one = &file->micro_batch, *steps = &file->accumulation;
    if (*all == 0 && *one == 0)
        return deepspeed_refuse(file, "gradient_accumulation_steps",
                                "needs train_batch_size or train_micro_batch_size_per_gpu");
    if (*steps == 0) *steps = *all > 0 && *one > 0 ? *all / *one : 1;
    if (*one == 0) *one = *all / *steps;
    if (*all == 0) *all = *one * *steps;
    if (*one > 0 && *steps > 0 && *one * *steps == *all) return true;
    if (has(file, "train_micro_batch_size_per_gpu") && has(file, "gradient_accumulation_steps"))
        return deepspeed_refuse(file, "train_batch_size",
                                "%" PRId64 " is not train_micro_batch_size_per_gpu %" PRId64
                                " x gradient_accumulation_steps %" PRId64 ", which is %" PRId64,
                                *all, *one, *steps, *one * *steps);
    bool micro = has(file, "train_micro_batch_size_per_gpu");
    return deepspeed_refuse(file, "train_batch_size", "%" PRId64 " is not a multiple of %s %" PRId64, *all,
                            micro ? "train_micro_batch_size_per_gpu" : "gradient_accumulation_steps",
                            micro ? *one : *steps);
}

static bool set_batches(deepspeed *file) {
    const char *all = "train_batch_size", *one = "train_micro_batch_size_per_gpu",
               *steps = "gradient_accumulation_steps";
    if (!has(file, all) && !has(file, one) && !has(file, steps)) return true;
    return complete_batches(file) && set(file, has(file, one) ? one : all, "batch", "%" PRId64, file->micro_batch) &&
           set(file,
               has(file, steps) ? steps
               : has(file, all) ? all
                                : one,
               "accumulate", "%" PRId64, file->accumulation);
}

// ---- the optimizer ----

// Parameters that the type does not have: the first of them, or NULL.
static const char *find_misplaced(const deepspeed *file) {
    bool sgd = file->optimizer == DEEPSPEED_SGD,
         adam = file->optimizer == DEEPSPEED_ADAM || file->optimizer == DEEPSPEED_ADAMW;
    const struct {
        const char *key;
        bool fits;
    } rules[] = {{"optimizer.params.betas.0", !sgd},    {"optimizer.params.eps", !sgd},
                 {"optimizer.params.momentum", sgd},    {"optimizer.params.nesterov", sgd},
                 {"optimizer.params.torch_adam", adam}, {"optimizer.params.adam_w_mode", adam}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (has(file, rules[i].key) && !rules[i].fits) return rules[i].key;
    return NULL;
}

// A scheduler that warms up to a rate of its own overrides the optimizer's.
static bool has_own_rate(const deepspeed *file) {
    return has(file, "scheduler.type") && file->scheduler != DEEPSPEED_COSINE;
}

static bool set_optimizer(deepspeed *file) {
    static const char *const names[] = {"adam", "adamw", "sgd", "radam"};
    const char *type = "optimizer.type", *misplaced = find_misplaced(file);
    if (misplaced) return deepspeed_refuse(file, misplaced, "is no parameter of %s", names[file->optimizer]);
    bool adam = file->optimizer == DEEPSPEED_ADAM, sgd = file->optimizer == DEEPSPEED_SGD;
    int kind = adam && file->adam_w_mode ? DEEPSPEED_ADAMW : file->optimizer;
    double decay = kind == DEEPSPEED_ADAMW && file->torch_adam ? 0.01 : 0; // torch.optim.AdamW has one unasked
    if (has(file, "optimizer.params.weight_decay")) decay = file->weight_decay;
    if (!set(file, type, "optimizer", "%s", names[kind]) ||
        (!has_own_rate(file) && !set(file, "optimizer.params.lr", "lr", "%.17g", file->lr)) ||
        !set(file, "optimizer.params.weight_decay", "weight-decay", "%.17g", decay))
        return false;
    if (sgd)
        return set(file, "optimizer.params.momentum", "momentum", "%.17g", file->momentum) &&
               set_flag(file, "optimizer.params.nesterov", "nesterov", file->nesterov);
    return set(file, "optimizer.params.betas.0", "beta1", "%.17g", file->beta1) &&
           set(file, "optimizer.params.betas.1", "beta2", "%.17g", file->beta2) &&
           set(file, "optimizer.params.eps", "eps", "%.17g", file->eps);
}

// ---- the scheduler ----

// The share of a run which, rounded up to whole steps, is `part` of its steps.
static double share_of(int64_t part, int64_t steps) {
    double share = (double)part / (double)steps;
    while (share > 0 && ceil(share * (double)steps) > (double)part) share = nextafter(share, 0);
    return share;
}

static bool check_scheduler(deepspeed *file) {
    bool total = file->scheduler != DEEPSPEED_WARMUP, cosine = file->scheduler == DEEPSPEED_COSINE;
    const char *type = "scheduler.type", *steps = "scheduler.params.total_num_steps";
    if (total && !has(file, steps)) return deepspeed_refuse(file, type, "needs scheduler.params.total_num_steps");
    const struct {
        const char *key;
        bool fits;
    } rules[] = {{steps, total},
                 {"scheduler.params.warmup_min_lr", !cosine},
                 {"scheduler.params.warmup_max_lr", !cosine},
                 {"scheduler.params.warmup_min_ratio", cosine},
                 {"scheduler.params.cos_min_ratio", cosine}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (has(file, rules[i].key) && !rules[i].fits)
            return deepspeed_refuse(file, rules[i].key, "is no parameter of this scheduler.type");
    if (file->warmup_min_lr > 0)
        return deepspeed_refuse(file, "scheduler.params.warmup_min_lr", "must be 0: the rate warms up from there");
    if (file->warmup_min_ratio > 0)
        return deepspeed_refuse(file, "scheduler.params.warmup_min_ratio", "must be 0: the rate warms up from there");
    if (file->warmup_steps > 1 && file->warmup_type == DEEPSPEED_LOG)
        return deepspeed_refuse(
            file, has(file, "scheduler.params.warmup_type") ? "scheduler.params.warmup_type" : type,
            "warms up by the logarithm of the step%s; halfstep's warm-up is \"warmup_type\": "
            "\"linear\"",
            has(file, "scheduler.params.warmup_type") ? "" : " unless scheduler.params.warmup_type says otherwise");
    return true;
}

static bool set_scheduler(deepspeed *file) {
    static const char *const names[] = {"constant", "linear", "cosine"};
    const char *type = "scheduler.type", *warmup = "scheduler.params.warmup_num_steps";
    hst_train_options *o = &file->options->train;
    if (!check_scheduler(file) || !set(file, type, "schedule", "%s", names[file->scheduler])) return false;
    if (file->scheduler != DEEPSPEED_WARMUP &&
        (!set(file, "scheduler.params.total_num_steps", "steps", "%" PRId64, file->total_steps) ||
         !set(file, "scheduler.params.cos_min_ratio", "floor", "%.17g",
              file->scheduler == DEEPSPEED_COSINE ? file->cos_min_ratio : 0)))
        return false;
    if (has_own_rate(file) && !set(file, "scheduler.params.warmup_max_lr", "lr", "%.17g", file->warmup_max_lr))
        return false;
    if (o->steps > 0) return set(file, warmup, "warmup", "%.17g", share_of(file->warmup_steps, o->steps));
    if (file->warmup_steps == 0) return set(file, warmup, "warmup", "0");
    cli_error("%s: %" PRId64 " steps of warm-up are a share of a run whose --steps have to be given", file->path,
              file->warmup_steps);
    file->code = CLI_USAGE;
    return false;
}

// ---- all of it ----

// Parameters of something that has no type mean nothing.
static bool check_types(deepspeed *file) {
    static const char *const types[] = {"optimizer.type", "scheduler.type"};
    for (const cli_option *key = deepspeed_keys; key->name; key++)
        for (int i = 0; i < 2; i++)
            if (!strncmp(key->name, types[i], strcspn(types[i], ".") + 1) && has(file, key->name) &&
                !has(file, types[i]))
                return deepspeed_refuse(file, key->name, "needs %s beside it", types[i]);
    if (has(file, "optimizer.params.betas.0") == has(file, "optimizer.params.betas.1")) return true;
    return deepspeed_refuse(file, "optimizer.params.betas.0", "is one of two numbers; betas has both");
}

bool deepspeed_set_options(deepspeed *file) {
    return check_types(file) && set_precision(file) && set_batches(file) &&
           (!has(file, "gradient_clipping") || set(file, "gradient_clipping", "clip", "%.17g", file->clip)) &&
           (!has(file, "optimizer.type") || set_optimizer(file)) &&
           (!has(file, "scheduler.type") || set_scheduler(file));
}
