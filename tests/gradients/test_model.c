// test_model.c: a whole model against central differences: every parameter of a two-layer language model with
// everything on. The bar is that of test_gradients.c.
#include <criterion/criterion.h>
#include "models/models.h"
#include "tests/gradients/cases.h"

static hst_tensor *model_loss(hst_context *ctx, hst_tensor *const *x, void *user) {
    (void)x;
    hst_tensor *c, *ids = with_ids(ctx, 2, (int64_t[]){4, 2}, 6), *targets = with_ids(ctx, 2, (int64_t[]){4, 2}, 5);
    return hst_lm_loss(user, ids, targets, NULL, true, &c);
}

// Its first product is formed of the 6 rows of its table; of the 8 places of the text, where it has 9 symbols.
Test(gradients, the_language_model) {
    for (int option = 0; option < 4; option++) {
        hst_context *ctx = hst_open(NULL);
        hst_lm_config config = hst_lm_defaults();
        config.vocabulary = option & 2 ? 9 : 6, config.hidden = 3, config.layers = 2, config.dropout = 0.3,
        config.highway_bias = -1;
        config.tied = option & 1;
        hst_lm *model = hst_lm_new(ctx, &config);
        hst_parameters *list = hst_lm_parameters(model);
        hst_tensor *leaves[32];
        int count = hst_parameter_count(list);
        // The initial embedding is so small (0.1) that the layer norm behind it bends within a few steps of the
        // differences.
        double table[27];
        for (int i = 0; i < 27; i++) table[i] = (i * 5 % 18) / 9.0 - 1;
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
