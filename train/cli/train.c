// train.c: `halfstep train`: texts in, a run folder out. The training itself is the library's (train/train.h); here are
// its options, the checks before it, and what people and programs get to see of it.
#include "train/cli/cli.h"
#include "train/cli/folder.h"
#include "train/cli/log.h"
#include "train/cli/progress.h"
#include "train/cli/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct train_values {
    cli_common common;
    hst_train_options train;
    const char *output;
    const char *val; // a path, or NULL
    double val_split;
    bool force, resume, quiet, json;
} train_values;

#define AT(field) offsetof(train_values, field)

static const cli_option options[] = {
    {.help = "The run"},
    {"output", 'o', "RUN", CLI_TEXT, AT(output), .standard = "book.run for book.txt",
     .help = "folder for the model and the log, made if missing (its parent must exist)"},
    {"resume", 0, NULL, CLI_FLAG, AT(resume),
     .help = "go on with the run in the folder, given the same TEXT; its settings are the run's"},
    {"force", 'f', NULL, CLI_FLAG, AT(force), .help = "start over in a folder that holds a run"},
    {"steps", 0, "N", CLI_INT64, AT(train.steps), .low = 1, .high = 1e12, .standard = "", .help = "train for N steps"},
    {"time", 0, "TIME", CLI_SECONDS, AT(train.seconds), .low = 0, .high = 1e8, .ends = CLI_ABOVE_LOW, .standard = "",
     .help = "train for about a duration, 90s, 3m or 1h30m; the speed is measured first and gives the number of steps"},
    {"epochs", 0, "N", CLI_REAL, AT(train.epochs), .low = 0, .high = 1e6, .ends = CLI_ABOVE_LOW,
     .help = "train for N passes over the text"},
    {"eval-every", 0, "STEPS", CLI_INT64, AT(train.eval_every), .low = 0, .high = 1e12,
     .standard = "0, eight times a run, or fewer in a short one", .help = "how often to evaluate on the held-out text"},
    {"save-every", 0, "STEPS", CLI_INT64, AT(train.save_every), .low = 0, .high = 1e12,
     .standard = "0, after evaluations, at most once a minute, and at the end",
     .help = "how often to save the newest model"},
    {"seed", 0, "SEED", CLI_SEED, AT(train.seed), .help = "the same seed gives the same model"},
    {.help = "The model"},
    {"layers", 0, "N", CLI_INT, AT(train.layers), .low = 1, .high = 256, .help = "how many SRU layers"},
    {"hidden", 0, "D", CLI_INT64, AT(train.hidden), .low = 1, .high = 65536, .help = "how wide each is"},
    {"dropout", 0, "P", CLI_REAL, AT(train.dropout), .low = 0, .high = 0.999,
     .help = "share of what a layer hands on that is dropped while training"},
    {"tied", 0, NULL, CLI_FLAG, AT(train.tied), .help = "use the embedding's table as the output layer"},
    {"projection", 0, "P", CLI_INT64, AT(train.projection), .low = 0, .high = 65536, .standard = "0, one matrix",
     .help = "two matrices in each layer, by way of a width of P below D"},
    {"layer-norm", 0, NULL, CLI_CHOICE, AT(train.layer_norm), .choices = "before|after|none",
     .help = "where each layer normalizes: before its product, after its recurrence"},
    {"highway-bias", 0, "BIAS", CLI_REAL, AT(train.highway_bias), .low = -100, .high = 100,
     .help = "where the gates between a layer's input and its output start; at -2 a layer starts close to a copy"},
    {"no-rescale", 0, NULL, CLI_FLAG, AT(train.no_rescale),
     .help = "do not enlarge what goes around a layer to keep its size"},
    {"tanh", 0, NULL, CLI_FLAG, AT(train.tanh), .help = "a layer's output from the tanh of its state"},
    {.help = "The text"},
    {"batch", 0, "B", CLI_INT64, AT(train.batch), .low = 1, .high = 65536,
     .help = "how many places of the text are read at once"},
    {"length", 0, "L", CLI_INT64, AT(train.length), .low = 1, .high = 65536,
     .help = "how many bytes of each in a step"},
    {"fresh-share", 0, "SHARE", CLI_REAL, AT(train.fresh_share), .low = 0, .high = 1,
     .help = "share of the places that start a step from an empty state instead of the carried one"},
    {"val", 0, "FILE", CLI_TEXT, AT(val), .standard = "the end of TEXT",
     .help = "a text of its own (a file, a folder or -) to evaluate on; all of TEXT is then learned from"},
    {"val-split", 0, "SHARE", CLI_REAL, AT(val_split), .low = 0, .high = 1, .ends = CLI_BELOW_HIGH,
     .help = "share of the text, at its end, that is held out for evaluation"},
    {.help = "The optimizer"},
    {"optimizer", 0, NULL, CLI_CHOICE, AT(train.optimizer), .choices = "adamw|sgd",
     .help = "how gradients move weights"},
    {"lr", 0, "RATE", CLI_REAL, AT(train.lr), .low = 0, .high = 1e6,
     .help = "peak learning rate, before a cosine decay"},
    {"warmup", 0, "SHARE", CLI_REAL, AT(train.warmup), .low = 0, .high = 1, .help = "share of the run up to the peak"},
    {"clip", 0, "NORM", CLI_REAL, AT(train.clip), .low = 0, .high = INFINITY,
     .help = "scale longer gradients down to this norm; 0 leaves all as they are"},
    {"weight-decay", 0, "RATE", CLI_REAL, AT(train.weight_decay), .low = 0, .high = 1e6,
     .help = "pull of matrices to zero"},
    {"momentum", 0, "M", CLI_REAL, AT(train.momentum), .low = 0, .high = 0.9999, .help = "sgd's momentum"},
    {.help = "Reports"},
    {"quiet", 'q', NULL, CLI_FLAG, AT(quiet), .help = "print only warnings and errors"},
    {"json", 0, NULL, CLI_FLAG, AT(json), .help = "print the result as one JSON object on standard output"},
    {0}};

static void defaults(void *values) {
    train_values *v = values;
    hst_train_defaults(&v->train, sizeof v->train);
    v->val_split = 0.1;
}

typedef struct run {
    train_values v; // output is always set, steps once planned
    int texts;
    char **paths;
    hst_context *ctx;
    hst_corpus *text, *held_out; // held_out NULL: no validation
    hst_trainer *trainer;
    cli_log log;
    cli_progress progress;
    hst_progress now; // the last state reported
    bool saved;       // since this run began
} run;

// ---- what is told while it runs ----

static void warn(run *r, const char *message) {
    cli_progress_leave(&r->progress);
    cli_warning("%s", message);
    json_object json;
    if (!cli_log_begin(&r->log, "warn", &json)) return;
    json_integer(&json, "step", r->now.step);
    json_text(&json, "message", message);
    cli_log_end(&r->log, &json);
}

static void on_library_message(int level, const char *message, void *user) {
    const run *r = user;
    if (level == HST_LOG_WARNING)
        warn(user, message);
    else if (!r->v.quiet)
        fprintf(stderr, "note: %s\n", message);
}

static void print_plan(const run *r) {
    const hst_train_options *o = &r->v.train;
    double epochs = (double)o->steps * (double)o->batch * (double)o->length / (double)hst_corpus_size(r->text);
    char spent[32];
    fprintf(stderr, "model: %" PRId64 " parameters, %d layers of %" PRId64 ", seed %" PRIu64 "\n", r->now.parameters,
            o->layers, o->hidden, o->seed);
    fprintf(stderr, "text:  %" PRId64 " bytes to learn from, %" PRId64 " held out\n", hst_corpus_size(r->text),
            r->held_out ? hst_corpus_size(r->held_out) : 0);
    fprintf(stderr, "plan:  %" PRId64 " steps of %" PRId64 " x %" PRId64 " bytes, %.3g epochs", o->steps, o->batch,
            o->length, epochs);
    if (o->seconds > 0)
        fprintf(stderr, ", about %s (--steps %" PRId64 " --eval-every %" PRId64 " repeats it)",
                cli_format_duration(o->seconds, spent, sizeof spent), o->steps, o->eval_every);
    fprintf(stderr, "\nwith:  %d threads, %s kernels, into %s\n", hst_thread_count(r->ctx), hst_isa(r->ctx),
            r->v.output);
}

static void log_start(run *r) {
    char now[32], texts[PATH_MAX] = "";
    time_t clock = time(NULL);
    struct tm utc;
    json_object json;
    if (!cli_log_begin(&r->log, "start", &json)) return;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&clock, &utc));
    for (int i = 0, n = 0; i < r->texts && n < PATH_MAX; i++)
        n += snprintf(texts + n, (size_t)(PATH_MAX - n), "%s%s", i ? " " : "", r->paths[i]);
    json_text(&json, "version", hst_version());
    json_text(&json, "began", now);
    json_text(&json, "isa", hst_isa(r->ctx));
    json_integer(&json, "threads", hst_thread_count(r->ctx));
    json_text(&json, "text", texts);
    json_integer(&json, "text_bytes", hst_corpus_size(r->text));
    json_integer(&json, "held_out_bytes", r->held_out ? hst_corpus_size(r->held_out) : 0);
    json_integer(&json, "parameters", r->now.parameters);
    cli_options_json(&json, options, &r->v);
    cli_log_end(&r->log, &json);
}

static void log_end(run *r, const char *result, const char *error) {
    json_object json;
    if (!cli_log_begin(&r->log, "end", &json)) return;
    json_text(&json, "result", result);
    json_integer(&json, "step", r->now.step);
    json_real(&json, "seconds", r->now.seconds);
    json_real(&json, "smooth_loss", r->now.smooth_loss);
    json_real(&json, "validation", r->now.validation);
    json_real(&json, "best", r->now.best);
    if (error) json_text(&json, "error", error);
    cli_log_end(&r->log, &json);
}

// The first step, about a thousand evenly spaced ones, the last.
static bool step_is_logged(const hst_progress *p) {
    int64_t every = p->steps / 1000 > 0 ? p->steps / 1000 : 1;
    return p->step == 1 || p->step % every == 0 || p->step == p->steps;
}

static bool on_progress(const hst_progress *p, void *user) {
    run *r = user;
    if (p->event != HST_EVENT_BUSY) r->now = *p;
    switch (p->event) {
    case HST_EVENT_PLAN:
        r->v.train.steps = p->steps;
        r->v.train.eval_every = p->eval_every;
        r->progress.tokens = (double)(r->v.train.batch * r->v.train.length);
        if (!r->v.quiet) print_plan(r);
        log_start(r);
        break;
    case HST_EVENT_STEP:
        cli_progress_show(&r->progress, p, false);
        if (step_is_logged(p)) cli_log_progress(&r->log, p);
        break;
    case HST_EVENT_EVAL:
        cli_progress_show(&r->progress, p, true);
        cli_log_progress(&r->log, p);
        break;
    case HST_EVENT_SAVE:
        r->saved = true;
        cli_log_progress(&r->log, p);
        break;
    case HST_EVENT_BUSY:
        break;
    case HST_EVENT_END:
        if (!r->held_out) cli_progress_show(&r->progress, p, true); // else the last evaluation was
        break;
    }
    return !cli_stop_signal();
}

// ---- the end ----

static void print_result(const run *r) {
    const hst_progress *p = &r->now;
    char quoted[PATH_MAX + 16], program[PATH_MAX + 16], spent[32];
    bool validated = isfinite(p->best) && r->held_out;
    double loss = validated ? p->best : p->smooth_loss;
    if (r->v.json) {
        json_object json = json_begin(stdout);
        json_text(&json, "run", r->v.output);
        json_integer(&json, "steps", p->step);
        json_real(&json, "seconds", p->seconds);
        json_real(&json, "training_nats_per_byte", p->smooth_loss);
        json_real(&json, "held_out_nats_per_byte", validated ? p->best : NAN);
        json_real(&json, "held_out_bits_per_byte", validated ? p->best / M_LN2 : NAN);
        json_end(&json);
    }
    if (r->v.quiet) return;
    fprintf(stderr, "%s loss: %.4f nats per byte (%.4f bits)", validated ? "held-out" : "training", loss, loss / M_LN2);
    if (validated && p->best_step < p->step) fprintf(stderr, " at step %" PRId64 ", the best", p->best_step);
    fprintf(stderr, "; steps: %" PRId64 ", time: %s\n", p->step, cli_format_duration(p->seconds, spent, sizeof spent));
    fprintf(stderr, "sample it with: %s generate %s\n", cli_quoted(program_invocation_name, program, sizeof program),
            cli_quoted(r->v.output, quoted, sizeof quoted));
}

static int finish_stopped(run *r, int number) {
    log_end(r, "stopped", NULL);
    const char *name = number == SIGTERM ? "SIGTERM" : "SIGINT";
    if (!r->saved)
        fprintf(stderr, "stopped by %s before there was anything to save\n", name);
    else {
        char program[PATH_MAX + 16], text[PATH_MAX + 16], folder[PATH_MAX + 16];
        fprintf(stderr, "stopped by %s after step %" PRId64 "; saved in %s/last.safetensors\n", name, r->now.step,
                r->v.output);
        fprintf(stderr, "go on with: %s train", cli_quoted(program_invocation_name, program, sizeof program));
        for (int i = 0; i < r->texts; i++) fprintf(stderr, " %s", cli_quoted(r->paths[i], text, sizeof text));
        fprintf(stderr, " --resume -o %s\n", cli_quoted(r->v.output, folder, sizeof folder));
        print_result(r);
    }
    return 128 + number;
}

static int finish_failed(run *r) {
    bool diverged = hst_get_status(r->ctx) == HST_ERROR_DIVERGED;
    log_end(r, diverged ? "diverged" : "failed", hst_error(r->ctx));
    if (!diverged) return cli_failure(r->ctx, false);
    cli_error("%s; %s%s", hst_error(r->ctx), r->saved ? "the last good model is in " : "nothing was saved",
              r->saved ? r->v.output : "");
    return CLI_DIVERGED;
}

static int train(run *r) {
    if (r->v.train.seconds > 0 && !r->v.quiet) fprintf(stderr, "measuring the speed\n");
    hst_status status = hst_trainer_run(r->trainer, r->v.output, on_progress, r);
    cli_progress_leave(&r->progress);
    if (status == HST_CANCELLED && cli_stop_signal()) return finish_stopped(r, cli_stop_signal());
    if (status != HST_OK) return finish_failed(r);
    log_end(r, "done", NULL);
    print_result(r);
    return CLI_DONE;
}

// ---- the beginning ----

// Sets what to evaluate on, which may be nothing: an evaluation needs one prediction, that is two bytes.
static bool find_held_out(run *r) {
    if (!r->v.val && r->v.val_split <= 0) return true;
    char *val[] = {(char *)r->v.val};
    hst_corpus *rest = r->v.val ? cli_read_texts(r->ctx, 1, val) : hst_corpus_split(r->text, r->v.val_split);
    if (rest && hst_corpus_size(rest) >= 2)
        r->held_out = rest;
    else
        hst_corpus_free(rest);
    if (rest && !r->held_out) warn(r, "no validation: the held-out text has less than two bytes");
    return rest != NULL;
}

// The run's newest checkpoint, or, if that is damaged, the one before it.
static hst_trainer *resume(run *r) {
    static const char *const names[] = {"last.safetensors", "previous.safetensors"};
    hst_trainer *trainer = NULL;
    for (int i = 0; i < 2 && !trainer; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", r->v.output, names[i]);
        if (i > 0 && access(path, F_OK) != 0) break;
        if (i > 0) {
            warn(r, hst_error(r->ctx));
            hst_clear_error(r->ctx);
        }
        trainer = hst_trainer_resume(r->ctx, path, r->text, r->held_out);
        if (hst_get_status(r->ctx) == HST_ERROR_VALUE) break; // another text
    }
    if (trainer) r->v.train = *hst_trainer_options(trainer);
    return trainer;
}

// Everything that can fail at the end is tried before the first step: a run writes a model (4 bytes a parameter), two
// checkpoints with the optimizer's two numbers a weight, and the next one beside them before it takes a place.
static int start(run *r) {
    r->text = cli_read_texts(r->ctx, r->texts, r->paths);
    if (!r->text || !find_held_out(r)) return cli_failure(r->ctx, true);
    r->trainer = r->v.resume ? resume(r) : hst_trainer_new(r->ctx, &r->v.train, r->text, r->held_out);
    if (!r->trainer) return cli_failure(r->ctx, r->v.resume || hst_get_status(r->ctx) == HST_ERROR_VALUE);
    int64_t parameters = hst_parameter_elements(hst_lm_parameters(hst_trainer_model(r->trainer)));
    if (!cli_prepare_folder(r->v.output) || !cli_folder_has_room(r->v.output, (4 + 3 * 12) * parameters))
        return CLI_FAILED;
    cli_guard_run(); // from here on a signal finds something to lose
    if (!r->v.resume && !cli_clear_folder(r->v.output)) return CLI_FAILED;
    return cli_log_open(&r->log, r->v.output, r->v.resume) ? CLI_DONE : CLI_FAILED;
}

static bool options_fit(const run *r) {
    hst_train_options standard;
    hst_train_defaults(&standard, sizeof standard);
    const hst_train_options *o = &r->v.train;
    if ((o->steps > 0) + (o->seconds > 0) + (o->epochs != standard.epochs) > 1)
        cli_error("--steps, --time and --epochs exclude each other");
    else if (!*r->v.output)
        cli_error("--output needs the name of a folder");
    else if (r->v.val && r->v.val_split != 0.1)
        cli_error("--val and --val-split exclude each other");
    else if (o->momentum != standard.momentum && o->optimizer != HST_SGD)
        cli_error("--momentum is sgd's; adamw has none");
    else if (r->v.resume && r->v.force)
        cli_error("--resume and --force exclude each other");
    else if (r->v.resume && memcmp(o, &standard, sizeof standard) != 0)
        cli_error("--resume takes the run's settings; leave the others out");
    else if (r->v.resume && !cli_folder_in_use(r->v.output))
        cli_error("%s: holds no run to go on with", r->v.output);
    else if (!r->v.resume && cli_folder_in_use(r->v.output) && !r->v.force)
        cli_error("%s: holds a run already; --resume goes on with it, --force starts over, -o names another folder",
                  r->v.output);
    else
        return true;
    return false;
}

static int run_train(const void *values, int count, char **operands) {
    char folder[PATH_MAX];
    run r = {.v = *(const train_values *)values, .texts = count, .paths = operands};
    if (!r.v.output) r.v.output = cli_default_folder(operands[0], folder, sizeof folder);
    if (!options_fit(&r)) return CLI_USAGE;
    cli_progress_begin(&r.progress, r.v.quiet);
    int code = CLI_DONE;
    r.ctx = cli_open(&r.v.common, on_library_message, &r, &code);
    if (!r.ctx) return code;
    code = start(&r);
    if (code == CLI_DONE) code = train(&r);
    cli_log_close(&r.log);
    hst_trainer_free(r.trainer);
    hst_corpus_free(r.held_out);
    hst_corpus_free(r.text);
    hst_close(r.ctx);
    return code;
}

const cli_command cli_train = {
    .name = "train",
    .operands = "TEXT...",
    .at_least = 1,
    .at_most = -1,
    .summary = "train a language model on texts",
    .details = "Trains a byte-level language model. TEXT is a file, a folder (all its text files) or - for standard "
               "input; several are read one after the other. RUN gets model.safetensors (the best by the held-out "
               "text), last.safetensors and previous.safetensors (the newest two) and log.jsonl. Ctrl-C ends the run "
               "after the step at hand and saves; --resume goes on, to the same bytes.",
    .options = options,
    .size = sizeof(train_values),
    .defaults = defaults,
    .run = run_train,
};
