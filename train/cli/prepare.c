// prepare.c: what `halfstep train` does before the first step: texts to symbols, the trainer, and every check whose
// failure at the end would cost a run.
#include "train/cli/folder.h"
#include "train/cli/machine.h"
#include "train/cli/run.h"
#include "train/cli/signals.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

// ---- texts ----

// Cuts off what to evaluate on, or reads --val; *held_out is NULL where that is not wanted.
static bool find_held_out(run *r) {
    char *val[] = {(char *)r->v.val};
    if (r->v.val)
        r->held_out = cli_read_texts(r->ctx, 1, val);
    else if (r->v.val_split > 0)
        r->held_out = hst_corpus_split(r->text, r->v.val_split);
    return hst_get_status(r->ctx) == HST_OK;
}

// An evaluation needs one prediction, that is two symbols.
static void drop_short_held_out(run *r) {
    if (!r->held_out || hst_corpus_symbols(r->held_out).count >= 2) return;
    cli_run_warn(r, "no validation: the held-out text has less than two symbols");
    hst_corpus_free(r->held_out);
    r->held_out = NULL;
}

static const char *const checkpoints[] = {"last.safetensors", "previous.safetensors"};

bool cli_run_was_unsafe(const run *r) {
    bool known = false;
    char path[PATH_MAX], isa[32] = "";
    for (int i = 0; r->v.resume && !known && i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", r->v.output, checkpoints[i]);
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1});
        known = hst_trainer_read_isa(ctx, path, isa, sizeof isa);
        hst_close(ctx);
    }
    return !strcmp(isa, "unsafe");
}

// The run's newest checkpoint, or, if that is damaged, the one before it; its tokenizer goes to r.
static const char *find_checkpoint(run *r, char *path, size_t size) {
    for (int i = 0; i < 2; i++) {
        snprintf(path, size, "%s/%s", r->v.output, checkpoints[i]);
        if (i > 0 && access(path, F_OK) != 0) break;
        if (i > 0) {
            char text[2 * PATH_MAX];
            snprintf(text, sizeof text, "%s; the run goes on from %s", hst_error(r->ctx), path);
            cli_run_warn(r, text);
            hst_clear_error(r->ctx);
        }
        hst_lm_free(cli_read_model(r->ctx, path, &r->tokenizer));
        if (hst_get_status(r->ctx) == HST_OK) return path;
        hst_tokenizer_free(r->tokenizer);
        r->tokenizer = NULL;
    }
    return NULL;
}

// ---- room ----

// What the trainer holds already, where it had to be made first, is not available any more, but is a part of the need.
static bool check_memory(run *r) {
    hst_memory held;
    hst_memory_stats(r->ctx, &held);
    double available = cli_available_memory() + (double)held.system_bytes;
    r->memory_bytes = hst_train_memory(&r->v.train, hst_tokenizer_size(r->tokenizer));
    if (r->memory_bytes <= available) return true;
    cli_error(
        "the run needs about %.1f GB of memory and %.1f GB are available; a smaller --batch, --length or --hidden "
        "needs less",
        r->memory_bytes / 1e9, available / 1e9);
    return false;
}

// A run writes a model (4 bytes a parameter), two checkpoints with the optimizer's two numbers a weight, and its
// average if there is one, and the next one beside them before it takes a place.
static bool check_folder(run *r) {
    double parameters = (double)hst_parameter_elements(hst_lm_parameters(hst_trainer_model(r->trainer)));
    r->file_bytes = (4 + 3 * (r->v.train.ema > 0 ? 16 : 12)) * parameters;
    if (r->v.dry_run) return cli_folder_can_be_used(r->v.output);
    return cli_prepare_folder(r->v.output) && cli_lock_folder(r->v.output) && cli_clear_folder(r->v.output, true) &&
           cli_folder_has_room(r->v.output, (int64_t)r->file_bytes);
}

// ---- all of it ----

static bool make_trainer(run *r, const char *checkpoint, const char *from) {
    bool changed = cli_train_is_given(&r->v, "precision");
    r->trainer = checkpoint
                     ? hst_trainer_resume_in(r->ctx, checkpoint, changed ? &r->v.train : NULL, r->text, r->held_out)
                 : from ? hst_trainer_new_from(r->ctx, from, &r->v.train, r->text, r->held_out)
                        : hst_trainer_new(r->ctx, &r->v.train, r->text, r->held_out);
    if (r->trainer) {
        r->v.train = *hst_trainer_options(r->trainer);
        cli_precision_take(&r->v);
    }
    return r->trainer != NULL;
}

static bool read_inputs(run *r, char *path, const char **checkpoint, const char **from) {
    if (r->v.from) *from = cli_model_path(r->v.from, path, PATH_MAX);
    if (r->v.resume) *checkpoint = find_checkpoint(r, path, PATH_MAX);
    if (*from) hst_lm_free(cli_read_model(r->ctx, *from, &r->tokenizer));
    r->text = cli_read_texts(r->ctx, r->texts, r->paths);
    if (!r->tokenizer && r->text)
        r->tokenizer =
            r->v.tokenizer == CLI_CHARACTERS ? hst_tokenizer_characters(r->text) : hst_tokenizer_bytes(r->ctx);
    bool skip = r->v.unknown == CLI_UNKNOWN_SKIP;
    if (!r->tokenizer || !find_held_out(r) || hst_corpus_encode(r->text, r->tokenizer, skip) != HST_OK) return false;
    if (r->held_out) hst_corpus_encode(r->held_out, r->tokenizer, skip);
    return hst_get_status(r->ctx) == HST_OK;
}

// With --time: what is not given is chosen by what the machine does in that time.
static bool choose_sizes(run *r) {
    hst_train_options *o = &r->v.train, s = *o;
    if (!hst_train_suggest(r->ctx, o->seconds, hst_tokenizer_size(r->tokenizer), hst_corpus_symbols(r->text).count, &s))
        return false;
#define TAKE(field, option)                                                                                            \
    if (!cli_train_is_given(&r->v, option)) o->field = s.field;
    TAKE(hidden, "hidden")
    TAKE(layers, "layers")
    TAKE(batch, "batch")
    TAKE(length, "length")
    TAKE(dropout, "dropout")
    if (!cli_precision_find_given(&r->v)) o->precision = s.precision;
    if (o->optimizer == HST_ADAMW) TAKE(lr, "lr")
#undef TAKE
    r->sizes_chosen = true;
    return true;
}

int cli_run_prepare(run *r) {
    char path[PATH_MAX];
    const char *checkpoint = NULL, *from = NULL;
    if (!read_inputs(r, path, &checkpoint, &from)) return cli_failure(r->ctx, true);
    drop_short_held_out(r);
    bool shape_known = !checkpoint && !from; // else it is in the file
    if (shape_known && r->v.train.seconds > 0 && !choose_sizes(r)) return cli_failure(r->ctx, true);
    if (shape_known && !check_memory(r)) return CLI_FAILED;
    if (!make_trainer(r, checkpoint, from)) {
        if (checkpoint && hst_get_status(r->ctx) == HST_ERROR_VALUE)
            fprintf(stderr, "note: --val, --val-split and --unknown have to be as they were\n");
        return cli_failure(r->ctx, !shape_known || hst_get_status(r->ctx) == HST_ERROR_VALUE);
    }
    if (!shape_known && !check_memory(r)) return CLI_FAILED;
    if (!check_folder(r)) return CLI_FAILED;
    cli_guard_run(); // from here on a signal finds something to lose
    if (r->v.dry_run) return CLI_DONE;
    if (!r->v.resume && !cli_clear_folder(r->v.output, false)) return CLI_FAILED;
    return cli_log_open(&r->log, r->v.output, r->v.resume) ? CLI_DONE : CLI_FAILED;
}
