// test_parameters.c: the parameter list and what optimizers ask of it.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/ops.h"
#include "optim/optim.h"

static hst_context *ctx;
static hst_parameters *list;
static hst_tensor *a, *b;
static const hst_optimizer_options plain = {.kind = HST_SGD};

static void open_list(void) {
    ctx = hst_open(NULL);
    list = hst_parameters_new(ctx);
    a = hst_parameter(list, "a", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    b = hst_parameter(list, "b", hst_full(ctx, HST_F32, HST_SHAPE(1, 2), 1));
    cr_assert(a && b);
}
static void close_list(void) {
    hst_parameters_free(list);
    hst_close(ctx);
}
TestSuite(optim, .init = open_list, .fini = close_list);

static void expect_error(hst_status status, const char *words) {
    cr_expect(hst_get_status(ctx) == status && strstr(hst_error(ctx), words), "%s", hst_error(ctx));
    hst_clear_error(ctx);
}

Test(optim, a_parameter_without_a_gradient_is_frozen) {
    hst_optimizer *sgd = hst_optimizer_new(list, &plain), *adam = hst_optimizer_new(list, NULL);
    hst_copy_in(hst_grad(a), HST_F64, (double[]){3, 4});
    hst_copy_in(hst_grad(b), HST_F64, (double[]){5, 6});
    hst_attach_grad(b, HST_NULL, HST_F32);
    cr_expect_eq(hst_gradient_norm(list), 5); // of 3 and 4
    cr_assert(hst_optimizer_step(sgd, 0.5, 1) == HST_OK && hst_optimizer_step(adam, 0, 1) == HST_OK, "%s",
              hst_error(ctx));
    cr_expect(hst_item(a, (int64_t[]){0}) == -0.5 && hst_item(a, (int64_t[]){1}) == -1); // 1 - 0.5 g
    cr_expect_eq(hst_item(b, NULL), 1);
    hst_optimizer_free(adam);
    hst_optimizer_free(sgd);
}

Test(optim, parameters_out_of_range_are_null) {
    cr_expect(hst_parameter_value(list, 1) == b && !strcmp(hst_parameter_name(list, 1), "b"));
    for (int i = -1; i <= 2; i += 3) cr_expect(!hst_parameter_name(list, i) && !hst_parameter_value(list, i));
    cr_expect_eq(hst_get_status(ctx), HST_OK);
}

Test(optim, misuse_is_an_error_not_a_crash) {
    hst_optimizer *sgd = hst_optimizer_new(list, &plain);
    char name[64];
    cr_expect(hst_optimizer_state_count(sgd) == 0 && !hst_optimizer_state(sgd, 0, name, sizeof name));
    hst_optimizer_set_steps(sgd, -5);
    expect_error(HST_ERROR_VALUE, "-5 steps");
    hst_parameter(list, "a", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    expect_error(HST_ERROR_VALUE, "already a parameter named a");
    hst_parameter(list, NULL, hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    expect_error(HST_ERROR_VALUE, "the name is NULL");
    hst_parameter(list, "h", hst_full(ctx, HST_F16, HST_SHAPE(2), 1));
    expect_error(HST_ERROR_DTYPE, "f32");
    cr_assert(hst_parameter(list, "late", hst_full(ctx, HST_F32, HST_SHAPE(2), 1)));
    hst_optimizer_step(sgd, 1, 1);
    expect_error(HST_ERROR_STATE, "had 2 parameters when the optimizer was made, now it has 3");
    hst_context *other = hst_open(NULL);
    hst_parameter(list, "foreign", hst_full(other, HST_F32, HST_SHAPE(2), 1));
    expect_error(HST_ERROR_STATE, "another context");
    cr_expect_eq(hst_get_status(other), HST_ERROR_STATE);
    hst_close(other);
    hst_optimizer_free(sgd);
}

// Every sentence names the optimizer and what is wrong.
Test(optim, options_out_of_range_are_refused) {
    struct {
        hst_optimizer_options options;
        const char *words;
    } cases[] = {{{.kind = HST_SGD, .momentum = 1}, "sgd's momentum 1 must be in [0, 1)"},
                 {{.kind = HST_SGD, .momentum = -0.1}, "momentum -0.1"},
                 {{.kind = HST_SGD, .decay = NAN}, "decay nan"},
                 {{.kind = HST_SGD, .nesterov = true}, "nesterov needs a momentum above 0"},
                 {{.kind = (hst_optimizer_kind)17}, "no optimizer of kind 17"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_null(hst_optimizer_new(list, &cases[i].options));
        expect_error(HST_ERROR_VALUE, cases[i].words);
    }
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++)
        for (int i = 0; kind != HST_SGD && i < 6; i++) {
            hst_optimizer_options o = hst_optimizer_defaults((hst_optimizer_kind)kind);
            char words[64];
            if (i == 0) o.beta1 = 1;
            if (i == 1) o.beta2 = -0.5;
            if (i == 2) o.eps = 1e-60; // 0 as a float
            if (i == 3) o.eps = INFINITY;
            if (i == 4) o.decay = -1;
            if (i == 5) o.beta2 = NAN;
            snprintf(words, sizeof words, "hst_optimizer_new: %s's betas", hst_optimizer_name(o.kind));
            cr_expect_null(hst_optimizer_new(list, &o));
            expect_error(HST_ERROR_VALUE, words);
        }
    cr_expect_null(hst_ema_new(list, 1));
    expect_error(HST_ERROR_VALUE, "decay 1 must be in [0, 1)");
    hst_request_gradients(list, HST_NULL);
    expect_error(HST_ERROR_VALUE, "HST_WRITE or HST_ADD");
}

Test(optim, names_lead_to_kinds_and_back) {
    hst_optimizer_kind optimizer;
    hst_schedule_kind schedule;
    for (int i = 0; i < 4; i++)
        cr_expect(hst_optimizer_find(hst_optimizer_name((hst_optimizer_kind)i), &optimizer) && (int)optimizer == i);
    for (int i = 0; i < 5; i++)
        cr_expect(hst_schedule_find(hst_schedule_name((hst_schedule_kind)i), &schedule) && (int)schedule == i);
    cr_expect(!hst_optimizer_name((hst_optimizer_kind)4) && !hst_schedule_name((hst_schedule_kind)-1));
    cr_expect(!hst_optimizer_find("adagrad", &optimizer) && !hst_optimizer_find(NULL, &optimizer));
    cr_expect(!hst_schedule_find("cos", &schedule) && !hst_schedule_find(NULL, &schedule));
}

// The names under which files have them.
Test(optim, states_have_the_names_of_files) {
    static const char *const names[][2] = {{"adam.m.a", "adam.v.a"},
                                           {"sgd.momentum.a", "sgd.momentum.b"},
                                           {"adam.m.a", "adam.v.a"},
                                           {"adam.m.a", "adam.v.a"}};
    for (int kind = 0; kind < 4; kind++) {
        hst_optimizer_options o = hst_optimizer_defaults((hst_optimizer_kind)kind);
        hst_optimizer *optimizer = hst_optimizer_new(list, &o);
        char name[64];
        for (int i = 0; i < 2; i++)
            cr_expect(hst_optimizer_state(optimizer, i, name, sizeof name) && !strcmp(name, names[kind][i]), "%s",
                      name);
        cr_expect_eq(hst_optimizer_state_count(optimizer), kind == HST_SGD ? 2 : 4);
        hst_optimizer_free(optimizer);
    }
}

// Two losses over the same parameters: 3 a and 4 a + 5 b. Write, then add, and write again.
static void backward(double of_a, double of_b) {
    hst_scope_begin(ctx);
    hst_backward(ctx, hst_add(hst_scale(hst_sum(a), of_a), hst_scale(hst_sum(b), of_b)));
    hst_scope_end(ctx, NULL);
}
Test(optim, gradients_of_several_batches_add_up) {
    const hst_tensor *buffer = hst_grad(a);
    backward(3, 0);
    hst_request_gradients(list, HST_ADD);
    backward(4, 5);
    cr_expect(hst_item(hst_grad(a), (int64_t[]){1}) == 7 && hst_item(hst_grad(b), (int64_t[]){0, 1}) == 5);
    cr_expect_eq(hst_grad(a), buffer);
    hst_attach_grad(b, HST_NULL, HST_F32);
    hst_request_gradients(list, HST_WRITE);
    backward(4, 5);
    cr_expect_eq(hst_item(hst_grad(a), (int64_t[]){1}), 4);
    cr_expect_null(hst_grad(b)); // frozen it stays
    cr_expect_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

// Numbers up to 1 are rounded once an update, by 2^-25 at most, and the next update halves the error.
Test(optim, the_average_follows_its_formula) {
    hst_ema *ema = hst_ema_new(list, 0.5);
    char name[64];
    double want = 1;
    for (int t = 1; t <= 40; t++) {
        double w = sin(t), d = fmin(0.5, (1.0 + t) / (10.0 + t)); // 2 / 11 first, 0.5 from t = 8 on
        want = d * want + (1 - d) * (float)w;
        hst_copy_in(a, HST_F64, (double[]){w, 1});
        cr_assert_eq(hst_ema_update(ema), HST_OK);
        const hst_tensor *average = hst_ema_state(ema, 0, name, sizeof name);
        cr_assert_float_eq(hst_item(average, (int64_t[]){0}), want, 0x1p-24);
        cr_assert_eq(hst_item(average, (int64_t[]){1}), 1); // a constant does not drift
    }
    cr_expect_str_eq(name, "ema.a");
    cr_expect(hst_ema_updates(ema) == 40 && hst_ema_state_count(ema) == 2);
    hst_ema_set_updates(ema, -1);
    expect_error(HST_ERROR_VALUE, "-1 updates");
    hst_ema_free(ema);
}

Test(optim, swapping_is_exact_and_works_while_an_error_stands) {
    uint32_t bits, odd = 0x7fc12345;                                     // a NaN with a message
    hst_tensor *big = hst_uniform(ctx, HST_F32, HST_SHAPE(5003), -1, 1); // more than one block
    hst_parameters *other = hst_parameters_new(ctx);
    cr_assert(hst_parameter(other, "big", big));
    hst_ema *other_ema = hst_ema_new(other, 0.9);
    float before[5003], averaged[5003], after[5003];
    hst_copy_out(big, HST_F32, before);
    hst_copy_in(big, HST_F32, memcpy(after, before, sizeof before)), memcpy(&after[5000], &odd, sizeof odd);
    hst_copy_in(big, HST_F32, after);
    hst_ema_swap(other_ema);
    hst_copy_out(big, HST_F32, averaged);
    cr_expect_eq(memcmp(averaged, before, sizeof before), 0); // the start
    hst_ema_update(other_ema);
    expect_error(HST_ERROR_STATE, "swapped in");
    hst_parameter(list, "a", hst_full(ctx, HST_F32, HST_SHAPE(2), 1)); // an error
    hst_ema_swap(other_ema);
    hst_clear_error(ctx);
    hst_copy_out(big, HST_F32, averaged);
    memcpy(&bits, &averaged[5000], sizeof bits);
    cr_expect(memcmp(averaged, after, sizeof after) == 0 && bits == odd);
    cr_assert(hst_parameter(other, "late", hst_full(ctx, HST_F32, HST_SHAPE(2), 1)));
    hst_ema_update(other_ema);
    expect_error(HST_ERROR_STATE, "had 1 parameters when the averages were made, now it has 2");
    hst_ema_free(other_ema);
    hst_parameters_free(other);
}

Test(optim, clipping_and_the_cosine) {
    cr_expect(hst_clip_factor(4, 1) == 0.25 && hst_clip_factor(0.5, 1) == 1 && hst_clip_factor(4, 0) == 1);
    cr_expect(isnan(hst_clip_factor(NAN, 1)) && hst_clip_factor(INFINITY, 1) == 0);
    hst_schedule s = {.peak = 2, .warmup = 4, .steps = 104, .floor = 0.1};
    cr_expect_eq(hst_schedule_rate(&s, 0), 0.5); // peak / warmup
    cr_expect(hst_schedule_rate(&s, 3) == 2 && hst_schedule_rate(&s, 4) == 2);
    cr_expect_float_eq(hst_schedule_rate(&s, 54), 2 * (0.1 + 0.9 / 2), 1e-15); // half way: cos = 0
    cr_expect_float_eq(hst_schedule_rate(&s, 104), 0.2, 1e-15);
    cr_expect_float_eq(hst_schedule_rate(&s, 1000), 0.2, 1e-15); // and stays there
    s.kind = HST_LINEAR;
    cr_expect_float_eq(hst_schedule_rate(&s, 54), 2 * (0.1 + 0.9 / 2), 1e-15);
    cr_expect_float_eq(hst_schedule_rate(&s, 104), 0.2, 1e-15);
    cr_expect(isnan(hst_schedule_rate(NULL, 0)));
}

// What every kind has in common: the rise, the peak right after it, and never less than the floor.
Test(optim, every_schedule_rises_to_its_peak_and_keeps_its_floor) {
    for (int kind = 0; hst_schedule_name((hst_schedule_kind)kind); kind++) {
        hst_schedule s = {(hst_schedule_kind)kind, 2, 4, 104, 0.1, 20, 0.25};
        for (int t = 0; t < 4; t++) cr_expect_eq(hst_schedule_rate(&s, t), 2 * (t + 1) / 4.0);
        for (int t = 4; t <= 2000; t++) {
            double rate = hst_schedule_rate(&s, t);
            cr_assert(rate >= 0.2 * (1 - 0x1p-52) && rate <= hst_schedule_rate(&s, t - 1) * (1 + 0x1p-52),
                      "%s at %d: %g", hst_schedule_name(s.kind), t, rate);
        }
    }
}

Test(optim, inverse_square_root_and_step_decay) {
    hst_schedule s = {.kind = HST_INVERSE_SQRT, .peak = 3, .warmup = 16, .steps = 1000};
    cr_expect_eq(hst_schedule_rate(&s, 15), 3);
    cr_expect_eq(hst_schedule_rate(&s, 63), 1.5); // four times as many steps, half the rate
    cr_expect_eq(hst_schedule_rate(&s, 255), 0.75);
    s.warmup = 0;
    cr_expect(hst_schedule_rate(&s, 0) == 3 && hst_schedule_rate(&s, 8) == 1);
    s.floor = 0.5;
    cr_expect_eq(hst_schedule_rate(&s, 8), 1.5);

    hst_schedule d = {
        .kind = HST_STEP_DECAY, .peak = 8, .warmup = 2, .steps = 40, .floor = 0.2, .every = 10, .factor = 0.5};
    const double rates[] = {8, 4, 2, 1.6};
    for (int t = 2; t < 40; t++) cr_expect_eq(hst_schedule_rate(&d, t), rates[t / 10], "step %d", t);
    d.every = 0; // no drops
    cr_expect_eq(hst_schedule_rate(&d, 39), 8);
}
