// The matrix multiply of every instruction set that this machine runs, against sums in double.
#include <stdlib.h>

#include "ops/ops.h"
#include "ops/table.h"
#include "tests/ops/pairs.h"

static uint32_t state;
static uint32_t below(uint32_t n) { return (uint32_t)((uint64_t)(state = state * 1664525 + 1013904223) * n >> 32); }
static double uniform(void) { return below(1 << 24) * 0x1p-23 - 1; }
static double dyadic(void) { return ((int)below(33) - 16) / 8.0; } // 16 bits hold it, and fp32 the sum of 2^15 products

static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
static const double half_ulp[] = {[HST_F32] = 0x1p-24, [HST_F16] = 0x1p-11, [HST_BF16] = 0x1p-8}; // relative
static const double least[] = {[HST_F32] = 0x1p-149, [HST_F16] = 0x1p-24, [HST_BF16] = 0x1p-133}; // subnormal

// Memory with not an element to spare, so that a sanitizer sees every access outside.
static void *filled(hst_dtype dtype, int64_t count, double (*number)(void)) {
    hst_target t = {malloc((size_t)count * hst_dtype_size(dtype) + 1), dtype, false};
    for (int64_t i = 0; i < count; i++) hst_store(t, i, number());
    return t.data;
}
static hst_source matrix(hst_dtype dtype, int64_t rows, int64_t columns, int64_t row, int64_t column,
                         double (*number)(void)) {
    int64_t count = rows && columns ? (rows - 1) * row + (columns - 1) * column + 1 : 0;
    return (hst_source){filled(dtype, count, number), dtype};
}

typedef struct sample {
    hst_gemm_args g;
    void *before;
    size_t bytes;
} sample; // before: what C held

// A random multiply of a given size and given dtypes (0 .. 26: A, B, C) and order (0 .. 4) of A's and B's elements.
static sample make_sample(int64_t m, int64_t n, int64_t k, int mix, int order, double (*number)(void)) {
    hst_gemm_args g = {.m = m, .n = n, .k = k, .c_row = n + below(3)};
    int64_t gap = 1 + (order == 4), pad = below(3); // order 4: neither stride is 1
    bool a_turned = order & 1, b_turned = order & 2;
    g.a_row = a_turned ? gap : k * gap + pad;
    g.a_col = a_turned ? m * gap + pad : gap;
    g.b_row = b_turned ? gap : n * gap + pad;
    g.b_col = b_turned ? k * gap + pad : gap;
    g.a = matrix(dtypes[mix % 3], m, k, g.a_row, g.a_col, number);
    g.b = matrix(dtypes[mix / 3 % 3], k, n, g.b_row, g.b_col, number);
    if (below(2)) g.bias = matrix(dtypes[below(3)], 1, n, n, 1, number);
    g.c = (hst_target){NULL, dtypes[mix / 9], below(2)};
    sample s = {.g = g, .bytes = (size_t)((m - 1) * g.c_row + n) * hst_dtype_size(g.c.dtype)};
    s.before = filled(g.c.dtype, (m - 1) * g.c_row + n, number);
    s.g.c.data = malloc(s.bytes);
    return s;
}
static void free_sample(sample s) {
    free((void *)s.g.a.data);
    free((void *)s.g.b.data);
    free((void *)s.g.bias.data);
    free(s.g.c.data);
    free(s.before);
}

static void multiply(hst_context *ctx, sample s) {
    memcpy(s.g.c.data, s.before, s.bytes);
    cr_assert(ctx->backend->gemm(ctx, &s.g), "%s", hst_error(ctx));
}

// Element (i, j) in double, and in *size the sum of the terms' absolute values.
static double expected(sample s, int64_t i, int64_t j, double *size) {
    const hst_gemm_args *g = &s.g;
    double old = g->c.add ? hst_load((hst_source){s.before, g->c.dtype}, i * g->c_row + j) : 0;
    double bias = g->bias.data ? hst_load(g->bias, j) : 0, sum = old + bias;
    *size = fabs(old) + fabs(bias);
    for (int64_t k = 0; k < g->k; k++) {
        double term = hst_load(g->a, i * g->a_row + k * g->a_col) * hst_load(g->b, k * g->b_row + j * g->b_col);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

// The bound of every product here: half an ulp of the result, and for each term the roundings that it goes through in
// fp32, one of 2^-24 each: its product, the sums of its block of 256, one sum for each block, old value + bias.
static void check_close(sample s, const char *isa) {
    const hst_gemm_args *g = &s.g;
    hst_source c = {g->c.data, g->c.dtype}, before = {s.before, g->c.dtype};
    double roundings = (double)(g->k < 256 ? g->k : 256) + ceil((double)g->k / 256) + 1;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double size, want = expected(s, i, j, &size), got = hst_load(c, i * g->c_row + j);
            double room = half_ulp[c.dtype] * fabs(got) + least[c.dtype] / 2 + roundings * 0x1p-24 * size;
            cr_assert_leq(fabs(got - want), room, "%s, %dx%dx%d %s %s %s at %d %d: %.9g, not %.9g", isa, (int)g->m,
                          (int)g->n, (int)g->k, hst_dtype_name(g->a.dtype), hst_dtype_name(g->b.dtype),
                          hst_dtype_name(c.dtype), (int)i, (int)j, got, want);
        }
        for (int64_t j = g->n; j < g->c_row && i + 1 < g->m; j++) // between the rows nothing is written
            cr_assert_eq(hst_load(c, i * g->c_row + j), hst_load(before, i * g->c_row + j));
    }
}

static const int64_t heights[] = {1, 2, 3, 5, 8, 17, 33}, widths[] = {1, 3, 8, 23, 24, 25, 50},
                     depths[] = {0, 1, 7, 16, 255, 256, 257, 600};

// Every mix of dtypes in every order, as i goes from 0 to SWEEP, with random sizes.
enum { MIXES = 27, ORDERS = 5, SWEEP = MIXES * ORDERS, BF16_MIX = 26 };
static sample sweep(int i, double (*number)(void)) {
    return make_sample(heights[below(7)], widths[below(7)], depths[below(8)], i % MIXES, i % ORDERS, number);
}

static void within_the_bound(hst_context *ctx) {
    for (int i = 0; i < 2 * SWEEP; i++) {
        sample s = sweep(i, uniform);
        multiply(ctx, s);
        check_close(s, hst_isa(ctx));
        free_sample(s);
    }
}
Test(ops, gemm_is_within_the_bound_for_all_dtypes_and_strides) { for_each_products(within_the_bound); }

static void same_bits(hst_context *two) {
    hst_context *others[] = {open_products(hst_isa(two), 1), open_products(hst_isa(two), 3),
                             open_products(hst_isa(two), 7)};
    static const int mixes[] = {0, 22, BF16_MIX}, orders[] = {0, 3, 2};
    for (int i = 0; i < 3 * MIXES; i++) {
        bool large = i % MIXES == 0; // several blocks
        int which = i / MIXES;
        sample s = large ? make_sample(270, 200, 301, mixes[which], orders[which], uniform) : sweep(i, uniform);
        void *bits = malloc(s.bytes);
        multiply(two, s);
        memcpy(bits, s.g.c.data, s.bytes);
        for (int team = 0; team < 3; team++) {
            multiply(others[team], s);
            cr_assert_arr_eq(bits, s.g.c.data, s.bytes, "%s, %d threads", hst_isa(two), hst_thread_count(others[team]));
        }
        free(bits);
        free_sample(s);
    }
    for (int team = 0; team < 3; team++) hst_close(others[team]);
}
Test(ops, gemm_has_the_same_bits_for_any_number_of_threads) { for_each_products(same_bits); }

static void row_alone(hst_context *ctx) {
    for (int i = 0; i < SWEEP; i++) {
        sample s = sweep(i, uniform), row = s;
        int64_t at = below((uint32_t)s.g.m), c = at * s.g.c_row;
        size_t c_size = hst_dtype_size(s.g.c.dtype), row_bytes = (size_t)s.g.n * c_size, c_byte = (size_t)c * c_size;
        multiply(ctx, s);
        row.g.m = 1;
        row.g.a.data = (const char *)s.g.a.data + (size_t)(at * s.g.a_row) * hst_dtype_size(s.g.a.dtype);
        row.g.c.data = malloc(row_bytes);
        row.before = (char *)s.before + c_byte;
        row.bytes = row_bytes;
        multiply(ctx, row);
        cr_assert_arr_eq((char *)s.g.c.data + c_byte, row.g.c.data, row_bytes, "%s, row %d", hst_isa(ctx), (int)at);
        free(row.g.c.data);
        free_sample(s);
    }
}
Test(ops, gemm_gives_a_row_the_same_bits_alone_and_in_a_batch) { for_each_products(row_alone); }

static void exact(hst_context *ctx) {
    for (int i = 0; i < SWEEP; i++) {
        sample s = sweep(i, dyadic);
        uint32_t rounded[1]; // the exact sum in C's dtype
        multiply(ctx, s);
        for (int64_t r = 0; r < s.g.m; r++)
            for (int64_t j = 0; j < s.g.n; j++) {
                double size;
                hst_store((hst_target){rounded, s.g.c.dtype, false}, 0, expected(s, r, j, &size));
                cr_assert_eq(hst_load((hst_source){s.g.c.data, s.g.c.dtype}, r * s.g.c_row + j),
                             hst_load((hst_source){rounded, s.g.c.dtype}, 0), "%s", hst_isa(ctx));
            }
        free_sample(s);
    }
}
Test(ops, gemm_is_exact_where_fp32_is) { for_each_products(exact); }

static void check_places(hst_context *ctx, int64_t m, int64_t n, int64_t k, int mix, int order) {
    sample s = make_sample(m, n, k, mix, order, dyadic);
    hst_source c = {s.g.c.data, s.g.c.dtype};
    uint32_t rounded[1]; // the exact sum in C's dtype
    multiply(ctx, s);
    for (int i = 0; i < 3000; i++) {
        int64_t row = below((uint32_t)m), column = below((uint32_t)n);
        double size, want = expected(s, row, column, &size);
        hst_store((hst_target){rounded, c.dtype, false}, 0, want);
        cr_assert_eq(hst_load(c, row * s.g.c_row + column), hst_load((hst_source){rounded, c.dtype}, 0), "%s at %d %d",
                     hst_isa(ctx), (int)row, (int)column);
    }
    free_sample(s);
}
// Several blocks of C; and a B of more than 2^20 numbers, which is packed in several slabs: of rows if C is f32 and
// they are not too long, else of columns.
static void many_blocks(hst_context *ctx) {
    for (int order = 0; order < 4; order++) check_places(ctx, 270, 301, 260, 18, order); // f32, f32 -> bf16
    check_places(ctx, 17, 1100, 4096, 18, 0);
    check_places(ctx, 17, 1100, 4096, 0, 0);
    check_places(ctx, 17, 9000, 520, 0, 2);
    check_places(ctx, 270, 301, 261, BF16_MIX, 3);
    check_places(ctx, 17, 2110, 1001, BF16_MIX, 0);
}
Test(ops, gemm_covers_matrices_of_many_blocks) { for_each_products(many_blocks); }

// No rows, no columns, no terms: nothing is written, or what is there already and the bias.
static void nothing(hst_context *ctx) {
    static const int64_t sizes[][3] = {{0, 40, 600}, {40, 0, 600}, {1, 0, 3}, {0, 0, 0}, {40, 40, 0}, {1, 40, 0}};
    float c[40 * 40], bias[40];
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        for (int k = 0; k < 40 * 40; k++) c[k] = 1;
        for (int k = 0; k < 40; k++) bias[k] = 2;
        hst_gemm_args g = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .a = F32(bias), .b = F32(bias)};
        g.bias = F32(bias), g.c = TO_F32(c), g.c.add = true, g.c_row = 40, g.a_row = 1, g.b_row = 1, g.b_col = 1;
        cr_assert(ctx->backend->gemm(ctx, &g));
        for (int k = 0; k < 40 * 40; k++) cr_assert_eq(c[k], k / 40 < g.m && k % 40 < g.n ? 3 : 1);
    }
}
Test(ops, gemm_of_nothing) { for_each_products(nothing); }

// 2^24 followed by ones, each of which is lost when added to it alone. Blocks of 256 terms lose only those of the first
// block: the bound is (256 + 16) roundings of 2^-24 of the sum of all terms, where one running sum would lose 4095.
static void stalling(hst_context *ctx) {
    enum { K = 4096 };
    static float a[K], one = 1, c;
    for (int k = 0; k < K; k++) a[k] = k ? 1 : 0x1p24f;
    hst_gemm_args g = {.m = 1, .n = 1, .k = K, .a = F32(a), .b = F32(&one), .a_col = 1, .c = TO_F32(&c)};
    cr_assert(ctx->backend->gemm(ctx, &g));
    expect(ctx, "2^24 + 1 + 1 + ...", c, 0x1p24 + K - 1, (256 + 16) * 0x1p-24 * (0x1p24 + K - 1));
}
Test(ops, gemm_sums_in_blocks) { for_each_products(stalling); }

// Subnormals are not flushed, infinity and NaN come out where they belong and nowhere else.
static void special(hst_context *ctx) {
    static const uint16_t f16[4] = {1, 0x7c00, 0x7e00, 0x3c00}, bf16[4] = {1, 0x7f80, 0x7fc0, 0x3f80};
    const float scale = 0x1p20f;
    for (int i = 0; i < 2; i++) { // four rows of one number each, times 2^20
        float c[4];
        hst_gemm_args g = {.m = 4,
                           .n = 1,
                           .k = 1,
                           .a = {i ? f16 : bf16, i ? HST_F16 : HST_BF16},
                           .b = {&scale, HST_F32},
                           .a_row = 1,
                           .a_col = 1,
                           .b_row = 1,
                           .b_col = 1,
                           .c_row = 1,
                           .c = {c, HST_F32, false}};
        cr_assert(ctx->backend->gemm(ctx, &g));
        cr_assert_eq(c[0], i ? 0x1p-4f : 0x1p-113f);
        cr_assert(isinf(c[1]) && isnan(c[2]) && c[3] == scale, "%s", hst_isa(ctx));
    }
}
Test(ops, gemm_keeps_subnormals_infinity_and_nan) { for_each_products(special); }

// vdpbf16ps takes subnormals for 0, among operands and results: so does a product of two bf16, or of what is rounded to
// it, where that is the instruction, and nowhere else. Infinity and NaN pass; the pair's other half, or the missing
// half of the last pair, does no harm.
static void subnormal_pairs(hst_context *ctx) {
    static const float values[] = {0x1p-133f, 1, 0x1p-100f, INFINITY, NAN},
                       scales[] = {0x1p20f, 0x1p-133f, 0x1p-40f, 1, 1};
    bool flushes = !strcmp(hst_isa(ctx), "pairs") || !strcmp(hst_isa(ctx), "avx512bf16");
    for (int i = 0; i < 2 * 5 * 3; i++) {
        enum { M = 3, N = 5 };
        int value = i / 2 % 5, k = 1 + i / 10;
        float a[M * 3], b[3 * N], c[M * N];
        uint16_t a16[M * 3], b16[3 * N];
        hst_gemm_args g = {
            .m = M, .n = N, .k = k, .a_row = k, .a_col = 1, .b_row = N, .b_col = 1, .c_row = N, .c = TO_F32(c)};
        for (int n = 0; n < M * k; n++) a[n] = n % k == k - 1 ? values[value] : 0, a16[n] = hst_to_bf16(a[n]);
        for (int n = 0; n < k * N; n++) b[n] = n / N == k - 1 ? scales[value] : 1, b16[n] = hst_to_bf16(b[n]);
        g.a = i % 2 ? F32(a) : (hst_source){a16, HST_BF16};
        g.b = i % 2 ? F32(b) : (hst_source){b16, HST_BF16};
        g.lower = i % 2 ? HST_BF16 : HST_F32;
        cr_assert(ctx->backend->gemm(ctx, &g));
        float want = flushes && value < 3 ? 0 : values[value] * scales[value];
        for (int n = 0; n < M * N; n++) expect(ctx, "a product near 0, inf or NaN", c[n], want, 0);
    }
}
Test(ops, gemm_flushes_subnormals_where_the_instruction_does) { for_each_products(subnormal_pairs); }

// ---- operands rounded on the way (lower) ----

// Of all sizes from subnormal f16 to its largest, so that every way of rounding occurs.
static double of_any_size(void) { return ldexp(uniform(), (int)below(44) - 28); }

static hst_source cast(hst_context *ctx, hst_source x, int64_t count, hst_dtype dtype) {
    if (!x.data) return x;
    hst_tensor *t = hst_cast(hst_from_array(ctx, x.dtype, HST_SHAPE(count), x.dtype, x.data), dtype);
    cr_assert(t, "%s", hst_error(ctx));
    return (hst_source){hst_data(t), dtype};
}

// The same product of operands that were cast beforehand.
static sample cast_sample(hst_context *ctx, sample s, hst_dtype dtype) {
    hst_gemm_args *g = &s.g;
    g->lower = HST_F32;
    g->a = cast(ctx, g->a, g->k ? (g->m - 1) * g->a_row + (g->k - 1) * g->a_col + 1 : 0, dtype);
    g->b = cast(ctx, g->b, g->k ? (g->k - 1) * g->b_row + (g->n - 1) * g->b_col + 1 : 0, dtype);
    g->bias = cast(ctx, g->bias, g->n, dtype);
    return s;
}

static void rounds_operands(hst_context *ctx) {
    for (int i = 0; i < 2 * SWEEP; i++) {
        sample s = sweep(i / 2, of_any_size);
        s.g.lower = i % 2 ? HST_F16 : HST_BF16;
        void *bits = malloc(s.bytes);
        multiply(ctx, s);
        memcpy(bits, s.g.c.data, s.bytes);
        hst_scope_begin(ctx);
        multiply(ctx, cast_sample(ctx, s, s.g.lower));
        hst_scope_end(ctx, NULL);
        cr_assert_arr_eq(bits, s.g.c.data, s.bytes, "%s %s: %s %s %s, %dx%dx%d", hst_isa(ctx),
                         hst_dtype_name(s.g.lower), hst_dtype_name(s.g.a.dtype), hst_dtype_name(s.g.b.dtype),
                         hst_dtype_name(s.g.c.dtype), (int)s.g.m, (int)s.g.n, (int)s.g.k);
        free(bits);
        free_sample(s);
    }
}
Test(ops, gemm_rounds_operands_as_a_cast_does) { for_each_products(rounds_operands); }

// y and the three or two gradients of an operation applied by hand, with operands and dy as they are and
// call.lower, or cast before.
enum { ROWS = 5, WIDTH = 19, INNER = 33 };
static void apply_by_hand(hst_context *ctx, const hst_op *op, hst_dtype lower, bool before, float *results) {
    static const int64_t shapes[3][2] = {{ROWS, INNER}, {INNER, WIDTH}, {WIDTH}};
    hst_call call = {.op = op, .ctx = ctx, .lower = before ? HST_F32 : lower};
    hst_tensor *y = hst_zeros(ctx, HST_F32, HST_SHAPE(ROWS, WIDTH)),
               *dy = hst_empty(ctx, HST_F32, HST_SHAPE(ROWS, WIDTH));
    hst_gradient dx[HST_MAX_INPUTS] = {0};
    state = 7;
    for (int i = 0; i < 3; i++) {
        hst_tensor *t = i < 2 ? hst_empty(ctx, HST_F32, 2, shapes[i]) : hst_empty(ctx, HST_F32, 1, shapes[i]);
        for (int64_t n = 0; n < hst_count(t); n++) hst_store(hst_target_of(t), n, of_any_size());
        if (i < 2 || op == &hst_op_linear) call.in[i] = before ? hst_cast(t, lower) : t;
        if (i < 2) dx[i] = (hst_gradient){HST_WRITE, hst_zeros(ctx, HST_F32, 2, shapes[i]), NULL};
    }
    for (int64_t n = 0; n < hst_count(dy); n++) hst_store(hst_target_of(dy), n, of_any_size());
    if (before) dy = hst_cast(dy, lower);
    call.out[0] = y;
    cr_assert(op->forward(&call) && op->backward(&call, &dy, dx), "%s", hst_error(ctx));
    hst_copy_out(y, HST_F32, results);
    hst_copy_out(dx[0].into, HST_F32, results + ROWS * WIDTH);
    hst_copy_out(dx[1].into, HST_F32, results + ROWS * WIDTH + ROWS * INNER);
}

static void lower_operations(hst_context *ctx) {
    enum { RESULTS = ROWS * WIDTH + ROWS * INNER + INNER * WIDTH };
    static float by_call[RESULTS], by_cast[RESULTS];
    for (int i = 0; i < 4; i++) {
        const hst_op *op = i / 2 ? &hst_op_matmul : &hst_op_linear;
        hst_scope_begin(ctx);
        apply_by_hand(ctx, op, i % 2 ? HST_F16 : HST_BF16, false, by_call);
        apply_by_hand(ctx, op, i % 2 ? HST_F16 : HST_BF16, true, by_cast);
        hst_scope_end(ctx, NULL);
        cr_assert_arr_eq(by_call, by_cast, sizeof by_call, "%s %s", hst_isa(ctx), op->name);
    }
}
Test(ops, linear_and_matmul_round_the_operands_of_all_their_products) { for_each_products(lower_operations); }

// ---- batches ----

// `count` products whose operands lie one after the other, or are the same ones (flags 1: A, 2: B), against the same
// products one by one: the same bits.
static void check_batch(hst_context *ctx, int64_t count, sample s, int same) {
    hst_gemm_batch_args batch = {.count = count, .first = s.g};
    int64_t m = s.g.m, n = s.g.n, k = s.g.k, row = below(2) ? s.g.c_row : n, c_size = m * row;
    int64_t a_size = same & 1 ? 0 : m * k, b_size = same & 2 ? 0 : k * n;
    bool a_turned = below(2), b_turned = below(2);
    batch.a_step = a_size, batch.b_step = b_size, batch.c_step = c_size;
    hst_gemm_args *g = &batch.first;
    g->a_row = a_turned ? 1 : k, g->a_col = a_turned ? m : 1;
    g->b_row = b_turned ? 1 : n, g->b_col = b_turned ? k : 1;
    g->c_row = row;
    g->a.data = filled(g->a.dtype, m * k + (count - 1) * a_size, uniform);
    g->b.data = filled(g->b.dtype, k * n + (count - 1) * b_size, uniform);
    size_t size = hst_dtype_size(g->c.dtype), bytes = (size_t)(count * c_size) * size;
    char *together = filled(g->c.dtype, count * c_size, uniform), *alone = malloc(bytes + 1);
    memcpy(alone, together, bytes);
    g->c.data = together;
    cr_assert(ctx->backend->gemm_batch(ctx, &batch), "%s", hst_error(ctx));
    for (int64_t i = 0; i < count; i++) {
        hst_gemm_args one = *g;
        one.a.data = (const char *)g->a.data + (size_t)(i * a_size) * hst_dtype_size(g->a.dtype);
        one.b.data = (const char *)g->b.data + (size_t)(i * b_size) * hst_dtype_size(g->b.dtype);
        one.c.data = alone + (size_t)(i * c_size) * size;
        cr_assert(ctx->backend->gemm(ctx, &one), "%s", hst_error(ctx));
    }
    cr_assert_arr_eq(together, alone, bytes, "%s, %d products of %dx%dx%d", hst_isa(ctx), (int)count, (int)m, (int)n,
                     (int)k);
    free((void *)g->a.data), free((void *)g->b.data), free(together), free(alone);
}

static void batches(hst_context *two) {
    hst_context *teams[] = {open_products(hst_isa(two), 1), two, open_products(hst_isa(two), 3),
                            open_products(hst_isa(two), 7)};
    for (int i = 0; i < SWEEP; i++) {
        sample s = i < 4 ? make_sample(140, 200, 300, i, 0, uniform) : sweep(i, uniform);
        s.g.lower = dtypes[i % 7 % 3];
        check_batch(teams[i % 4], 1 + below(i < 4 ? 3 : 9), s, (int)below(4));
        free_sample(s);
    }
    hst_gemm_batch_args none = {.count = 0, .first = {.m = 3, .n = 4, .k = 5}};
    cr_assert(two->backend->gemm_batch(two, &none));
    hst_close(teams[0]), hst_close(teams[2]), hst_close(teams[3]);
}
Test(ops, gemm_batch_has_the_bits_of_its_products) { for_each_products(batches); }
