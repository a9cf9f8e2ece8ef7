// test_scaling_buffers.c: what scaling does to the buffers: clipping, accumulation, rows, runs without a scaler,
// gradients in 16 bits, misuse.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/ops.h"
#include "optim/scaling.h"

static hst_context *ctx;
static hst_parameters *list;
static hst_tensor *w;
static hst_optimizer *sgd;
static hst_scaler *scaler; // torch, 2^16
static const hst_optimizer_options plain = {.kind = HST_SGD};

static void open_list(void) {
    ctx = hst_open(NULL);
    list = hst_parameters_new(ctx);
    w = hst_parameter(list, "w", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    sgd = hst_optimizer_new(list, &plain);
    scaler = hst_scaler_new(ctx, NULL);
    cr_assert(w && sgd && scaler);
}
static void close_list(void) {
    hst_scaler_free(scaler);
    hst_optimizer_free(sgd);
    hst_parameters_free(list);
    hst_close(ctx);
}
TestSuite(scaling_buffers, .init = open_list, .fini = close_list);

static void expect_error(hst_status status, const char *words) {
    cr_expect(hst_get_status(ctx) == status && strstr(hst_error(ctx), words), "not \"%s\" but: %s", words,
              hst_error(ctx));
    hst_clear_error(ctx);
}

static hst_status backward(hst_scaler *s, double slope) {
    hst_scope_begin(ctx);
    hst_status status = hst_scaled_backward(s, 1, &list, hst_scale(hst_sum(w), slope));
    hst_scope_end(ctx, NULL);
    return status;
}

static double first(const hst_tensor *t) { return hst_item(t, (int64_t[]){0}); }

// ---- clipping ----

// M5. An infinite norm, and a NaN: the buffers keep every bit.
Test(scaling_buffers, clipping_leaves_gradients_that_are_not_finite_alone) {
    for (int nan = 0; nan < 2; nan++) {
        uint32_t before[2], after[2];
        double factor = 5;
        backward(scaler, nan ? NAN : 0x1p120);
        hst_unscale_gradients(list, NULL);
        memcpy(before, hst_data(hst_grad(w)), sizeof before);
        cr_expect_eq(hst_clip_gradients(list, 1, &factor), HST_CLIP_NOT_FINITE);
        memcpy(after, hst_data(hst_grad(w)), sizeof after);
        cr_expect(factor == 1 && !memcmp(before, after, sizeof before) && !isfinite(first(hst_grad(w))));
        cr_expect_eq(hst_get_status(ctx), HST_OK);
        hst_scaled_step(scaler, sgd, 1, factor);
    }
    cr_expect_eq(first(w), 1);
}

Test(scaling_buffers, clipping_refuses_what_is_still_scaled) {
    double factor;
    backward(scaler, 3);
    cr_expect_eq(hst_clip_gradients(list, 1, &factor), HST_CLIP_FAILED);
    expect_error(HST_ERROR_STATE, "the gradient of w is still scaled, by 65536; hst_unscale_gradients comes first");
    cr_expect(factor == 1 && first(hst_grad(w)) == 3 * 65536);
    hst_unscale_gradients(list, NULL);
    cr_expect(hst_clip_gradients(list, 0, &factor) == HST_CLIP_SHORT && factor == 1); // no limit
    cr_expect(hst_clip_gradients(list, 5, &factor) == HST_CLIP_SHORT && factor == 1);
    cr_expect(hst_clip_gradients(list, 1, &factor) == HST_CLIP_CUT && factor == 1 / sqrt(18));
    cr_expect_eq(hst_clip_gradients(list, 1, NULL), HST_CLIP_CUT);
    hst_scaled_step(scaler, sgd, 1, factor);
    backward(NULL, 3); // without a scaler nothing is scaled
    cr_expect_eq(hst_clip_gradients(list, 1, &factor), HST_CLIP_CUT);
}

// ---- accumulation ----

// The mean of four; the norm and the clip are of the mean. The scale changes in between.
Test(scaling_buffers, micro_batches_are_counted) {
    double norm, factor;
    hst_set_accumulation(list, 4);
    for (int i = 0; i < 4; i++) {
        hst_request_gradients(list, i == 0 ? HST_WRITE : HST_ADD);
        if (i == 2) hst_scaler_report(scaler, HST_FOUND_OVERFLOW, NULL), hst_scaler_update(scaler);
        backward(scaler, 1 << i);
        if (i < 3) {
            cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_STEP_FAILED);
            char words[96];
            snprintf(words, sizeof words, "%d micro-batches were accumulated; hst_set_accumulation announced 4", i + 1);
            expect_error(HST_ERROR_STATE, words);
        }
    }
    cr_expect_eq(first(hst_grad(w)), 15 * 0x1p15);
    hst_unscale_gradients(list, &norm);
    cr_expect(first(hst_grad(w)) == 15 && norm == sqrt(2 * 15 * 15) / 4);
    cr_expect_eq(hst_clip_gradients(list, norm / 2, &factor), HST_CLIP_CUT);
    cr_expect_eq(hst_scaled_step(scaler, sgd, 1, factor), HST_STEPPED);
    cr_expect_eq(first(w), 1 - 15.0 / 4 / 2);
    hst_request_gradients(list, HST_WRITE); // begun, given up, begun again
    backward(scaler, 1);
    hst_request_gradients(list, HST_WRITE);
    for (int i = 0; i < 4; i++) backward(scaler, 1), hst_request_gradients(list, HST_ADD);
    cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_STEPPED);
    cr_expect_eq(hst_set_accumulation(list, -1), HST_ERROR_VALUE);
    expect_error(HST_ERROR_VALUE, "-1 batches");
}

// ---- without scaling ----

// The bits of hst_backward, hst_gradient_norm and hst_optimizer_step, and no gradient is written to.
Test(scaling_buffers, without_a_scaler_all_is_as_without) {
    hst_scaler_options o = hst_scaler_defaults(HST_SCALER_NONE);
    hst_scaler *none = hst_scaler_new(ctx, &o);
    double norms[3], factor;
    float results[3][2];
    for (int way = 0; way < 3; way++) {
        hst_copy_in(w, HST_F64, (double[]){1, -0.3});
        hst_request_gradients(list, HST_WRITE);
        for (int batch = 0; batch < 2; batch++) {
            hst_scope_begin(ctx);
            hst_tensor *loss = hst_scale(hst_sum(hst_mul(w, w)), 1 / 3.0);
            if (way == 0)
                hst_backward(ctx, loss);
            else
                hst_scaled_backward(way == 1 ? NULL : none, 1, &list, loss);
            hst_scope_end(ctx, NULL);
            hst_request_gradients(list, HST_ADD);
        }
        if (way == 0) {
            norms[0] = hst_gradient_norm(list);
            hst_optimizer_step(sgd, 0.1, hst_clip_factor(norms[0], 0.5));
        } else {
            float before[2], after[2];
            hst_copy_out(hst_grad(w), HST_F32, before);
            hst_unscale_gradients(list, &norms[way]);
            hst_clip_gradients(list, 0.5, &factor);
            cr_expect_eq(hst_scaled_step(way == 1 ? NULL : none, sgd, 0.1, factor), HST_STEPPED);
            hst_copy_out(hst_grad(w), HST_F32, after);
            cr_expect_arr_eq(before, after, sizeof before);
        }
        hst_copy_out(w, HST_F32, results[way]);
        cr_expect(norms[way] == norms[0] && !memcmp(results[way], results[0], sizeof *results));
    }
    cr_expect_eq(hst_scaler_update(none), HST_OK);
    hst_scaler_free(none);
}

// A backward that this file knows nothing of was not scaled, also right after one that was.
Test(scaling_buffers, a_plain_backward_is_not_unscaled) {
    double norm;
    backward(scaler, 3);
    hst_scope_begin(ctx);
    hst_backward(ctx, hst_sum(w));
    hst_scope_end(ctx, NULL);
    hst_unscale_gradients(list, &norm);
    cr_expect(norm == sqrt(2) && first(hst_grad(w)) == 1);
    cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_STEPPED);
    hst_scope_begin(ctx);
    hst_backward(ctx, hst_scale(hst_sum(w), 2));
    hst_scope_end(ctx, NULL);
    cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_STEPPED);
    cr_expect_eq(first(w), -2);
}

// Its overflow is nobody's scale's fault; the scaler of the step hears of it, be it found early or in the step.
Test(scaling_buffers, an_overflow_of_a_plain_backward_is_told_too) {
    hst_copy_in(w, HST_F64, (double[]){0, 0});
    for (int early = 0; early < 2; early++) {
        double before = hst_scaler_scale(scaler);
        hst_scope_begin(ctx);
        hst_backward(ctx, hst_sum(hst_sqrt(w))); // sqrt'(0) is infinite
        hst_scope_end(ctx, NULL);
        if (early) hst_unscale_gradients(list, NULL);
        cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_SKIPPED_OVERFLOW);
        cr_expect_eq(hst_scaler_update(scaler), HST_OK);
        cr_expect_eq(hst_scaler_get_state(scaler).skipped, early + 1);
        cr_expect_eq(hst_scaler_scale(scaler), before / 2);
    }
}

// ---- buffers of other kinds ----

// Rows of a table move as with a dense gradient, and frozen parameters are left out.
Test(scaling_buffers, rows_are_unscaled_and_checked) {
    static const int32_t ids[] = {3, 1, 3};
    for (int steep = 0; steep < 2; steep++) {
        float results[2][5];
        double norms[2];
        for (int rows = 0; rows < 2; rows++) {
            hst_parameters *tables = hst_parameters_new(ctx);
            hst_tensor *table = hst_parameter(tables, "table", hst_full(ctx, HST_F32, HST_SHAPE(5, 1), 1));
            hst_tensor *frozen = hst_parameter(tables, "frozen", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
            hst_attach_grad(frozen, HST_NULL, HST_F32);
            if (rows) hst_attach_grad_rows(table, HST_WRITE, HST_F32);
            hst_optimizer *o = hst_optimizer_new(tables, &plain);
            hst_scope_begin(ctx);
            hst_tensor *y = hst_embedding(table, hst_from_array(ctx, HST_I32, HST_SHAPE(3), HST_I32, ids));
            hst_scaled_backward(scaler, 1, &tables, hst_scale(hst_sum(y), steep ? 0x1p120 : 0.375));
            hst_scope_end(ctx, NULL);
            cr_expect(!rows == !hst_grad_row_values(table));
            hst_unscale_gradients(tables, &norms[rows]);
            cr_expect_eq(hst_scaled_step(scaler, o, 1, 1), steep ? HST_SKIPPED_OVERFLOW : HST_STEPPED);
            hst_copy_out(table, HST_F32, results[rows]);
            hst_optimizer_free(o);
            hst_parameters_free(tables);
        }
        cr_expect_arr_eq(results[0], results[1], sizeof results[0]);
        cr_expect(steep ? isinf(norms[1]) : norms[1] == norms[0] && norms[0] == sqrt(5) * 0.375);
        cr_expect(results[1][3] == (steep ? 1 : 0.25f) && results[1][0] == 1);
    }
    cr_expect_eq(hst_scaler_update(scaler), HST_OK);
    cr_expect_eq(hst_scaler_scale(scaler), 0x1p15);
}

Test(scaling_buffers, gradients_in_16_bits_are_refused) {
    hst_attach_grad(w, HST_WRITE, HST_F16);
    backward(scaler, 0x1p-4);
    cr_expect_eq(hst_unscale_gradients(list, NULL), HST_ERROR_DTYPE);
    expect_error(HST_ERROR_DTYPE, "the gradient of w is f16; that of a scaled loss must be f32");
    cr_expect_eq(hst_scaled_step(scaler, sgd, 1, 1), HST_STEP_FAILED);
    hst_clear_error(ctx);
    backward(NULL, 0.5); // without a scale there is nothing to round
    cr_expect(hst_scaled_step(NULL, sgd, 1, 1) == HST_STEPPED && first(w) == 0.5);
}

// ---- misuse ----

Test(scaling_buffers, misuse_is_an_error_not_a_crash) {
    hst_context *other = hst_open(NULL);
    hst_scaler *foreign = hst_scaler_new(other, NULL);
    hst_parameters *none = NULL, *strange = hst_parameters_new(other);
    cr_expect_eq(backward(foreign, 1), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "the scaler belongs to another context than the loss");
    hst_tensor *loss = hst_sum(w);
    cr_expect_eq(hst_scaled_backward(scaler, 1, &none, loss), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "list 0 is NULL");
    cr_expect_eq(hst_scaled_backward(scaler, 1, &strange, loss), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "list 0 belongs to another context");
    cr_expect_eq(hst_scaled_backward(scaler, 1, &list, hst_full(ctx, HST_I32, HST_SHAPE(2), 1)), HST_ERROR_STATE);
    expect_error(HST_ERROR_STATE, "nothing was recorded for this tensor");
    cr_expect_eq(hst_scaled_backward(scaler, 1, &list, NULL), HST_ERROR_STATE);
    cr_expect_eq(hst_unscale_gradients(NULL, NULL), HST_ERROR_STATE);
    cr_expect_eq(hst_set_accumulation(NULL, 1), HST_ERROR_STATE);
    cr_expect_eq(hst_clip_gradients(NULL, 1, NULL), HST_CLIP_FAILED);
    cr_expect_eq(hst_scaled_step(scaler, NULL, 1, 1), HST_STEP_FAILED);
    cr_expect_eq(hst_get_status(ctx), HST_OK);
    hst_optimizer *adam = hst_optimizer_new(list, NULL);
    cr_expect_eq(hst_scaled_step(scaler, adam, 1, NAN), HST_STEP_FAILED);
    expect_error(HST_ERROR_VALUE, "rate 1 and factor nan; both must be finite");
    cr_expect_eq(hst_scaled_step(scaler, adam, INFINITY, 1), HST_STEP_FAILED);
    expect_error(HST_ERROR_VALUE, "both must be finite");
    hst_optimizer_free(adam);
    static const char *const names[] = {"stepped", "overflow", "nan_loss", "no_gradients", "failed"};
    for (int i = 0; i < 5; i++) cr_expect_str_eq(hst_step_result_name((hst_step_result)i), names[i]);
    cr_expect_null(hst_step_result_name((hst_step_result)5));
    hst_parameters_free(strange);
    hst_scaler_free(foreign);
    hst_close(other);
}
