// dry_run.c: `halfstep train --dry-run`: a few steps of the run, without its folder, and what all of it would take.
#include "train/cli/run.h"
#include "train/cli/signals.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

enum { STEPS = 20, UNTIMED_STEPS = 3, EVALUATED = 16384 }; // steps tried; of which first ones; symbols evaluated
static const double SECONDS = 5;                           // when it is enough

typedef struct trial {
    run *r;
    int64_t first, steps, timed; // steps done before it, in it, and timed in it
    int64_t batches;             // between which a step asked whether to go on
    double began, seconds;
} trial;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool on_progress(const hst_progress *p, void *user) {
    trial *t = user;
    if (p->event == HST_EVENT_PLAN) {
        cli_run_take_plan(t->r, p);
        t->first = p->step;
    }
    if (p->event == HST_EVENT_BUSY && t->steps == 0 && ++t->batches > 1) t->seconds = now() - t->began;
    if (p->event == HST_EVENT_BUSY && t->batches == 1) t->began = now();
    if (p->event != HST_EVENT_STEP) return !cli_stop_signal() && !(t->batches > 2 && t->seconds > SECONDS);
    t->steps = p->step - t->first;
    if (t->steps <= UNTIMED_STEPS) t->began = now(); // the first ones ask the system for memory
    t->timed = t->steps > UNTIMED_STEPS ? t->steps - UNTIMED_STEPS : 0;
    t->seconds = now() - t->began;
    return !cli_stop_signal() && t->steps < STEPS && !(t->timed > 0 && t->seconds > SECONDS);
}

// Seconds that an evaluation takes, from its first symbols.
static double evaluation_seconds(const run *r) {
    hst_symbols all = hst_corpus_symbols(r->held_out), part = all;
    double nats, began = now();
    if (all.count < 2) return 0;
    if (part.count > EVALUATED) part.count = EVALUATED;
    hst_lm_evaluate(hst_trainer_model(r->trainer), part, 0, NULL, &nats);
    return (now() - began) * (double)all.count / (double)part.count;
}

static void print_result(const run *r, int64_t left, double seconds) {
    char spent[32];
    if (r->v.json) {
        json_object json = json_begin(stdout);
        json_text(&json, "run", r->v.output);
        json_integer(&json, "steps", r->v.train.steps);
        json_integer(&json, "steps_left", left);
        json_integer(&json, "parameters", r->now.parameters);
        json_real(&json, "seconds", seconds);
        json_real(&json, "memory_bytes", r->memory_bytes);
        json_real(&json, "file_bytes", r->file_bytes);
        json_end(&json);
    }
    if (r->v.quiet) return;
    if (left == 0)
        fprintf(stderr, "dry run: the run is at its end; nothing was written\n");
    else
        fprintf(stderr, "dry run: %" PRId64 " steps would take about %s; nothing was written\n", left,
                isnan(seconds) ? "a second" : cli_format_duration(seconds, spent, sizeof spent));
}

int cli_dry_run(run *r) {
    trial t = {.r = r};
    hst_status status = hst_trainer_run(r->trainer, NULL, on_progress, &t);
    if (cli_stop_signal()) return 128 + cli_stop_signal();
    if (status == HST_CANCELLED) hst_clear_error(r->ctx);
    if (status != HST_OK && status != HST_CANCELLED) return cli_failure(r->ctx, false);
    if (t.timed == 0 && t.batches > 1) { // not even three steps, which are of many batches
        t.seconds *= (double)r->v.train.accumulate / (double)(t.batches - 1);
        t.steps = t.timed = 1;
    }
    int64_t left = t.steps > 0 ? r->v.train.steps - t.first : 0, every = r->v.train.eval_every;
    double evaluations = r->held_out ? ceil((double)left / (double)every) : 0;
    double seconds =
        t.timed > 0 ? (double)left * t.seconds / (double)t.timed + evaluations * evaluation_seconds(r) : NAN;
    if (hst_get_status(r->ctx) != HST_OK) return cli_failure(r->ctx, false);
    print_result(r, left, seconds);
    return CLI_DONE;
}
