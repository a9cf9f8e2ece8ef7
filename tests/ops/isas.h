// isas.h: runs a check on every set of kernels that this CPU can run, and compares numbers.
//
//     static void check_something(hst_context *ctx) { cr_assert(ctx->backend->sum(ctx, ...)); }
//     Test(ops, something) { for_each_isa(check_something); }
#ifndef TESTS_OPS_ISAS_H
#define TESTS_OPS_ISAS_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/context.h"

static inline hst_context *open_isa(const char *isa, int threads) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .isa = isa, .threads = threads});
    cr_assert(ctx && !hst_get_status(ctx), "cannot open %s", isa);
    cr_assert_str_eq(hst_isa(ctx), isa);
    return ctx;
}

static inline void for_each_isa(void (*check)(hst_context *ctx)) {
    char names[128], *rest = names;
    snprintf(names, sizeof names, "%s", hst_isa_names());
    for (const char *isa; (isa = strtok_r(rest, " ", &rest));) {
        hst_context *ctx = open_isa(isa, 2);
        check(ctx);
        hst_close(ctx);
    }
}

#define F32(array) ((hst_source){(array), HST_F32})
#define TO_F32(array) ((hst_target){(array), HST_F32, false})
#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

// Of f32, which is a double in the double build.
static const double EPSILON = sizeof(hst_real) == sizeof(float) ? 0x1p-23 : 0x1p-52;

static inline void expect(hst_context *ctx, const char *what, double got, double want, double tolerance) {
    bool same = got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= tolerance;
    cr_assert(same, "%s: %s is %.9g, not %.9g", hst_isa(ctx), what, got, want);
}

static inline void expect_all(hst_context *ctx, const char *what, const hst_real *got, const double *want,
                              int64_t count, double tolerance) {
    for (int64_t i = 0; i < count; i++) expect(ctx, what, got[i], want[i], tolerance);
}

#endif
