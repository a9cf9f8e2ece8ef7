// test_gradients.c: every row of the op table against central differences, in the double build, where an f32 tensor
// holds doubles. The bar is 1e-7 norm-wise: with h = cbrt(2^-52) the truncation error is near h^2 = 4e-11 of the third
// derivative and the rounding error near 2^-52 / h = 4e-11, so three digits are left for the functions themselves.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "models/models.h"
#include "ops/table.h"
#include "tests/gradients/cases.h"

#define FAMILY(name) cases_##name,
static const gradient_case *const families[] = {FAMILIES(FAMILY)};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

static double error_of(const gradient_case *c) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .seed = 7, .threads = 1});
    hst_tensor *leaves[6];
    int count = 0;
    for (; count < 6 && c->leaves[count].rank > 0; count++)
        leaves[count] = hst_uniform(ctx, HST_F32, c->leaves[count].rank, c->leaves[count].extent, -1.5, 1.5);
    double error = 1;
    hst_status status = hst_gradcheck(ctx, c->f, (void *)c, count, leaves, &error);
    cr_expect(status == HST_OK, "%s, %s: %s", c->op, c->what, hst_error(ctx));
    hst_close(ctx);
    return error;
}

Test(gradients, every_operation_and_option) {
    cr_assert(hst_dtype_size(HST_F32) == 8, "this suite is meant for the double build");
    for (int family = 0; family < FAMILY_COUNT; family++)
        for (const gradient_case *c = families[family]; c->op; c++) {
            double error = error_of(c);
            cr_expect(error < 1e-7, "%s, %s: relative error %g", c->op, c->what, error);
        }
}

Test(gradients, every_row_of_the_op_table_has_a_case) {
    for (int row = 0; row < hst_op_count; row++) {
        bool found = !hst_op_table[row]->backward;
        for (int family = 0; family < FAMILY_COUNT; family++)
            for (const gradient_case *c = families[family]; c->op; c++)
                found |= !strcmp(c->op, hst_op_table[row]->name);
        cr_expect(found, "%s has a gradient and no case here", hst_op_table[row]->name);
    }
}

// A whole model: every parameter of a two-layer language model with everything on.
static hst_tensor *model_loss(hst_context *ctx, hst_tensor *const *x, void *user) {
    (void)x;
    hst_tensor *c, *logits = hst_lm_forward(user, with_ids(ctx, 2, (int64_t[]){4, 2}, 6), NULL, true, &c);
    return hst_cross_entropy(logits, with_ids(ctx, 2, (int64_t[]){4, 2}, 5));
}

Test(gradients, the_language_model) {
    for (int tied = 0; tied < 2; tied++) {
        hst_context *ctx = hst_open(NULL);
        hst_lm_config config = hst_lm_defaults();
        config.vocabulary = 6, config.hidden = 3, config.layers = 2, config.dropout = 0.3, config.highway_bias = -1;
        config.tied = tied;
        hst_lm *model = hst_lm_new(ctx, &config);
        hst_parameters *list = hst_lm_parameters(model);
        hst_tensor *leaves[32];
        int count = hst_parameter_count(list);
        // The initial embedding is so small (0.1) that the layer norm behind it bends within a few steps of the
        // differences.
        double table[18];
        for (int i = 0; i < 18; i++) table[i] = (i * 5 % 18) / 9.0 - 1;
        hst_copy_in(hst_parameter_value(list, 0), HST_F64, table);
        for (int i = 0; i < count; i++) leaves[i] = hst_parameter_value(list, i);
        double error = 1;
        hst_gradcheck(ctx, model_loss, model, count, leaves, &error);
        cr_expect(hst_get_status(ctx) == HST_OK, "%s", hst_error(ctx));
        cr_expect(error < 1e-7, "relative error %g", error);
        hst_lm_free(model);
        hst_close(ctx);
    }
}

// A stack with every option at once. The loss takes h alone; c has no gradient.
static hst_tensor *stack_loss(hst_context *ctx, hst_tensor *const *x, void *user) {
    static const uint8_t pads[8] = {1, 0, 0, 0, 0, 1, 0, 1};
    hst_tensor *c, *pad = hst_from_array(ctx, HST_U8, HST_SHAPE(4, 2), HST_U8, pads);
    return hst_sru_forward(user, x[0], x[1], pad, true, &c);
}

Test(gradients, a_stack_of_everything) {
    for (int first = 0; first < 2; first++) {
        hst_context *ctx = hst_open(NULL);
        hst_sru_config config = hst_sru_defaults(HST_SRU_3);
        config.input = 5, config.hidden = 2, config.layers = 3, config.projection_size = 3;
        config.bidirectional = config.use_tanh = config.layer_norm = config.normalize_after = config.rescale = true;
        config.nn_rnn_compatible_return = true;
        config.dropout = 0.3, config.rnn_dropout = 0.2, config.highway_bias = -1;
        config.proj_input_to_hidden_first = first;
        hst_parameters *list = hst_parameters_new(ctx);
        hst_sru *sru = hst_sru_new(list, "", &config);
        hst_tensor *leaves[32] = {hst_uniform(ctx, HST_F32, HST_SHAPE(4, 2, 5), -1.5, 1.5),
                                  hst_uniform(ctx, HST_F32, HST_SHAPE(6, 2, 2), -1.5, 1.5)};
        int count = hst_parameter_count(list);
        for (int i = 0; i < count; i++) leaves[2 + i] = hst_parameter_value(list, i);
        double error = 1;
        hst_gradcheck(ctx, stack_loss, sru, 2 + count, leaves, &error);
        cr_expect(hst_get_status(ctx) == HST_OK, "%s", hst_error(ctx));
        cr_expect(error < 1e-7, "relative error %g", error);
        hst_sru_free(sru);
        hst_close(ctx);
    }
}

// The checker itself must be able to fail: a function whose gradient is cut off in the middle has a wrong one.
static hst_tensor *detached(hst_context *ctx, hst_tensor *const *x, void *user) {
    return (void)ctx, (void)user, hst_add(x[0], hst_detach(hst_scale(x[0], 2)));
}

Test(gradients, a_wrong_gradient_is_found) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *x = hst_uniform(ctx, HST_F32, HST_SHAPE(3, 4), -1, 1);
    double error = 0;
    hst_gradcheck(ctx, detached, NULL, 1, &x, &error);
    cr_expect(error > 0.5, "%g", error); // analytic 1, numeric 3
    hst_close(ctx);
}
