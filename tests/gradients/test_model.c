// test_model.c: a whole model against central differences: every parameter of a two-layer language model with everything
// on. The bar is that of test_gradients.c.
#include <criterion/criterion.h>
#include "models/models.h"
#include "tests/gradients/cases.h"

static hst_tensor *model_loss(hst_context *ctx, hst_tensor *const *x, void *user) {
    (void)x;
    hst_tensor *c, *logits = hst_lm_forward(user, with_ids(ctx, 2, (int64_t[]){4, 2}, 6), NULL, true, &c);
    return hst_cross_entropy(logits, with_ids(ctx, 2, (int64_t[]){4, 2}, 5));
}

Test(gradients, the_language_model) {
    for (int tied = 0; tied < 2; tied++) {
        hst_context *ctx = hst_open(NULL);
        hst_lm *model = hst_lm_new(ctx, &(hst_lm_config){6, 3, 2, 0.3, -1, true, true, tied});
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
