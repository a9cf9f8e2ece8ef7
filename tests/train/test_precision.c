// test_precision.c: the presets in training: they reach fp32's loss, skip what overflows, go on after a stop as if
// there had been none, and give the same bits for any number of threads.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/halfstep.h"

static char folder[] = "/tmp/halfstep-precision-XXXXXX";
static hst_context *ctx;
static hst_corpus *text, *held_out;
static char said[512]; // the last message of the library

static void take_message(int level, const char *message, void *user) {
    (void)level, (void)user;
    snprintf(said, sizeof said, "%s", message);
}

static void open_with(int threads) {
    ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = threads, .log = take_message});
    text = hst_corpus_new(ctx);
    for (int i = 0; i < 300; i++) {
        char line[64];
        hst_corpus_add_bytes(text, line, (size_t)snprintf(line, sizeof line, "%d bridges, %d rivers\n", i * 7 % 10, i));
    }
    held_out = hst_corpus_split(text, 0.1);
}

static void set_up(void) {
    cr_assert(mkdtemp(folder));
    open_with(1);
}
static void tear_down(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(system(command) == 0);
    hst_close(ctx);
}
TestSuite(precision, .init = set_up, .fini = tear_down, .timeout = 120);

static hst_train_options small(hst_precision_kind precision, int64_t steps) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = 24, o.layers = 2, o.batch = 4, o.length = 16, o.steps = steps, o.eval_every = steps;
    o.precision = precision;
    return o;
}

// ---- done when 2, X1 ----

static double validation(hst_precision_kind precision, bool recurrence_f32) {
    hst_train_options o = small(precision, 200);
    o.recurrence_f32 = recurrence_f32;
    double nats;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert(t, "%s", hst_error(ctx));
    for (int64_t i = 0; i < o.steps; i++) cr_assert_eq(hst_trainer_step(t, NULL), HST_OK, "%s", hst_error(ctx));
    hst_lm_evaluate(hst_trainer_model(t), hst_corpus_symbols(held_out), 0, NULL, &nats);
    hst_trainer_free(t);
    return nats;
}

Test(precision, x1_every_preset_reaches_the_loss_of_fp32) {
    double fp32 = validation(HST_FP32, false);
    for (int p = 1; p < HST_PRECISIONS; p++)
        for (int f32 = 0; f32 < 2; f32++) {
            double loss = validation((hst_precision_kind)p, f32);
            if (p != HST_APEX_O3)
                cr_expect(fabs(loss / fp32 - 1) < 0.01, "%s: %g, fp32: %g", hst_precision_of(p)->name, loss, fp32);
            cr_expect(loss != fp32, "%s computes in fp32", hst_precision_of(p)->name);
        }
}

// At a small learning rate the weights that have no masters stand still: most updates are below half a unit.
static double moved(hst_precision_kind precision) {
    hst_train_options o = small(precision, 30);
    o.lr = 2e-5, o.schedule = HST_CONSTANT, o.warmup = 0, o.weight_decay = 0;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    hst_tensor *w = hst_parameter_value(hst_lm_parameters(hst_trainer_model(t)), 1); // of the first layer
    int64_t n = hst_count(w), changed = 0;
    float *before = malloc((size_t)n * sizeof *before);
    memcpy(before, hst_data(w), (size_t)n * sizeof *before);
    for (int i = 0; i < 30; i++) cr_assert_eq(hst_trainer_step(t, NULL), HST_OK, "%s", hst_error(ctx));
    for (int64_t i = 0; i < n; i++) changed += ((const float *)hst_data(w))[i] != before[i];
    free(before);
    hst_trainer_free(t);
    return (double)changed / (double)n;
}

Test(precision, weights_without_masters_stand_still_at_small_rates) {
    double with = moved(HST_APEX_O2), without = moved(HST_APEX_O3);
    cr_expect(with > 0.99, "%g of the masters moved", with);
    cr_expect(without < 0.5, "%g of the weights without masters moved", without);
}

// ---- skipped steps ----

typedef struct counts {
    int64_t stepped, skipped, evaluations;
    double first_scale;
} counts;

static bool count(const hst_progress *p, void *user) {
    counts *c = user;
    if (p->event == HST_EVENT_EVAL) c->evaluations++;
    if (p->event != HST_EVENT_STEP) return true;
    if (c->stepped + c->skipped == 0) c->first_scale = p->scale;
    c->stepped += p->result == HST_STEPPED;
    c->skipped += p->result == HST_SKIPPED_OVERFLOW;
    cr_expect_eq(p->step, c->stepped);
    cr_expect_eq(p->skipped, c->skipped);
    if (p->result == HST_SKIPPED_OVERFLOW) cr_expect(strstr(p->scaler, "lowered"), "%s", p->scaler);
    return true;
}

// From 2^30, where everything overflows, the scale comes down until steps are possible; from then on it grows every
// four steps until they are not.
Test(precision, skipped_steps_are_told_and_do_not_count) {
    counts c = {0};
    hst_train_options o = small(HST_AMP_FP16, 40);
    o.init_scale = 0x1p30, o.max_scale = 0, o.growth_interval = 4, o.eval_every = 10;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert_eq(hst_trainer_run(t, NULL, count, &c), HST_OK, "%s", hst_error(ctx));
    cr_expect_eq(c.first_scale, 0x1p30);
    cr_expect_eq(c.stepped, 40);
    cr_expect_eq(c.evaluations, 4, "once a due step, not again for each one skipped after it");
    cr_expect_gt(c.skipped, 8);
    cr_expect_eq(hst_scaler_get_state(hst_trainer_scaler(t)).skipped, c.skipped);
    hst_trainer_free(t);
}

Test(precision, a_scale_that_never_fits_ends_with_the_parameters_name) {
    hst_train_options o = small(HST_AMP_FP16, 10);
    o.init_scale = 0x1p40, o.max_scale = 0, o.max_consecutive_skips = 3;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    for (int i = 0; i < 2; i++) cr_assert_eq(hst_trainer_step(t, NULL), HST_OK, "%s", hst_error(ctx));
    cr_expect_eq(hst_trainer_result(t), HST_SKIPPED_OVERFLOW);
    cr_expect_eq(hst_trainer_step(t, NULL), HST_ERROR_DIVERGED);
    cr_expect(strstr(hst_error(ctx), ".weight") || strstr(hst_error(ctx), ".bias"), "%s", hst_error(ctx));
    hst_clear_error(ctx);
    hst_trainer_free(t);
}

// ---- stopping, and going on ----

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static bytes read_file(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "rb");
    cr_assert(in, "%s is missing", name);
    bytes b = {malloc(1 << 20), 0};
    b.size = fread(b.data, 1, 1 << 20, in);
    fclose(in);
    return b;
}

// Skips at the start, and again whenever the scale has grown too far: every tracker, hysteresis and lag is in use.
static hst_trainer *with_skips(hst_precision_kind precision, hst_scaler_profile profile) {
    hst_train_options o = small(precision, 16);
    o.scaler = (int)profile, o.init_scale = 0x1p23, o.max_scale = 0, o.growth_interval = 3, o.accumulate = 2;
    o.dropout = 0.1;
    if (profile == HST_SCALER_DEEPSPEED_ZERO) o.hysteresis = 2;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert(t, "%s", hst_error(ctx));
    return t;
}

static bool until(const hst_progress *p, void *user) {
    return p->event != HST_EVENT_STEP || p->step + p->skipped != *(int64_t *)user;
}

Test(precision, m3_a_run_that_was_stopped_anywhere_ends_with_the_same_bytes) {
    static const struct {
        hst_precision_kind precision;
        hst_scaler_profile profile;
    } rows[] = {{HST_AMP_FP16, HST_SCALER_TORCH},
                {HST_APEX_O2, HST_SCALER_APEX},
                {HST_DEEPSPEED_FP16, HST_SCALER_DEEPSPEED_ZERO},
                {HST_DEEPSPEED_FP16, HST_SCALER_DEEPSPEED_FUSED},
                {HST_MXNET_AMP, HST_SCALER_MXNET}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        hst_trainer *t = with_skips(rows[row].precision, rows[row].profile);
        counts c = {0};
        cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
        c.skipped = hst_scaler_get_state(hst_trainer_scaler(t)).skipped;
        cr_expect_gt(c.skipped, 2, "%s", hst_precision_of(rows[row].precision)->name);
        hst_trainer_free(t);
        bytes last = read_file("last.safetensors");
        for (int64_t stop = 1; stop < 16 + c.skipped; stop++) {
            t = with_skips(rows[row].precision, rows[row].profile);
            cr_assert_eq(hst_trainer_run(t, folder, until, &stop), HST_CANCELLED, "%s", hst_error(ctx));
            hst_clear_error(ctx);
            hst_trainer_free(t);
            char path[128];
            snprintf(path, sizeof path, "%s/last.safetensors", folder);
            t = hst_trainer_resume(ctx, path, text, held_out);
            cr_assert(t, "%s", hst_error(ctx));
            cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
            hst_trainer_free(t);
            bytes again = read_file("last.safetensors");
            cr_expect(last.size == again.size && !memcmp(last.data, again.data, last.size), "%s: stopped at %lld",
                      hst_precision_of(rows[row].precision)->name, (long long)stop);
            free(again.data);
        }
        free(last.data);
    }
}

// Averages are f32 numbers also where the weights are not, and an output layer that is the embedding has one shadow.
Test(precision, averages_of_weights_without_masters_go_on) {
    for (int tied = 0; tied < 2; tied++) {
        hst_train_options o = small(HST_APEX_O3, 8);
        o.ema = 0.9, o.tied = tied, o.eval_every = 3;
        hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
        cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
        hst_trainer_free(t);
        bytes last = read_file("last.safetensors"), best = read_file("model.safetensors");
        for (int64_t stop = 1; stop < 8; stop++) {
            char path[128];
            t = hst_trainer_new(ctx, &o, text, held_out);
            cr_assert_eq(hst_trainer_run(t, folder, until, &stop), HST_CANCELLED, "%s", hst_error(ctx));
            hst_clear_error(ctx);
            hst_trainer_free(t);
            snprintf(path, sizeof path, "%s/last.safetensors", folder);
            t = hst_trainer_resume(ctx, path, text, held_out);
            cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
            hst_trainer_free(t);
            bytes again = read_file("last.safetensors"), best_again = read_file("model.safetensors");
            cr_expect(last.size == again.size && !memcmp(last.data, again.data, last.size), "stopped at %d", (int)stop);
            cr_expect(best.size == best_again.size && !memcmp(best.data, best_again.data, best.size));
            free(again.data), free(best_again.data);
        }
        free(last.data), free(best.data);
    }
}

Test(precision, a_run_goes_on_in_another_preset) {
    char path[128];
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    for (int from = 0; from < HST_PRECISIONS; from++) {
        hst_train_options o = small((hst_precision_kind)from, 8), other;
        int64_t stop = 4;
        hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
        hst_trainer_run(t, folder, until, &stop);
        hst_clear_error(ctx);
        hst_tensor *w = hst_parameter_value(hst_lm_parameters(hst_trainer_model(t)), 0);
        float before = ((const float *)hst_data(w))[5];
        for (int to = 0; to < HST_PRECISIONS; to++) {
            hst_train_defaults(&other, sizeof other);
            other.precision = (hst_precision_kind)to;
            hst_trainer *next = hst_trainer_resume_in(ctx, path, &other, text, held_out);
            cr_assert(next, "%s", hst_error(ctx));
            cr_expect(strstr(said, hst_precision_of(from)->name) && strstr(said, hst_precision_of(to)->name), "%s",
                      said);
            w = hst_parameter_value(hst_lm_parameters(hst_trainer_model(next)), 0);
            if (to != HST_APEX_O3) cr_expect_eq(((const float *)hst_data(w))[5], before, "the master's bits");
            for (int i = 0; i < 4; i++) cr_expect_eq(hst_trainer_step(next, NULL), HST_OK, "%s", hst_error(ctx));
            hst_trainer_free(next);
        }
        hst_trainer_free(t);
    }
}

// The same scaler with a cap below where it was: it starts anew, and the file is not blamed.
Test(precision, a_scale_that_new_options_do_not_allow_starts_anew) {
    hst_train_options o = small(HST_AMP_FP16, 8), other;
    char path[128];
    int64_t stop = 4;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    hst_trainer_run(t, folder, until, &stop);
    hst_clear_error(ctx);
    hst_trainer_free(t);
    snprintf(path, sizeof path, "%s/last.safetensors", folder);
    for (int low = 0; low < 2; low++) {
        hst_train_defaults(&other, sizeof other);
        other.precision = HST_AMP_FP16;
        if (low) other.init_scale = 512, other.max_scale = 1024;
        t = hst_trainer_resume_in(ctx, path, &other, text, NULL);
        cr_assert(t, "%s", hst_error(ctx));
        cr_expect(strstr(said, low ? "scaler from its start" : "scaler too"), "%s", said);
        hst_scaler_state state = hst_scaler_get_state(hst_trainer_scaler(t));
        cr_expect(state.scale == (low ? 512 : 65536) && state.steps == (low ? 0 : 4));
        cr_expect_eq(hst_trainer_step(t, NULL), HST_OK, "%s", hst_error(ctx));
        hst_trainer_free(t);
    }
    other.size = 0;
    cr_expect_null(hst_trainer_resume_in(ctx, path, &other, text, NULL));
    cr_expect(strstr(hst_error(ctx), "options.size is 0"), "%s", hst_error(ctx));
    hst_clear_error(ctx);
}

// ---- threads ----

Test(precision, the_number_of_threads_changes_no_bit) {
    for (int p = 0; p < HST_PRECISIONS; p++) {
        static const int threads[] = {1, 2, 3, 7};
        double losses[4];
        for (int i = 0; i < 4; i++) {
            hst_close(ctx);
            open_with(threads[i]);
            hst_train_options o = small((hst_precision_kind)p, 6);
            hst_trainer *t = hst_trainer_new(ctx, &o, text, held_out);
            for (int step = 0; step < 6; step++) hst_trainer_step(t, &losses[i]);
            hst_trainer_free(t);
            cr_expect(losses[i] == losses[0], "%s, %d threads", hst_precision_of(p)->name, threads[i]);
        }
    }
}

Test(precision, mistakes) {
    hst_train_options o = small((hst_precision_kind)77, 8);
    cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
    cr_expect(strstr(hst_error(ctx), "no precision 77"), "%s", hst_error(ctx));
    hst_clear_error(ctx);
    o = small(HST_DEEPSPEED_FP16, 8), o.op_list = HST_LIST_APEX_O1;
    cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
    cr_expect(strstr(hst_error(ctx), "deepspeed-fp16 has no autocast region"), "%s", hst_error(ctx));
    hst_clear_error(ctx);
    o = small(HST_AMP_FP16, 8), o.init_scale = 1e-30;
    cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
    cr_expect(strstr(hst_error(ctx), "init_scale"), "%s", hst_error(ctx));
    hst_clear_error(ctx);
    cr_expect_eq(hst_trainer_result(NULL), HST_STEP_FAILED);
    cr_expect_null(hst_trainer_scaler(NULL));
}
