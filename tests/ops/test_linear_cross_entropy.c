// test_linear_cross_entropy.c: beside the two operations that it is made of, to the bit where a factor is a power of
// two; how much it holds; what it refuses.
#include "autograd/op.h"
#include "ops/ops.h"
#include "tests/ops/isas.h"

typedef struct sizes {
    int64_t rows, vocabulary, width;
    bool bias, add;
    hst_dtype dtype; // of x and w; bias is f32
} sizes;

// Loss, and the gradients of x, w and bias.
typedef struct outcome {
    hst_tensor *loss, *gradient[3];
} outcome;

static hst_tensor *leaf(hst_context *ctx, uint64_t seed, hst_dtype dtype, hst_request request, int rank,
                        const int64_t *shape) {
    hst_seed(ctx, seed);
    hst_tensor *t = hst_uniform(ctx, dtype, rank, shape, -1, 1);
    hst_attach_grad(t, request, dtype);
    if (request == HST_ADD) hst_copy_tensor(hst_grad(t), t, false); // an old value
    return t;
}

static outcome compute(hst_context *ctx, const sizes *s, bool fused) {
    hst_request request = s->add ? HST_ADD : HST_WRITE;
    hst_tensor *x = leaf(ctx, 1, s->dtype, request, HST_SHAPE(s->rows / 2, 2, s->width));
    hst_tensor *w = leaf(ctx, 2, s->dtype, request, HST_SHAPE(s->vocabulary, s->width));
    hst_tensor *bias = s->bias ? leaf(ctx, 3, HST_F32, request, HST_SHAPE(s->vocabulary)) : NULL;
    hst_tensor *targets = hst_zeros(ctx, HST_I32, HST_SHAPE(s->rows / 2, 2));
    int32_t *id = hst_mutable_data(targets);
    for (int64_t i = 0; i < s->rows; i++) id[i] = (int32_t)(i * 31 % s->vocabulary);
    hst_tensor *loss = fused ? hst_linear_cross_entropy(x, w, bias, targets)
                             : hst_cross_entropy(hst_linear(x, hst_transpose(w, 0, 1), bias), targets);
    cr_assert_eq(hst_backward(ctx, loss), HST_OK, "%s", hst_error(ctx));
    return (outcome){loss, {hst_grad(x), hst_grad(w), bias ? hst_grad(bias) : NULL}};
}

// |got - want| <= relative |want| + absolute
static void expect_near(const sizes *s, const char *what, const hst_tensor *got, const hst_tensor *want,
                        double relative, double absolute) {
    for (int64_t i = 0; i < hst_count(want); i++) {
        double x = hst_load(hst_source_of(got), i), y = hst_load(hst_source_of(want), i);
        cr_assert(fabs(x - y) <= relative * fabs(y) + absolute, "%s, %lld x %lld x %lld: %s[%lld] is %.9g, not %.9g",
                  hst_dtype_name(s->dtype), (long long)s->rows, (long long)s->vocabulary, (long long)s->width, what,
                  (long long)i, x, y);
    }
}

static void compare(hst_context *ctx, const sizes *s, double relative, double absolute) {
    static const char *const names[] = {"dx", "dw", "dbias"};
    hst_scope_begin(ctx);
    outcome one = compute(ctx, s, true), two = compute(ctx, s, false);
    expect_near(s, "loss", one.loss, two.loss, 0, 0);
    for (int i = 0; i < 2 + s->bias; i++)
        expect_near(s, names[i], one.gradient[i], two.gradient[i], relative, absolute);
    hst_scope_end(ctx, NULL);
}

// 1 / R is a power of two, and no number is subnormal: the same bits.
static void same_bits(hst_context *ctx) {
    static const sizes cases[] = {{64, 7, 5, true, false, HST_F32},    {64, 7, 5, false, false, HST_F32},
                                  {2, 1, 3, true, false, HST_F32},     {64, 7, 5, true, false, HST_BF16},
                                  {64, 300, 17, true, false, HST_F32}, {128, 65, 33, false, false, HST_BF16}};
    for (int64_t i = 0; i < COUNT(cases); i++) compare(ctx, &cases[i], 0, 0);
}
Test(ops, linear_cross_entropy_is_linear_and_cross_entropy) { for_each_isa(same_bits); }

// R = 6: the gradients of the logits are rounded before they are divided by R, or after. With K, V or R terms of sizes
// up to 1 and q <= 1 that is three roundings of a term more, and one of a result, to which an old value may be added.
Test(ops, linear_cross_entropy_divides_last) {
    hst_context *ctx = hst_open(NULL);
    for (int add = 0; add < 2; add++) {
        const sizes s = {6, 7, 5, true, add, HST_F32};
        compare(ctx, &s, EPSILON, 4 * EPSILON * 2);
    }
    hst_close(ctx);
}

// In f16 a probability is stored 1024 times as large here, R times smaller there: half a place of f16, 2^-11 of its
// size, or of its subnormals, 2^-25. A row's |q| add up to 2 at most, and |x|, |w| <= 1, so that apart from the
// result's own rounding dx differs by 2 (2 / R) 2^-11 + V 2^-25; dw and dbias have R such rows, with at most one |q|
// each.
Test(ops, linear_cross_entropy_in_f16) {
    hst_context *ctx = hst_open(NULL);
    const sizes s = {64, 30, 20, true, false, HST_F16};
    double of_row = 4 * 0x1p-11 / (double)s.rows + (double)s.vocabulary * 0x1p-25;
    compare(ctx, &s, 0x1p-10, fmax(of_row, 2 * 0x1p-11 + (double)s.rows * 0x1p-25));
    hst_close(ctx);
}

// 512 rows of 65536 symbols are two chunks, of 64 MB each, beside which a product packs 8 MB of its operand; with sums
// over both in the same order.
Test(ops, linear_cross_entropy_in_chunks) {
    hst_context *ctx = hst_open(NULL);
    const sizes s = {512, 65536, 3, false, false, HST_F32};
    outcome one = compute(ctx, &s, true);
    hst_memory peak;
    hst_memory_stats(ctx, &peak);
    double logits = (double)(s.rows * s.vocabulary) * sizeof(hst_real);
    cr_expect((double)peak.peak_total < 0.75 * logits, "%g bytes, and all logits would be %g", (double)peak.peak_total,
              logits);
    outcome two = compute(ctx, &s, false);
    expect_near(&s, "loss", one.loss, two.loss, 0, 0);
    for (int i = 0; i < 2; i++) expect_near(&s, i ? "dw" : "dx", one.gradient[i], two.gradient[i], 0, 0);
    hst_close(ctx);
}

Test(ops, linear_cross_entropy_refuses) {
    static const struct {
        int64_t x[2], w[2], bias, targets;
        const char *says;
    } cases[] = {
        {{2, 3},
         {5, 4},
         5,
         2,
         "linear_cross_entropy: x is f32 (2, 3) and w is f32 (5, 4); x needs a row, w one for each symbol, as long as "
         "x's"},
        {{0, 3},
         {5, 3},
         5,
         0,
         "linear_cross_entropy: x is f32 (0, 3) and w is f32 (5, 3); x needs a row, w one for each symbol, as long as "
         "x's"},
        {{2, 3}, {5, 3}, 4, 2, "linear_cross_entropy: argument bias is f32 (4); its shape should be (5)"},
        {{2, 3}, {5, 3}, 5, 3, "linear_cross_entropy: argument targets is i32 (3); its shape should be (2)"},
        {{2, 3}, {1, 3}, 1, 2, "cross entropy: target 1 at position 0 is not in 0 .. 0"},
    };
    for (int64_t i = 0; i < COUNT(cases); i++) {
        hst_context *ctx = hst_open(NULL);
        hst_tensor *x = hst_zeros(ctx, HST_F32, 2, cases[i].x), *w = hst_zeros(ctx, HST_F32, 2, cases[i].w);
        hst_tensor *bias = hst_zeros(ctx, HST_F32, 1, &cases[i].bias);
        hst_tensor *targets = hst_full(ctx, HST_I32, 1, &cases[i].targets, 1);
        cr_expect_null(hst_linear_cross_entropy(x, w, bias, targets));
        cr_expect_str_eq(hst_error(ctx), cases[i].says);
        hst_close(ctx);
    }
    cr_expect_null(hst_linear_cross_entropy(NULL, NULL, NULL, NULL));
}
