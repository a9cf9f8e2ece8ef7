// test_edges_math.c: on every ISA, what arithmetic, reductions and softmax do with cancelling sums, ties, infinities,
// NaN and no elements; and what they refuse.
#include "ops/ops.h"
#include "tests/ops/isas.h"
#include "tests/tensor/expect.h"

// ---- rounding ----

// Sums of three f32 numbers, in one column, that lie beside the middle of two 16-bit numbers: rounded to f32 on the way
// they would be that middle, and go to the even neighbour.
static void check_rounding(hst_context *ctx) {
    enum { WIDTH = 19 };
    static const struct {
        hst_dtype dtype;
        float terms[3];
        double want;
    } cases[] = {{HST_F16, {1, 0x1p-11f, 0x1p-40f}, 1 + 0x1p-10},
                 {HST_F16, {-1, -0x1p-11f, -0x1p-40f}, -1 - 0x1p-10},
                 {HST_F16, {1, 3 * 0x1p-11f, -0x1p-40f}, 1 + 0x1p-10},
                 {HST_F16, {1, 0x1p-11f, 0}, 1},
                 {HST_F16, {0x1p-25f, 0x1p-60f, 0}, 0x1p-24},
                 {HST_F16, {65504, 16, -0x1p-20f}, 65504},
                 {HST_F16, {65504, 16, 0x1p-20f}, INFINITY},
                 {HST_F16, {0x1p127f, 0x1p127f, 0x1p127f}, INFINITY},
                 {HST_F16, {-INFINITY, 1, 1}, -INFINITY},
                 {HST_F16, {NAN, 1, 1}, NAN},
                 {HST_BF16, {1, 0x1p-8f, 0x1p-40f}, 1 + 0x1p-7},
                 {HST_BF16, {1, 3 * 0x1p-8f, -0x1p-40f}, 1 + 0x1p-7},
                 {HST_BF16, {-0x1p100f, -0x1p92f, -0x1p60f}, -0x1p100 - 0x1p93},
                 {HST_BF16, {0x1p-134f, 0x1p-149f, 0}, 0x1p-133}};
    for (int i = 0; i < COUNT(cases); i++) {
        float x[3 * WIDTH];
        uint16_t y[WIDTH];
        for (int j = 0; j < 3 * WIDTH; j++) x[j] = cases[i].terms[j / WIDTH];
        hst_sum_args args = {
            .outer = 1, .rows = 3, .width = WIDTH, .factor = 1, .x = {x, HST_F32}, .y = {y, cases[i].dtype, false}};
        cr_assert(ctx->backend->sum(ctx, &args));
        for (int j = 0; j < WIDTH; j++)
            expect(ctx, "sum", hst_load((hst_source){y, cases[i].dtype}, j), cases[i].want, 0);
    }
}
Test(ops, sums_are_rounded_once) { for_each_isa(check_rounding); }

// ---- gradients of what was repeated ----

// 2^24 in a third of the terms, 1 in the next, -2^24 in the last: their sum is the number of ones. An f32 that has
// reached 2^24 does not feel a 1.
enum { THIRD = 1280, TERMS = 3 * THIRD };
static double term(int64_t i) { return i < THIRD ? 0x1p24 : i < 2 * THIRD ? 1 : -0x1p24; }

// b has `width` elements and is repeated along rows of TERMS; or each of its elements along a row.
static void check_cancellation(hst_context *ctx, bool in_columns, int64_t width, hst_dtype dtype) {
    static double dy[TERMS * 40];
    for (int64_t i = 0; i < TERMS * width; i++) dy[i] = term(in_columns ? i % TERMS : i / width);
    int64_t shape[2] = {TERMS, width}, b_shape[2] = {1, width};
    if (in_columns) shape[0] = b_shape[0] = width, shape[1] = TERMS, b_shape[1] = 1;
    hst_tensor *a = hst_full(ctx, HST_F32, 2, shape, 1), *b = hst_full(ctx, HST_F32, 2, b_shape, 1);
    hst_tensor *gradient = hst_from_array(ctx, HST_F32, 2, shape, HST_F64, dy);
    hst_attach_grad(b, HST_WRITE, dtype);
    hst_tensor *(*const functions[])(hst_tensor *, hst_tensor *) = {hst_add, hst_sub, hst_mul, hst_div};
    for (int f = 0; f < 4; f++) {
        hst_tensor *y = functions[f](a, b);
        cr_assert_eq(hst_backward_from(ctx, 1, &y, &gradient), HST_OK, "%s", hst_error(ctx));
        for (int64_t j = 0; j < width; j++)
            expect(ctx, "gradient", hst_item(hst_grad(b), (int64_t[]){in_columns ? j : 0, in_columns ? 0 : j}),
                   f % 2 ? -THIRD : THIRD, 0);
    }
}

static void check_cancellations(hst_context *ctx) {
    static const int64_t widths[] = {1, 3, 40};
    for (int i = 0; i < 3; i++)
        for (hst_dtype dtype = HST_F32; dtype <= HST_BF16; dtype++) {
            hst_scope_begin(ctx);
            check_cancellation(ctx, false, widths[i], dtype);
            check_cancellation(ctx, true, widths[i], dtype);
            hst_scope_end(ctx, NULL);
        }
}
Test(ops, gradients_of_repeated_operands_do_not_cancel) { for_each_isa(check_cancellations); }

// ---- rows: max and softmax ----

// Each sequence stands alone, in a row and in a column among others.
enum { N = 37, COLUMNS = 11 };
typedef struct sequence {
    double first, second, others; // elements 5, 30 and all the rest
    double most, first_share;     // the maximum, and what element 5 gets of its gradient
    double probability;           // of element 5
} sequence;

static const sequence sequences[] = {{3, 1, 0, 3, 1, 0}, // the probability: see below
                                     {3, 3, 0, 3, 0.5, 0},
                                     {NAN, 3, 0, NAN, NAN, NAN},
                                     {0, NAN, 0, NAN, NAN, NAN},
                                     {INFINITY, 0, 0, INFINITY, 1, NAN},
                                     {0, 1e4, -INFINITY, 1e4, 0, 0},
                                     {1e4, -1e4, -INFINITY, 1e4, 1, 1},
                                     {-1e4, -1e4, -INFINITY, -1e4, 0.5, 0.5},
                                     {-INFINITY, -INFINITY, -INFINITY, -INFINITY, 1.0 / N, NAN}};

static void check_sequence(hst_context *ctx, const sequence *s, int64_t width) {
    hst_real x[N * COLUMNS], y[COLUMNS], dy[COLUMNS], dx[N * COLUMNS], p[N * COLUMNS], l[N * COLUMNS], dp[N * COLUMNS];
    double probability = s->probability;
    if (s->others == 0 && isfinite(s->most)) probability = exp(s->first) / (exp(s->first) + exp(s->second) + N - 2);
    for (int64_t i = 0; i < N * width; i++)
        x[i] = (hst_real)(i / width == 5 ? s->first : i / width == 30 ? s->second : s->others);
    for (int64_t i = 0; i < N * width; i++) dp[i] = (hst_real)(i / width == 5);
    for (int64_t j = 0; j < width; j++) dy[j] = 1;
    hst_max_args max = {.outer = 1, .rows = N, .width = width, .x = F32(x), .y = TO_F32(y)};
    hst_max_grad_args max_grad = {
        .outer = 1, .rows = N, .width = width, .dy = F32(dy), .x = F32(x), .y = F32(y), .dx = TO_F32(dx)};
    hst_softmax_args softmax = {.outer = 1, .rows = N, .width = width, .x = F32(x), .y = TO_F32(p)},
                     logarithm = softmax;
    logarithm.log = true;
    logarithm.y = TO_F32(l);
    cr_assert(ctx->backend->max(ctx, &max) && ctx->backend->max_grad(ctx, &max_grad));
    cr_assert(ctx->backend->softmax(ctx, &softmax) && ctx->backend->softmax(ctx, &logarithm));
    for (int64_t j = 0; j < width; j++) {
        expect(ctx, "maximum", y[j], s->most, 0);
        expect(ctx, "its gradient", dx[5 * width + j], s->first_share, EPSILON);
        expect(ctx, "probability", p[5 * width + j], probability, 4 * EPSILON);
        expect(ctx, "its logarithm", l[5 * width + j], probability == 0 ? s->first - s->most : log(probability),
               4 * EPSILON);
    }
    hst_softmax_grad_args grad = {.outer = 1, .rows = N, .width = width, .dy = F32(dp), .y = F32(p), .dx = TO_F32(dx)};
    cr_assert(ctx->backend->softmax_grad(ctx, &grad));
    for (int64_t j = 0; j < width; j++)
        expect(ctx, "softmax's gradient", dx[5 * width + j], probability * (1 - probability), 4 * EPSILON);
    grad.log = true;
    grad.y = F32(l);
    cr_assert(ctx->backend->softmax_grad(ctx, &grad));
    for (int64_t j = 0; j < width; j++)
        expect(ctx, "log_softmax's gradient", dx[5 * width + j], 1 - probability, 4 * EPSILON);
}

static void check_sequences(hst_context *ctx) {
    for (int i = 0; i < COUNT(sequences); i++) {
        check_sequence(ctx, &sequences[i], 1);
        check_sequence(ctx, &sequences[i], COLUMNS);
    }
}
Test(ops, max_and_softmax_at_their_edges) { for_each_isa(check_sequences); }

// ---- nothing ----

static void check_empty(hst_context *ctx) {
    hst_tensor *none = hst_zeros(ctx, HST_F32, HST_SHAPE(0, 3)), *row = hst_full(ctx, HST_F32, HST_SHAPE(1, 3), 2);
    hst_attach_grad(none, HST_WRITE, HST_F32);
    hst_attach_grad(row, HST_WRITE, HST_F32);
    hst_copy_in(hst_grad(row), HST_F32, (float[]){7, 7, 7});
    hst_tensor *y = hst_mul(none, row), *dy = hst_zeros(ctx, HST_F32, HST_SHAPE(0, 3));
    cr_assert(y && hst_count(y) == 0 && hst_dim(y, 0) == 0 && hst_dim(y, 1) == 3, "%s", hst_error(ctx));
    cr_assert_eq(hst_backward_from(ctx, 1, &y, &dy), HST_OK, "%s", hst_error(ctx));
    for (int64_t j = 0; j < 3; j++) expect(ctx, "gradient", hst_item(hst_grad(row), (int64_t[]){0, j}), 0, 0);
    expect(ctx, "sum of none", hst_item(hst_sum(none), NULL), 0, 0);
    hst_tensor *sums = hst_sum_axes(none, 1, (int[]){0}, false);
    for (int64_t j = 0; j < 3; j++) expect(ctx, "sum of none", hst_item(sums, &j), 0, 0);
    cr_assert_eq(hst_count(hst_mean_axes(none, 1, (int[]){1}, false)), 0);
    cr_assert_eq(hst_count(hst_max_axes(none, 1, (int[]){-1}, true)), 0);
    cr_assert(hst_softmax(none, 0) && hst_log_softmax(none, 1) && hst_gelu(none, false) && hst_rms_norm(none, NULL, 1));
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    cr_assert_null(hst_mean(none));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "mean: x is f32 (0, 3); of no elements there is none");
    cr_assert_null(hst_max_axes(none, 1, (int[]){0}, true));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "max: x is f32 (0, 3); of no elements there is none");
}
Test(ops, no_elements) { for_each_isa(check_empty); }

// ---- what is refused ----

Test(ops, bad_arguments_of_mathematics) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *x = hst_zeros(ctx, HST_F32, HST_SHAPE(2, 3)), *ids = hst_zeros(ctx, HST_I32, HST_SHAPE(2, 3));
    cr_assert_null(hst_mul(x, hst_zeros(ctx, HST_F32, HST_SHAPE(2))));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "mul: a is f32 (2, 3) and b is f32 (2); counted from the last, axes must");
    cr_assert_null(hst_div(x, hst_zeros(ctx, HST_F16, HST_SHAPE(3, 3))));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "div: a is f32 (2, 3) and b is f16 (3, 3); counted from the last, axes must");
    cr_assert_null(hst_sub(x, ids));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "sub: argument b is i32 (2, 3); f32, f16 or bf16 is needed");
    cr_assert_null(hst_tanh(ids));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "tanh: argument x is i32 (2, 3); f32, f16 or bf16 is needed");
    cr_assert_null(hst_max(ids));
    EXPECT_ERROR_OF(ctx, HST_ERROR_DTYPE, "max: argument x is i32 (2, 3); f32, f16 or bf16 is needed");
    cr_assert_null(hst_softmax(x, 2));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "softmax: f32 (2, 3) has no axis 2");
    cr_assert_null(hst_log_softmax(x, -3));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "log_softmax: f32 (2, 3) has no axis -3");
    cr_assert_null(hst_softmax(hst_zeros(ctx, HST_F32, HST_SCALAR), 0));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "softmax: f32 () has no axis 0");
    cr_assert_null(hst_sum_axes(x, 1, (int[]){2}, false));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "sum: f32 (2, 3) has no axis 2");
    cr_assert_null(hst_mean_axes(x, 2, (int[]){1, -3}, true));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "mean: f32 (2, 3) has no axis -3");
    cr_assert_null(hst_sum_axes(x, -1, (int[]){0}, false));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "sum: -1 axes");
    cr_assert_null(hst_max_axes(x, 1, NULL, false));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "max: 1 axes, and no list of them");
    cr_assert_null(hst_max_axes(x, 2, (int[]){1, -1}, false));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "max: f32 (2, 3): axis -1 is given twice");
    cr_assert_null(hst_rms_norm(x, hst_zeros(ctx, HST_F32, HST_SHAPE(2)), 1e-5));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "rms_norm: argument gain is f32 (2); its shape should be (3)");
    cr_assert_null(hst_rms_norm(x, NULL, -1));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rms_norm: x is f32 (2, 3) and eps is -1");
    hst_close(ctx);
}
