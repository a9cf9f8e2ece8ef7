// vector_math.h: exp, the logistic sigmoid, tanh and the normal distribution on vectors. No tables, no branches. log
// and powers are libm's, as is the one logarithm a row that cross entropy needs.
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

// k = round((x + low) / ln 2) and x = exp(r) - 1, r = x + low - k ln 2, |r| <= ln 2 / 2; low NULL is 0, or small.
//     exp(r) = 1 + r + r^2 q(r), q minimax with 2^-27.7 of exp(r)
INLINE void exp_parts_of(vf *x, const vf *low, vf *k, int n) {
    vf r[MOST_ABREAST], q[MOST_ABREAST];
    EACH(i, n) k[i] = nearest((low ? x[i] + low[i] : x[i]) * 0x1.715476p+0f);
    EACH(i, n) r[i] = multiply_add(k[i], splat(-0x1.63p-1f), x[i]); // exact: ln 2 in two parts, the first 9 bits long
    EACH(i, n)
    r[i] = low ? r[i] + multiply_add(k[i], splat(0x1.bd0106p-13f), low[i])
               : multiply_add(k[i], splat(0x1.bd0106p-13f), r[i]);
    EACH(i, n) q[i] = multiply_add(r[i], splat(0x1.6a234ap-10f), splat(0x1.123a6cp-7f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.5558f4p-5f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.555490p-3f));
    EACH(i, n) q[i] = multiply_add(q[i], r[i], splat(0x1.fffffcp-2f));
    EACH(i, n) x[i] = multiply_add(r[i] * r[i], q[i], r[i]);
}

// x = exp(x + low); beyond 104 on either side are 0 and inf; NaN passes.
INLINE void exp_of_sum(vf *x, const vf *low, int n) {
    vf k[MOST_ABREAST];
    EACH(i, n) x[i] = maximum(splat(-104), minimum(splat(104), x[i]));
    exp_parts_of(x, low, k, n);
    EACH(i, n) x[i] = times_two_to(x[i] + 1, k[i]);
}

// x = exp(x) within 1.01 ulp, the spacing of subnormals for subnormal results.
INLINE void exp_of(vf *x, int n) { exp_of_sum(x, NULL, n); }

// x = 1 / (1 + exp(-x)) within 2.5 ulp for x > -88.7; from -89.1 on it is 0. As exp_of, with signs turned round: k is
// that of exp(-x), r = x + k ln 2. No part leaves the normal numbers in 1/2 / (1/2 + 2^(k-1) exp(-r)), so that one
// factor is enough, whose bits stand at the end of k's sum with a large number.
INLINE void sigmoid_of(vf *x, int n) {
    vf r[MOST_ABREAST], k[MOST_ABREAST];
    const float large = 0x1.8p23f + 126; // + k: its last bits are k - 1 + 127
    EACH(i, n) r[i] = maximum(splat(-89.2f), minimum(splat(86), x[i]));
    EACH(i, n) k[i] = multiply_add(r[i], splat(-0x1.715476p+0f), splat(large));
    EACH(i, n) r[i] = multiply_add(k[i] - large, splat(0x1.63p-1f), r[i]);
    EACH(i, n) r[i] = multiply_add(k[i] - large, splat(-0x1.bd0106p-13f), r[i]);
    EACH(i, n) x[i] = multiply_add(r[i], splat(0x1.6a234ap-10f), splat(-0x1.123a6cp-7f));
    EACH(i, n) x[i] = multiply_add(x[i], r[i], splat(0x1.5558f4p-5f));
    EACH(i, n) x[i] = multiply_add(x[i], r[i], splat(-0x1.555490p-3f));
    EACH(i, n) x[i] = multiply_add(x[i], r[i], splat(0x1.fffffcp-2f));
    EACH(i, n) x[i] = multiply_add(r[i] * r[i], x[i], -r[i]);
    EACH(i, n) x[i] = 0.5f / ((x[i] + 1) * (vf)((vu)k[i] << 23) + 0.5f);
}

INLINE vf absolute(vf x) { return (vf)((vi)x & 0x7fffffff); }
INLINE vf with_sign_of(vf x, vf sign) { return (vf)((vu)x | ((vu)sign & 0x80000000)); } // x >= 0

// x = tanh(x) within 3 ulp: e / (e + 2), e = exp(2 |x|) - 1 = 2^k (exp(r) - 1) + (2^k - 1), which keeps all digits of
// small x. From 10 on it is 1.
INLINE void tanh_of(vf *x, int n) {
    vf e[MOST_ABREAST], k[MOST_ABREAST];
    EACH(i, n) e[i] = minimum(splat(20), 2 * absolute(x[i]));
    exp_parts_of(e, NULL, k, n);
    EACH(i, n) {
        vf power = (vf)((__builtin_convertvector(k[i], vi) + 127) << 23);
        e[i] = multiply_add(e[i], power, power - 1);
        x[i] = with_sign_of(e[i] / (e[i] + 2), x[i]);
    }
}

// With t = |x|, and P the cumulative function of the normal distribution: x = exp(-t^2 / 2) and tail = P(-t); x P(x) is
// then within 9 ulp for x > -12.9, below which it vanishes among the subnormals.
//     exp(-t^2 / 2) = exp(-h^2 / 2 - (t - h) (t + h) / 2), h the first 12 bits of t, whose square is exact
//     P(-t) = exp(-t^2 / 2) s p(z), s = 1 / (1 + 0.3 t), z = 1 - s = 0.3 t s, p minimax with 2^-28 for t < 13.6
INLINE void normal_of(vf *x, vf *tail, int n) {
    static const float p[] = {0.5f,           -0x1.a8dc7cp-1f, 0x1.3c7d8ap-1f, -0x1.4bdcd4p-4f, -0x1.1e2702p-3f,
                              0x1.7e2cf2p-6f, 0x1.4e5238p-7f,  0x1.230d56p-4f, -0x1.2b638ap-4f, 0x1.517e5cp-6f};
    vf low[MOST_ABREAST], s[MOST_ABREAST], z[MOST_ABREAST];
    EACH(i, n) {
        vf t = minimum(splat(15), absolute(x[i])), h = (vf)((vi)t & ~0xfff);
        s[i] = 1 / multiply_add(t, splat(0.3f), splat(1));
        z[i] = 0.3f * t * s[i];
        low[i] = (t - h) * (t + h) * -0.5f;
        x[i] = h * h * -0.5f;
        tail[i] = splat(p[9]);
    }
    exp_of_sum(x, low, n);
    UNROLL for (int c = 8; c >= 0; c--) EACH(i, n) tail[i] = multiply_add(tail[i], z[i], splat(p[c]));
    EACH(i, n) tail[i] = tail[i] * s[i] * x[i];
}

#endif
