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

enum { MAX_NAME = 160, MAX_TRAINING = 1024, MAX_PATH = 4096 };

// ---- what a run is, beside tensors: one table for writing and reading ----

typedef enum kind { INTEGER, REAL, SEED, OPTIMIZER } kind;

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
    {"warmup", REAL, offsetof(hst_trainer, options.warmup)},
    {"floor", REAL, offsetof(hst_trainer, options.floor)},
    {"clip", REAL, offsetof(hst_trainer, options.clip)},
    {"weight_decay", REAL, offsetof(hst_trainer, options.weight_decay)},
    {"momentum", REAL, offsetof(hst_trainer, options.momentum)},
    {"eval_every", INTEGER, offsetof(hst_trainer, options.eval_every)},
    {"save_every", INTEGER, offsetof(hst_trainer, options.save_every)},
    {"seed", SEED, offsetof(hst_trainer, options.seed)},
    {"smooth_loss", REAL, offsetof(hst_trainer, done.smooth_loss)},
    {"validation", REAL, offsetof(hst_trainer, done.validation)},
    {"best", REAL, offsetof(hst_trainer, done.best)},
    {"best_step", INTEGER, offsetof(hst_trainer, done.best_step)},
    {"evaluated", INTEGER, offsetof(hst_trainer, done.evaluated)},
    {"text_bytes", INTEGER, offsetof(hst_trainer, text_bytes)},
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
        case OPTIMIZER:
            hst_json_put_string(&out, *(const hst_optimizer_kind *)at == HST_SGD ? "sgd" : "adamw");
            break;
        }
    }
    hst_json_put_key(&out, "isa"), hst_json_put_string(&out, hst_isa(t->ctx));
    hst_json_put_close(&out, '}');
}

static void read_field(hst_json *in, int i, hst_trainer *t) {
    void *at = (char *)t + fields[i].offset;
    uint64_t whole;
    const char *name;
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
    case OPTIMIZER:
        name = hst_json_string(in);
        *(hst_optimizer_kind *)at = name && !strcmp(name, "sgd") ? HST_SGD : HST_ADAMW;
        break;
    }
}

// Fills in *t as far as the table goes.
static bool read_training(hst_context *ctx, const char *path, const hst_safetensors *file, hst_trainer *t) {
    const char *metadata = hst_safetensors_metadata(file, "halfstep.training");
    char text[MAX_TRAINING], problem[HST_JSON_PROBLEM];
    if (!metadata || strlen(metadata) >= sizeof text)
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: holds a model only, not a run that could go on", path), false;
    strcpy(text, metadata);
    hst_json in = hst_json_open(text, strlen(text));
    hst_json_enter(&in, '{');
    while (hst_json_next(&in)) {
        int i = 0;
        while (i < FIELDS && strcmp(in.key, fields[i].key)) i++;
        const char *isa = !strcmp(in.key, "isa") ? hst_json_string(&in) : NULL;
        if (isa && strcmp(isa, hst_isa(ctx)))
            hst_log(ctx, HST_LOG_WARNING, "%s: was made with the %s kernels; with %s the last bits will differ", path,
                    isa, hst_isa(ctx));
        if (i < FIELDS)
            read_field(&in, i, t);
        else if (strcmp(in.key, "isa"))
            hst_json_skip(&in);
    }
    if (hst_json_end(&in)) return true;
    return hst_fail(ctx, HST_ERROR_FORMAT, "%s: halfstep.training in its metadata is damaged, %s", path,
                    hst_json_problem(&in, problem)),
           false;
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
    int states = hst_optimizer_state_count(t->optimizer);
    hst_entry *entries = hst_workspace(t->ctx, ((size_t)states + 1) * sizeof *entries);
    char(*names)[MAX_NAME] = hst_workspace(t->ctx, ((size_t)states + 1) * MAX_NAME), training[MAX_TRAINING];
    for (int i = 0; entries && names && i < states; i++) {
        const hst_tensor *state = hst_optimizer_state(t->optimizer, i, names[i], MAX_NAME);
        entries[i] = entry_of(names[i], state);
    }
    if (entries && names) {
        entries[states] = entry_of("trainer.state", t->state);
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
    return file_in(t, folder, "model.safetensors", path, path_size) ? hst_lm_save(t->model, path) : t->ctx->status;
}

// ---- going on ----

static bool restore(hst_trainer *t, const char *path, const hst_safetensors *file) {
    bool ok =
        hst_lm_read(t->model, path, file) && hst_entry_load(t->ctx, path, file, "trainer.state", t->state, t->state);
    for (int i = 0; ok && i < hst_optimizer_state_count(t->optimizer); i++) {
        char name[MAX_NAME];
        hst_tensor *state = hst_optimizer_state(t->optimizer, i, name, sizeof name);
        ok = hst_entry_load(t->ctx, path, file, name, state, state);
    }
    hst_optimizer_set_steps(t->optimizer, t->done.step);
    return ok && t->ctx->status == HST_OK;
}

static hst_trainer *resume(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_corpus *text,
                           const hst_corpus *held_out) {
    hst_trainer saved = {.done = {.smooth_loss = NAN, .validation = NAN, .best = NAN}};
    hst_lm_config config;
    hst_train_defaults(&saved.options, sizeof saved.options);
    if (!read_training(ctx, path, file, &saved) || !hst_lm_read_config(ctx, path, file, &config)) return NULL;
    if (text && saved.text_bytes != hst_corpus_size(text)) {
        hst_fail(ctx, HST_ERROR_VALUE,
                 "%s: its run learns from %lld bytes, the text given has %lld; a run goes on with the same text", path,
                 (long long)saved.text_bytes, (long long)hst_corpus_size(text));
        return NULL;
    }
    saved.options.hidden = config.hidden;
    saved.options.layers = config.layers;
    saved.options.dropout = config.dropout;
    saved.options.tied = config.tied;
    saved.options.projection = config.projection_size;
    saved.options.layer_norm = !config.layer_norm       ? HST_NORM_NONE
                               : config.normalize_after ? HST_NORM_AFTER
                                                        : HST_NORM_BEFORE;
    saved.options.highway_bias = config.highway_bias;
    saved.options.no_rescale = !config.rescale;
    saved.options.tanh = config.use_tanh;
    hst_trainer *t = hst_trainer_make(ctx, &saved.options, &config, text, held_out);
    if (!t) return NULL;
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
