// report.c: what people and programs are told of a run: warnings, the plan, the log's first and last line.
#include "train/cli/run.h"

#include <inttypes.h>
#include <limits.h>
#include <time.h>

void cli_run_warn(run *r, const char *message) {
    cli_progress_leave(&r->progress);
    cli_warning("%s", message);
    json_object json;
    if (!cli_log_begin(&r->log, "warn", &json)) return;
    json_integer(&json, "step", r->now.step);
    json_text(&json, "message", message);
    cli_log_end(&r->log, &json);
}

// What --time has chosen, as the options that choose it again.
static void print_sizes(const hst_train_options *o) {
    fprintf(stderr, "--layers %d --hidden %" PRId64 " --batch %" PRId64 " --length %" PRId64 " --dropout %g --lr %g ",
            o->layers, o->hidden, o->batch, o->length, o->dropout, o->lr);
    if (o->precision != HST_FP32) fprintf(stderr, "--precision %s ", hst_precision_of(o->precision)->name);
}

static void print_plan(const run *r) {
    const hst_train_options *o = &r->v.train;
    const char *unit = hst_tokenizer_unit(r->tokenizer);
    int64_t symbols = hst_corpus_symbols(r->text).count;
    double read = (double)o->steps * (double)o->accumulate * (double)o->batch * (double)o->length;
    char spent[32], several[32] = "";
    if (o->accumulate > 1) snprintf(several, sizeof several, "%" PRId64 " x ", o->accumulate);
    fprintf(stderr, "model: %" PRId64 " parameters, %d layers of %" PRId64 ", %" PRId64 " %ss, seed %" PRIu64 "\n",
            r->now.parameters, o->layers, o->hidden, hst_tokenizer_size(r->tokenizer), unit, o->seed);
    fprintf(stderr, "text:  %" PRId64 " bytes to learn from, %" PRId64 " held out", hst_corpus_size(r->text),
            hst_corpus_size(r->held_out));
    if (symbols != hst_corpus_size(r->text)) fprintf(stderr, "; %" PRId64 " %ss", symbols, unit);
    fprintf(stderr, "\nplan:  %" PRId64 " steps of %s%" PRId64 " x %" PRId64 " %ss, %.3g epochs", o->steps, several,
            o->batch, o->length, unit, read / (double)symbols);
    if (o->seconds > 0) {
        fprintf(stderr, ", about %s (", cli_format_duration(o->seconds, spent, sizeof spent));
        if (r->sizes_chosen) print_sizes(o);
        fprintf(stderr, "--steps %" PRId64 " --eval-every %" PRId64 " repeats it)", o->steps, o->eval_every);
    }
    fprintf(stderr, "\nfiles: %.1f MB in %s, saved ", (double)r->file_bytes / 1e6, r->v.output);
    if (o->save_every > 0)
        fprintf(stderr, "every %" PRId64 " steps\n", o->save_every);
    else
        fprintf(stderr, "after evaluations, every %" PRId64 " steps but at most once a minute\n", o->eval_every);
    cli_precision_print(&r->v, stderr);
    fprintf(stderr, "with:  %d threads, %s kernels, %.1f MB of memory\n", hst_thread_count(r->ctx), hst_isa(r->ctx),
            (double)r->memory_bytes / 1e6);
}

void cli_run_take_plan(run *r, const hst_progress *p) {
    r->now = *p;
    r->v.train.steps = p->steps;
    r->v.train.eval_every = p->eval_every;
    r->progress.tokens = (double)(r->v.train.accumulate * r->v.train.batch * r->v.train.length);
    if (!r->v.quiet) print_plan(r);
}

void cli_run_log_start(run *r) {
    char now[32], texts[PATH_MAX] = "", sum[65];
    time_t clock = time(NULL);
    struct tm utc;
    json_object json;
    if (!cli_log_begin(&r->log, "start", &json)) return;
    hst_corpus_sha256(r->text, sum);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&clock, &utc));
    for (int i = 0, n = 0; i < r->texts && n < PATH_MAX; i++)
        n += snprintf(texts + n, (size_t)(PATH_MAX - n), "%s%s", i ? " " : "", r->paths[i]);
    json_text(&json, "version", hst_version());
    json_text(&json, "began", now);
    json_text(&json, "isa", hst_isa(r->ctx));
    json_integer(&json, "threads", hst_thread_count(r->ctx));
    json_text(&json, "text", texts);
    json_text(&json, "text_sha256", sum);
    json_text(&json, "symbol", hst_tokenizer_unit(r->tokenizer));
    json_integer(&json, "vocabulary", hst_tokenizer_size(r->tokenizer));
    json_integer(&json, "text_bytes", hst_corpus_size(r->text));
    json_integer(&json, "held_out_bytes", r->held_out ? hst_corpus_size(r->held_out) : 0);
    json_integer(&json, "parameters", r->now.parameters);
    cli_options_json(&json, cli_train_options, &r->v);
    cli_log_end(&r->log, &json);
}

void cli_run_log_end(run *r, const char *result, const char *error) {
    json_object json;
    if (!cli_log_begin(&r->log, "end", &json)) return;
    json_text(&json, "result", result);
    json_integer(&json, "step", r->now.step);
    json_real(&json, "seconds", r->now.seconds);
    json_real(&json, "smooth_loss", r->now.smooth_loss);
    json_real(&json, "validation", r->now.validation);
    json_real(&json, "best", r->now.best);
    json_integer(&json, "skipped", r->now.skipped);
    if (error) json_text(&json, "error", error);
    cli_log_end(&r->log, &json);
}
