// gemm_pack.h: brings a part of a matrix, of any dtype and strides, into the order in which gemm.c's micro-kernel reads
// it. Both operands are packed by the same code: a lane is a row of A, or a column of B; a term is a step of the sum.
// `width` lanes make a panel, which holds them side by side for one term after the other:
//
//     out[panel p, term k, lane i] = out[p * panel + k * width + i]            in f32
//
// or, if PAIRS says that the instruction set multiplies pairs and `lower` is bf16, two terms in the place of one: the
// 32 bits hold both, the earlier in the lower half, and the last of an odd number has 0 beside it. Such a place, of one
// term or two, is a step.
#ifndef HST_GEMM_PACK_H
#define HST_GEMM_PACK_H

#include <assert.h>
#include "ops/cpu/vector.h"

// Element (lane, k) is the source's number first + lane * lane_stride + k * k_stride, rounded to `lower`. There are
// `lanes` of them; whole vectors may be read as far as that, if less is to be packed. And `terms`.
typedef struct panel_source {
    hst_source source;
    int64_t first, lane_stride, k_stride, lanes, terms;
    hst_dtype lower;
} panel_source;

INLINE int64_t terms_a_step(hst_dtype lower) { return PAIRS && lower == HST_BF16 ? 2 : 1; }
INLINE int64_t count_steps(int64_t terms, hst_dtype lower) { return divide_up(terms, terms_a_step(lower)); }

// The same from step k on.
INLINE panel_source from_step(panel_source s, int64_t k) {
    k *= terms_a_step(s.lower);
    s.first += k * s.k_stride;
    s.terms -= k;
    return s;
}

// Where the panels go. Lanes that a panel does not fill are zero up to the next whole vector. Stores are of whole
// vectors, so that a width less than VL needs VL - width floats after each panel.
typedef struct panel_target {
    float *out;
    int64_t panel;
    int width;
} panel_target;

INLINE vf elements(panel_source s, int64_t i, int64_t n) { return rounded(get(s.source, i, n), s.lower); }

// The first step of n lanes that are neighbours in memory.
INLINE vf step_of_lanes(panel_source s, int64_t n) {
    vf x = elements(s, s.first, n);
    if (terms_a_step(s.lower) == 1) return x;
    return zip_bf16(x, s.terms > 1 ? elements(s, s.first + s.k_stride, n) : splat(0));
}

// The first VL steps of a lane whose terms are neighbours in memory.
INLINE vf steps_of_lane(panel_source s, int64_t lane) {
    int64_t i = s.first + lane * s.lane_stride;
    if (terms_a_step(s.lower) == 1) return elements(s, i, s.terms);
    if (s.source.dtype == HST_BF16 && s.terms >= 2 * VL) return load((const uint16_t *)s.source.data + i, HST_F32);
    return pair_bf16(elements(s, i, s.terms), s.terms > VL ? elements(s, i + VL, s.terms - VL) : splat(0));
}

// The halves of a and b, interleaved: first halves, second halves. In units of four floats, as the registers are built,
// or of one float within each four.
#if VL == 16
#define LOW_FOURS 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23
#define HIGH_FOURS 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_ONES 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_ONES 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#elif VL == 8
#define LOW_FOURS 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_FOURS 4, 5, 6, 7, 12, 13, 14, 15
#define LOW_ONES 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_ONES 2, 10, 3, 11, 6, 14, 7, 15
#else
#define LOW_FOURS 0, 1, 2, 3 // not used: a vector is one unit
#define HIGH_FOURS 0, 1, 2, 3
#define LOW_ONES 0, 4, 1, 5
#define HIGH_ONES 2, 6, 3, 7
#endif

// log2(VL) perfect shuffles transpose VL vectors: each interleaves row i with row i + VL/2, so that the highest bit of
// the row's number becomes the lowest of the lane's, and the other way round. The bits above the lowest two are those
// of the units of four.
INLINE void transpose(vf r[VL]) {
    UNROLL for (int step = 1; step < VL; step *= 2) {
        vf shuffled[VL];
        UNROLL for (int i = 0; i < VL / 2; i++) {
            vf a = r[i], b = r[i + VL / 2];
            bool fours = step < VL / 4;
            shuffled[2 * i] =
                fours ? __builtin_shufflevector(a, b, LOW_FOURS) : __builtin_shufflevector(a, b, LOW_ONES);
            shuffled[2 * i + 1] =
                fours ? __builtin_shufflevector(a, b, HIGH_FOURS) : __builtin_shufflevector(a, b, HIGH_ONES);
        }
        UNROLL for (int i = 0; i < VL; i++) r[i] = shuffled[i];
    }
}

// Asks for the line of an element that is packed soon: rows are short, and the processor's own guesses end with them.
INLINE void prefetch_element(panel_source s, int64_t i) {
    __builtin_prefetch((const char *)s.source.data + i * (int64_t)size_of(s.source.dtype));
}

INLINE void prefetch_step(panel_source s) {
    for (int64_t k = 0; k < terms_a_step(s.lower); k++) prefetch_element(s, s.first + k * s.k_stride);
}

// VL lanes of VL steps, of which `lanes` and the source's terms exist, where neighbours in k are neighbours in memory.
// Lanes beyond the width are packed too, if they exist: what follows is stored over them.
INLINE void pack_square(float *out, int width, panel_source s, int64_t lanes) {
    vf r[VL];
    UNROLL for (int i = 0; i < VL; i++) r[i] = i < lanes ? steps_of_lane(s, i) : splat(0);
    transpose(r);
    int64_t steps = count_steps(s.terms, s.lower);
    UNROLL for (int i = 0; i < VL; i++) if (i < steps) store(out + i * width, HST_F32, r[i]);
}

// VL lanes of all steps.
INLINE void pack_turned(float *out, int width, panel_source s, int64_t lanes) {
    int64_t whole = VL * terms_a_step(s.lower);
    if (lanes >= VL)
        for (; s.terms >= whole; out += VL * width, s = from_step(s, VL)) {
            UNROLL for (int i = 0; i < VL; i++) prefetch_element(s, s.first + (VL + i) * s.lane_stride);
            panel_source square = s;
            square.terms = whole;
            pack_square(out, width, square, VL);
        }
    for (; s.terms > 0; out += VL * width, s = from_step(s, VL)) pack_square(out, width, s, lanes);
}

// A lane of all steps, one by one.
INLINE void pack_scattered(float *out, int width, panel_source s) {
    for (; s.terms > 0; out += width, s = from_step(s, 1)) *out = step_of_lanes(s, 1)[0];
}

enum { ROWS_READ = 8 }; // rows of memory, or pairs of them, are read so many at a time, each along its whole length

INLINE void pack_as(panel_target t, panel_source s, int64_t lanes, hst_dtype dtype, hst_dtype lower) {
    s.source.dtype = dtype;
    s.lower = lower;
    int64_t steps = count_steps(s.terms, lower), some = s.lane_stride == 1 ? ROWS_READ : steps;
    for (int64_t k = 0; k < steps; k += some)
        for (int64_t lane = 0; lane < lanes; lane += t.width)
            for (int i = 0; i < t.width && lane + i < lanes; i += VL) {
                float *out = t.out + lane / t.width * t.panel + k * t.width + i;
                int64_t left = s.lanes - lane - i;
                panel_source part = from_step(s, k);
                part.first += (lane + i) * s.lane_stride;
                if (s.k_stride == 1 && s.lane_stride != 1) {
                    pack_turned(out, t.width, part, left);
                } else if (s.lane_stride == 1) {
                    for (int n = 0; n < some && part.terms > 0; n++, out += t.width, part = from_step(part, 1)) {
                        prefetch_step(from_step(part, ROWS_READ));
                        store(out, HST_F32, step_of_lanes(part, left));
                    }
                } else {
                    for (int n = 0; n < VL && i + n < t.width; n++, part.first += s.lane_stride)
                        if (n < left) pack_scattered(out + n, t.width, part);
                }
            }
}

// f(..., dtype, lower) with the source's as constants, which select the code; there is nothing to round where they are
// equal, and then nothing to say but for pairs.
static_assert(HST_F32 == 0 && HST_F16 == 1 && HST_BF16 == 2, "each pair has a number of its own");
#define WITH_DTYPES(s, f, ...)                                                                                         \
    switch (3 * (s).source.dtype +                                                                                     \
            ((s).lower == (s).source.dtype && terms_a_step((s).lower) == 1 ? HST_F32 : (s).lower)) {                   \
        DTYPES_CASE(HST_F32, HST_F32, f, __VA_ARGS__)                                                                  \
        DTYPES_CASE(HST_F32, HST_F16, f, __VA_ARGS__)                                                                  \
        DTYPES_CASE(HST_F32, HST_BF16, f, __VA_ARGS__)                                                                 \
        DTYPES_CASE(HST_F16, HST_F32, f, __VA_ARGS__)                                                                  \
        DTYPES_CASE(HST_F16, HST_BF16, f, __VA_ARGS__)                                                                 \
        DTYPES_CASE(HST_BF16, HST_F32, f, __VA_ARGS__)                                                                 \
        DTYPES_CASE(HST_BF16, HST_F16, f, __VA_ARGS__)                                                                 \
        DTYPES_CASE(HST_BF16, HST_BF16, f, __VA_ARGS__)                                                                \
    }
#define DTYPES_CASE(dtype, lower, f, ...)                                                                              \
    case 3 * (dtype) + (lower):                                                                                        \
        if ((dtype) != (lower) || (dtype) == HST_F32 || PAIRS) f(__VA_ARGS__, dtype, lower);                           \
        break;

static void pack(panel_target t, panel_source s, int64_t lanes) { WITH_DTYPES(s, pack_as, t, s, lanes) }

#endif
