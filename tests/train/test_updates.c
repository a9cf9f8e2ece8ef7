// test_updates.c: what happens to the weights in a training step: several batches a step, averages, the rate.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/halfstep.h"

enum { LENGTH = 13, BATCH = 3, HIDDEN = 12, LAYERS = 2, MOST = 1 << 16 };

static char folder[] = "/tmp/halfstep-updates-XXXXXX";
static hst_context *ctx;
static hst_corpus *text;
static int64_t calls_left = -1; // operations until the program cancels; below 0: it does not

static bool is_cancelled(void *user) { return (void)user, calls_left >= 0 && calls_left-- == 0; }

static void set_up(void) {
    cr_assert(mkdtemp(folder));
    ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1, .cancel = is_cancelled});
    text = hst_corpus_new(ctx);
    for (int i = 0; i < 60; i++) {
        char line[64];
        hst_corpus_add_bytes(text, line, (size_t)snprintf(line, sizeof line, "%d boats, %d oars\n", i * 7 % 10, i));
    }
}
static void tear_down(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(system(command) == 0);
    hst_close(ctx);
}
TestSuite(updates, .init = set_up, .fini = tear_down);

static hst_train_options options(int64_t steps) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = HIDDEN, o.layers = LAYERS, o.batch = BATCH, o.length = LENGTH, o.steps = steps;
    return o;
}

// All parameters in a row; returns how many numbers they are.
static int64_t weights_of(hst_lm *model, double *to) {
    hst_parameters *list = hst_lm_parameters(model);
    int64_t count = 0;
    cr_assert(hst_parameter_elements(list) <= MOST);
    for (int i = 0; i < hst_parameter_count(list); i++) {
        hst_copy_out(hst_parameter_value(list, i), HST_F64, to + count);
        count += hst_count(hst_parameter_value(list, i));
    }
    return count;
}
static void gradients_of(hst_lm *model, double *to) {
    hst_parameters *list = hst_lm_parameters(model);
    for (int i = 0; i < hst_parameter_count(list); i++) {
        hst_copy_out(hst_grad(hst_parameter_value(list, i)), HST_F64, to);
        to += hst_count(hst_parameter_value(list, i));
    }
}
static double norm(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

// ---- several batches a step ----

// The loss of two successive batches as the lanes of one, and its gradients. The later lanes start from the state that
// the earlier ones end with.
static double joined_loss(hst_lm *model, int64_t batches_of_run) {
    hst_stream *stream = hst_stream_new(text, BATCH, LENGTH, 1);
    hst_stream_set_end(stream, batches_of_run);
    uint8_t ids[LENGTH * 2 * BATCH], targets[LENGTH * 2 * BATCH];
    double state[LAYERS * 2 * BATCH * HIDDEN] = {0}, after[LAYERS * BATCH * HIDDEN];
    hst_tensor *x = hst_empty(ctx, HST_U8, HST_SHAPE(LENGTH, BATCH)),
               *y = hst_empty(ctx, HST_U8, HST_SHAPE(LENGTH, BATCH));
    for (int n = 0; n < 2; n++) {
        hst_stream_next(stream, x, y, NULL);
        for (int t = 0; t < LENGTH; t++)
            for (int b = 0; b < BATCH; b++) {
                ids[t * 2 * BATCH + n * BATCH + b] = (uint8_t)hst_item(x, (int64_t[]){t, b});
                targets[t * 2 * BATCH + n * BATCH + b] = (uint8_t)hst_item(y, (int64_t[]){t, b});
            }
        hst_tensor *c;
        if (n == 0 && hst_lm_forward(model, x, NULL, true, &c)) hst_copy_out(c, HST_F64, after);
    }
    for (int i = 0; i < LAYERS; i++)
        memcpy(state + (2 * i + 1) * BATCH * HIDDEN, after + i * BATCH * HIDDEN, sizeof after / LAYERS);
    hst_tensor *c,
        *loss = hst_cross_entropy(
            hst_lm_forward(model, hst_from_array(ctx, HST_U8, HST_SHAPE(LENGTH, 2 * BATCH), HST_U8, ids),
                           hst_from_array(ctx, HST_F32, HST_SHAPE(LAYERS, 2 * BATCH, HIDDEN), HST_F64, state), true,
                           &c),
            hst_from_array(ctx, HST_U8, HST_SHAPE(LENGTH, 2 * BATCH), HST_U8, targets));
    cr_assert_eq(hst_backward(ctx, loss), HST_OK, "%s", hst_error(ctx));
    hst_stream_free(stream);
    return hst_item(loss, NULL);
}

// The two differ only in how the sums of products are cut, so by what such sums may be off: 257 roundings
// (ops/README.md); and the updated weights by one rounding more.
Test(updates, a_step_of_two_batches_is_one_of_twice_the_lanes) {
    static double before[MOST], after[MOST], gradient[MOST], difference[MOST];
    hst_train_options o = options(4);
    o.optimizer = HST_SGD, o.momentum = 0, o.clip = 0, o.lr = 0.5, o.schedule = HST_CONSTANT, o.warmup = 0;
    o.fresh_share = 0, o.accumulate = 2;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL), *like = hst_trainer_new(ctx, &o, text, NULL);
    double loss, bound = 257 * 0x1p-24;
    int64_t count = weights_of(hst_trainer_model(t), before);
    cr_assert_eq(hst_trainer_step(t, &loss), HST_OK, "%s", hst_error(ctx));
    weights_of(hst_trainer_model(t), after);
    hst_scope_begin(ctx);
    double joined = joined_loss(hst_trainer_model(like), o.steps * o.accumulate);
    gradients_of(hst_trainer_model(like), gradient);
    hst_scope_end(ctx, NULL);
    cr_expect_float_eq(loss, joined, bound * joined);
    for (int64_t i = 0; i < count; i++) difference[i] = after[i] - (before[i] - 0.5 * gradient[i]);
    double allowed = 0.5 * bound * norm(gradient, count) + 0x1p-24 * norm(before, count);
    cr_expect(norm(difference, count) <= allowed, "%g, %g allowed", norm(difference, count), allowed);
    cr_expect_gt(0.5 * norm(gradient, count), 1000 * allowed); // the bound is small beside the step
    hst_trainer_free(like);
    hst_trainer_free(t);
}

// With the steps counted in updates, as is the schedule; the text is read N times as fast.
static bool collect(const hst_progress *p, void *user) {
    if (p->event == HST_EVENT_END) *(hst_progress *)user = *p;
    return true;
}
Test(updates, epochs_are_counted_in_batches) {
    hst_stream *stream = hst_stream_new(text, BATCH, LENGTH, 1);
    int64_t batches = hst_stream_epoch_batches(stream);
    for (int64_t accumulate = 1; accumulate <= 5; accumulate++) {
        hst_train_options o = options(0);
        hst_progress end = {0};
        o.epochs = 1.5, o.accumulate = accumulate;
        hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
        cr_assert_eq(hst_trainer_run(t, NULL, collect, &end), HST_OK, "%s", hst_error(ctx));
        cr_expect_eq(end.steps, (int64_t)ceil(1.5 * (double)batches / (double)accumulate));
        cr_expect_float_eq(end.epoch, (double)(end.steps * accumulate) / (double)batches, 1e-12);
        cr_expect_float_eq(end.rate,
                           hst_schedule_rate(&(hst_schedule){.peak = o.lr,
                                                             .warmup = (int64_t)ceil(o.warmup * (double)end.steps),
                                                             .steps = end.steps,
                                                             .floor = o.floor},
                                             end.steps - 1),
                           1e-15);
        hst_trainer_free(t);
    }
    hst_stream_free(stream);
}

// A step that was cancelled at any operation of any of its batches, and tried again, is the step. *losses gets those of
// the second step and the third; false where the second has fewer than cancel_at operations, and was not cancelled.
static bool try_twice(int64_t cancel_at, double losses[2]) {
    hst_train_options o = options(5);
    o.accumulate = 3, o.dropout = 0.2, o.ema = 0.5;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    cr_assert_eq(hst_trainer_step(t, NULL), HST_OK, "%s", hst_error(ctx));
    calls_left = cancel_at;
    bool cancelled = hst_trainer_step(t, &losses[0]) == HST_CANCELLED;
    calls_left = -1;
    hst_clear_error(ctx);
    if (cancelled) cr_assert_eq(hst_trainer_step(t, &losses[0]), HST_OK, "%s", hst_error(ctx));
    cr_assert_eq(hst_trainer_step(t, &losses[1]), HST_OK, "%s", hst_error(ctx));
    hst_trainer_free(t);
    return cancelled;
}
Test(updates, a_step_of_several_batches_can_be_tried_again) {
    double want[2], got[2];
    int64_t n = 0;
    cr_assert(!try_twice(-1, want));
    for (; try_twice(n, got); n += 3)
        cr_expect(got[0] == want[0] && got[1] == want[1], "cancelled at operation %d", (int)n);
    cr_expect_gt(n, 30); // three batches have more
}

// ---- averages ----

static bool follow(const hst_progress *p, void *user) {
    if (p->event == HST_EVENT_EVAL) *(double *)user = p->validation;
    return true;
}

// The saved model is the average of the weights after each step, and so is what was evaluated; the training itself, and
// the newest checkpoint's weights, are as without. 2^-24 of rounding a step at most, and there are 20.
Test(updates, the_saved_model_is_the_average) {
    static double average[MOST], now[MOST], saved[MOST], last[MOST];
    hst_corpus *held_out = hst_corpus_split(text, 0.2);
    hst_train_options o = options(20);
    o.eval_every = 20;
    hst_trainer *plain = hst_trainer_new(ctx, &o, text, NULL);
    int64_t count = weights_of(hst_trainer_model(plain), average);
    cr_expect_null(hst_trainer_ema(plain));
    for (int t = 1; t <= 20; t++) {
        cr_assert_eq(hst_trainer_step(plain, NULL), HST_OK);
        weights_of(hst_trainer_model(plain), now);
        double d = fmin(0.4, (1.0 + t) / (10.0 + t));
        for (int64_t i = 0; i < count; i++) average[i] = d * average[i] + (1 - d) * now[i];
    }
    hst_trainer_free(plain);

    double validation = NAN, again;
    char path[128];
    o.ema = 0.4;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert_eq(hst_trainer_run(t, folder, follow, &validation), HST_OK, "%s", hst_error(ctx));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    hst_lm *model = hst_lm_load(ctx, path);
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    hst_lm *newest = hst_lm_load(ctx, path);
    cr_assert(model && newest, "%s", hst_error(ctx));
    weights_of(model, saved), weights_of(newest, last);
    for (int64_t i = 0; i < count; i++) {
        cr_assert_float_eq(saved[i], average[i], 20 * 0x1p-24 * fmax(fabs(average[i]), fabs(now[i])) + 0x1p-30);
        cr_assert_eq(last[i], now[i]);
    }
    hst_lm_evaluate(model, hst_corpus_symbols(held_out), 0, NULL, &again);
    cr_expect_eq(validation, again);
    hst_ema_swap(hst_trainer_ema(t));
    weights_of(hst_trainer_model(t), now);
    cr_expect_eq(memcmp(now, saved, (size_t)count * sizeof *now), 0);
    hst_lm_free(model), hst_lm_free(newest);
    hst_trainer_free(t);
    hst_corpus_free(held_out);
}

// An evaluation that is stopped leaves the weights in their place.
static bool stop_when_busy(const hst_progress *p, void *user) { return (void)user, p->event != HST_EVENT_BUSY; }
Test(updates, a_stopped_evaluation_gives_the_weights_back) {
    static double now[MOST], want[MOST];
    hst_corpus *held_out = hst_corpus_split(text, 0.2);
    hst_train_options o = options(6);
    hst_trainer *plain = hst_trainer_new(ctx, &o, text, NULL);
    for (int i = 0; i < 6; i++) hst_trainer_step(plain, NULL);
    int64_t count = weights_of(hst_trainer_model(plain), want);
    o.ema = 0.9, o.eval_every = 6;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert_eq(hst_trainer_run(t, NULL, stop_when_busy, NULL), HST_CANCELLED, "%s", hst_error(ctx));
    hst_clear_error(ctx);
    weights_of(hst_trainer_model(t), now);
    cr_expect_eq(memcmp(now, want, (size_t)count * sizeof *now), 0);
    hst_trainer_free(t), hst_trainer_free(plain);
    hst_corpus_free(held_out);
}

// ---- the rate ----

typedef struct rates {
    hst_schedule schedule;
    double worst;
} rates;
static bool compare_rate(const hst_progress *p, void *user) {
    rates *r = user;
    if (p->event == HST_EVENT_STEP)
        r->worst = fmax(r->worst, fabs(p->rate - hst_schedule_rate(&r->schedule, p->step - 1)));
    return true;
}
Test(updates, shares_of_the_run_become_steps) {
    for (int kind = 0; hst_schedule_name((hst_schedule_kind)kind); kind++) {
        hst_train_options o = options(20);
        rates r = {{(hst_schedule_kind)kind, 0.01, 5, 20, 0.2, 6, 0.5}, 0};
        o.schedule = (hst_schedule_kind)kind;
        o.lr = 0.01, o.warmup = 0.25, o.floor = 0.2, o.lr_step_every = 0.3, o.lr_step_factor = 0.5;
        hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
        cr_assert_eq(hst_trainer_run(t, NULL, compare_rate, &r), HST_OK, "%s", hst_error(ctx));
        cr_expect_eq(r.worst, 0, "%s", hst_schedule_name(o.schedule));
        hst_trainer_free(t);
    }
}

// 0.3 for AdamW, as it was; the others would add it to the gradient, which it would drown.
Test(updates, the_decay_depends_on_the_optimizer) {
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++) {
        hst_train_options o = options(5);
        o.optimizer = (hst_optimizer_kind)kind;
        hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
        cr_expect_eq(hst_trainer_options(t)->weight_decay, kind == HST_ADAMW ? 0.3 : 0);
        hst_trainer_free(t);
        o.weight_decay = 0.125;
        t = hst_trainer_new(ctx, &o, text, NULL);
        cr_expect_eq(hst_trainer_options(t)->weight_decay, 0.125);
        hst_trainer_free(t);
    }
}
