// test_copy.c: arrays into tensors and out again, converted on the way, with the kernels of every ISA: the boundaries
// of formats.h as f32, every 16-bit pattern, tails, strides, integers.
#include "tests/ops/isas.h"

#include <stdlib.h>

#include "ops/ops.h"
#include "tests/tensor/formats.h"

static double next_float(double x, double toward) { return (double)nextafterf((float)x, (float)toward); }

// Numbers as f32, and what they are as 16 bits.
typedef struct numbers {
    int64_t count;
    float *x;
    uint16_t *rounded;
} numbers;

static numbers boundaries(const format16 *f) {
    int64_t most = (int64_t)infinity_bits(f) * 6;
    numbers n = {0, malloc((size_t)most * sizeof *n.x), malloc((size_t)most * sizeof *n.rounded)};
    for (int bits = 0; bits < infinity_bits(f); bits++) {
        boundary b = boundary_above(f, bits, next_float);
        for (int k = 0; k < 6; k++, n.count++) {
            n.x[n.count] = (float)(k < 3 ? b.x[k] : -b.x[k - 3]);
            n.rounded[n.count] = (uint16_t)(b.rounded[k % 3] | (k < 3 ? 0 : 0x8000));
        }
    }
    return n;
}

static void release(numbers n) {
    free(n.x);
    free(n.rounded);
}

static void expect_bits(hst_context *ctx, const char *how, const uint16_t *got, const numbers *n, int64_t start,
                        int64_t count) {
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(got[i], n->rounded[start + i], "%s, %s: %a is %04x, not %04x", hst_isa(ctx), how,
                     (double)n->x[start + i], got[i], n->rounded[start + i]);
}

// ---- to 16 bits: while copying in, while copying out, by a cast ----

static void check_narrowing(hst_context *ctx, const format16 *f) {
    numbers n = boundaries(f);
    uint16_t *got = malloc((size_t)n.count * sizeof *got);
    hst_scope_begin(ctx);
    hst_tensor *x = hst_from_array(ctx, HST_F32, 1, &n.count, HST_F32, n.x);
    hst_copy_out(hst_from_array(ctx, f->dtype, 1, &n.count, HST_F32, n.x), f->dtype, got);
    expect_bits(ctx, "copy in", got, &n, 0, n.count);
    hst_copy_out(x, f->dtype, got);
    expect_bits(ctx, "copy out", got, &n, 0, n.count);
    hst_copy_out(hst_cast(x, f->dtype), f->dtype, got);
    expect_bits(ctx, "cast", got, &n, 0, n.count);
    hst_copy_out(hst_transpose(hst_reshape(x, 2, (int64_t[]){2, n.count / 2}), 0, 1), f->dtype, got); // not adjacent
    for (int64_t i = 0; i < n.count; i++) cr_assert_eq(got[i], n.rounded[i % 2 * (n.count / 2) + i / 2]);
    hst_scope_end(ctx, NULL);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    free(got);
    release(n);
}

static void check_all_narrowing(hst_context *ctx) {
    for (int i = 0; i < FORMAT_COUNT; i++) check_narrowing(ctx, &FORMATS[i]);
}
Test(tensor, arrays_round_to_the_nearest_even) { for_each_isa(check_all_narrowing); }

// Every length up to 70, from every place in a vector; what lies around the array stays as it is.
static void check_tails(hst_context *ctx) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        numbers n = boundaries(&FORMATS[i]);
        for (int64_t count = 1; count <= 70; count++) {
            uint16_t got[72];
            int64_t start = (count * 977) % (n.count - count);
            memset(got, 0x5a, sizeof got);
            hst_scope_begin(ctx);
            hst_copy_out(hst_from_array(ctx, HST_F32, 1, &count, HST_F32, n.x + start), FORMATS[i].dtype, got + 1);
            hst_scope_end(ctx, NULL);
            expect_bits(ctx, "tail", got + 1, &n, start, count);
            cr_assert(got[0] == 0x5a5a && got[count + 1] == 0x5a5a, "%s: %lld elements, more written", hst_isa(ctx),
                      (long long)count);
        }
        release(n);
    }
}
Test(tensor, arrays_of_any_length) { for_each_isa(check_tails); }

// ---- from 16 bits ----

static void check_wide(hst_context *ctx, const format16 *f, const float *wide, const uint16_t *back,
                       const uint16_t *other) {
    const format16 *g = f == &FORMATS[0] ? &FORMATS[1] : &FORMATS[0];
    for (int bits = 0; bits < PATTERNS; bits++) {
        float expected = f->widen((uint16_t)bits);
        if (is_nan_bits(f, bits)) {
            cr_assert(isnan(wide[bits]) && is_nan_bits(f, back[bits]) && (back[bits] & quiet_bit(f)) &&
                          is_nan_bits(g, other[bits]),
                      "%s: %s NaN %04x", hst_isa(ctx), hst_dtype_name(f->dtype), bits);
            continue;
        }
        cr_assert_eq(memcmp(&wide[bits], &expected, sizeof expected), 0, "%s: %s %04x is %a", hst_isa(ctx),
                     hst_dtype_name(f->dtype), bits, (double)wide[bits]);
        cr_assert_eq(back[bits], bits, "%s: %s %04x came back as %04x", hst_isa(ctx), hst_dtype_name(f->dtype), bits,
                     back[bits]);
        cr_assert_eq(other[bits], g->narrow((double)expected), "%s: %s %04x", hst_isa(ctx), hst_dtype_name(f->dtype),
                     bits);
    }
}

// All patterns to f32, back, and from one 16-bit type to the other.
static void check_patterns(hst_context *ctx) {
    static uint16_t bits[PATTERNS], back[PATTERNS], other[PATTERNS];
    static float wide[PATTERNS];
    for (int i = 0; i < PATTERNS; i++) bits[i] = (uint16_t)i;
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const format16 *f = &FORMATS[i];
        hst_scope_begin(ctx);
        hst_tensor *x = hst_from_array(ctx, f->dtype, HST_SHAPE(PATTERNS), f->dtype, bits);
        hst_copy_out(x, HST_F32, wide);
        hst_copy_out(hst_cast(hst_cast(x, HST_F32), f->dtype), f->dtype, back);
        hst_copy_out(x, FORMATS[1 - i].dtype, other);
        hst_scope_end(ctx, NULL);
        check_wide(ctx, f, wide, back, other);
    }
}
Test(tensor, arrays_of_every_16_bit_pattern) { for_each_isa(check_patterns); }

// ---- other types ----

static void check_rounded_once(hst_context *ctx) {
    double x[] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40};
    uint16_t bits[2];
    hst_copy_out(hst_from_array(ctx, HST_F64, HST_SHAPE(2), HST_F64, x), HST_F16, bits);
    cr_assert_eq(bits[0], 0x3c01, "%s", hst_isa(ctx));
    hst_copy_out(hst_from_array(ctx, HST_BF16, HST_SHAPE(2), HST_F64, x), HST_BF16, bits);
    cr_assert_eq(bits[1], 0x3f81, "%s", hst_isa(ctx));
}
Test(tensor, arrays_of_doubles_are_rounded_once) { for_each_isa(check_rounded_once); }

static void check_integers(hst_context *ctx) {
    static const int64_t exact[] = {INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1, -7};
    static const int32_t as_i32[] = {INT32_MAX, INT32_MIN, INT32_MAX, -7};
    static const uint8_t as_u8[] = {255, 0, 255, 0};
    static const double reals[] = {NAN, 1e30, -1e30, 3.99};
    static const int64_t from_reals[] = {0, INT64_MAX, INT64_MIN, 3};
    hst_tensor *x = hst_from_array(ctx, HST_I64, HST_SHAPE(4), HST_I64, exact);
    int64_t i64[4];
    int32_t i32[4];
    uint8_t u8[4];
    hst_copy_out(x, HST_I64, i64);
    cr_assert_arr_eq(i64, exact, sizeof exact, "%s", hst_isa(ctx));
    hst_copy_out(x, HST_I32, i32);
    cr_assert_arr_eq(i32, as_i32, sizeof as_i32, "%s", hst_isa(ctx));
    hst_copy_out(hst_cast(x, HST_U8), HST_U8, u8);
    cr_assert_arr_eq(u8, as_u8, sizeof as_u8, "%s", hst_isa(ctx));
    hst_copy_out(hst_cast(hst_from_array(ctx, HST_F64, HST_SHAPE(4), HST_F64, reals), HST_I64), HST_I64, i64);
    cr_assert_arr_eq(i64, from_reals, sizeof from_reals, "%s", hst_isa(ctx));
}
Test(tensor, arrays_of_integers) { for_each_isa(check_integers); }

// 1, 2, 3 are exact in every dtype: all 49 pairs, through strided views on both sides.
static void check_pairs(hst_context *ctx) {
    for (int a = 0; a < HST_DTYPES; a++)
        for (int b = 0; b < HST_DTYPES; b++) {
            hst_scope_begin(ctx);
            int64_t from[6], to[6];
            double out[6];
            for (int i = 0; i < 6; i++) hst_store((hst_target){from, (hst_dtype)a, false}, i, i + 1);
            hst_tensor *x = hst_zeros(ctx, (hst_dtype)b, HST_SHAPE(3, 2)), *view = hst_transpose(x, 0, 1);
            hst_copy_in(view, (hst_dtype)a, from); // x[i][j] = from[j][i] = 3 j + i + 1
            hst_copy_out(view, (hst_dtype)a, to);
            hst_copy_out(x, HST_F64, out);
            for (int i = 0; i < 6; i++) {
                cr_assert_eq(hst_load((hst_source){to, (hst_dtype)a}, i), i + 1, "%s: %d %d", hst_isa(ctx), a, b);
                cr_assert_eq(out[i], 3 * (i % 2) + i / 2 + 1, "%s: %d %d", hst_isa(ctx), a, b);
            }
            hst_scope_end(ctx, NULL);
        }
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}
Test(tensor, every_pair_of_dtypes) { for_each_isa(check_pairs); }
