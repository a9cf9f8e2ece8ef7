// test_masters.c: what optimizers do to masters that operations see in 16 bits, in steps that must not move them.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "ops/ops.h"
#include "optim/optim.h"

enum { COUNT = 37 };

static const hst_dtype seen_as[] = {HST_F32, HST_F16, HST_BF16};

// A run of the sweep: one parameter, seen in a 16-bit dtype, with a gradient in one.
typedef struct setting {
    hst_optimizer_kind kind;
    hst_dtype seen, gradient;
    bool no_master;
} setting;

static void for_each_setting(void (*check)(hst_context *ctx, hst_parameters *list, hst_tensor *w, setting s)) {
    for (int kind = 0; hst_optimizer_name((hst_optimizer_kind)kind); kind++)
        for (int i = 0; i < 18; i++) {
            setting s = {(hst_optimizer_kind)kind, seen_as[i / 6], seen_as[i / 2 % 3], i % 2};
            if (s.no_master && s.seen == HST_F32) continue;
            hst_context *ctx = hst_open(NULL);
            hst_parameters *list = hst_parameters_new(ctx);
            hst_tensor *w = hst_parameter(list, "w", hst_uniform(ctx, HST_F32, HST_SHAPE(1, COUNT), -1, 1));
            hst_attach_grad(w, HST_WRITE, s.gradient);
            hst_show_parameters(list, s.seen, s.no_master);
            check(ctx, list, w, s);
            cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
            hst_parameters_free(list);
            hst_close(ctx);
        }
}

static void expect_same(const float *before, const hst_tensor *w, setting s, const char *what) {
    float after[COUNT];
    hst_copy_out(w, HST_F32, after);
    cr_expect_arr_eq(after, before, sizeof after, "%s, %s seen as %s, gradient in %s%s", what,
                     hst_optimizer_name(s.kind), hst_dtype_name(s.seen), hst_dtype_name(s.gradient),
                     s.no_master ? ", without master" : "");
}

// M2. Where m and v are f16, eps = 1e-8 is 0 and the step 0 / 0. Here w - rate 0 / (sqrt(0) + eps) = w.
static void step_without_gradient(hst_context *ctx, hst_parameters *list, hst_tensor *w, setting s) {
    hst_optimizer_options o = hst_optimizer_defaults(s.kind);
    o.decay = 0;
    hst_optimizer *optimizer = hst_optimizer_new(list, &o);
    float before[COUNT];
    hst_copy_out(w, HST_F32, before);
    for (int step = 0; step < 8; step++) {
        hst_scope_begin(ctx);
        hst_backward(ctx, hst_scale(hst_sum(w), 0));
        hst_scope_end(ctx, NULL);
        hst_optimizer_step(optimizer, 0.1, 1);
    }
    expect_same(before, w, s, "zero gradients");
    hst_optimizer_free(optimizer);
}

Test(masters, m2_zero_gradients_move_nothing) { for_each_setting(step_without_gradient); }

// M4. Neither making an optimizer nor a step at rate 0, with a gradient and a decay, changes a weight.
static void step_at_rate_0(hst_context *ctx, hst_parameters *list, hst_tensor *w, setting s) {
    hst_optimizer_options o = hst_optimizer_defaults(s.kind);
    o.decay = 0.3;
    float before[COUNT];
    hst_copy_out(w, HST_F32, before);
    hst_optimizer *optimizer = hst_optimizer_new(list, &o);
    expect_same(before, w, s, "making");
    hst_scope_begin(ctx);
    hst_backward(ctx, hst_scale(hst_sum(w), 3));
    hst_scope_end(ctx, NULL);
    hst_optimizer_step(optimizer, 0, 1);
    expect_same(before, w, s, "rate 0");
    hst_optimizer_free(optimizer);
}

Test(masters, m4_an_optimizer_changes_weights_only_by_its_rate) { for_each_setting(step_at_rate_0); }
