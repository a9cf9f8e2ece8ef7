// test_parameters.c: the parameter list and what optimizers ask of it.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "ops/ops.h"
#include "optim/optim.h"

static hst_context *ctx;
static hst_parameters *list;
static hst_tensor *a, *b;

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
    hst_optimizer *sgd = hst_sgd(list, (hst_sgd_options){0, 0}), *adam = hst_adamw(list, hst_adamw_defaults());
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

Test(optim, misuse_is_an_error_not_a_crash) {
    hst_optimizer *sgd = hst_sgd(list, (hst_sgd_options){0, 0});
    char name[64];
    cr_expect(hst_optimizer_state_count(sgd) == 0 && !hst_optimizer_state(sgd, 0, name, sizeof name));
    hst_optimizer_set_steps(sgd, -5);
    expect_error(HST_ERROR_VALUE, "-5 steps");
    hst_parameter(list, "a", hst_full(ctx, HST_F32, HST_SHAPE(2), 1));
    expect_error(HST_ERROR_VALUE, "already a parameter named a");
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

Test(optim, clipping_and_the_schedule) {
    cr_expect(hst_clip_factor(4, 1) == 0.25 && hst_clip_factor(0.5, 1) == 1 && hst_clip_factor(4, 0) == 1);
    cr_expect(isnan(hst_clip_factor(NAN, 1)) && hst_clip_factor(INFINITY, 1) == 0);
    hst_schedule s = {.peak = 2, .warmup = 4, .steps = 104, .floor = 0.1};
    cr_expect_eq(hst_schedule_rate(&s, 0), 0.5); // peak / warmup
    cr_expect(hst_schedule_rate(&s, 3) == 2 && hst_schedule_rate(&s, 4) == 2);
    cr_expect_float_eq(hst_schedule_rate(&s, 54), 2 * (0.1 + 0.9 / 2), 1e-15); // half way: cos = 0
    cr_expect_float_eq(hst_schedule_rate(&s, 104), 0.2, 1e-15);
    cr_expect_float_eq(hst_schedule_rate(&s, 1000), 0.2, 1e-15); // and stays there
}
