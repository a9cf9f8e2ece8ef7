// mixes.h: what the tests of dtype mixes share. Every mix of f32, f16 and bf16 among up to three operands, and every
// dtype of gradient buffer, is a number in 0 .. MIXES; leaf() reads its digits.
#ifndef TESTS_AUTOGRAD_MIXES_H
#define TESTS_AUTOGRAD_MIXES_H

#include "tests/autograd/common.h"

enum { FLOATS = 3, MIXES = FLOATS * FLOATS * FLOATS * FLOATS }; // HST_F32, HST_F16, HST_BF16

static inline double rounded(hst_dtype dtype, double x) {
    double memory;
    hst_store((hst_target){&memory, dtype, false}, 0, x);
    return hst_load((hst_source){&memory, dtype}, 0);
}

// Pseudo-random multiples of `step` in [-1, 1], few enough bits for every format.
static inline void fill(double *values, int64_t count, double step, uint32_t which) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t words[4];
        hst_philox((hst_random_key){.seed = 4, .operation = which}, (uint64_t)i, words);
        values[i] = (double)((int)(words[0] % 17) - 8) * step;
    }
}

// Operand i of a call; its dtype is digit i of mix in base 3, that of all gradient buffers digit 3.
static inline hst_tensor *leaf(int mix, int operand, int rank, const int64_t *shape, const double *values) {
    static const int digit[] = {1, 3, 9, 27};
    hst_tensor *t = hst_from_array(ctx, (hst_dtype)(mix / digit[operand] % 3), rank, shape, HST_F64, values);
    hst_attach_grad(t, HST_WRITE, (hst_dtype)(mix / digit[3]));
    return t;
}

// t holds the expected values, rounded to its dtype; exactly (slack NULL), or after errors of at most `slack` before
// they were rounded: two numbers d apart are at most d and one place apart afterwards.
static inline void expect_near(const char *what, int mix, const hst_tensor *t, int64_t count, const double *expected,
                               const double *slack) {
    static const double place[FLOATS] = {0x1p-23, 0x1p-10, 0x1p-7}, smallest[FLOATS] = {0, 0x1p-24, 0};
    static double values[4096];
    hst_dtype dtype = hst_dtype_of(t);
    cr_assert_eq(hst_copy_out(t, HST_F64, values), HST_OK, "%s, mix %d: %s", what, mix, hst_error(ctx));
    cr_assert_eq(hst_count(t), count);
    for (int64_t i = 0; i < count; i++) {
        double want = rounded(dtype, expected[i]);
        double tolerance = slack ? slack[i] + place[dtype] * fabs(want) + smallest[dtype] : 0;
        cr_assert_float_eq(values[i], want, tolerance, "%s, mix %d (%s): element %lld is %.9g, not %.9g", what, mix,
                           hst_dtype_name(dtype), (long long)i, values[i], want);
    }
}

static inline void run_backward(hst_tensor *y, const double *dy) {
    hst_tensor *gradient = hst_from_array(ctx, HST_F64, y->rank, y->shape, HST_F64, dy);
    cr_assert_eq(hst_backward_from(ctx, 1, &y, &gradient), HST_OK, "%s", hst_error(ctx));
}

static const double U = 0x1p-24; // one rounding in fp32

#endif
