// dtype.c: the number formats, one element at a time. These are the reference; ops/cpu/vector.h has the fast forms.
//
//          sign  exponent  fraction     largest    smallest normal   smallest
//     f32    1       8        23        3.4e38         1.2e-38       1.4e-45
//     bf16   1       8         7        3.4e38         1.2e-38       9.2e-41     the upper half of an f32
//     f16    1       5        10        65504          6.1e-5        6.0e-8
#include <math.h>
#include <string.h>
#include "tensor/context.h"

static const struct {
    size_t size;
    const char *name;
} dtypes[HST_DTYPES] = {
    [HST_F32] = {sizeof(hst_real), "f32"},
    [HST_F16] = {2, "f16"},
    [HST_BF16] = {2, "bf16"},
    [HST_F64] = {8, "f64"},
    [HST_I32] = {4, "i32"},
    [HST_I64] = {8, "i64"},
    [HST_U8] = {1, "u8"},
};

static bool is_dtype(hst_dtype dtype) { return (unsigned)dtype < HST_DTYPES; }

size_t hst_dtype_size(hst_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].size : 0; }
const char *hst_dtype_name(hst_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].name : "no dtype"; }

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// x as sign, exponent and fraction of a 16-bit format. Of 1.5 * 2^52 last kept places plus x the double itself has no
// finer ones: the addition rounds x to whole places (to nearest, ties to even), and they are counted in its last bits.
// A fraction that rounds up to the next power of two carries into the exponent by itself, and past the largest exponent
// into infinity.
static uint16_t narrow(double x, int fraction_bits, int exponent_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, infinity = ((1 << exponent_bits) - 1) << fraction_bits;
    uint16_t sign = (uint16_t)(signbit(x) ? 0x8000 : 0);
    uint64_t bits = bits_of(x);
    if (isnan(x))
        return (uint16_t)(sign | infinity | 1 << (fraction_bits - 1) |
                          ((bits >> (52 - fraction_bits)) & ((1 << fraction_bits) - 1)));
    x = fabs(x);
    if (isinf(x)) return (uint16_t)(sign | infinity);
    int exponent = (int)(bits_of(x) >> 52) - 1023;
    if (exponent < 1 - bias) exponent = 1 - bias; // subnormal: the last place stays where it is
    if (exponent > bias) return (uint16_t)(sign | infinity);
    uint64_t large_bits = (uint64_t)(exponent - fraction_bits + 52 + 1023) << 52 | (uint64_t)1 << 51;
    double large;
    memcpy(&large, &large_bits, sizeof large);
    int rounded = (int)(bits_of(large + x) - large_bits);
    return (uint16_t)(sign | (rounded + ((exponent + bias - 1) << fraction_bits)));
}

uint16_t hst_to_f16(double x) { return narrow(x, 10, 5); }
uint16_t hst_to_bf16(double x) { return narrow(x, 7, 8); }

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float hst_from_bf16(uint16_t bits) { return from_bits((uint32_t)bits << 16); }

float hst_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f; // subnormal
}

double hst_load(hst_source from, int64_t i) {
    switch (from.dtype) {
    case HST_F32:
        return (double)((const hst_real *)from.data)[i];
    case HST_F16:
        return (double)hst_from_f16(((const uint16_t *)from.data)[i]);
    case HST_BF16:
        return (double)hst_from_bf16(((const uint16_t *)from.data)[i]);
    case HST_F64:
        return ((const double *)from.data)[i];
    case HST_I32:
        return ((const int32_t *)from.data)[i];
    case HST_I64:
        return (double)((const int64_t *)from.data)[i];
    default:
        return ((const uint8_t *)from.data)[i];
    }
}

// Toward zero, saturating at the type's ends; NaN becomes 0.
static int64_t to_integer(double x, double low, double high, int64_t lowest, int64_t highest) {
    if (isnan(x)) return 0;
    if (x <= low) return lowest;
    if (x >= high) return highest;
    return (int64_t)x;
}

void hst_store(hst_target to, int64_t i, double x) {
    switch (to.dtype) {
    case HST_F32:
        ((hst_real *)to.data)[i] = (hst_real)x;
        break;
    case HST_F16:
        ((uint16_t *)to.data)[i] = hst_to_f16(x);
        break;
    case HST_BF16:
        ((uint16_t *)to.data)[i] = hst_to_bf16(x);
        break;
    case HST_F64:
        ((double *)to.data)[i] = x;
        break;
    case HST_I32:
        ((int32_t *)to.data)[i] = (int32_t)to_integer(x, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX);
        break;
    case HST_I64:
        ((int64_t *)to.data)[i] = to_integer(x, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
        break;
    default:
        ((uint8_t *)to.data)[i] = (uint8_t)to_integer(x, 0, 255, 0, 255);
        break;
    }
}
