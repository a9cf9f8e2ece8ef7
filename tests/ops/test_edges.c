// test_edges.c: the kernels of every ISA, the naive ones too, against closed forms and at their edges: saturation,
// infinities, NaN, wrong ids.
#include "tests/ops/isas.h"

#include <stdlib.h>

// ---- copy ----

static void convert(hst_context *ctx, hst_source from, hst_dtype dtype, void *to, int64_t count) {
    hst_copy_args args = {
        .rank = 1, .shape = {count}, .from_stride = {1}, .to_stride = {1}, .from = from, .to = {to, dtype, false}};
    cr_assert(ctx->backend->copy(ctx, &args));
}

static void check_integers(hst_context *ctx) {
    const double reals[] = {NAN, INFINITY, -INFINITY, 1e300, -2.7, 2.7, 255.9, 256, -1e10, 0x1p63};
    enum { N = sizeof reals / sizeof *reals };
    const int64_t i64[N] = {0, INT64_MAX, INT64_MIN, INT64_MAX, -2, 2, 255, 256, -10000000000, INT64_MAX};
    const int32_t i32[N] = {0, INT32_MAX, INT32_MIN, INT32_MAX, -2, 2, 255, 256, INT32_MIN, INT32_MAX};
    const uint8_t u8[N] = {0, 255, 0, 255, 0, 2, 255, 255, 0, 255};
    int64_t long_ints[N];
    int32_t ints[N];
    uint8_t bytes[N];
    convert(ctx, (hst_source){reals, HST_F64}, HST_I64, long_ints, N);
    cr_assert_arr_eq(long_ints, i64, sizeof i64, "%s: f64 to i64", hst_isa(ctx));
    convert(ctx, (hst_source){reals, HST_F64}, HST_I32, ints, N);
    cr_assert_arr_eq(ints, i32, sizeof i32, "%s: f64 to i32", hst_isa(ctx));
    convert(ctx, (hst_source){reals, HST_F64}, HST_U8, bytes, N);
    cr_assert_arr_eq(bytes, u8, sizeof u8, "%s: f64 to u8", hst_isa(ctx));
    convert(ctx, (hst_source){i64, HST_I64}, HST_I32, ints, N);
    cr_assert_arr_eq(ints, i32, sizeof i32, "%s: i64 to i32", hst_isa(ctx));
    convert(ctx, (hst_source){i64, HST_I64}, HST_U8, bytes, N);
    cr_assert_arr_eq(bytes, u8, sizeof u8, "%s: i64 to u8", hst_isa(ctx));
    convert(ctx, (hst_source){i32, HST_I32}, HST_U8, bytes, N);
    cr_assert_arr_eq(bytes, u8, sizeof u8, "%s: i32 to u8", hst_isa(ctx));
}

// 2^53 + 1 is no double. 1 + 2^-11 + 2^-40 lies just above the middle of two f16 and rounds up, but rounded to f32
// first it would be the middle and go to the even one below.
static void check_exact(hst_context *ctx) {
    const int64_t big[] = {(INT64_C(1) << 53) + 1, -(INT64_C(1) << 53) - 1, INT64_MAX, INT64_MIN};
    int64_t copy[4];
    convert(ctx, (hst_source){big, HST_I64}, HST_I64, copy, 4);
    cr_assert_arr_eq(copy, big, sizeof big, "%s: i64 to i64", hst_isa(ctx));
    const double above[] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40};
    uint16_t bits[2];
    convert(ctx, (hst_source){above, HST_F64}, HST_F16, bits, 1);
    cr_assert_eq(hst_from_f16(bits[0]), 1 + 0x1p-10f, "%s: f64 to f16", hst_isa(ctx));
    convert(ctx, (hst_source){above + 1, HST_F64}, HST_BF16, bits, 1);
    cr_assert_eq(hst_from_bf16(bits[0]), 1 + 0x1p-7f, "%s: f64 to bf16", hst_isa(ctx));
}
Test(ops, copy_to_integers) { for_each_isa(check_integers); }
Test(ops, copy_rounds_once) { for_each_isa(check_exact); }

// A 3-d transpose: to[k][j][i] = from[i][j][k].
static void check_transpose(hst_context *ctx) {
    hst_real from[2 * 3 * 5], to[5 * 3 * 2];
    for (int i = 0; i < COUNT(from); i++) from[i] = (hst_real)i;
    hst_copy_args args = {.rank = 3,
                          .shape = {5, 3, 2},
                          .from_stride = {1, 5, 15},
                          .to_stride = {6, 2, 1},
                          .from = F32(from),
                          .to = TO_F32(to)};
    cr_assert(ctx->backend->copy(ctx, &args));
    for (int n = 0; n < COUNT(to); n++) expect(ctx, "element", to[n], n % 2 * 15 + n / 2 % 3 * 5 + n / 6, 0);
    hst_copy_args scalar = {.rank = 0, .from = F32(from + 7), .to = TO_F32(to)};
    cr_assert(ctx->backend->copy(ctx, &scalar));
    expect(ctx, "scalar", to[0], 7, 0);
}
Test(ops, copy_transposes) { for_each_isa(check_transpose); }

// ---- dropout ----

// Element i is kept exactly when its word, as a uniform number, is at least p.
static void check_dropout(hst_context *ctx) {
    enum { N = 4001 };
    static hst_real x[N], y[N];
    hst_random_key key = {.seed = 3, .step = 1000, .operation = 5};
    for (int i = 0; i < N; i++) x[i] = 3;
    hst_dropout_args args = {.repeats = 1, .count = N, .p = 0.25, .key = key, .x = F32(x), .y = TO_F32(y)};
    cr_assert(ctx->backend->dropout(ctx, &args));
    int dropped = 0;
    for (int i = 0; i < N; i++) {
        uint32_t words[4];
        hst_philox(key, (uint64_t)i / 4, words);
        bool drop = hst_unit(words[i % 4]) < args.p;
        expect(ctx, "element", y[i], drop ? 0 : 4, 4 * EPSILON);
        dropped += drop;
    }
    cr_assert_lt(abs(dropped - N / 4), 110); // four standard deviations of a binomial: 4 sqrt(N p (1 - p))
}
Test(ops, dropout_follows_the_stream) { for_each_isa(check_dropout); }

// ---- rows ----

// 1, 2, 3, 4: mean 2.5, variance 1.25. A constant row has variance 0 and becomes the bias. A large offset is harmless.
static void check_norm(hst_context *ctx) {
    hst_real x[] = {1, 2, 3, 4, 5, 5, 5, 5, 9999, 10001, 9999, 10001}, gain[] = {1, 1, 2, 2}, bias[] = {0, 1, 0, 1};
    hst_real y[12];
    double mean[3], rstd[3];
    hst_norm_args args = {.rows = 3,
                          .width = 4,
                          .eps = 1e-12,
                          .x = F32(x),
                          .gain = F32(gain),
                          .bias = F32(bias),
                          .y = TO_F32(y),
                          .mean = mean,
                          .rstd = rstd};
    cr_assert(ctx->backend->norm(ctx, &args));
    double a = 1 / sqrt(1.25);
    const double want[] = {-1.5 * a, 1 - 0.5 * a, a, 1 + 3 * a, 0, 1, 0, 1, -1, 2, -2, 3};
    expect_all(ctx, "y", y, want, 12, 16 * EPSILON + 1e-11);
    const double means[] = {2.5, 5, 10000}, rstds[] = {a, 1e6, 1};
    for (int i = 0; i < 3; i++) {
        expect(ctx, "mean", mean[i], means[i], 0);
        expect(ctx, "rstd", rstd[i], rstds[i], 1e-11 * rstds[i]);
    }
}

// n = (-1, 1, -1, 1) and dy = (1, 0, 0, 0): mean(dy) = 1/4, mean(dy n) = -1/4, so dx = dy - 1/4 + n / 4. All exact.
static void check_norm_grad(hst_context *ctx) {
    hst_real x[] = {2, 6, 2, 6}, dy[] = {1, 0, 0, 0}, dx[4], dgain[4], dbias[4];
    double mean[] = {4}, rstd[] = {0.5};
    hst_norm_grad_args args = {.rows = 1,
                               .width = 4,
                               .dy = F32(dy),
                               .x = F32(x),
                               .mean = mean,
                               .rstd = rstd,
                               .dx = TO_F32(dx),
                               .dgain = TO_F32(dgain),
                               .dbias = TO_F32(dbias)};
    cr_assert(ctx->backend->norm_grad(ctx, &args));
    expect_all(ctx, "dx", dx, (const double[]){0.25, 0, -0.25, 0}, 4, 0);
    expect_all(ctx, "dgain", dgain, (const double[]){-1, 0, 0, 0}, 4, 0);
    expect_all(ctx, "dbias", dbias, (const double[]){1, 0, 0, 0}, 4, 0);
}
Test(ops, norm_of_simple_rows) { for_each_isa(check_norm); }
Test(ops, norm_grad_of_a_simple_row) { for_each_isa(check_norm_grad); }

// Three classes from `first` on among 41, the others impossible: one class far ahead, two of them, another impossible
// one, NaN, which stays in its row, and a tie.
static void check_softmax(hst_context *ctx) {
    enum { ROWS = 6, V = 41 };
    const double x[ROWS][3] = {{1e4, 0, 0}, {1e4, 0, 0}, {1e4, 1e4, 0}, {-INFINITY, 0, 0}, {NAN, 0, 0}, {-7, -7, -7}};
    const double want_loss[ROWS] = {0, 1e4, log(2), INFINITY, NAN, log(3)}, third = 1.0 / 3;
    const double want[ROWS][3] = {{0, 0, 0},      {1, -1, 0},      {0.5, -0.5, 0},
                                  {-1, 0.5, 0.5}, {NAN, NAN, NAN}, {third, third, -2 * third}};
    hst_real logits[ROWS * V], loss[ROWS], d[ROWS * V], dloss[] = {1, 1, 1, 1, 1, 1};
    double logsumexp[ROWS];
    for (int first = 0; first <= V - 3; first += 19) {
        uint8_t targets[ROWS] = {0, 1, 1, 0, 1, 2};
        for (int i = 0; i < ROWS * V; i++) logits[i] = -INFINITY;
        for (int i = 0; i < ROWS * 3; i++) logits[i / 3 * V + first + i % 3] = (hst_real)x[i / 3][i % 3];
        for (int i = 0; i < ROWS; i++) targets[i] = (uint8_t)(targets[i] + first);
        hst_nll_args args = {.rows = ROWS,
                             .width = V,
                             .logits = F32(logits),
                             .targets = {targets, HST_U8},
                             .loss = loss,
                             .logsumexp = logsumexp};
        hst_nll_grad_args grad = {.rows = ROWS,
                                  .width = V,
                                  .logits = F32(logits),
                                  .targets = {targets, HST_U8},
                                  .dloss = F32(dloss),
                                  .logsumexp = logsumexp,
                                  .dlogits = TO_F32(d)};
        cr_assert(ctx->backend->nll(ctx, &args) && ctx->backend->nll_grad(ctx, &grad));
        for (int i = 0; i < ROWS; i++) {
            // logsumexp, 1e4 + log 2, is a double and off by half an ulp of one
            double tolerance = 8 * EPSILON + (x[i][0] > 0 ? 1e4 * 0x1p-53 : 0);
            expect(ctx, "loss", loss[i], want_loss[i], tolerance);
            expect_all(ctx, "dlogits", d + i * V + first, want[i], 3, tolerance);
            expect(ctx, "dlogits of an impossible class", d[i * V + (first + 3) % V], x[i][0] == x[i][0] ? 0 : NAN, 0);
        }
    }
}
Test(ops, softmax_at_its_edges) { for_each_isa(check_softmax); }

// ---- ids ----

static void expect_error(hst_context *ctx, bool ok, const char *position, const char *value, const char *last) {
    const char *text = hst_error(ctx);
    cr_assert(!ok && hst_get_status(ctx) == HST_ERROR_VALUE, "%s", hst_isa(ctx));
    cr_assert(strstr(text, position) && strstr(text, value) && strstr(text, last), "%s: \"%s\"", hst_isa(ctx), text);
    hst_clear_error(ctx);
}

static void check_ids(hst_context *ctx) {
    hst_real table[257 * 2] = {0}, y[60], loss[30];
    double logsumexp[30];
    int64_t ids[30] = {0};
    hst_lookup_args lookup = {.outer = 1,
                              .what = "row",
                              .rows = 257,
                              .width = 2,
                              .count = 30,
                              .table = F32(table),
                              .ids = {ids, HST_I64},
                              .y = TO_F32(y)};
    hst_nll_args nll = {.rows = 2,
                        .width = 257,
                        .logits = F32(table),
                        .targets = {ids + 16, HST_I64},
                        .loss = loss,
                        .logsumexp = logsumexp};
    ids[17] = 257, ids[19] = -8;
    expect_error(ctx, ctx->backend->lookup(ctx, &lookup), "17", "257", "256");
    expect_error(ctx, ctx->backend->nll(ctx, &nll), "1", "257", "256");
    ids[17] = -1;
    expect_error(ctx, ctx->backend->lookup(ctx, &lookup), "17", "-1", "256");
    expect_error(ctx, ctx->backend->nll(ctx, &nll), "1", "-1", "256");
    ids[17] = 256, ids[19] = 0;
    cr_assert(ctx->backend->lookup(ctx, &lookup) && ctx->backend->nll(ctx, &nll));
}
Test(ops, wrong_ids_are_named) { for_each_isa(check_ids); }

// ---- optimizers ----

// From m = v = 0 the corrected averages are g and g^2 whatever the betas, so AdamW's first step is
// lr (sign(g) / (1 + eps / |g|) + decay w). Without a gradient only the decay acts.
static void check_adam(hst_context *ctx) {
    hst_real w[] = {1, 1, -2, 1}, m[4] = {0}, v[4] = {0}, g[] = {1, -2e-6, 8, 0};
    hst_adam_args args = {.count = 4,
                          .w = w,
                          .m = m,
                          .v = v,
                          .g = F32(g),
                          .factor = 0.5,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .shrink = 0.1 * 0.01,
                          .rate = 0.1 / (1 - 0.9),
                          .scale = 1 / sqrt(1 - 0.999),
                          .eps = 1e-8,
                          .adaptive = true};
    cr_assert(ctx->backend->adam(ctx, &args));
    const double want[] = {1 - 0.1 * (1 / (1 + 2e-8) + 0.01), 1 + 0.1 * (1 / (1 + 1e-2) - 0.01), -2 - 0.1 * (1 - 0.02),
                           1 - 0.1 * 0.01};
    expect_all(ctx, "w", w, want, 4, 4 * EPSILON + 1e-9);
    expect_all(ctx, "m", m, (const double[]){0.05, -1e-7, 0.4, 0}, 4, 0.4 * 4 * EPSILON);
    expect_all(ctx, "v", v, (const double[]){2.5e-4, 1e-15, 0.016, 0}, 4, 0.016 * 4 * EPSILON);
}

// Two steps with momentum on a constant gradient move w by lr g and lr (1 + momentum) g.
static void check_sgd(hst_context *ctx) {
    hst_real w[] = {1}, m[] = {0}, g[] = {4}, plain[] = {1}, still[] = {1}, small[] = {1e-4};
    hst_sgd_args args = {.count = 1, .w = w, .m = m, .g = F32(g), .lr = 0.5, .momentum = 0.75, .factor = 0.25};
    cr_assert(ctx->backend->sgd(ctx, &args) && ctx->backend->sgd(ctx, &args));
    expect(ctx, "w", w[0], 1 - 0.5 - 0.5 * 1.75, 0);
    expect(ctx, "m", m[0], 1.75, 0);
    hst_sgd_args decayed = {.count = 1, .w = plain, .g = F32(g), .lr = 0.5, .decay = 0.25, .factor = 0.25};
    cr_assert(ctx->backend->sgd(ctx, &decayed));
    expect(ctx, "decayed w", plain[0], 1 - 0.5 * (1 + 0.25), 0);
    // Nesterov's looks ahead: the gradient and momentum times the momentum that it has just joined.
    hst_real ahead[] = {1}, m_ahead[] = {2};
    hst_sgd_args nesterov = {.count = 1,
                             .w = ahead,
                             .m = m_ahead,
                             .g = F32(g),
                             .lr = 0.5,
                             .momentum = 0.75,
                             .factor = 0.25,
                             .nesterov = true};
    cr_assert(ctx->backend->sgd(ctx, &nesterov));
    expect(ctx, "Nesterov's m", m_ahead[0], 0.75 * 2 + 1, 0);
    expect(ctx, "Nesterov's w", ahead[0], 1 - 0.5 * (1 + 0.75 * 2.5), 0);
    // 1e-4 is less than half a step of f16 or bf16 at 1, so 16-bit weights would never move. 1000 roundings below 1.
    hst_sgd_args creep = {.count = 1, .w = still, .g = F32(small), .lr = 1, .factor = 1};
    for (int i = 0; i < 1000; i++) cr_assert(ctx->backend->sgd(ctx, &creep));
    expect(ctx, "w after 1000 small steps", still[0], 0.9, 1000 * EPSILON / 2);
}
Test(ops, adam_first_step) { for_each_isa(check_adam); }
Test(ops, sgd_steps) { for_each_isa(check_sgd); }

// ---- NaN and infinity ----

// Not finite before the product, or because of it, or because of the factor, which may be infinite: the sum shows it,
// in every place of a vector. And 2^127, whose square no f32 holds, is fine.
static void check_unscale(hst_context *ctx) {
    static const struct {
        double x, factor, product, square;
    } cases[] = {
        {NAN, 0.5, NAN, NAN},    {INFINITY, 0x1p-126, INFINITY, INFINITY}, {0x1p100, 0x1p100, INFINITY, INFINITY},
        {0, INFINITY, NAN, NAN}, {0x1p-149, INFINITY, INFINITY, INFINITY}, {0x1p127, 1, 0x1p127, 0x1p254}};
    enum { N = 37 };
    for (int k = 0; k < COUNT(cases); k++)
        for (int bad = 0; bad < N; bad++) {
            hst_real x[N] = {0};
            double sum, rest = isinf(cases[k].factor) ? NAN : 0; // 0 times infinity
            x[bad] = (hst_real)cases[k].x;
            cr_assert(ctx->backend->unscale(ctx, &(hst_unscale_args){N, x, cases[k].factor, &sum}));
            expect(ctx, "unscaled", x[bad], cases[k].product, 0);
            expect(ctx, "another", x[(bad + 1) % N], rest, 0);
            expect(ctx, "the sum of squares", sum, isnan(rest) ? NAN : cases[k].square, 0);
        }
    hst_real two[] = {2, 2, 2};
    double sum;
    cr_assert(ctx->backend->unscale(ctx, &(hst_unscale_args){3, two, INFINITY, &sum}));
    expect(ctx, "an infinite factor", sum, INFINITY, 0); // not NaN, from what lies beyond the third
}
Test(ops, unscaling_finds_what_is_not_finite) { for_each_isa(check_unscale); }

static void check_nan(hst_context *ctx) {
    enum { N = 37, BAD = 20 }; // in the second half of a vector, not in the tail
    hst_real x[N], y[N], one[N];
    for (int i = 0; i < N; i++) x[i] = i == BAD ? NAN : 1, one[i] = 1;
    hst_binary_args twice = {.function = HST_PLUS,
                             .rank = 1,
                             .shape = {N},
                             .a_stride = {1},
                             .b_stride = {1},
                             .a = F32(x),
                             .b = F32(x),
                             .y = TO_F32(y)};
    cr_assert(ctx->backend->binary(ctx, &twice));
    for (int i = 0; i < N; i++) expect(ctx, "twice", y[i], i == BAD ? NAN : 2, 0);
    hst_sum_args sum = {.outer = 1, .rows = 1, .width = N, .factor = 1, .x = F32(x), .y = TO_F32(y)};
    cr_assert(ctx->backend->sum(ctx, &sum));
    for (int i = 0; i < N; i++) expect(ctx, "sum", y[i], i == BAD ? NAN : 1, 0);
    double squares;
    hst_square_sum_args squares_of_x = {N, F32(x), &squares};
    cr_assert(ctx->backend->square_sum(ctx, &squares_of_x));
    expect(ctx, "square sum", squares, NAN, 0);
    x[BAD] = -INFINITY;
    cr_assert(ctx->backend->square_sum(ctx, &squares_of_x));
    expect(ctx, "square sum", squares, INFINITY, 0);
    x[BAD] = (hst_real)1e30; // whose square no f32 holds
    cr_assert(ctx->backend->square_sum(ctx, &squares_of_x));
    expect(ctx, "square sum", squares, 1e60, 1e60 * 4 * EPSILON);
    hst_norm_args norm = {.rows = 1, .width = N, .x = F32(x), .y = TO_F32(y)};
    x[BAD] = NAN;
    cr_assert(ctx->backend->norm(ctx, &norm));
    for (int i = 0; i < N; i++) expect(ctx, "normed", y[i], NAN, 0);
    hst_adam_args adam = {.count = N,
                          .w = one,
                          .m = (hst_real[N]){0},
                          .v = (hst_real[N]){0},
                          .g = F32(x),
                          .eps = 1,
                          .factor = 1,
                          .beta1 = 0.5,
                          .beta2 = 0.5,
                          .adaptive = true};
    cr_assert(ctx->backend->adam(ctx, &adam));
    for (int i = 0; i < N; i++) expect(ctx, "w", one[i], i == BAD ? NAN : 1, 0);
}
Test(ops, nan_is_not_lost) { for_each_isa(check_nan); }

// A NaN in one column of U spoils that column from then on and no other.
static void check_sru_nan(hst_context *ctx) {
    enum { L = 3, D = 19, BAD = 5 };
    hst_real u[L * 3 * D], bias[2 * D] = {0}, h[L * D], c_last[D];
    for (int i = 0; i < COUNT(u); i++) u[i] = (hst_real)0.5;
    u[3 * D + BAD] = NAN;
    hst_sru_args args = {
        .length = L, .batch = 1, .width = D, .k = 3, .u = F32(u), .bias = F32(bias), .h = TO_F32(h), .c_last = c_last};
    cr_assert(ctx->backend->sru(ctx, &args));
    for (int t = 0; t < L; t++)
        for (int j = 0; j < D; j++)
            cr_assert_eq(isnan(h[t * D + j]) != 0, j == BAD && t > 0, "%s: h[%d][%d] is %g", hst_isa(ctx), t, j,
                         (double)h[t * D + j]);
}
Test(ops, sru_keeps_nan_in_its_column) { for_each_isa(check_sru_nan); }
