// formats.h: the two 16-bit formats by their definition, sign * fraction * 2^exponent, and their rounding boundaries;
// the expected values of the conversion tests.
#ifndef TESTS_TENSOR_FORMATS_H
#define TESTS_TENSOR_FORMATS_H

#include <math.h>

#include "tensor/tensor.h"

typedef struct format16 {
    hst_dtype dtype;
    int fraction_bits, exponent_bits;
    uint16_t (*narrow)(double x);
    float (*widen)(uint16_t bits);
} format16;

static const format16 FORMATS[] = {{HST_F16, 10, 5, hst_to_f16, hst_from_f16},
                                   {HST_BF16, 7, 8, hst_to_bf16, hst_from_bf16}};
enum { FORMAT_COUNT = 2, PATTERNS = 65536 };

static inline int infinity_bits(const format16 *f) { return ((1 << f->exponent_bits) - 1) << f->fraction_bits; }
static inline bool is_nan_bits(const format16 *f, int bits) { return (bits & 0x7fff) > infinity_bits(f); }
static inline int quiet_bit(const format16 *f) { return 1 << (f->fraction_bits - 1); }

// The number that finite bits stand for. Read as one more exponent, the bits of infinity are the power of two where
// rounding to nearest ends: the last boundary lies halfway to it.
static inline double value_of(const format16 *f, int bits) {
    int bias = (1 << (f->exponent_bits - 1)) - 1, exponent = (bits & 0x7fff) >> f->fraction_bits;
    int fraction = bits & ((1 << f->fraction_bits) - 1);
    fraction += exponent > 0 ? 1 << f->fraction_bits : 0;
    exponent += exponent == 0; // subnormal
    double size = ldexp(fraction, exponent - bias - f->fraction_bits);
    return bits & 0x8000 ? -size : size;
}

// Three numbers at the boundary between bits and bits + 1 (not negative): the middle goes to the even one, the numbers
// beside it to the nearer one.
typedef struct boundary {
    double x[3];
    uint16_t rounded[3];
} boundary;

static inline boundary boundary_above(const format16 *f, int bits, double (*next)(double x, double toward)) {
    double middle = (value_of(f, bits) + value_of(f, bits + 1)) / 2;
    int even = bits % 2 ? bits + 1 : bits;
    return (boundary){{next(middle, 0), middle, next(middle, INFINITY)},
                      {(uint16_t)bits, (uint16_t)even, (uint16_t)(bits + 1)}};
}

#endif
