// run.c: a whole run: plan, then steps with evaluations and saves in between.
#include <math.h>
#include <string.h>
#include <time.h>
#include "train/trainer.h"

enum { MEASURED_STEPS = 40, MEASURED_BYTES = 16384, EVALUATIONS = 8 };
static const double SAVE_SECONDS = 60, HEADROOM = 0.97; // of a planned duration; the rest is for saving and noise

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
    int64_t eval_every;
    bool stopped; // progress said so
} run;

static void report(run *r, hst_event event, const char *path) {
    hst_trainer *t = r->t;
    double per_step = (double)(t->options.batch * t->options.length);
    hst_progress p = {
        .event = event, .step = t->step, .steps = t->options.steps, .parameters = hst_parameter_elements(t->model->parameters),
        .epoch = (double)t->step / (double)hst_stream_epoch_batches(t->stream), .loss = t->loss, .smooth_loss = t->smooth_loss,
        .rate = t->rate, .norm = t->norm, .tokens_per_second = t->step_seconds > 0 ? per_step / t->step_seconds : 0,
        .seconds = hst_seconds() - r->began, .validation = t->validation, .best = t->best, .path = path,
    };
    if (r->progress && !r->progress(&p, r->user)) r->stopped = true;
}

// ---- the plan ----

// How many steps fit into options.seconds: a throw-away trainer measures a step, and a short text an evaluation. The real
// trainer is not touched, so the run is the same as one started with that number of steps.
static bool measure(run *r, int64_t *steps) {
    hst_trainer *t = r->t;
    hst_train_options o = t->options;
    o.steps = INT32_MAX;
    hst_trainer *copy = hst_trainer_new(t->ctx, &o, t->text, NULL);
    double step_began = 0, limit = 0.05 * o.seconds, nats, evaluation = 0;
    int64_t timed = 0;
    while (copy && timed < MEASURED_STEPS && hst_trainer_step(copy, NULL) == HST_OK) {
        if (copy->step == 3) step_began = hst_seconds(); // the first steps ask the system for memory
        timed = copy->step - 3;
        if (timed > 0 && hst_seconds() - r->began > limit) break;
    }
    double step = timed > 0 ? (hst_seconds() - step_began) / (double)timed : 1;
    if (copy && t->held_out && t->ctx->status == HST_OK) {
        int64_t size = hst_corpus_size(t->held_out), part = size < MEASURED_BYTES ? size : MEASURED_BYTES;
        double began = hst_seconds();
        hst_lm_evaluate(copy->model, hst_corpus_bytes(t->held_out), part, 0, &nats);
        evaluation = (hst_seconds() - began) * (double)size / (double)part;
    }
    hst_trainer_free(copy);
    double evaluations = o.eval_every > 0 ? 1 : EVALUATIONS, left = HEADROOM * o.seconds - (hst_seconds() - r->began) - evaluations * evaluation;
    if (o.eval_every > 0) step += evaluation / (double)o.eval_every;
    *steps = left > step ? (int64_t)(left / step) : 1;
    return t->ctx->status == HST_OK;
}

static bool plan(run *r) {
    hst_train_options *o = &r->t->options;
    if (o->steps == 0 && !measure(r, &o->steps)) return false;
    r->eval_every = o->eval_every > 0 ? o->eval_every : (o->steps + EVALUATIONS - 1) / EVALUATIONS;
    report(r, HST_EVENT_PLAN, NULL);
    return true;
}

// ---- evaluations and saves ----

static bool save(run *r, bool best) {
    char path[4096];
    if (!r->folder) return true;
    hst_status status = best ? hst_trainer_save_best(r->t, r->folder, path, sizeof path) : hst_trainer_save_last(r->t, r->folder, path, sizeof path);
    if (status != HST_OK) return false;
    if (!best) r->saved = hst_seconds();
    report(r, HST_EVENT_SAVE, path);
    return true;
}

static bool evaluate(run *r) {
    hst_trainer *t = r->t;
    if (!t->held_out) return true;
    if (hst_lm_evaluate(t->model, hst_corpus_bytes(t->held_out), hst_corpus_size(t->held_out), 0, &t->validation) != HST_OK) return false;
    bool best = !(t->validation >= t->best);
    if (best) t->best = t->validation;
    report(r, HST_EVENT_EVAL, NULL);
    return !best || save(r, true);
}

static bool step(run *r) {
    hst_trainer *t = r->t;
    double began = hst_seconds();
    if (hst_trainer_step(t, NULL) != HST_OK) return false;
    double took = hst_seconds() - began;
    t->step_seconds = t->step <= 3 ? took : t->step_seconds + 0.05 * (took - t->step_seconds);
    report(r, HST_EVENT_STEP, NULL);
    bool last = t->step == t->options.steps, evaluated = last || t->step % r->eval_every == 0;
    if (evaluated && !r->stopped && !evaluate(r)) return false;
    bool due = t->options.save_every > 0 ? t->step % t->options.save_every == 0 : evaluated && hst_seconds() - r->saved > SAVE_SECONDS;
    return last || r->stopped || !due || save(r, false);
}

hst_status hst_trainer_run(hst_trainer *t, const char *folder, bool (*progress)(const hst_progress *progress, void *user), void *user) {
    run r = {.t = t, .folder = folder, .progress = progress, .user = user, .began = hst_seconds(), .saved = hst_seconds()};
    if (t->ctx->status != HST_OK || !plan(&r)) return t->ctx->status;
    while (!r.stopped && t->step < t->options.steps)
        if (!step(&r)) return t->ctx->status;
    if (t->step > 0 && (!save(&r, false) || (isnan(t->best) && !save(&r, true)))) return t->ctx->status;
    bool stopped = r.stopped;
    report(&r, HST_EVENT_END, NULL);
    return stopped ? hst_fail(t->ctx, HST_CANCELLED, "the run was stopped after step %lld of %lld", (long long)t->step, (long long)t->options.steps) : HST_OK;
}
