// test_accuracy.c: the kernels of every ISA, the naive ones too: the SRU against numbers worked out by hand, and sums
// against exact ones, where 16-bit sums would stall.
#include "tests/ops/isas.h"

#include <math.h>

// ---- SRU ----

// One column worked out in 64 bits, and the gradients of sum(h) + c_last / 2.
typedef struct golden {
    double h[3], c[3], du[9], dx[3], dv[2], dbias[2], dc0;
} golden;

static const golden plain = {
    .h = {0.2573232645, 0.0125847740, 0.4287690851},
    .c = {0.3518333500, 0.1421830945, 0.5201369657},
    .du = {0.3920680741, -0.0580914131, 0.0356814009, 0.2518246432, 0.1113526000, 0.0602469700, 0.6233664604,
           -0.1744572291, 0.0534456281},
    .dx = {0.6224593312, 0.5351253801, 0.4150501497},
    .dv = {-0.0001501637, 0.0377163083},
    .dbias = {-0.1211960422, 0.1493739989},
    .dc0 = 0.5155191323,
};
static const golden padded = {
    .h = {0.2573232645, 0, 0.4654451684},
    .c = {0.3518333500, 0.3518333500, 0.5931055119},
    .du = {0.3084028084, -0.0456950110, 0.0356814009, 0, 0, 0, 0.5730538033, -0.1185616733, 0.0720586484},
    .dx = {0.6224593312, 0, 0.4355439880},
    .dv = {-0.0531377034, 0.0342729859},
    .dbias = {-0.1642566842, 0.1077400493},
    .dc0 = 0.4024643704,
};

static void check_golden(hst_context *ctx, const golden *want, const uint8_t *pad) {
    hst_real u[] = {0.5, 0.1, -0.2, -0.3, 0.4, 0.2, 0.8, -0.5, 0.6}, x[] = {0.2, -0.1, 0.3}, v[] = {0.7, -0.4};
    hst_real bias[] = {0.1, -0.2}, c0[] = {0.25}, dh[] = {1, 1, 1}, dc_last[] = {0.5};
    hst_real h[3], c[1], c_last[1], du[9], dx[3], dv[2], dbias[2], dc0[1];
    hst_sru_args args = {.length = 1,
                         .batch = 1,
                         .width = 1,
                         .k = 3,
                         .scale_x = 1,
                         .u = F32(u),
                         .x = F32(x),
                         .v = F32(v),
                         .bias = F32(bias),
                         .c0 = F32(c0),
                         .pad = {pad, HST_U8},
                         .h = TO_F32(h),
                         .c = c,
                         .c_last = c_last};
    hst_sru_grad_args grad = {.forward = args,
                              .dh = F32(dh),
                              .dc_last = F32(dc_last),
                              .du = TO_F32(du),
                              .dx = TO_F32(dx),
                              .dv = TO_F32(dv),
                              .dbias = TO_F32(dbias),
                              .dc0 = TO_F32(dc0)};
    double tolerance = sizeof(hst_real) == sizeof(float) ? 1e-6 : 1e-9;
    for (; args.length <= 3; args.length++) {
        cr_assert(ctx->backend->sru(ctx, &args));
        expect(ctx, "c_last", c_last[0], want->c[args.length - 1], tolerance);
    }
    grad.forward.length = 3;
    cr_assert(ctx->backend->sru_grad(ctx, &grad));
    expect_all(ctx, "h", h, want->h, 3, tolerance);
    expect_all(ctx, "dU", du, want->du, 9, tolerance);
    expect_all(ctx, "dx", dx, want->dx, 3, tolerance);
    expect_all(ctx, "dv", dv, want->dv, 2, tolerance);
    expect_all(ctx, "dbias", dbias, want->dbias, 2, tolerance);
    expect(ctx, "dc0", dc0[0], want->dc0, tolerance);
}
static void check_plain(hst_context *ctx) { check_golden(ctx, &plain, NULL); }
static void check_padded(hst_context *ctx) { check_golden(ctx, &padded, (const uint8_t[]){0, 1, 0}); }
Test(ops, sru_golden) { for_each_isa(check_plain); }
Test(ops, sru_golden_padded) { for_each_isa(check_padded); }

// U0 = 1, c0 = 0 and a constant f give c = 1 - f^L. In f16 or bf16 f would round to 1 and c stay 0 for ever.
static void check_long_memory(hst_context *ctx) {
    enum { L = 2048 };
    static hst_real u[3 * L], h[L];
    hst_real bias[2] = {0}, c_last[1];
    for (int t = 0; t < L; t++) u[3 * t] = 1, u[3 * t + 1] = 8.5, u[3 * t + 2] = 0;
    hst_sru_args args = {
        .length = L, .batch = 1, .width = 1, .k = 3, .u = F32(u), .bias = F32(bias), .h = TO_F32(h), .c_last = c_last};
    cr_assert(ctx->backend->sru(ctx, &args));
    double f = 1 / (1 + exp(-8.5));
    expect(ctx, "c after 2048 steps", c_last[0], 1 - pow(f, L), 4e-5);
}
Test(ops, sru_long_memory) { for_each_isa(check_long_memory); }

// c = U0 = 1 throughout, r = 1/2 and x' = 0, so each step adds dh (c - x') r (1 - r) = 0.04 / 4 to the reset bias's
// gradient: 163.84 after 16384 steps, where f16 would stop at 32. f and U1 get nothing, as p = U0.
static void check_bias_gradient(hst_context *ctx) {
    enum { L = 16384 };
    static hst_real u[3 * L], c[L / HST_SRU_SEGMENT], dh[L];
    hst_real bias[2] = {0}, c0[1] = {1};
    uint16_t dbias[2];
    for (int i = 0; i < L / HST_SRU_SEGMENT; i++) c[i] = 1;
    for (int t = 0; t < L; t++) u[3 * t] = 1, u[3 * t + 1] = u[3 * t + 2] = 0, dh[t] = (hst_real)0.04;
    hst_sru_grad_args grad = {
        .forward = {.length = L, .batch = 1, .width = 1, .k = 3, .u = F32(u), .bias = F32(bias), .c0 = F32(c0), .c = c},
        .dh = F32(dh),
        .dbias = {dbias, HST_F16, false}};
    cr_assert(ctx->backend->sru_grad(ctx, &grad));
    expect(ctx, "dbias of f", hst_from_f16(dbias[0]), 0, 0);
    expect(ctx, "dbias of r", hst_from_f16(dbias[1]), 163.875, 0); // 163.84 rounded to f16, whose step is 0.125 there
}
Test(ops, sru_bias_gradient) { for_each_isa(check_bias_gradient); }

// Gates at their ends: f = 1 keeps c, f = 0 replaces it, and r = 0 shows x'. exp may overflow on the way.
static void check_saturated_gates(hst_context *ctx) {
    hst_real u[] = {5, 1000, 1000, 7, -1000, -1000}, x[] = {3, 4}, bias[2] = {0}, c0[] = {2}, h[2], c_last[1];
    hst_sru_args args = {.length = 1,
                         .batch = 1,
                         .width = 1,
                         .k = 3,
                         .scale_x = 1,
                         .u = F32(u),
                         .x = F32(x),
                         .bias = F32(bias),
                         .c0 = F32(c0),
                         .h = TO_F32(h),
                         .c_last = c_last};
    for (; args.length <= 2; args.length++) {
        cr_assert(ctx->backend->sru(ctx, &args));
        expect(ctx, "c_last", c_last[0], (const double[]){2, 7}[args.length - 1], 8 * EPSILON);
    }
    expect_all(ctx, "h", h, (const double[]){2, 4}, 2, 8 * EPSILON);
}
Test(ops, sru_saturated_gates) { for_each_isa(check_saturated_gates); }

// With f = 0 and r = 1, h is tanh(U0): within 2 ulp from where tanh(x) = x to where it is 1, and right at the ends.
static void check_tanh(hst_context *ctx) {
    enum { N = 4000, ENDS = 6 };
    static hst_real u[3 * N], h[N], c_last[1];
    static const double ends[ENDS] = {0, -0.0, INFINITY, -INFINITY, 1e-30, 30};
    hst_real bias[2] = {0};
    for (int t = 0; t < N; t++) {
        double x = t < ENDS ? ends[t] : (t % 2 ? 1 : -1) * exp2(t * (36.0 / N) - 32);
        u[3 * t] = (hst_real)x, u[3 * t + 1] = -1000, u[3 * t + 2] = 1000;
        if (isinf(x)) u[3 * t] = (hst_real)copysign(1e30, x); // inf itself would give inf - inf in c
    }
    hst_sru_args args = {.length = N,
                         .batch = 1,
                         .width = 1,
                         .k = 3,
                         .tanh = true,
                         .u = F32(u),
                         .bias = F32(bias),
                         .h = TO_F32(h),
                         .c_last = c_last};
    cr_assert(ctx->backend->sru(ctx, &args));
    for (int t = 0; t < N; t++) {
        double want = tanh((double)u[3 * t]);
        int exponent;
        frexp(want, &exponent);
        expect(ctx, "tanh", h[t], want, 2 * EPSILON * ldexp(1, exponent - 1));
    }
}
Test(ops, sru_tanh) { for_each_isa(check_tanh); }

// The golden column once more as the second of two, running backwards in time over the same steps in reverse.
static void check_two_directions(hst_context *ctx) {
    static const double steps[3][3] = {{0.5, 0.1, -0.2}, {-0.3, 0.4, 0.2}, {0.8, -0.5, 0.6}}, xs[3] = {0.2, -0.1, 0.3};
    hst_real u[18], x[6], v[] = {0.7, 0.7, -0.4, -0.4}, bias[] = {0.1, 0.1, -0.2, -0.2}, c0[] = {0.25, 0.25};
    hst_real h[6], c[2], c_last[2], du[18], dh[] = {1, 1, 1, 1, 1, 1}, dc_last[] = {0.5, 0.5}, dbias[4];
    for (int t = 0; t < 3; t++)
        for (int j = 0; j < 2; j++) {
            int from = j ? 2 - t : t;
            x[2 * t + j] = (hst_real)xs[from];
            for (int m = 0; m < 3; m++) u[6 * t + 2 * m + j] = (hst_real)steps[from][m];
        }
    hst_sru_args args = {.length = 3,
                         .batch = 1,
                         .width = 2,
                         .backward_columns = 1,
                         .k = 3,
                         .scale_x = 1,
                         .u = F32(u),
                         .x = F32(x),
                         .v = F32(v),
                         .bias = F32(bias),
                         .c0 = F32(c0),
                         .h = TO_F32(h),
                         .c = c,
                         .c_last = c_last};
    hst_sru_grad_args grad = {
        .forward = args, .dh = F32(dh), .dc_last = F32(dc_last), .du = TO_F32(du), .dbias = TO_F32(dbias)};
    cr_assert(ctx->backend->sru(ctx, &args) && ctx->backend->sru_grad(ctx, &grad));
    double tolerance = sizeof(hst_real) == sizeof(float) ? 1e-6 : 1e-9;
    for (int j = 0; j < 2; j++) {
        for (int t = 0; t < 3; t++) {
            int from = j ? 2 - t : t;
            expect(ctx, "h", h[2 * t + j], plain.h[from], tolerance);
            for (int m = 0; m < 3; m++) expect(ctx, "dU", du[6 * t + 2 * m + j], plain.du[3 * from + m], tolerance);
        }
        expect(ctx, "c_last", c_last[j], plain.c[2], tolerance); // c at L-1, and c at 0
        expect(ctx, "dbias of f", dbias[j], plain.dbias[0], tolerance);
        expect(ctx, "dbias of r", dbias[2 + j], plain.dbias[1], tolerance);
    }
}
Test(ops, sru_golden_in_both_directions) { for_each_isa(check_two_directions); }

// ---- sums ----

// 0.01 is 1311 * 2^-17 in f16 and 164 * 2^-14 in bf16; 4096 of them are 40.96875 and 41, both exact in their dtype.
// Added up in 16 bits they would stop at 32 and 4.
static void check_sum(hst_context *ctx) {
    static const struct {
        hst_dtype dtype;
        double total;
    } cases[] = {{HST_F16, 40.96875}, {HST_BF16, 41}};
    static uint16_t x[4096], y[64];
    for (int i = 0; i < 2; i++)
        for (int64_t width = 1; width <= 64; width *= 8) {
            hst_target all = {x, cases[i].dtype, false};
            for (int64_t j = 0; j < 4096; j++) hst_store(all, j, 0.01);
            hst_sum_args args = {.outer = 1,
                                 .rows = 4096 / width,
                                 .width = width,
                                 .factor = (double)width,
                                 .x = {x, cases[i].dtype},
                                 .y = {y, cases[i].dtype, false}};
            cr_assert(ctx->backend->sum(ctx, &args));
            for (int64_t j = 0; j < width; j++)
                expect(ctx, "sum of 0.01", hst_load((hst_source){y, cases[i].dtype}, j), cases[i].total, 0);
        }
}
Test(ops, sums_do_not_stall) { for_each_isa(check_sum); }

// Adds 0.01 to the rows of a table of ones, counts[r] times to row r, all rows in turn; or writes the sums.
static void scatter(hst_context *ctx, hst_dtype dtype, const int *counts, bool add_to, double rows[8]) {
    static uint8_t ids[110000], table[8 * sizeof(double)], dy[110000 * sizeof(double)];
    int64_t count = 0;
    for (int i = 0; i < 13000; i++)
        for (int r = 0; r < 8; r++)
            if (i < counts[r]) ids[count++] = (uint8_t)r;
    for (int64_t i = 0; i < count; i++) hst_store((hst_target){dy, dtype, false}, i, 0.01);
    for (int r = 0; r < 8; r++) hst_store((hst_target){table, dtype, false}, r, 1);
    hst_lookup_grad_args args = {.outer = 1,
                                 .rows = 8,
                                 .width = 1,
                                 .count = count,
                                 .dy = {dy, dtype},
                                 .ids = {ids, HST_U8},
                                 .dtable = {table, dtype, add_to}};
    cr_assert(ctx->backend->lookup_grad(ctx, &args));
    for (int r = 0; r < 8; r++) rows[r] = hst_load((hst_source){table, dtype}, r);
}

// The issue that started safe accumulation, apache/mxnet#17703: 100000 gradients of 0.01 onto 8 rows holding 1. What
// must come out is 1 + n * 0.01 (as the dtype stores 0.01), rounded once; f16 sums stop at 32.
static void check_embedding_issue(hst_context *ctx) {
    static const int counts[8] = {12574, 12653, 12430, 12436, 12527, 12605, 12374, 12401};
    static const double f16[8] = {126.75, 127.5625, 125.3125, 125.375, 126.3125, 127.0625, 124.75, 125.0625};
    static const double bf16[8] = {127, 127.5, 125.5, 125.5, 126.5, 127, 125, 125};
    double rows[8];
    scatter(ctx, HST_F16, counts, true, rows);
    for (int r = 0; r < 8; r++) expect(ctx, "f16 row", rows[r], f16[r], 0);
    scatter(ctx, HST_BF16, counts, true, rows);
    for (int r = 0; r < 8; r++) expect(ctx, "bf16 row", rows[r], bf16[r], 0);
    scatter(ctx, HST_F32, counts, true, rows);
    for (int r = 0; r < 8; r++) { // n times the f32 nearest 0.01 is exact in double, and so is what follows in f32
        hst_real want = (hst_real)(1 + counts[r] * (double)(hst_real)0.01);
        expect(ctx, "f32 row", rows[r], want, 2 * 100000 * 127 * 0x1p-53);
    }
    // Written instead of added, a row without ids becomes zero. 3072 times 0.01 tells kernels that add chunks of 32
    // in f32 and the chunks in 16 bits (30.375, 32.5) from those that round once.
    scatter(ctx, HST_F16, (const int[8]){12500, 0, 3072}, false, rows);
    expect(ctx, "12500 in f16", rows[0], 125, 0);
    expect(ctx, "none in f16", rows[1], 0, 0);
    expect(ctx, "3072 in f16", rows[2], 30.71875, 0);
    scatter(ctx, HST_BF16, (const int[8]){12500, 0, 3072}, false, rows);
    expect(ctx, "12500 in bf16", rows[0], 125, 0);
    expect(ctx, "3072 in bf16", rows[2], 30.75, 0);
}
Test(ops, lookup_grad_of_the_embedding_issue) { for_each_isa(check_embedding_issue); }

// ---- layer norm ----

// Rows around 1e4 with a deviation near 1, whose mean is no f32: rounding it first would shift every n by up to 2^-11,
// half the spacing of f32 there. Of n, of at most 1.7, five roundings remain: x - mean in two parts (the first exact),
// rstd, the product and the result; dx has rstd and three numbers up to 4 of as many roundings.
static void check_norm_far_from_zero(hst_context *ctx) {
    enum { N = 37 };
    hst_real x[N], dy[N], y[N], dx[N];
    double mean = 0, variance = 0, mean_dn = 0, mean_dn_n = 0, n[N];
    for (int i = 0; i < N; i++) x[i] = (hst_real)(10000 + i * i % N / 11.0), dy[i] = (hst_real)(i * 5 % 11 / 8.0 - 0.5);
    for (int i = 0; i < N; i++) mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) variance += (x[i] - mean) * (x[i] - mean) / N;
    double rstd = 1 / sqrt(variance + 1e-5), want[N];
    double saved[2];
    for (int i = 0; i < N; i++) n[i] = (x[i] - mean) * rstd;
    for (int i = 0; i < N; i++) mean_dn += (double)dy[i] / N, mean_dn_n += dy[i] * n[i] / N;
    hst_norm_args args = {
        .rows = 1, .width = N, .eps = 1e-5, .x = F32(x), .y = TO_F32(y), .mean = &saved[0], .rstd = &saved[1]};
    hst_norm_grad_args grad = {
        .rows = 1, .width = N, .dy = F32(dy), .x = F32(x), .mean = &saved[0], .rstd = &saved[1], .dx = TO_F32(dx)};
    cr_assert(ctx->backend->norm(ctx, &args) && ctx->backend->norm_grad(ctx, &grad));
    double exact = 1e4 * N * 0x1p-52; // the sums above, in double
    expect_all(ctx, "y", y, n, N, 5 * 1.7 * EPSILON / 2 + exact);
    for (int i = 0; i < N; i++) want[i] = rstd * (dy[i] - mean_dn - n[i] * mean_dn_n);
    expect_all(ctx, "dx", dx, want, N, 3 * 4 * 5 * EPSILON / 2 + exact);
}
Test(ops, norm_far_from_zero) { for_each_isa(check_norm_far_from_zero); }
