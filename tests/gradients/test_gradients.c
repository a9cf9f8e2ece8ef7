// test_gradients.c: every row of the op table against central differences, in the double build, where an f32 tensor
// holds doubles. The bar is 1e-7 norm-wise: with h = cbrt(2^-52) the truncation error is near h^2 = 4e-11 of the third
// derivative and the rounding error near 2^-52 / h = 4e-11, so three digits are left for the functions themselves.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
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
