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

static void write_training(const hst_trainer *t, char text[MAX_TRAINING]) {
    const hst_train_options *o = &t->options;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"fresh_share", o->fresh_share},
        {"lr", o->lr},
        {"warmup", o->warmup},
        {"floor", o->floor},
        {"clip", o->clip},
        {"weight_decay", o->weight_decay},
        {"momentum", o->momentum},
        {"smooth_loss", t->smooth_loss},
        {"validation", t->validation},
        {"best", t->best},
    };
    const struct {
        const char *key;
        int64_t value;
    } integers[] = {
        {"step", t->step},
        {"steps", o->steps},
        {"position", hst_stream_position(t->stream)},
        {"batch", o->batch},
        {"length", o->length},
        {"eval_every", o->eval_every},
        {"save_every", o->save_every},
        {"text_bytes", hst_corpus_size(t->text)},
    };
    hst_json_writer out = hst_json_into(text, MAX_TRAINING);
    hst_json_put_open(&out, '{');
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        hst_json_put_key(&out, integers[i].key);
        hst_json_put_integer(&out, integers[i].value);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        hst_json_put_key(&out, numbers[i].key);
        hst_json_put_number(&out, numbers[i].value);
    }
    hst_json_put_key(&out, "seed"), hst_json_put_unsigned(&out, o->seed);
    hst_json_put_key(&out, "optimizer"), hst_json_put_string(&out, o->optimizer == HST_SGD ? "sgd" : "adamw");
    hst_json_put_key(&out, "isa"), hst_json_put_string(&out, hst_isa(t->ctx));
    hst_json_put_close(&out, '}');
}

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
