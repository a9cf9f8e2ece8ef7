// vector_math.h: exp, the logistic sigmoid and tanh on vectors. No tables, no branches. The logarithm that
// cross-entropy needs is one a row, and libm's.
//
// One exp is a chain of some 20 dependent instructions, while a core holds only two or three such chains at a time. So
// the functions take n <= 8 vectors, n a constant, and go through every step with all of them side by side.
#ifndef HST_VECTOR_MATH_H
#define HST_VECTOR_MATH_H

#include "ops/cpu/vector.h"

#define EACH(i, n) UNROLL for (int i = 0; i < (n); i++)
enum { MOST_ABREAST = 8 };

// To the nearest integer, ties to even, for |x| < 2^22; NaN becomes 0.
INLINE vf nearest(vf x) {
    vf k = x + 0x1.8p23f - 0x1.8p23f; // at 2^23 the last bit is 1
    return pick(x == x, k, splat(0));
}

// x 2^k for integers |k| <= 250 and x in 1/2 .. 2, rounded once: too much becomes inf, too little subnormal or 0.
INLINE vf times_two_to(vf x, vf k) {
    vi i = __builtin_convertvector(k, vi), half = i >> 1; // two factors, for 2^k itself may not be a normal number
    return x * (vf)((half + 127) << 23) * (vf)((i - half + 127) << 23);
}

// x = exp(x) within 1.01 ulp, the spacing of subnormals for subnormal results.
//     exp(x) = 2^k exp(r), k = round(x / ln 2), r = x - k ln 2, |r| <= ln 2 / 2
//     exp(r) = 1 + r + r^2 q(r), q minimax with 2^-27.7 of exp(r)
INLINE void exp_of(vf *x, int n) {
    vf k[MOST_ABREAST], r[MOST_ABREAST], q[MOST_ABREAST];
    EACH(i, n) x[i] = maximum(splat(-104), minimum(splat(104), x[i])); // beyond are 0 and inf; NaN passes
    EACH(i, n) k[i] = nearest(x[i] * 0x1.715476p+0f);
    EACH(i, n) r[i] = multiply_add(k[i], splat(-0x1.63p-1f), x[i]); // exact: ln 2 in two parts, the first 9 bits long
    EACH(i, n) r[i] = multiply_add(k[i], splat(0x1.bd0106p-13f), r[i]);
    EACH(i, n) q[i] = multiply_add(r[i], splat(0x1.6a234ap-10f), splat(0x1.123a6cp-7f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.5558f4p-5f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.555490p-3f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.fffffcp-2f));
    EACH(i, n) q[i] = multiply_add(r[i] * r[i], q[i], r[i]) + 1;
    EACH(i, n) x[i] = times_two_to(q[i], k[i]);
}

// x = 1 / (1 + exp(-x)) within 2.5 ulp for x > -88.7, below which it is 0.
INLINE void sigmoid_of(vf *x, int n) {
    EACH(i, n) x[i] = -x[i];
    exp_of(x, n);
    EACH(i, n) x[i] = 1 / (1 + x[i]);
}

// x = tanh(x) within 1.4 ulp. With a = |x|, and the sign of x put back at the end, -0 too:
//     a < 5/8: tanh(a) = a + a^3 q(a^2), q minimax with 2^-26.7 of tanh(a)
//     else:    tanh(a) = 1 - 2 / (exp(2 a) + 1)
INLINE void tanh_of(vf *x, int n) {
    vf a[MOST_ABREAST], e[MOST_ABREAST], q[MOST_ABREAST];
    EACH(i, n) a[i] = (vf)((vi)x[i] & 0x7fffffff);
    EACH(i, n) e[i] = 2 * a[i];
    exp_of(e, n);
    EACH(i, n) q[i] = multiply_add(a[i] * a[i], splat(-0x1.75e1c4p-8f), splat(0x1.52269ap-6f));
    EACH(i, n) q[i] = multiply_add(q[i], a[i] * a[i], splat(-0x1.b83c5ap-5f));
    EACH(i, n) q[i] = multiply_add(q[i], a[i] * a[i], splat(0x1.110726p-3f));
    EACH(i, n) q[i] = multiply_add(q[i], a[i] * a[i], splat(-0x1.555532p-2f));
    EACH(i, n) q[i] = multiply_add(q[i], a[i] * a[i] * a[i], a[i]);
    EACH(i, n) q[i] = pick(a[i] < 0.625f, q[i], 1 - 2 / (e[i] + 1));
    EACH(i, n) x[i] = (vf)((vi)q[i] | ((vi)x[i] & INT32_MIN));
}

#endif
