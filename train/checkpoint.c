// checkpoint.c: the files of a run. A checkpoint is one file: the model as any other program reads it, and beside it,
// under names of their own, everything else that the run consists of.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/json.h"
#include "models/language_model_file.h"
#include "train/trainer.h"

enum { MAX_NAME = 160, MAX_TRAINING = 4096, MAX_PATH = 4096 };

// ---- what a run is, beside tensors: one table for writing and reading ----
// A field that a file lacks is younger than the file, whose run had what hst_train_defaults gives for it.

typedef enum kind { INTEGER, REAL, SEED, FLAG, OPTIMIZER, SCHEDULE, SUM } kind;

static const struct {
    const char *key;
    kind kind;
    size_t offset; // in the trainer
} fields[] = {
    {"step", INTEGER, offsetof(hst_trainer, done.step)},
    {"steps", INTEGER, offsetof(hst_trainer, options.steps)},
    {"batch", INTEGER, offsetof(hst_trainer, options.batch)},
    {"length", INTEGER, offsetof(hst_trainer, options.length)},
    {"fresh_share", REAL, offsetof(hst_trainer, options.fresh_share)},
    {"optimizer", OPTIMIZER, offsetof(hst_trainer, options.optimizer)},
    {"lr", REAL, offsetof(hst_trainer, options.lr)},
    {"schedule", SCHEDULE, offsetof(hst_trainer, options.schedule)},
    {"warmup", REAL, offsetof(hst_trainer, options.warmup)},
    {"floor", REAL, offsetof(hst_trainer, options.floor)},
    {"lr_step_every", REAL, offsetof(hst_trainer, options.lr_step_every)},
    {"lr_step_factor", REAL, offsetof(hst_trainer, options.lr_step_factor)},
    {"clip", REAL, offsetof(hst_trainer, options.clip)},
    {"weight_decay", REAL, offsetof(hst_trainer, options.weight_decay)},
    {"momentum", REAL, offsetof(hst_trainer, options.momentum)},
    {"nesterov", FLAG, offsetof(hst_trainer, options.nesterov)},
    {"beta1", REAL, offsetof(hst_trainer, options.beta1)},
    {"beta2", REAL, offsetof(hst_trainer, options.beta2)},
    {"eps", REAL, offsetof(hst_trainer, options.eps)},
    {"accumulate", INTEGER, offsetof(hst_trainer, options.accumulate)},
    {"ema", REAL, offsetof(hst_trainer, options.ema)},
    {"eval_every", INTEGER, offsetof(hst_trainer, options.eval_every)},
    {"save_every", INTEGER, offsetof(hst_trainer, options.save_every)},
    {"patience", INTEGER, offsetof(hst_trainer, options.patience)},
    {"seed", SEED, offsetof(hst_trainer, options.seed)},
    {"smooth_loss", REAL, offsetof(hst_trainer, done.smooth_loss)},
    {"validation", REAL, offsetof(hst_trainer, done.validation)},
    {"best", REAL, offsetof(hst_trainer, done.best)},
    {"best_step", INTEGER, offsetof(hst_trainer, done.best_step)},
    {"evaluated", INTEGER, offsetof(hst_trainer, done.evaluated)},
    {"since_best", INTEGER, offsetof(hst_trainer, done.since_best)},
    {"text_sha256", SUM, offsetof(hst_trainer, text_sum)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void write_training(const hst_trainer *t, char text[MAX_TRAINING]) {
    hst_json_writer out = hst_json_into(text, MAX_TRAINING);
    hst_json_put_open(&out, '{');
    for (int i = 0; i < FIELDS; i++) {
        const void *at = (const char *)t + fields[i].offset;
        if (fields[i].kind == REAL && isnan(*(const double *)at)) continue; // nothing yet
        hst_json_put_key(&out, fields[i].key);
        switch (fields[i].kind) {
        case INTEGER:
            hst_json_put_integer(&out, *(const int64_t *)at);
            break;
        case REAL:
            hst_json_put_number(&out, *(const double *)at);
            break;
        case SEED:
            hst_json_put_unsigned(&out, *(const uint64_t *)at);
            break;
        case FLAG:
            hst_json_put_boolean(&out, *(const bool *)at);
            break;
        case OPTIMIZER:
            hst_json_put_string(&out, hst_optimizer_name(*(const hst_optimizer_kind *)at));
            break;
        case SCHEDULE:
            hst_json_put_string(&out, hst_schedule_name(*(const hst_schedule_kind *)at));
            break;
        case SUM:
            hst_json_put_string(&out, at);
            break;
        }
    }
    hst_json_put_key(&out, "isa"), hst_json_put_string(&out, hst_isa(t->ctx));
    hst_json_put_close(&out, '}');
}

// false for a name that is not known; a value that is not even of its kind is the reader's error.
static bool read_field(hst_json *in, int i, hst_trainer *t, const char **name) {
    void *at = (char *)t + fields[i].offset;
    uint64_t whole;
    const char *sum;
    switch (fields[i].kind) {
    case INTEGER:
        whole = hst_json_unsigned(in);
        *(int64_t *)at = whole < INT64_MAX ? (int64_t)whole : INT64_MAX;
        break;
    case REAL:
        *(double *)at = hst_json_number(in);
        break;
    case SEED:
        *(uint64_t *)at = hst_json_unsigned(in);
        break;
    case FLAG:
        *(bool *)at = hst_json_boolean(in);
        break;
    case OPTIMIZER:
        *name = hst_json_string(in);
        return !*name || hst_optimizer_find(*name, at);
    case SCHEDULE:
        *name = hst_json_string(in);
        return !*name || hst_schedule_find(*name, at);
    case SUM:
        sum = hst_json_string(in);
        snprintf(at, sizeof t->text_sum, "%s", sum ? sum : "");
        break;
    }
    return true;
}

// Fills in *t as far as the table goes.
static bool read_training(hst_context *ctx, const char *path, const hst_safetensors *file, hst_trainer *t) {
    const char *metadata = hst_safetensors_metadata(file, "halfstep.training");
    char text[MAX_TRAINING], problem[HST_JSON_PROBLEM];
    const char *name;
    if (!metadata || strlen(metadata) >= sizeof text)
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: holds a model only, not a run that could go on", path), false;
    strcpy(text, metadata);
    hst_json in = hst_json_open(text, strlen(text));
    hst_json_enter(&in, '{');
    while (hst_json_next(&in)) {
        int i = 0;
        while (i < FIELDS && strcmp(in.key, fields[i].key)) i++;
        const char *isa = !strcmp(in.key, "isa") ? hst_json_string(&in) : NULL;
        bool unsafe = isa && !strcmp(isa, "unsafe");
        if (isa && unsafe != ctx->options.unsafe_accumulation)
            hst_log_message(ctx, HST_LOG_WARNING, "%s: was made with %s accumulation; this run goes on with %s", path,
                            unsafe ? "unsafe" : "safe", unsafe ? "safe" : "unsafe");
        else if (isa && strcmp(isa, hst_isa(ctx)))
            hst_log_message(ctx, HST_LOG_WARNING, "%s: was made with the %s kernels; with %s the last bits will differ",
                            path, isa, hst_isa(ctx));
        if (i < FIELDS && !read_field(&in, i, t, &name))
            return hst_fail(ctx, HST_ERROR_FORMAT,
                            "%s: its run's %s is `%s`, which this version does not know; a newer one may", path,
                            fields[i].key, name),
                   false;
        if (i == FIELDS && strcmp(in.key, "isa")) hst_json_skip(&in);
    }
    if (hst_json_end(&in)) return true;
    return hst_fail(ctx, HST_ERROR_FORMAT, "%s: halfstep.training in its metadata is damaged, %s", path,
                    hst_json_problem(&in, problem)),
           false;
}

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
    char(*names)[MAX_NAME] = hst_workspace(t->ctx, ((size_t)states + 1) * MAX_NAME), training[MAX_TRAINING];
    for (int i = 0; entries && names && i < states; i++) entries[i] = entry_of(names[i], state(t, i, names[i]));
    if (entries && names) {
        entries[states] = entry_of("trainer.state", t->state);
        if (!*t->text_sum) hst_corpus_sha256(t->text, t->text_sum);
        write_training(t, training);
        hst_lm_save_with(t->model, path, entries, states + 1, (const char *const[]){"halfstep.training", training}, 1);
    }
    hst_workspace_free(t->ctx, names);
    hst_workspace_free(t->ctx, entries);
    return t->ctx->status;
}

// The newest checkpoint also becomes the previous one, so that it is at its own name until the next one replaces it.
static bool keep_previous(const char *last, const char *previous) {
    char spare[MAX_PATH + 8];
    snprintf(spare, sizeof spare, "%s.tmp", previous);
    unlink(spare);
    if (link(last, spare) == 0) return rename(spare, previous) == 0;
    return errno == ENOENT || rename(last, previous) == 0; // the first one; or a file system without hard links
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
    if (!keep_previous(path, previous) || rename(next, path))
        return hst_fail(t->ctx, HST_ERROR_IO, "%s: %s; the new checkpoint is %s", path, strerror(errno), next);
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
    bool ok =
        hst_lm_read(t->model, path, file) && hst_entry_load(t->ctx, path, file, "trainer.state", t->state, t->state);
    for (int i = 0; ok && i < state_count(t); i++) {
        char name[MAX_NAME];
        hst_tensor *to = state(t, i, name);
        ok = hst_entry_load(t->ctx, path, file, name, to, to);
    }
    hst_optimizer_set_steps(t->optimizer, t->done.step);
    hst_ema_set_updates(t->ema, t->done.step);
    return ok && t->ctx->status == HST_OK;
}

// A model's shape is its file's; what is only for training stays the options'.
static void take_shape(const hst_lm_config *config, hst_train_options *o) {
    o->hidden = config->hidden;
    o->layers = config->layers;
    o->tied = config->tied;
    o->projection = config->projection_size;
    o->layer_norm = !config->layer_norm ? HST_NORM_NONE : config->normalize_after ? HST_NORM_AFTER : HST_NORM_BEFORE;
    o->highway_bias = config->highway_bias;
    o->no_rescale = !config->rescale;
    o->tanh = config->use_tanh;
}

static bool check_tokenizer(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_corpus *text) {
    const char *wanted = hst_safetensors_metadata(file, "halfstep.tokenizer");
    const char *given = hst_tokenizer_text(hst_corpus_tokenizer(text));
    if (wanted && given ? !strcmp(wanted, given) : wanted == given) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "%s: the text was not encoded with the tokenizer of this file", path);
    return false;
}

static hst_trainer *resume(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_corpus *text,
                           const hst_corpus *held_out) {
    hst_trainer saved = {.done = {.smooth_loss = NAN, .validation = NAN, .best = NAN}};
    hst_lm_config config;
    char sum[sizeof saved.text_sum];
    hst_train_defaults(&saved.options, sizeof saved.options);
    if (!read_training(ctx, path, file, &saved) || !hst_lm_read_config(ctx, path, file, &config)) return NULL;
    hst_corpus_sha256(text, sum);
    if (text && strcmp(saved.text_sum, sum)) {
        hst_fail(ctx, HST_ERROR_VALUE,
                 "%s: the text given is not the one that its run learns from; a run goes on with the same text", path);
        return NULL;
    }
    if (!check_tokenizer(ctx, path, file, text)) return NULL;
    take_shape(&config, &saved.options);
    saved.options.dropout = config.dropout;
    hst_trainer *t = hst_trainer_make(ctx, &saved.options, &config, text, held_out);
    if (!t) return NULL;
    memcpy(t->text_sum, sum, sizeof sum);
    t->done = saved.done;
    if (restore(t, path, file)) return t;
    hst_trainer_free(t);
    return NULL;
}

hst_trainer *hst_trainer_resume(hst_context *ctx, const char *path, const hst_corpus *text,
                                const hst_corpus *held_out) {
    hst_safetensors *file = hst_get_status(ctx) == HST_OK ? hst_safetensors_open(ctx, path) : NULL;
    hst_trainer *t = file ? resume(ctx, path, file, text, held_out) : NULL;
    hst_safetensors_close(file);
    return t;
}

hst_trainer *hst_trainer_new_from(hst_context *ctx, const char *path, const hst_train_options *options,
                                  const hst_corpus *text, const hst_corpus *held_out) {
    hst_train_options o;
    hst_lm_config config;
    if (hst_get_status(ctx) != HST_OK || !hst_trainer_take_options(ctx, options, &o)) return NULL;
    hst_safetensors *file = hst_safetensors_open(ctx, path);
    hst_trainer *t = NULL;
    if (file && hst_lm_read_config(ctx, path, file, &config) && check_tokenizer(ctx, path, file, text)) {
        take_shape(&config, &o);
        config.dropout = o.dropout;
        t = hst_trainer_make(ctx, &o, &config, text, held_out);
    }
    if (t && !hst_lm_read(t->model, path, file)) {
        hst_trainer_free(t);
        t = NULL;
    }
    hst_safetensors_close(file);
    return t;
}
