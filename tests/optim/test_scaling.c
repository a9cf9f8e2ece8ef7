// test_scaling.c: gradients of scaled losses, from backward to the step. Gradients here are small numbers times powers
// of two, so that scaling and unscaling are exact and results can be compared for equality.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "ops/ops.h"
#include "optim/scaling.h"

static hst_context *ctx;
static hst_parameters *list;
static hst_tensor *w;
static hst_optimizer *sgd;
static const hst_optimizer_options plain = {.kind = HST_SGD};

// One parameter, `width` ones.
static hst_parameters *new_list(const char *name, int64_t width) {
    hst_parameters *made = hst_parameters_new(ctx);
    cr_assert(hst_parameter(made, name, hst_full(ctx, HST_F32, HST_SHAPE(width), 1)));
    return made;
}
static void open_list(void) {
    ctx = hst_open(NULL);
    list = new_list("layers.1.weight", 2);
    w = hst_parameter_value(list, 0);
    sgd = hst_optimizer_new(list, &plain);
}
static void close_list(void) {
    hst_optimizer_free(sgd);
    hst_parameters_free(list);
    hst_close(ctx);
}
TestSuite(scaling, .init = open_list, .fini = close_list);

static hst_scaler *scaler_of(hst_scaler_profile profile, double scale) {
    hst_scaler_options o = hst_scaler_defaults(profile);
    o.init_scale = scale;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    cr_assert(s, "%s", hst_error(ctx));
    return s;
}

static void expect_error(hst_status status, const char *words) {
    cr_expect(hst_get_status(ctx) == status && strstr(hst_error(ctx), words), "not \"%s\" but: %s", words,
              hst_error(ctx));
    hst_clear_error(ctx);
}

// Backward of slope times the sum of x; 2^120 times a scale of 2^8 or more is infinite in f32.
static const double TOO_STEEP = 0x1p120;
static hst_status backward(hst_scaler *s, hst_parameters *of, hst_tensor *x, double slope) {
    hst_scope_begin(ctx);
    hst_status status = hst_scaled_backward(s, 1, &of, hst_scale(hst_sum(x), slope));
    hst_scope_end(ctx, NULL);
    return status;
}

static double first(const hst_tensor *t) { return hst_item(t, (int64_t[]){0}); }

// ---- the scale belongs to the gradients ----

Test(scaling, a_step_has_the_true_gradient) {
    hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
    double norm, factor;
    backward(s, list, w, 3);
    cr_expect_eq(first(hst_grad(w)), 3 * 0x1p16);
    cr_assert_eq(hst_unscale_gradients(list, &norm), HST_OK);
    cr_expect(first(hst_grad(w)) == 3 && norm == sqrt(18));
    cr_expect(hst_clip_gradients(list, norm / 4, &factor) == HST_CLIP_CUT && factor == 0.25);
    cr_expect_eq(hst_scaled_step(s, sgd, 0.5, factor), HST_STEPPED);
    cr_expect_eq(first(w), 1 - 0.5 * 0.75);
    cr_expect_eq(hst_scaler_update(s), HST_OK, "%s", hst_error(ctx));
    cr_expect(hst_scaler_get_state(s).tracker == 1 && hst_optimizer_steps(sgd) == 1);
    hst_scaler_free(s);
}

// S5. The update comes before the step, as in DeepSpeed, where the gradient was then divided by the new scale.
Test(scaling, growth_does_not_reach_back) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_TORCH);
    o.interval = 1;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    backward(s, list, w, 1);
    hst_scaler_report(s, HST_FOUND_FINITE, NULL);
    cr_expect_eq(hst_scaler_update(s), HST_OK);
    cr_expect_eq(hst_scaler_scale(s), 0x1p17);
    cr_expect_eq(first(hst_grad(w)) / hst_scaler_scale(s), 0.5); // what they did
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_STEPPED);
    cr_expect_eq(first(w), 0); // by exactly 1
    hst_scaler_free(s);
}

// S3. 1 / 2^-130 is infinite in f32, so nothing can be said of gradients that are finite as they are.
Test(scaling, a_scale_too_small_to_divide_by_does_not_step) {
    hst_scaler *s = scaler_of(HST_SCALER_STATIC, 0x1p-130);
    backward(s, list, w, 1);
    cr_expect_eq(first(hst_grad(w)), 0x1p-130);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_OVERFLOW);
    cr_expect_eq(first(w), 1);
    hst_scaler_free(s);
}

// A second scaler, whose loss is added: gA 2^16 becomes gA 2^10, and gB 2^10 comes to it.
Test(scaling, losses_with_other_scales_add_up) {
    hst_scaler *a = scaler_of(HST_SCALER_TORCH, 0x1p16), *b = scaler_of(HST_SCALER_APEX, 0x1p10);
    double norm;
    backward(a, list, w, 3);
    hst_request_gradients(list, HST_ADD);
    backward(b, list, w, 5);
    cr_expect_eq(first(hst_grad(w)), 8 * 0x1p10);
    hst_unscale_gradients(list, &norm);
    cr_expect_eq(first(hst_grad(w)), 8);
    backward(a, list, w, 0.5); // onto unscaled ones
    cr_expect_eq(first(hst_grad(w)), 8.5 * 0x1p16);
    backward(NULL, list, w, 1);
    cr_expect_eq(first(hst_grad(w)), 9.5);
    cr_expect_eq(hst_scaled_step(a, sgd, 1, 1), HST_STEPPED);
    cr_expect_eq(first(w), 1 - 9.5);
    cr_expect(hst_scaler_update(a) == HST_OK && hst_scaler_update(b) == HST_OK, "%s", hst_error(ctx));
    hst_scaler_free(a), hst_scaler_free(b);
}

// Whose loss overflowed is lowered, the other is not; the step is skipped in either case.
Test(scaling, each_loss_answers_for_its_own_overflow) {
    for (int which = 0; which < 2; which++) {
        hst_scaler *a = scaler_of(HST_SCALER_TORCH, 0x1p16), *b = scaler_of(HST_SCALER_TORCH, 0x1p16);
        hst_request_gradients(list, HST_WRITE);
        backward(a, list, w, which == 0 ? TOO_STEEP : 1);
        hst_request_gradients(list, HST_ADD);
        backward(b, list, w, which == 1 ? TOO_STEEP : 1);
        cr_expect_eq(hst_scaled_step(b, sgd, 1, 1), HST_SKIPPED_OVERFLOW);
        cr_expect(hst_scaler_update(a) == HST_OK && hst_scaler_update(b) == HST_OK, "%s", hst_error(ctx));
        cr_expect_eq(hst_scaler_scale(a), which == 0 ? 0x1p15 : 0x1p16);
        cr_expect_eq(hst_scaler_scale(b), which == 1 ? 0x1p15 : 0x1p16);
        hst_scaler_free(a), hst_scaler_free(b);
    }
    cr_expect_eq(first(w), 1);
}

// A gradient that the loss does not reach keeps what it had (HST_WRITE), which was unscaled before.
Test(scaling, what_is_not_reached_is_not_unscaled_twice) {
    hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
    hst_tensor *other = hst_parameter(list, "other", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    hst_scope_begin(ctx);
    hst_scaled_backward(s, 1, &list, hst_add(hst_sum(w), hst_sum(other)));
    hst_scope_end(ctx, NULL);
    hst_unscale_gradients(list, NULL);
    backward(s, list, w, 7);
    hst_unscale_gradients(list, NULL);
    cr_expect(first(hst_grad(w)) == 7 && first(hst_grad(other)) == 1);
    hst_scaler_free(s);
}

// S9. The sum of an f16 loss of several elements, at 65536, which f16 does not have; its values neither, times that.
Test(scaling, losses_in_16_bits_do_not_overflow) {
    hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
    static const hst_dtype dtypes[] = {HST_F16, HST_BF16};
    for (int d = 0; d < 2; d++)
        for (int scalar = 0; scalar < 2; scalar++) {
            double norm;
            hst_scope_begin(ctx);
            hst_tensor *loss = hst_scale(hst_cast(w, dtypes[d]), 60000);
            if (scalar) loss = hst_cast(hst_sum(w), dtypes[d]);
            cr_assert(hst_dtype_of(loss) == dtypes[d] && hst_count(loss) == (scalar ? 1 : 2));
            cr_assert_eq(hst_scaled_backward(s, 1, &list, scalar ? loss : hst_scale(loss, 1.0 / 65536)), HST_OK, "%s",
                         hst_error(ctx));
            hst_scope_end(ctx, NULL);
            hst_unscale_gradients(list, &norm);
            cr_expect(isfinite(norm), "%s: %g", hst_dtype_name(dtypes[d]), norm);
            cr_expect_float_eq(first(hst_grad(w)), scalar ? 1 : 60000.0 / 65536, 0x1p-6); // three 16-bit roundings
        }
    hst_scaler_free(s);
}

// ---- what a step does ----

// S6. One of two: only it skips, and the scale is halved once, whichever comes first.
Test(scaling, only_the_optimizer_with_the_infinity_skips) {
    for (int order = 0; order < 2; order++) {
        hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
        hst_parameters *lists[] = {new_list("good", 2), new_list("bad", 2)};
        hst_optimizer *optimizers[] = {hst_optimizer_new(lists[0], &plain), hst_optimizer_new(lists[1], &plain)};
        const hst_tensor *good = hst_parameter_value(lists[0], 0), *bad = hst_parameter_value(lists[1], 0);
        hst_scope_begin(ctx);
        hst_tensor *loss = hst_add(hst_sum((hst_tensor *)good), hst_scale(hst_sum((hst_tensor *)bad), TOO_STEEP));
        cr_assert_eq(hst_scaled_backward(s, 2, lists, loss), HST_OK, "%s", hst_error(ctx));
        hst_scope_end(ctx, NULL);
        for (int i = 0; i < 2; i++) {
            int which = i ^ order;
            cr_expect_eq(hst_scaled_step(s, optimizers[which], 0.5, 1), which ? HST_SKIPPED_OVERFLOW : HST_STEPPED);
        }
        cr_expect(first(good) == 0.5 && first(bad) == 1);
        cr_expect(hst_scaler_update(s) == HST_OK && hst_scaler_scale(s) == 0x1p15);
        cr_expect(hst_optimizer_steps(optimizers[0]) == 1 && hst_optimizer_steps(optimizers[1]) == 0);
        for (int i = 0; i < 2; i++) hst_optimizer_free(optimizers[i]), hst_parameters_free(lists[i]);
        hst_scaler_free(s);
    }
}

// S7.
Test(scaling, calls_out_of_order_have_their_answers) {
    hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
    double norm[2];
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_NO_GRADIENTS);
    cr_expect(hst_scaler_update(s) == HST_OK && hst_scaler_get_state(s).tracker == 0);
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "hst_scaler_update: no gradients were checked");
    backward(s, list, w, 3);
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_STATE); // a backward is no check
    hst_clear_error(ctx);
    cr_expect(hst_unscale_gradients(list, &norm[0]) == HST_OK && hst_unscale_gradients(list, &norm[1]) == HST_OK);
    cr_expect(norm[0] == sqrt(18) && norm[1] == sqrt(18) && first(hst_grad(w)) == 3);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_STEPPED);
    cr_expect_eq(hst_unscale_gradients(list, &norm[0]), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "the step with these gradients is over");
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_NO_GRADIENTS);
    cr_expect(first(w) == -2 && hst_optimizer_steps(sgd) == 1);
    cr_expect(hst_scaler_update(s) == HST_OK && hst_scaler_get_state(s).tracker == 1);
    hst_scaler_free(s);
}

// S10. Neither NaN nor infinity of the loss itself lowers the scale, though the gradients are NaN too.
Test(scaling, a_loss_that_is_not_finite_is_told_apart) {
    static const double losses[] = {NAN, INFINITY, -INFINITY};
    hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p16);
    for (int i = 0; i < 3; i++) {
        backward(s, list, w, losses[i]);
        cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_NAN_LOSS);
        cr_expect(hst_scaler_update(s) == HST_OK && hst_scaler_scale(s) == 0x1p16);
        cr_expect_eq(first(w), 1);
    }
    backward(s, list, w, 1); // the window is over, and with it the NaN
    hst_request_gradients(list, HST_ADD);
    backward(s, list, w, NAN);
    backward(s, list, w, TOO_STEEP);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_NAN_LOSS); // one of three losses was NaN
    hst_scaler_update(s);
    cr_expect_eq(hst_scaler_scale(s), 0x1p16);
    hst_request_gradients(list, HST_WRITE);
    backward(s, list, w, 1);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_STEPPED);
    hst_scaler_free(s);
}

// The loss that is added to is judged by itself.
Test(scaling, a_loss_that_is_not_finite_is_its_own_scalers) {
    hst_scaler *a = scaler_of(HST_SCALER_TORCH, 0x1p16), *b = scaler_of(HST_SCALER_TORCH, 0x1p16);
    for (int steep = 0; steep < 2; steep++) {
        hst_request_gradients(list, HST_WRITE);
        backward(a, list, w, steep ? TOO_STEEP : 1);
        hst_request_gradients(list, HST_ADD);
        backward(b, list, w, NAN);
        cr_expect_eq(hst_scaled_step(b, sgd, 1, 1), HST_SKIPPED_NAN_LOSS);
        cr_expect(hst_scaler_update(a) == HST_OK && hst_scaler_update(b) == HST_OK, "%s", hst_error(ctx));
        cr_expect_eq(hst_scaler_get_state(a).action, steep ? HST_SCALER_LOWERED : HST_SCALER_KEPT);
        cr_expect_eq(hst_scaler_get_state(b).action, HST_SCALER_NAN_LOSS);
    }
    cr_expect(hst_scaler_scale(a) == 0x1p15 && hst_scaler_scale(b) == 0x1p16 && first(w) == 1);
    hst_scaler_free(a), hst_scaler_free(b);
}

static void train(hst_parameters *of, hst_optimizer *o, hst_scaler *s, const char *events) {
    for (; *events; events++) {
        hst_step_result want = *events == 'O'   ? HST_SKIPPED_OVERFLOW
                               : *events == 'L' ? HST_SKIPPED_NAN_LOSS
                                                : HST_STEPPED;
        double slope = *events == 'O' ? TOO_STEEP : *events == 'L' ? NAN : 1 + 0.5 * (double)hst_optimizer_steps(o);
        backward(s, of, hst_parameter_value(of, 0), slope);
        cr_assert_eq(hst_scaled_step(s, o, 0.1, 1), want);
        cr_assert_eq(hst_scaler_update(s), HST_OK, "%s", hst_error(ctx));
    }
}

// S11. Skipped steps leave no trace: weights, m, v and the count have the bits of a run without them.
Test(scaling, a_skipped_step_changes_nothing) {
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++) {
        hst_optimizer_options o = hst_optimizer_defaults((hst_optimizer_kind)kind);
        o.decay = 0.1;
        hst_parameters *lists[] = {new_list("w", 3), new_list("w", 3)};
        hst_optimizer *optimizers[] = {hst_optimizer_new(lists[0], &o), hst_optimizer_new(lists[1], &o)};
        hst_scaler *s = scaler_of(HST_SCALER_TORCH, 0x1p20);
        train(lists[0], optimizers[0], s, "NNN");
        train(lists[1], optimizers[1], s, "OLNOONLNOL");
        char name[32];
        for (int i = -1; i < hst_optimizer_state_count(optimizers[0]); i++) {
            float values[2][3];
            for (int k = 0; k < 2; k++)
                hst_copy_out(i < 0 ? hst_parameter_value(lists[k], 0)
                                   : hst_optimizer_state(optimizers[k], i, name, sizeof name),
                             HST_F32, values[k]);
            cr_expect_arr_eq(values[0], values[1], sizeof values[0], "%s, state %d", hst_optimizer_name(o.kind), i);
        }
        cr_expect(hst_optimizer_steps(optimizers[0]) == 3 && hst_optimizer_steps(optimizers[1]) == 3);
        for (int k = 0; k < 2; k++) hst_optimizer_free(optimizers[k]), hst_parameters_free(lists[k]);
        hst_scaler_free(s);
    }
}

// The end of a run says which tensor it was.
Test(scaling, too_many_overflows_end_in_an_error_that_names_the_tensor) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_TORCH);
    o.max_consecutive_skips = 3;
    hst_scaler *s = hst_scaler_new(ctx, &o);
    train(list, sgd, s, "NOO");
    backward(s, list, w, TOO_STEEP);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_OVERFLOW);
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_DIVERGED);
    expect_error(HST_ERROR_DIVERGED, "update 4: the gradient of layers.1.weight is not finite at loss scale 16384, the "
                                     "last of 3 steps skipped in a row");
    hst_scaler_free(s);
    s = scaler_of(HST_SCALER_NONE, 1);
    backward(s, list, w, INFINITY);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_NAN_LOSS);
    cr_expect_eq(hst_scaler_update(s), HST_OK);
    hst_scope_begin(ctx); // 0 times sqrt'(0), infinity, in a finite loss
    hst_copy_in(w, HST_F64, (double[]){0, 0});
    hst_scaled_backward(s, 1, &list, hst_sum(hst_sqrt(w)));
    hst_scope_end(ctx, NULL);
    cr_expect_eq(hst_scaled_step(s, sgd, 1, 1), HST_SKIPPED_OVERFLOW);
    cr_expect_eq(hst_scaler_update(s), HST_ERROR_DIVERGED);
    expect_error(HST_ERROR_DIVERGED, "the gradient of layers.1.weight is not finite at loss scale 1");
    hst_scaler_free(s);
}
