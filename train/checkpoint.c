// checkpoint.c: the files of a run. A checkpoint is one file: the model as any other program reads it, and beside it,
// under names of their own, everything else that the run consists of.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/config.h"
#include "train/trainer.h"

#define TRAINING_KEY "halfstep.training"

enum { MAX_NAME = 160, MAX_PATH = 4096 };

// ---- what a run is, beside tensors: one table for writing and reading ----
// A field that a file lacks is younger than the file, whose run had what hst_train_defaults gives for it.

static const char *optimizer_name(unsigned kind) { return hst_optimizer_name((hst_optimizer_kind)kind); }
static const char *precision_name(unsigned kind) {
    const hst_precision *preset = hst_precision_of((hst_precision_kind)kind);
    return preset ? preset->name : NULL;
}
static const char *list_name(unsigned list) { return hst_op_list_name((hst_op_list)list); }
static const char *scaler_name(unsigned profile) { return hst_scaler_name((hst_scaler_profile)profile); }
static const char *schedule_name(unsigned kind) { return hst_schedule_name((hst_schedule_kind)kind); }

#define FIELD(key, kind, member)                                                                                       \
    { key, HST_FIELD_##kind, offsetof(hst_trainer, member), true, NULL }
#define NAMED(key, member, name)                                                                                       \
    { key, HST_FIELD_NAME, offsetof(hst_trainer, member), true, name }
static const hst_field fields[] = {FIELD("step", COUNT, done.step),
                                   FIELD("steps", COUNT, options.steps),
                                   FIELD("batch", COUNT, options.batch),
                                   FIELD("length", COUNT, options.length),
                                   FIELD("fresh_share", REAL, options.fresh_share),
                                   NAMED("optimizer", options.optimizer, optimizer_name),
                                   FIELD("lr", REAL, options.lr),
                                   NAMED("schedule", options.schedule, schedule_name),
                                   FIELD("warmup", REAL, options.warmup),
                                   FIELD("floor", REAL, options.floor),
                                   FIELD("lr_step_every", REAL, options.lr_step_every),
                                   FIELD("lr_step_factor", REAL, options.lr_step_factor),
                                   FIELD("clip", REAL, options.clip),
                                   FIELD("weight_decay", REAL, options.weight_decay),
                                   FIELD("momentum", REAL, options.momentum),
                                   FIELD("nesterov", FLAG, options.nesterov),
                                   FIELD("beta1", REAL, options.beta1),
                                   FIELD("beta2", REAL, options.beta2),
                                   FIELD("eps", REAL, options.eps),
                                   FIELD("accumulate", COUNT, options.accumulate),
                                   FIELD("ema", REAL, options.ema),
                                   FIELD("eval_every", COUNT, options.eval_every),
                                   FIELD("save_every", COUNT, options.save_every),
                                   FIELD("patience", COUNT, options.patience),
                                   FIELD("seed", SEED, options.seed),
                                   NAMED("precision", options.precision, precision_name),
                                   FIELD("recurrence_f32", FLAG, options.recurrence_f32),
                                   NAMED("op_list", options.op_list, list_name),
                                   NAMED("scaler", options.scaler, scaler_name),
                                   FIELD("init_scale", REAL, options.init_scale),
                                   FIELD("growth", REAL, options.growth),
                                   FIELD("backoff", REAL, options.backoff),
                                   FIELD("growth_interval", COUNT, options.growth_interval),
                                   FIELD("hysteresis", COUNT, options.hysteresis),
                                   FIELD("consecutive_hysteresis", FLAG, options.consecutive_hysteresis),
                                   FIELD("min_scale", REAL, options.min_scale),
                                   FIELD("max_scale", REAL, options.max_scale),
                                   FIELD("max_consecutive_skips", COUNT, options.max_consecutive_skips),
                                   NAMED("scaler_profile", scaler_state.profile, scaler_name),
                                   FIELD("scaler_action", INT, scaler_state.action),
                                   FIELD("scale", FLOAT, scaler_state.scale),
                                   FIELD("scale_before", FLOAT, scaler_state.before),
                                   FIELD("next_scale", FLOAT, scaler_state.next_scale),
                                   FIELD("scaler_tracker", COUNT, scaler_state.tracker),
                                   FIELD("hysteresis_left", COUNT, scaler_state.hysteresis_left),
                                   FIELD("scaler_iteration", COUNT, scaler_state.iteration),
                                   FIELD("last_overflow", PLACE, scaler_state.last_overflow),
                                   FIELD("scaler_steps", COUNT, scaler_state.steps),
                                   FIELD("scaler_skipped", COUNT, scaler_state.skipped),
                                   FIELD("consecutive_skips", COUNT, scaler_state.consecutive_skips),
                                   FIELD("skipped", COUNT, done.skipped),
                                   FIELD("smooth_loss", REAL, done.smooth_loss),
                                   FIELD("validation", REAL, done.validation),
                                   FIELD("best", REAL, done.best),
                                   FIELD("best_step", COUNT, done.best_step),
                                   FIELD("evaluated", COUNT, done.evaluated),
                                   FIELD("since_best", COUNT, done.since_best),
                                   FIELD("text_sha256", TEXT, text_sum),
                                   FIELD("held_out_sha256", TEXT, held_out_sum),
                                   FIELD("isa", TEXT, isa),
                                   FIELD("ends_with_text", FLAG, ends_with_text),
                                   {0}};

// ---- the tensors beside the model's: the optimizer's, then the averages ----

static int state_count(const hst_trainer *t) {
    return hst_optimizer_state_count(t->optimizer) + hst_ema_state_count(t->ema);
}

static hst_tensor *state(const hst_trainer *t, int i, char name[MAX_NAME]) {
    int first = hst_optimizer_state_count(t->optimizer);
    return i < first ? hst_optimizer_state(t->optimizer, i, name, MAX_NAME)
                     : hst_ema_state(t->ema, i - first, name, MAX_NAME);
}

// ---- writing ----

static hst_entry entry_of(const char *name, const hst_tensor *x) {
    hst_entry e = {.name = name,
                   .dtype = sizeof(hst_real) == 8 ? HST_F64 : HST_F32,
                   .rank = x->rank,
                   .data = hst_raw(x),
                   .bytes = (size_t)hst_count(x) * sizeof(hst_real)};
    memcpy(e.shape, x->shape, sizeof e.shape);
    return e;
}

static hst_status write_checkpoint(hst_trainer *t, const char *path) {
    int states = state_count(t);
    hst_entry *entries = hst_workspace(t->ctx, ((size_t)states + 1) * sizeof *entries);
    char(*names)[MAX_NAME] = hst_workspace(t->ctx, ((size_t)states + 1) * MAX_NAME), training[HST_MAX_CONFIG];
    for (int i = 0; entries && names && i < states; i++) entries[i] = entry_of(names[i], state(t, i, names[i]));
    if (entries && names) {
        entries[states] = entry_of("trainer.state", t->state);
        if (!*t->text_sum) hst_corpus_sha256(t->text, t->text_sum);
        if (!*t->held_out_sum && t->held_out) hst_corpus_sha256(t->held_out, t->held_out_sum);
        snprintf(t->isa, sizeof t->isa, "%s", hst_isa(t->ctx));
        t->scaler_state = hst_scaler_get_state(t->scaler);
        hst_config_write(fields, t, NULL, training);
        hst_lm_save_with(t->model, path, entries, states + 1, (const char *const[]){TRAINING_KEY, training}, 1);
    }
    hst_workspace_free(t->ctx, names);
    hst_workspace_free(t->ctx, entries);
    return t->ctx->status;
}

static bool is_readable(hst_trainer *t, const char *path) {
    char isa[sizeof t->isa];
    bool readable = hst_trainer_read_isa(t->ctx, path, isa, sizeof isa);
    hst_clear_error(t->ctx);
    return readable;
}

// The newest checkpoint also becomes the previous one, so that it is at its own name until the next one replaces it. A
// damaged one does not: the run then went on from the previous one, which stays until there is a better one.
static bool keep_previous(hst_trainer *t, const char *last, const char *previous) {
    char spare[MAX_PATH + 8];
    if (!t->saved && !is_readable(t, last)) return true;
    snprintf(spare, sizeof spare, "%s.tmp", previous);
    unlink(spare);
    if (link(last, spare) == 0) return rename(spare, previous) == 0;
    return rename(last, previous) == 0; // a file system without hard links
}

static bool file_in(hst_trainer *t, const char *folder, const char *name, char *path, size_t size) {
    if ((size_t)snprintf(path, size, "%s/%s", folder, name) < size) return true;
    hst_fail(t->ctx, HST_ERROR_IO, "%s: this path is too long for a run's folder", folder);
    return false;
}

hst_status hst_trainer_save_last(hst_trainer *t, const char *folder, char *path, size_t path_size) {
    char next[MAX_PATH], previous[MAX_PATH];
    if (!file_in(t, folder, "next.safetensors", next, sizeof next) ||
        !file_in(t, folder, "previous.safetensors", previous, sizeof previous) ||
        !file_in(t, folder, "last.safetensors", path, path_size) || write_checkpoint(t, next) != HST_OK)
        return t->ctx->status;
    if (!keep_previous(t, path, previous) || rename(next, path))
        return hst_fail(t->ctx, HST_ERROR_IO, "%s: %s; the new checkpoint is %s", path, strerror(errno), next);
    t->saved = true;
    return HST_OK;
}

hst_status hst_trainer_save_best(hst_trainer *t, const char *folder, char *path, size_t path_size) {
    if (!file_in(t, folder, "model.safetensors", path, path_size)) return t->ctx->status;
    hst_ema_swap(t->ema);
    hst_lm_save(t->model, path);
    hst_ema_swap(t->ema);
    return t->ctx->status;
}

// ---- going on ----

static bool restore(hst_trainer *t, const char *path, const hst_safetensors *file) {
    bool ok = hst_entry_load(t->ctx, path, file, "trainer.state", t->state, t->state);
    for (int i = 0; ok && i < state_count(t); i++) {
        char name[MAX_NAME];
        hst_tensor *to = state(t, i, name);
        ok = hst_entry_load(t->ctx, path, file, name, to, to);
    }
    hst_optimizer_set_steps(t->optimizer, t->done.step);
    hst_ema_set_updates(t->ema, t->done.step);
    return ok && t->ctx->status == HST_OK;
}

// The scaler goes on where the file's was, if it is of the same profile. The options of the run allow that, or the file
// is damaged; those of another precision may not.
static bool restore_scaler(hst_trainer *t, const char *path, const hst_trainer *saved, bool changed) {
    const hst_scaler_state *state = &saved->scaler_state;
    bool same = (int)state->profile == t->options.scaler;
    if (same && hst_scaler_set_state(t->scaler, state) != HST_OK) {
        char reason[HST_MAX_ERROR];
        snprintf(reason, sizeof reason, "%s", hst_error(t->ctx));
        hst_clear_error(t->ctx);
        if (!changed) return hst_fail(t->ctx, HST_ERROR_FORMAT, "%s: is damaged: %s", path, reason), false;
        same = false;
    }
    if (changed)
        hst_log_message(t->ctx, HST_LOG_INFO,
                        "%s: was trained in %s and goes on in %s: masters, optimizer and averages as they are, the "
                        "loss scaler %s",
                        path, precision_name(saved->options.precision), precision_name(t->options.precision),
                        same ? "too" : "from its start");
    return true;
}

// The options of a run that goes on in another precision.
static bool change_precision(hst_context *ctx, const hst_train_options *precision, hst_train_options *run) {
    hst_train_options taken;
    if (!hst_trainer_take_options(ctx, precision, &taken)) return false;
    hst_take_precision(&taken, run);
    return hst_fill_in_precision(ctx, run);
}

static bool check_tokenizer(hst_context *ctx, const char *path, const hst_safetensors *file,
                            const hst_lm_config *config, const hst_corpus *text) {
    hst_tokenizer *own = hst_tokenizer_read(ctx, hst_safetensors_metadata(file, "halfstep.tokenizer"));
    if (own && hst_tokenizer_fits(own, path, config->vocabulary) &&
        !hst_tokenizer_equal(own, hst_corpus_tokenizer(text)))
        hst_fail(ctx, HST_ERROR_VALUE, "%s: the text was not encoded with the tokenizer of this file", path);
    hst_tokenizer_free(own);
    return ctx->status == HST_OK;
}

// The run as its file describes it, into *t as far as the table goes.
static bool read_training(hst_context *ctx, const char *path, const hst_safetensors *file, hst_trainer *t) {
    if (!hst_safetensors_metadata(file, TRAINING_KEY))
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: holds a model only, not a run that could go on", path), false;
    if (!hst_config_read(ctx, path, file, TRAINING_KEY, fields, t)) return false;
    bool unsafe = !strcmp(t->isa, "unsafe");
    if (*t->isa && unsafe != ctx->options.unsafe_accumulation)
        hst_log_message(ctx, HST_LOG_WARNING, "%s: was made with %s accumulation; this run goes on with %s", path,
                        unsafe ? "unsafe" : "safe", unsafe ? "safe" : "unsafe");
    else if (*t->isa && strcmp(t->isa, hst_isa(ctx)))
        hst_log_message(ctx, HST_LOG_WARNING, "%s: was made with the %s kernels; with %s the last bits will differ",
                        path, t->isa, hst_isa(ctx));
    int64_t steps = t->options.steps, step = t->done.step;
    if ((double)step + (double)t->done.skipped >
        0x1p53 / (double)(t->options.accumulate > 0 ? t->options.accumulate : 1))
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: no run gets to %lld skipped steps", path,
                        (long long)t->done.skipped),
               false;
    if (steps >= step && step >= t->done.evaluated && step >= t->done.best_step && step >= t->done.since_best &&
        step - t->done.best_step >= t->done.since_best)
        return true;
    hst_fail(ctx, HST_ERROR_FORMAT,
             "%s: no run gets to where this one is said to be: step %lld of %lld, the last evaluation after %lld, the "
             "best after %lld and %lld since",
             path, (long long)step, (long long)steps, (long long)t->done.evaluated, (long long)t->done.best_step,
             (long long)t->done.since_best);
    return false;
}

// A run goes on with its texts. `saved` has their sums, "?" where the file is older than the field.
static bool check_texts(hst_context *ctx, const char *path, const hst_trainer *saved, const char *text_sum,
                        const char *held_out_sum) {
    bool held_out = strcmp(saved->held_out_sum, "?") && strcmp(saved->held_out_sum, held_out_sum);
    if (!held_out && !strcmp(saved->text_sum, text_sum)) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "%s: the %s; a run goes on with the same text", path,
             strcmp(saved->text_sum, text_sum) ? "text given is not the one that its run learns from"
                                               : "held-out text is not the one that its run is evaluated on");
    return false;
}

static hst_trainer *resume(hst_context *ctx, const char *path, const hst_safetensors *file,
                           const hst_train_options *precision, const hst_corpus *text, const hst_corpus *held_out) {
    hst_trainer saved = {.held_out_sum = "?", .done = {.smooth_loss = NAN, .validation = NAN, .best = NAN}};
    hst_lm_config config;
    char text_sum[HST_FIELD_TEXT_SIZE], held_out_sum[HST_FIELD_TEXT_SIZE] = "";
    hst_train_defaults(&saved.options, sizeof saved.options);
    if (!read_training(ctx, path, file, &saved) || !hst_lm_read_config(ctx, path, file, &config)) return NULL;
    hst_corpus_sha256(text, text_sum);
    if (hst_can_evaluate(held_out)) hst_corpus_sha256(held_out, held_out_sum);
    if (text && !check_texts(ctx, path, &saved, text_sum, held_out_sum)) return NULL;
    if (!check_tokenizer(ctx, path, file, &config, text)) return NULL;
    hst_train_options options = saved.options;
    if (precision && !change_precision(ctx, precision, &options)) return NULL;
    hst_train_take_model(&config, &options);
    options.dropout = config.dropout;
    hst_trainer *t = hst_trainer_make(ctx, &options, &config, path, file, text, held_out);
    if (!t) return NULL;
    memcpy(t->text_sum, text_sum, sizeof text_sum);
    t->done = saved.done;
    t->ends_with_text = saved.ends_with_text;
    if (restore(t, path, file) && restore_scaler(t, path, &saved, precision != NULL)) return t;
    hst_trainer_free(t);
    return NULL;
}

hst_trainer *hst_trainer_resume_in(hst_context *ctx, const char *path, const hst_train_options *precision,
                                   const hst_corpus *text, const hst_corpus *held_out) {
    hst_safetensors *file = hst_get_status(ctx) == HST_OK ? hst_safetensors_open(ctx, path) : NULL;
    hst_trainer *t = file ? resume(ctx, path, file, precision, text, held_out) : NULL;
    hst_safetensors_close(file);
    return t;
}

hst_trainer *hst_trainer_resume(hst_context *ctx, const char *path, const hst_corpus *text,
                                const hst_corpus *held_out) {
    return hst_trainer_resume_in(ctx, path, NULL, text, held_out);
}

// What a checkpoint says of its run, without becoming one; false where the file holds a model only.
static bool read_settings(hst_context *ctx, const char *path, hst_trainer *saved) {
    hst_safetensors *file = hst_get_status(ctx) == HST_OK ? hst_safetensors_open(ctx, path) : NULL;
    hst_lm_config config;
    *saved = (hst_trainer){.ctx = ctx};
    hst_train_defaults(&saved->options, sizeof saved->options);
    bool run = file && hst_safetensors_metadata(file, TRAINING_KEY) &&
               hst_config_read(ctx, path, file, TRAINING_KEY, fields, saved) &&
               hst_lm_read_config(ctx, path, file, &config);
    hst_safetensors_close(file);
    if (!run) return false;
    hst_train_take_model(&config, &saved->options);
    saved->options.dropout = config.dropout;
    return true;
}

bool hst_trainer_read_options(hst_context *ctx, const char *path, hst_train_options *options) {
    hst_trainer saved;
    if (!options || !read_settings(ctx, path, &saved)) return false;
    saved.options.size = options->size;
    memcpy(options, &saved.options, options->size < sizeof saved.options ? options->size : sizeof saved.options);
    return true;
}

bool hst_trainer_read_isa(hst_context *ctx, const char *path, char *isa, size_t size) {
    hst_trainer saved;
    if (!isa || !read_settings(ctx, path, &saved)) return false;
    snprintf(isa, size, "%s", saved.isa);
    return true;
}

// ---- from a model ----

static void warn_of_rounded_weights(hst_context *ctx, const char *path, const hst_safetensors *file) {
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        hst_dtype dtype = hst_safetensors_entry(file, i)->dtype;
        if (dtype != HST_F16 && dtype != HST_BF16) continue;
        hst_log_message(ctx, HST_LOG_WARNING, "%s: its weights are %s; the f32 masters were made from them", path,
                        hst_dtype_name(dtype));
        return;
    }
}

hst_trainer *hst_trainer_new_from(hst_context *ctx, const char *path, const hst_train_options *options,
                                  const hst_corpus *text, const hst_corpus *held_out) {
    hst_train_options o;
    hst_lm_config config;
    if (hst_get_status(ctx) != HST_OK || !hst_trainer_take_options(ctx, options, &o)) return NULL;
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_trainer *t = NULL;
    if (file && hst_lm_read_config(ctx, path, file, &config) && check_tokenizer(ctx, path, file, &config, text)) {
        hst_train_take_model(&config, &o);
        config.dropout = o.dropout;
        t = hst_trainer_make(ctx, &o, &config, path, file, text, held_out);
        if (t) warn_of_rounded_weights(ctx, path, file);
    }
    hst_safetensors_close(file);
    return t;
}
