// test_shadows.c: the 16-bit copies of weights, and the four traps of systems that cache casts: stale values (A4), a
// copy made where nothing was recorded (A5), gradients added up in 16 bits (A3), memory that grows; backward in the
// dtypes of forward (A6).
#include "tests/amp/common.h"
#include <math.h>
#include "optim/optim.h"

TestSuite(shadows, .init = open_context, .fini = close_context);

static hst_tensor *weight(double value) {
    hst_tensor *w = hst_full(ctx, HST_F32, HST_SHAPE(1, 1), value);
    hst_attach_grad(w, HST_WRITE, HST_F32);
    return w;
}
static hst_tensor *number(hst_dtype dtype, double value) { return hst_full(ctx, dtype, HST_SHAPE(1, 1), value); }
static double item(const hst_tensor *t) { return hst_item(t, (int64_t[]){0, 0}); }

// ---- A3: a weight that is used 4096 times, each time with the gradient f16(0.01) = 0.010002136 ----

static double sum_of_uses(hst_dtype gradient) {
    enum { USES = 4096 };
    static hst_tensor *y[USES], *dy[USES];
    hst_scope_begin(ctx);
    hst_tensor *w = weight(1), *x = number(HST_F16, 0.01), *one = number(HST_F16, 1);
    hst_attach_grad(w, HST_ADD, gradient);
    begin(HST_F16, HST_LIST_HALFSTEP);
    for (int i = 0; i < USES; i++) y[i] = hst_linear(x, w, NULL), dy[i] = one;
    hst_autocast_end(ctx);
    hst_backward_from(ctx, USES, y, dy);
    double sum = item(hst_grad(w));
    hst_scope_end(ctx, NULL);
    return sum;
}

Test(shadows, a3_gradients_of_many_uses_are_added_in_f32) {
    // 4096 additions to a sum below 64, each rounded by at most 2^-19.
    cr_expect_float_eq(sum_of_uses(HST_F32), 4096 * (double)hst_from_f16(hst_to_f16(0.01)), 4096 * 0x1p-19);
    cr_expect_float_eq(sum_of_uses(HST_F32), 40.97, 0.005);
    cr_expect_eq(sum_of_uses(HST_F16), 32, "what a cached cast, whose gradient is f16, adds up to");
}

// ---- A4: a weight that changes inside a region ----

Test(shadows, a4_a_changed_weight_is_seen) {
    hst_parameters *list = hst_parameters_new(ctx);
    hst_tensor *w = hst_parameter(list, "w", weight(1)), *one = number(HST_F32, 1);
    hst_optimizer_options sgd = hst_optimizer_defaults(HST_SGD);
    sgd.momentum = 0;
    hst_optimizer *optimizer = hst_optimizer_new(list, &sgd);
    hst_ema *ema = hst_ema_new(list, 0.5);
    begin(HST_F16, HST_LIST_HALFSTEP);
    expect_all(hst_linear(one, w, NULL), 1);
    hst_copy_in(w, HST_F32, (float[]){3});
    expect_all(hst_linear(one, w, NULL), 3);
    hst_backward(ctx, hst_linear(one, w, NULL));
    hst_optimizer_step(optimizer, 0.5, 1); // w = 3 - 0.5
    expect_all(hst_linear(one, w, NULL), 2.5);
    hst_ema_swap(ema);
    expect_all(hst_linear(one, w, NULL), 1);
    hst_ema_swap(ema);
    expect_all(hst_linear(one, w, NULL), 2.5);
    begin(HST_BF16, HST_LIST_HALFSTEP); // a second shadow beside the first
    hst_optimizer_step(optimizer, 1, 1);
    expect_all(hst_linear(one, w, NULL), 1.5);
    hst_autocast_end(ctx);
    expect_all(hst_linear(one, w, NULL), 1.5);
    hst_ema_free(ema);
    hst_optimizer_free(optimizer);
    hst_parameters_free(list);
}

// ---- A5: first used where nothing is recorded ----

Test(shadows, a5_a_use_without_gradients_first) {
    hst_tensor *w = weight(2), *x = number(HST_F32, 3);
    begin(HST_F16, HST_LIST_HALFSTEP);
    hst_no_grad_begin(ctx);
    expect_all(hst_linear(x, w, NULL), 6);
    hst_no_grad_end(ctx);
    hst_backward(ctx, hst_linear(x, w, NULL));
    hst_autocast_end(ctx);
    expect_all(hst_grad(w), 3);
}

// ---- trap d: a long region ----

Test(shadows, a_long_region_takes_no_more_memory) {
    hst_tensor *w = hst_uniform(ctx, HST_F32, HST_SHAPE(64, 64), -1, 1);
    hst_attach_grad(w, HST_WRITE, HST_F32);
    hst_tensor *frozen = hst_full(ctx, HST_F32, HST_SHAPE(64, 64), 1), *x = hst_full(ctx, HST_F32, HST_SHAPE(2, 64), 1);
    hst_memory first, last;
    begin(HST_BF16, HST_LIST_HALFSTEP);
    hst_no_grad_begin(ctx);
    for (int i = 0; i < 1000; i++) {
        hst_scope_begin(ctx);
        hst_linear(hst_linear(x, w, NULL), frozen, NULL);
        hst_scope_end(ctx, NULL);
        hst_memory_stats(ctx, i == 2 ? &first : &last);
    }
    for (int c = 0; c < HST_CATEGORIES; c++) cr_expect_eq(first.current[c], last.current[c]);
    cr_expect_eq(first.system_allocations, last.system_allocations);
    int64_t shadow = 64 * 64 * 2; // one, of the weight that is trained; and its tensor
    cr_expect(last.current[HST_WEIGHTS] >= shadow && last.current[HST_WEIGHTS] <= shadow + 512, "%lld bytes",
              (long long)last.current[HST_WEIGHTS]);
}

// ---- A6: backward runs in the dtypes of forward, wherever it is called ----

// 1 + 2^-9 and 1 + 2^-8 are f16 numbers; in bf16 the first is 1 and the second as it is (or 1, at a tie to even).
static void gradients(bool inside, double *dx, double *dw, hst_dtype *between) {
    hst_scope_begin(ctx);
    hst_tensor *x = weight(1 + 0x1p-9), *w = weight(1 + 0x1p-9), *v = weight(1 + 0x1p-9);
    begin(HST_BF16, HST_LIST_HALFSTEP);
    hst_tensor *h = hst_linear(x, w, NULL), *y = hst_linear(h, v, NULL);
    *between = hst_dtype_of(h);
    hst_autocast_end(ctx);
    if (inside) begin(HST_F16, HST_LIST_HALFSTEP);
    hst_backward(ctx, y);
    if (inside) hst_autocast_end(ctx);
    *dx = item(hst_grad(x)), *dw = item(hst_grad(w));
    hst_scope_end(ctx, NULL);
}

Test(shadows, a6_backward_of_a_bf16_pass_is_bf16) {
    double outside[2], inside[2];
    hst_dtype dtype;
    gradients(false, &outside[0], &outside[1], &dtype);
    cr_expect_eq(dtype, HST_BF16);
    gradients(true, &inside[0], &inside[1], &dtype);
    cr_expect_arr_eq(outside, inside, sizeof inside);
    cr_expect_eq(outside[0], 1, "in f16 it would be (1 + 2^-9)^2");
    cr_expect_eq(outside[1], 1);
}

// ---- parameters that are shown in 16 bits ----

static const hst_dtype halves[] = {HST_F16, HST_BF16};

Test(shadows, shown_parameters_are_seen_in_16_bits_by_every_operation) {
    for (int i = 0; i < 2; i++) {
        hst_parameters *list = hst_parameters_new(ctx);
        hst_tensor *w = hst_parameter(list, "w", hst_uniform(ctx, HST_F32, HST_SHAPE(3, 4), -1, 1));
        hst_show_parameters(list, halves[i], false);
        hst_tensor *later = hst_parameter(list, "later", hst_full(ctx, HST_F32, HST_SHAPE(4), 0.1));
        hst_tensor *ids = hst_full(ctx, HST_I32, HST_SHAPE(2), 2), *seen = hst_sum(hst_embedding(w, ids));
        cr_expect_eq(hst_dtype_of(hst_embedding(w, ids)), halves[i]);
        cr_expect_eq(hst_dtype_of(hst_transpose(w, 0, 1)), halves[i]);
        cr_expect_eq(hst_dtype_of(hst_add(later, later)), halves[i]);
        cr_expect_eq(hst_dtype_of(w), HST_F32, "the master");
        hst_no_grad_begin(ctx);
        double expected = hst_item(hst_sum(hst_embedding(hst_cast(hst_detach(w), halves[i]), ids)), NULL);
        hst_no_grad_end(ctx);
        cr_expect_eq(hst_item(seen, NULL), expected);
        hst_show_parameters(list, HST_F32, false);
        cr_expect_eq(hst_dtype_of(hst_embedding(w, ids)), HST_F32);
        hst_show_parameters(list, halves[i], false);
        hst_parameters_free(list);
        cr_expect_eq(hst_dtype_of(hst_add(later, later)), HST_F32, "a parameter no more");
    }
}

// The output layer's weight is read through a view. 4096 rows, each of x = f16(0.01) and dy = 1: in f16 the gradient
// would be rounded to 40.96875, whose neighbours are 2^-5 away, and 1 + 2^-12 more to the same.
Test(shadows, gradients_through_views_of_shown_parameters_are_not_rounded) {
    hst_parameters *list = hst_parameters_new(ctx);
    hst_tensor *w = hst_parameter(list, "w", hst_full(ctx, HST_F32, HST_SHAPE(1, 1), 1));
    hst_show_parameters(list, HST_F16, false);
    hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(3, 1), 1 + 0x1p-13);
    hst_tensor *y = hst_matmul(x, hst_transpose(hst_reshape(w, HST_SHAPE(1, 1)), 0, 1));
    hst_backward(ctx, hst_sum(y));
    expect_all(hst_grad(w), 3 * (1 + 0x1p-13)); // exact in f32; in f16 it is 3
    hst_parameters_free(list);
}

Test(shadows, max_norm_shortens_the_master_too) {
    hst_parameters *list = hst_parameters_new(ctx);
    hst_tensor *w = hst_parameter(list, "w", hst_full(ctx, HST_F32, HST_SHAPE(2, 4), 3)), *y;
    hst_show_parameters(list, HST_F16, false);
    hst_embedding_options o = hst_embedding_defaults();
    o.max_norm = 2;
    y = hst_embedding_with(w, hst_zeros(ctx, HST_I32, HST_SHAPE(1)), &o); // norm 6, to 2: each 1
    cr_expect_eq(hst_dtype_of(y), HST_F16);
    expect_all(y, 1);
    cr_expect_float_eq(hst_item(w, (int64_t[]){0, 0}), 1, 1e-6);
    cr_expect_eq(hst_item(w, (int64_t[]){1, 0}), 3);
    hst_parameters_free(list);
}

// As in f32: what a product read is not what it was.
Test(shadows, a_shadow_that_max_norm_shortened_is_a_changed_argument) {
    for (int shown = 0; shown < 2; shown++) {
        hst_parameters *list = hst_parameters_new(ctx);
        hst_tensor *w = hst_parameter(list, "w", hst_full(ctx, HST_F32, HST_SHAPE(2, 4), 3));
        if (shown) hst_show_parameters(list, HST_F16, false);
        hst_embedding_options o = hst_embedding_defaults();
        o.max_norm = 2;
        hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(3, 2), 1);
        hst_attach_grad(x, HST_WRITE, HST_F32);
        hst_tensor *loss = hst_sum(hst_matmul(x, w));
        hst_no_grad_begin(ctx);
        hst_embedding_with(w, hst_zeros(ctx, HST_I32, HST_SHAPE(1)), &o);
        hst_no_grad_end(ctx);
        hst_backward(ctx, loss);
        EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "argument b of matmul was changed in place");
        hst_parameters_free(list);
    }
}

// ---- M1: updates that are too small for 16 bits ----

Test(shadows, m1_masters_move_where_16_bits_stand_still) {
    for (int i = 0; i < 2; i++)
        for (int no_master = 0; no_master < 2; no_master++)
            for (int kind = 0; kind < 2; kind++) {
                hst_parameters *list = hst_parameters_new(ctx);
                hst_tensor *w = hst_parameter(list, "w", hst_full(ctx, HST_F32, HST_SHAPE(37), 1));
                hst_show_parameters(list, halves[i], no_master);
                hst_optimizer_options o = hst_optimizer_defaults(kind ? HST_ADAMW : HST_SGD);
                o.momentum = 0, o.decay = 0;
                hst_optimizer *optimizer = hst_optimizer_new(list, &o);
                // Upward, half a unit of 1 is 2^-11 in f16 and 2^-8 in bf16; each step is less. Adam's step is the
                // rate.
                double rate = i ? 0x1p-9 : 0x1p-12;
                for (int step = 0; step < 64; step++) {
                    hst_scope_begin(ctx);
                    hst_backward(ctx, hst_scale(hst_sum(w), -1));
                    hst_optimizer_step(optimizer, rate, 1);
                    hst_scope_end(ctx, NULL);
                }
                double expected = no_master ? 1 : 1 + 64 * rate;
                cr_expect_float_eq(hst_item(w, (int64_t[]){36}), expected, no_master ? 0 : 64 * 0x1p-23, "%g",
                                   hst_item(w, (int64_t[]){36}));
                hst_optimizer_free(optimizer);
                hst_parameters_free(list);
            }
}

Test(shadows, mistakes) {
    hst_parameters *list = hst_parameters_new(ctx);
    cr_expect_eq(hst_show_parameters(NULL, HST_F16, false), HST_ERROR_STATE);
    hst_show_parameters(list, HST_I32, false);
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "i32; HST_F16, HST_BF16 or HST_F32 is needed");
    hst_show_parameters(list, HST_F32, true);
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "f32 without masters; HST_F16, HST_BF16 is needed");
    hst_parameters_free(list);
}
