// run.c: a whole run: plan, then steps with evaluations and saves in between.
#include <math.h>
#include <string.h>
#include <time.h>
#include "train/trainer.h"

enum { UNTIMED_STEPS = 3, MEASURED_STEPS = 40, MEASURED_SYMBOLS = 16384, EVALUATIONS = 8 };
static const double SAVE_SECONDS = 60, HEADROOM = 0.97, EVALUATION_SHARE = 0.05; // the latter two of a planned duration

double hst_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct run {
    hst_trainer *t;
    const char *folder;
    bool (*progress)(const hst_progress *progress, void *user);
    void *user;
    double began, saved; // seconds
    double step_seconds; // a running mean; 0 before the first step of this run
    bool stopped;        // progress said so
} run;

static void report(run *r, hst_event event, const char *path) {
    hst_trainer *t = r->t;
    double batches = (double)t->options.accumulate; // a step
    double per_step = batches * (double)(t->options.batch * t->options.length);
    hst_progress p = {
        .event = event,
        .step = t->done.step,
        .steps = t->options.steps,
        .eval_every = t->options.eval_every,
        .parameters = hst_parameter_elements(t->model->parameters),
        .epoch = (double)hst_batches_read(t) / (double)hst_stream_epoch_batches(t->stream),
        .loss = t->loss,
        .smooth_loss = t->done.smooth_loss,
        .rate = t->rate,
        .norm = t->norm,
        .scale = t->scale,
        .result = t->result,
        .skipped = t->done.skipped,
        .scaler = t->scaler_did,
        .tokens_per_second = r->step_seconds > 0 ? per_step / r->step_seconds : 0,
        .seconds = hst_seconds() - r->began,
        .validation = t->done.validation,
        .best = t->done.best,
        .best_step = t->done.best_step,
        .path = path,
    };
    if (r->progress && !r->progress(&p, r->user)) r->stopped = true;
}

// Between the events: whether to go on with something long.
static bool go_on(void *user) {
    run *r = user;
    if (!r->stopped) report(r, HST_EVENT_BUSY, NULL);
    return !r->stopped;
}

// ---- the plan ----

// Seconds that a step takes, by a throw-away trainer: the real one is not touched, so the run is the same as one
// started with the number of steps that comes out of this.
static double measure_step(run *r, hst_trainer *copy) {
    double began = 0, limit = 0.05 * r->t->options.seconds;
    int64_t timed = 0;
    while (timed < MEASURED_STEPS && go_on(r) && hst_trainer_step(copy, NULL) == HST_OK) {
        if (copy->done.step == UNTIMED_STEPS) began = hst_seconds(); // the first steps ask the system for memory
        timed = copy->done.step - UNTIMED_STEPS;
        if (timed > 0 && hst_seconds() - r->began > limit) break;
    }
    return timed > 0 ? (hst_seconds() - began) / (double)timed : 1;
}

// Seconds that an evaluation takes, from a short text.
static double measure_evaluation(run *r, hst_trainer *copy) {
    const hst_corpus *text = r->t->held_out;
    if (!text || r->t->ctx->status != HST_OK) return 0;
    hst_symbols all = hst_corpus_symbols(text), part = all;
    if (part.count > MEASURED_SYMBOLS) part.count = MEASURED_SYMBOLS;
    double nats, began = hst_seconds();
    hst_precision_begin(copy);
    hst_evaluate_while(copy->model, part, 0, NULL, &nats, go_on, r);
    hst_precision_end(copy);
    return (hst_seconds() - began) * (double)all.count / (double)part.count;
}

// How many steps, and how far apart evaluations, fill options.seconds; evaluations take at most a share of it.
static bool measure(run *r) {
    hst_train_options *o = &r->t->options, measured = *o;
    measured.steps = INT32_MAX;
    hst_trainer *copy = hst_trainer_new(r->t->ctx, &measured, r->t->text, NULL);
    if (!copy) return false;
    copy->go_on = go_on, copy->user = r;
    double step = measure_step(r, copy), evaluation = measure_evaluation(r, copy);
    hst_trainer_free(copy);
    if (r->stopped) return r->t->ctx->status == HST_OK; // there is no plan
    double count =
        evaluation > 0 ? fmax(1, fmin(EVALUATIONS, floor(EVALUATION_SHARE * o->seconds / evaluation))) : EVALUATIONS;
    double left = HEADROOM * o->seconds - (hst_seconds() - r->began);
    if (o->eval_every > 0)
        step += evaluation / (double)o->eval_every;
    else
        left -= count * evaluation;
    o->steps = left > step ? (int64_t)(left / step) : 1;
    if (o->eval_every == 0) o->eval_every = (int64_t)ceil((double)o->steps / count);
    return r->t->ctx->status == HST_OK;
}

static bool plan(run *r) {
    hst_train_options *o = &r->t->options;
    if (o->steps == 0 && (!measure(r) || r->stopped)) return r->t->ctx->status == HST_OK;
    if (o->eval_every == 0) o->eval_every = (o->steps + EVALUATIONS - 1) / EVALUATIONS;
    report(r, HST_EVENT_PLAN, NULL);
    return true;
}

// ---- evaluations and saves ----

static bool save(run *r, bool best) {
    char path[4096];
    if (!r->folder) return true;
    hst_status status = best ? hst_trainer_save_best(r->t, r->folder, path, sizeof path)
                             : hst_trainer_save_last(r->t, r->folder, path, sizeof path);
    if (status != HST_OK) return false;
    if (!best) r->saved = hst_seconds();
    report(r, HST_EVENT_SAVE, path);
    return true;
}

static bool evaluate(run *r) {
    hst_trainer *t = r->t;
    if (!t->held_out) return true;
    double loss;
    hst_ema_swap(t->ema);
    hst_precision_begin(t);
    hst_status status = hst_evaluate_while(t->model, hst_corpus_symbols(t->held_out), 0, NULL, &loss, go_on, r);
    hst_precision_end(t);
    hst_ema_swap(t->ema);
    if (status != HST_OK || r->stopped) return status == HST_OK;
    t->done.validation = loss;
    t->done.evaluated = t->done.step;
    bool best = !(t->done.validation >= t->done.best);
    t->done.since_best = best ? 0 : t->done.since_best + 1;
    if (best) {
        t->done.best = t->done.validation;
        t->done.best_step = t->done.step;
    }
    report(r, HST_EVENT_EVAL, NULL);
    return !best || save(r, true);
}

// At the end of the plan, or out of patience.
static bool is_finished(const hst_trainer *t) {
    return t->done.step >= t->options.steps || (t->options.patience > 0 && t->done.since_best >= t->options.patience);
}

static bool is_due(const hst_trainer *t) {
    return t->done.step == t->options.steps || t->done.step % t->options.eval_every == 0;
}

static bool step(run *r) {
    hst_trainer *t = r->t;
    double began = hst_seconds();
    if (hst_trainer_step(t, NULL) != HST_OK) return r->stopped && t->ctx->status == HST_OK;
    double took = hst_seconds() - began;
    r->step_seconds = t->done.step <= UNTIMED_STEPS || r->step_seconds == 0
                          ? took
                          : r->step_seconds + 0.05 * (took - r->step_seconds);
    report(r, HST_EVENT_STEP, NULL);
    if (t->result != HST_STEPPED) return true;
    bool evaluation_due = is_due(t);
    if (evaluation_due && !r->stopped && !evaluate(r)) return false;
    bool due = t->options.save_every > 0 ? t->done.step % t->options.save_every == 0
                                         : evaluation_due && hst_seconds() - r->saved > SAVE_SECONDS;
    return is_finished(t) || r->stopped || !due || save(r, false);
}

hst_status hst_trainer_run(hst_trainer *t, const char *folder,
                           bool (*progress)(const hst_progress *progress, void *user), void *user) {
    if (!t) return HST_ERROR_STATE;
    run r = {
        .t = t, .folder = folder, .progress = progress, .user = user, .began = hst_seconds(), .saved = hst_seconds()};
    t->saved = false;
    if (t->ctx->status != HST_OK || !plan(&r)) return t->ctx->status;
    // A run that was stopped before an evaluation was complete makes up for it, and ends as if it had never been
    // stopped.
    if (t->done.step > 0 && t->done.evaluated != t->done.step && is_due(t) && !evaluate(&r)) return t->ctx->status;
    t->go_on = go_on, t->user = &r;
    while (!r.stopped && !is_finished(t) && step(&r)) {
    }
    t->go_on = NULL;
    if (t->ctx->status != HST_OK) return t->ctx->status;
    if (hst_batches_read(t) > 0 && (!save(&r, false) || (isnan(t->done.best) && !save(&r, true))))
        return t->ctx->status;
    bool stopped = r.stopped;
    report(&r, HST_EVENT_END, NULL);
    return stopped ? hst_fail(t->ctx, HST_CANCELLED, "the run was stopped after step %lld of %lld",
                              (long long)t->done.step, (long long)t->options.steps)
                   : HST_OK;
}
