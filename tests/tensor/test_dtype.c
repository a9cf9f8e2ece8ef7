// test_dtype.c: one number at a time: every pattern of the 16-bit types and every rounding boundary, against formats.h.
#include <criterion/criterion.h>
#include <fenv.h>
#include <string.h>

#include "tensor/context.h"
#include "tests/tensor/formats.h"

Test(tensor, sizes_and_names) {
    static const struct {
        size_t size;
        const char *name;
    } expected[HST_DTYPES] = {{4, "f32"}, {2, "f16"}, {2, "bf16"}, {8, "f64"}, {4, "i32"}, {8, "i64"}, {1, "u8"}};
    for (int d = 0; d < HST_DTYPES; d++) {
        cr_assert_eq(hst_dtype_size((hst_dtype)d), expected[d].size);
        cr_assert_str_eq(hst_dtype_name((hst_dtype)d), expected[d].name);
    }
}

static void check_pattern(const format16 *f, int bits) {
    double wide = (double)f->widen((uint16_t)bits);
    const char *name = hst_dtype_name(f->dtype);
    if (is_nan_bits(f, bits)) {
        uint16_t back = f->narrow(wide);
        cr_assert(isnan(wide), "%s %04x is a NaN", name, bits);
        cr_assert(is_nan_bits(f, back) && (back & quiet_bit(f)), "%s NaN %04x came back as %04x", name, bits, back);
        return;
    }
    double expected = (bits & 0x7fff) == infinity_bits(f) ? (bits & 0x8000 ? -INFINITY : INFINITY) : value_of(f, bits);
    cr_assert(wide == expected && !signbit(wide) == !signbit(expected), "%s %04x is %a, not %a", name, bits, expected,
              wide);
    cr_assert_eq(f->narrow(wide), bits, "%s %04x came back as %04x", name, bits, f->narrow(wide));
}

Test(tensor, every_16_bit_pattern_widens_exactly_and_comes_back) {
    for (int i = 0; i < FORMAT_COUNT; i++)
        for (int bits = 0; bits < PATTERNS; bits++) check_pattern(&FORMATS[i], bits);
}

static void check_rounding(const format16 *f, double x, int expected) {
    uint16_t up = f->narrow(x), down = f->narrow(-x);
    cr_assert_eq(up, expected, "%s of %a is %04x, not %04x", hst_dtype_name(f->dtype), x, up, expected);
    cr_assert_eq(down, expected | 0x8000, "%s of %a is %04x, not %04x", hst_dtype_name(f->dtype), -x, down,
                 expected | 0x8000);
}

Test(tensor, doubles_round_to_the_nearest_even) {
    for (int i = 0; i < FORMAT_COUNT; i++)
        for (int bits = 0; bits < infinity_bits(&FORMATS[i]); bits++) {
            boundary b = boundary_above(&FORMATS[i], bits, nextafter);
            for (int k = 0; k < 3; k++) check_rounding(&FORMATS[i], b.x[k], b.rounded[k]);
        }
}

Test(tensor, ends_of_the_range) {
    check_rounding(&FORMATS[0], 65519.999, 0x7bff);
    check_rounding(&FORMATS[0], 65520, 0x7c00);
    check_rounding(&FORMATS[0], 0x1p-25, 0);                   // halfway to the smallest subnormal
    check_rounding(&FORMATS[1], 0x1.fep127 + 0x1p119, 0x7f80); // the largest and half a place
    check_rounding(&FORMATS[1], 0x1p-134, 0);
    for (int i = 0; i < FORMAT_COUNT; i++) {
        check_rounding(&FORMATS[i], 0, 0); // and -0 is 8000
        check_rounding(&FORMATS[i], 0x1p-1074, 0);
        check_rounding(&FORMATS[i], 1.7e308, infinity_bits(&FORMATS[i]));
        check_rounding(&FORMATS[i], INFINITY, infinity_bits(&FORMATS[i]));
    }
}

// Just above the middle between 1 and its successor, but as an f32 it would be the middle, which goes down to 1.
Test(tensor, doubles_are_rounded_once) {
    check_rounding(&FORMATS[0], 1 + 0x1p-11 + 0x1p-40, 0x3c01);
    check_rounding(&FORMATS[1], 1 + 0x1p-8 + 0x1p-40, 0x3f81);
}

// A signaling NaN whose payload has no bit in the 16-bit fraction must not turn into infinity.
Test(tensor, nan_stays_nan) {
    uint64_t patterns[] = {0x7ff0000000000001, 0xfff0000000000001, 0x7ff8000000000000, 0x7fffffffffffffff};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < FORMAT_COUNT; k++) {
            double nan;
            memcpy(&nan, &patterns[i], sizeof nan);
            uint16_t bits = FORMATS[k].narrow(nan);
            cr_assert(is_nan_bits(&FORMATS[k], bits) && (bits & quiet_bit(&FORMATS[k])), "%04x", bits);
            cr_assert_eq(bits >> 15, (int)(patterns[i] >> 63));
        }
}

static void check_store(hst_dtype dtype, double x, double expected) {
    int64_t memory = 0;
    hst_store((hst_target){&memory, dtype, false}, 0, x);
    double stored = hst_load((hst_source){&memory, dtype}, 0);
    cr_assert_eq(stored, expected, "%g as %s is %.17g, not %.17g", x, hst_dtype_name(dtype), stored, expected);
}

Test(tensor, integers_truncate_and_saturate) {
    static const hst_dtype dtypes[] = {HST_I32, HST_I64, HST_U8};
    static const double low[] = {-0x1p31, -0x1p63, 0}, high[] = {0x1p31 - 1, 0x1p63, 255};
    for (int i = 0; i < 3; i++) {
        check_store(dtypes[i], NAN, 0);
        check_store(dtypes[i], INFINITY, high[i]);
        check_store(dtypes[i], -INFINITY, low[i]);
        check_store(dtypes[i], 1e300, high[i]);
        check_store(dtypes[i], -1e300, low[i]);
        check_store(dtypes[i], high[i], high[i]);
        check_store(dtypes[i], low[i], low[i]);
        check_store(dtypes[i], 2.9, 2);
        check_store(dtypes[i], -0.9, 0);
        check_store(dtypes[i], -2.9, fmax(low[i], -2));
    }
    check_store(HST_I32, 0x1p31 - 1.5, 0x1p31 - 2);
    check_store(HST_I32, -0x1p31 + 0.5, -0x1p31 + 1);
    check_store(HST_I64, 0x1p63 - 1024, 0x1p63 - 1024); // the double below 2^63
    check_store(HST_U8, 254.999, 254);
}
