// train.c: `halfstep train`: texts in, a run folder out. The training itself is the library's (train/train.h), its
// options are in train_options.c, the checks before it in prepare.c, what is told of it in report.c.
#include "train/cli/deepspeed.h"
#include "train/cli/folder.h"
#include "train/cli/plot.h"
#include "train/cli/png.h"
#include "train/cli/run.h"
#include "train/cli/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>

// ---- what is told while it runs ----

static void on_library_message(int level, const char *message, void *user) {
    const run *r = user;
    if (level == HST_LOG_WARNING)
        cli_run_warn(user, message);
    else if (!r->v.quiet)
        fprintf(stderr, "note: %s\n", message);
}

// The first step, about a thousand evenly spaced ones, the last; and each that was skipped.
static bool step_is_logged(const hst_progress *p) {
    if (p->result != HST_STEPPED) return true;
    int64_t every = p->steps / 1000 > 0 ? p->steps / 1000 : 1;
    return p->step == 1 || p->step % every == 0 || p->step == p->steps;
}

static const char UNSAFE[] =
    "--unsafe-accumulation rounds after each addition of every sum: the model will be worse, and "
    "the kernels are slow";

static bool on_progress(const hst_progress *p, void *user) {
    run *r = user;
    if (p->event != HST_EVENT_BUSY) r->now = *p;
    switch (p->event) {
    case HST_EVENT_PLAN:
        cli_run_take_plan(r, p);
        cli_run_log_start(r);
        if (r->v.common.unsafe) cli_run_warn(r, UNSAFE);
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
    case HST_EVENT_BUSY: // a long evaluation: the line is shown again, so that nobody takes the run for dead
        if (p->step > 0) cli_progress_show(&r->progress, p, false);
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
    const char *unit = hst_tokenizer_unit(r->tokenizer);
    bool validated = isfinite(p->best) && r->held_out;
    double loss = validated ? p->best : p->smooth_loss;
    if (r->v.json) {
        json_object json = json_begin(stdout);
        json_text(&json, "run", r->v.output);
        json_integer(&json, "steps", p->step);
        json_integer(&json, "skipped", p->skipped);
        json_real(&json, "seconds", p->seconds);
        json_text(&json, "symbol", unit);
        json_real(&json, "training_nats_per_symbol", p->smooth_loss);
        json_real(&json, "held_out_nats_per_symbol", validated ? p->best : NAN);
        json_real(&json, "held_out_bits_per_symbol", validated ? p->best / M_LN2 : NAN);
        json_end(&json);
    }
    if (r->v.quiet) return;
    if (p->step < p->steps && r->v.train.patience > 0 && !cli_stop_signal())
        fprintf(stderr, "ended after %" PRId64 " evaluations without a new best\n", r->v.train.patience);
    fprintf(stderr, "%s loss: %.4f nats per %s (%.4f bits)", validated ? "held-out" : "training", loss, unit,
            loss / M_LN2);
    if (validated && p->best_step < p->step) fprintf(stderr, " at step %" PRId64 ", the best", p->best_step);
    fprintf(stderr, "; steps: %" PRId64, p->step);
    if (p->skipped > 0) fprintf(stderr, ", %" PRId64 " skipped", p->skipped);
    fprintf(stderr, ", time: %s\n", cli_format_duration(p->seconds, spent, sizeof spent));
    fprintf(stderr, "sample it with: %s generate %s\n", cli_quoted(program_invocation_name, program, sizeof program),
            cli_quoted(r->v.output, quoted, sizeof quoted));
}

// A run is not the worse for a picture that is missing.
static void draw_losses(const run *r) {
    char why[PATH_MAX + 256];
    if (cli_has_png && cli_plot_run(r->v.output, why, sizeof why) == CLI_FAILED) cli_warning("%s", why);
}

static int finish_stopped(run *r, int number) {
    cli_run_log_end(r, "stopped", NULL);
    const char *name = number == SIGTERM ? "SIGTERM" : number == SIGHUP ? "SIGHUP" : "SIGINT";
    if (!r->saved)
        fprintf(stderr, "stopped by %s before there was anything to save\n", name);
    else {
        draw_losses(r);
        char program[PATH_MAX + 16], text[PATH_MAX + 16], folder[PATH_MAX + 16];
        fprintf(stderr, "stopped by %s after step %" PRId64 "; saved in %s/last.safetensors\n", name, r->now.step,
                r->v.output);
        fprintf(stderr, "go on with: %s train", cli_quoted(program_invocation_name, program, sizeof program));
        for (int i = 0; i < r->texts; i++) fprintf(stderr, " %s", cli_quoted(r->paths[i], text, sizeof text));
        if (r->v.val) fprintf(stderr, " --val %s", cli_quoted(r->v.val, text, sizeof text));
        if (r->v.val_split != 0.1) fprintf(stderr, " --val-split %.17g", r->v.val_split);
        if (r->v.unknown == CLI_UNKNOWN_SKIP) fprintf(stderr, " --unknown skip");
        fprintf(stderr, " --resume -o %s\n", cli_quoted(r->v.output, folder, sizeof folder));
        print_result(r);
    }
    return 128 + number;
}

static int finish_failed(run *r) {
    bool diverged = hst_get_status(r->ctx) == HST_ERROR_DIVERGED;
    cli_run_log_end(r, diverged ? "diverged" : "failed", hst_error(r->ctx));
    if (!diverged) return cli_failure(r->ctx, false);
    draw_losses(r);
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
    cli_run_log_end(r, "done", NULL);
    draw_losses(r);
    print_result(r);
    return CLI_DONE;
}

// ---- the command ----

static int run_train(const void *values, int count, char **operands) {
    char folder[PATH_MAX];
    run r = {.v = *(const cli_train_values *)values, .texts = count, .paths = operands};
    if (!r.v.output) r.v.output = cli_default_folder(operands[0], folder, sizeof folder);
    int code = cli_deepspeed_read(&r.v);
    if (code != CLI_DONE) return code;
    if (!cli_train_options_fit(&r.v) || !cli_precision_fit(&r.v)) return CLI_USAGE;
    r.v.common.unsafe |= cli_run_was_unsafe(&r);
    cli_progress_begin(&r.progress, r.v.quiet);
    r.ctx = cli_open(&r.v.common, on_library_message, &r, &code);
    if (!r.ctx) return code;
    code = cli_run_prepare(&r);
    if (code == CLI_DONE) code = r.v.dry_run ? cli_dry_run(&r) : train(&r);
    cli_log_close(&r.log);
    hst_trainer_free(r.trainer);
    hst_corpus_free(r.held_out);
    hst_corpus_free(r.text);
    hst_tokenizer_free(r.tokenizer);
    hst_close(r.ctx);
    return code;
}

static const cli_term examples[] = {
    {"halfstep train book.txt", "trains on a text, into book.run; Ctrl-C stops it and saves"},
    {"halfstep train book.txt --resume", "goes on, to the same bytes as if it had not stopped"},
    {"halfstep train book.txt --time 3m", "trains about as much as three minutes allow"},
    {"cat *.txt | halfstep train - -o books.run --layers 6 --hidden 512", "trains a larger model on several texts"},
    {NULL, NULL}};

const cli_command cli_train = {
    .name = "train",
    .operands = "TEXT...",
    .at_least = 1,
    .at_most = -1,
    .summary = "train a language model on texts",
    .details = "Trains a language model. TEXT is a file, a folder (all its text files) or - for standard "
               "input; several are read one after the other. RUN gets model.safetensors (the best by the held-out "
               "text), last.safetensors and previous.safetensors (the newest two), log.jsonl and loss.png. Ctrl-C, "
               "or a terminal that is closed, ends the run after the step at hand and saves; --resume goes on, to the "
               "same bytes; under nohup the run does not end with its terminal.",
    .examples = examples,
    .files = cli_run_files,
    .options = cli_train_options,
    .size = sizeof(cli_train_values),
    .defaults = cli_train_defaults,
    .run = run_train,
};
