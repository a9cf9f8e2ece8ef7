// test_upstream.c: what SRU's own 16-bit kernel loses (hst_recurrence.upstream_fp16), beside what the library's keeps
// on every instruction set. The columns of exact numbers are closed forms; those of 16 bits were worked out from the
// kernel's source, operation by operation, and are compared as they are printed in ops/README.md.
#include "ops/ops.h"
#include "tests/ops/isas.h"

static void expect_printed(const char *what, double x, const char *format, const char *want) {
    char text[32];
    snprintf(text, sizeof text, format, x);
    cr_expect_str_eq(text, want, "%s is %s, not %s", what, text, want);
}

static hst_recurrence stored_as(hst_dtype dtype, bool upstream) {
    hst_recurrence o = hst_recurrence_defaults();
    o.names_dtype = true, o.dtype = dtype, o.upstream_fp16 = upstream;
    return o;
}

// ---- long memory ----

enum { STEPS = 2048 };

static const struct {
    double z; // the forget gate's argument
    const char *exact, *f16, *bf16;
} memories[] = {
    {4, "1.000000", "0.986328", "0.890625"},   {5, "0.999999", "0.962891", "0.632812"},
    {6, "0.993719", "0.887695", "0.500000"},   {6.5, "0.953890", "0.791992", "0.000000"},
    {7, "0.845364", "0.625977", "0.000000"},   {8, "0.496873", "0.500000", "0.000000"},
    {8.5, "0.340756", "0.000000", "0.000000"}, {9.2103, "0.185188", "0.000000", "0.000000"},
};

// c after 2048 steps with U0 = 1, c0 = 0 and a constant forget gate s(z); dc0 is what of dL/dc = 1 comes back.
static double final_state(hst_context *ctx, double z, hst_recurrence options) {
    static float u[3 * STEPS];
    for (int t = 0; t < STEPS; t++) u[3 * t] = 1, u[3 * t + 1] = (float)z, u[3 * t + 2] = 0;
    hst_scope_begin(ctx);
    hst_tensor *us = hst_from_array(ctx, HST_F32, HST_SHAPE(STEPS, 1, 3), HST_F32, u), *c;
    hst_tensor *bias = hst_zeros(ctx, HST_F32, HST_SHAPE(2));
    hst_sru_recurrence(us, NULL, NULL, NULL, bias, NULL, NULL, NULL, options, &c);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    double last = hst_item(c, (int64_t[]){0, 0});
    hst_scope_end(ctx, NULL);
    return last;
}

static void check_long_memory(hst_context *ctx) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    for (size_t i = 0; i < COUNT(memories); i++) {
        double exact = 1 - pow(1 / (1 + exp(-memories[i].z)), STEPS);
        expect_printed("exact", exact, "%.6f", memories[i].exact);
        for (int d = 0; d < 3; d++) // f off by 2^-23, and two roundings a step of numbers up to 1: below 2048 2^-22
            expect(ctx, "c", final_state(ctx, memories[i].z, stored_as(dtypes[d], false)), exact, STEPS * 0x1p-22);
        expect_printed("f16", final_state(ctx, memories[i].z, stored_as(HST_F16, true)), "%.6f", memories[i].f16);
        expect_printed("bf16", final_state(ctx, memories[i].z, stored_as(HST_BF16, true)), "%.6f", memories[i].bf16);
    }
}
Test(upstream, long_memory) { for_each_isa(check_long_memory); }

// ---- sums over steps ----

static const struct {
    double g;
    int64_t steps;
    const char *exact, *f16, *bf16, *format;
} sums[] = {
    {0.01, 4096, "40.96", "32.00", "4.00", "%.2f"},   {0.01, 16384, "163.84", "32.00", "4.00", "%.2f"},
    {0.1, 1024, "102.40", "108.19", "32.00", "%.2f"}, {0.1, 4096, "409.60", "256.00", "32.00", "%.2f"},
    {0.001, 4096, "4.096", "4.000", "0.500", "%.3f"},
};

// c = U0 = 1, r = 1/2 and x' = 0: each step adds dh (c - x') r (1 - r) = dh / 4 to the gradient of br, here with v = 0
// and p = 1 to that of vr as well. U1 and f get nothing.
static void parameter_gradients(hst_context *ctx, double g, int64_t steps, hst_recurrence options, double got[2]) {
    hst_scope_begin(ctx);
    hst_tensor *one = hst_full(ctx, HST_F32, HST_SHAPE(steps, 1, 1), 1);
    hst_tensor *u = hst_cat(2, (hst_tensor *[]){one, hst_zeros(ctx, HST_F32, HST_SHAPE(steps, 1, 2))}, 2);
    hst_tensor *bias = hst_zeros(ctx, HST_F32, HST_SHAPE(2)), *v = hst_zeros(ctx, HST_F32, HST_SHAPE(2));
    hst_attach_grad(bias, HST_WRITE, HST_F32), hst_attach_grad(v, HST_WRITE, HST_F32);
    hst_tensor *c0 = hst_full(ctx, HST_F32, HST_SHAPE(1, 1), 1);
    hst_tensor *h = hst_sru_recurrence(u, NULL, v, NULL, bias, c0, NULL, NULL, options, NULL);
    hst_tensor *dh = hst_full(ctx, options.dtype, HST_SHAPE(steps, 1, 1), 4 * g);
    cr_assert_eq(hst_backward_from(ctx, 1, &h, &dh), HST_OK, "%s", hst_error(ctx));
    got[0] = hst_item(hst_grad(bias), (int64_t[]){1}), got[1] = hst_item(hst_grad(v), (int64_t[]){1});
    cr_expect_eq(hst_item(hst_grad(bias), (int64_t[]){0}), 0);
    hst_scope_end(ctx, NULL);
}

static void check_sums(hst_context *ctx) {
    for (size_t i = 0; i < COUNT(sums); i++) {
        double got[2];
        parameter_gradients(ctx, sums[i].g, sums[i].steps, stored_as(HST_F32, false), got);
        for (int k = 0; k < 2; k++) expect_printed("exact", got[k], sums[i].format, sums[i].exact);
        parameter_gradients(ctx, sums[i].g, sums[i].steps, stored_as(HST_F16, true), got);
        for (int k = 0; k < 2; k++) expect_printed("f16", got[k], sums[i].format, sums[i].f16);
        parameter_gradients(ctx, sums[i].g, sums[i].steps, stored_as(HST_BF16, true), got);
        for (int k = 0; k < 2; k++) expect_printed("bf16", got[k], sums[i].format, sums[i].bf16);
    }
}
Test(upstream, parameter_gradients_stall) { for_each_isa(check_sums); }
