// gemm_pack.h: brings a part of a matrix, of any dtype and strides, into the order in which gemm.c's micro-kernel reads
// it. Both operands are packed by the same code: the lanes of a panel are rows of A, or columns of B.
#ifndef HST_GEMM_PACK_H
#define HST_GEMM_PACK_H

#include <assert.h>
#include "ops/cpu/vector.h"

// Element (lane, k) is the source's number first + lane * lane_stride + k * k_stride, rounded to `lower`.
typedef struct panel_source {
    hst_source source;
    int64_t first, lane_stride, k_stride;
    hst_dtype lower;
} panel_source;

INLINE vf elements(panel_source s, int64_t i, int64_t n) { return rounded(get(s.source, i, n), s.lower); }

// Interleaves the lanes of a and b: their first halves, their second halves.
#if VL == 16
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VL == 8
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

// log2(VL) perfect shuffles transpose VL vectors: each interleaves row i with row i + VL/2.
INLINE void transpose(vf r[VL]) {
    UNROLL for (int step = 1; step < VL; step *= 2) {
        vf shuffled[VL];
        UNROLL for (int i = 0; i < VL / 2; i++) {
            shuffled[2 * i] = __builtin_shufflevector(r[i], r[i + VL / 2], LOW_HALVES);
            shuffled[2 * i + 1] = __builtin_shufflevector(r[i], r[i + VL / 2], HIGH_HALVES);
        }
        UNROLL for (int i = 0; i < VL; i++) r[i] = shuffled[i];
    }
}

// VL lanes of VL terms, of which `lanes` and `terms` exist, where neighbours in k are neighbours in memory.
INLINE void pack_square(float *out, int64_t width, panel_source s, int64_t lanes, int64_t terms) {
    vf r[VL];
    UNROLL for (int i = 0; i < VL; i++) r[i] = i < lanes ? elements(s, s.first + i * s.lane_stride, terms) : splat(0);
    transpose(r);
    UNROLL for (int i = 0; i < VL; i++) if (i < terms) store(out + i * width, HST_F32, r[i]);
}

INLINE void pack_as(float *out, int64_t width, panel_source s, int64_t lanes, int64_t terms, hst_dtype dtype,
                    hst_dtype lower) {
    s.source.dtype = dtype;
    s.lower = lower;
    if (s.lane_stride == 1) {
        for (int64_t k = 0; k < terms; k++, s.first += s.k_stride)
            for (int64_t i = 0; i < width; i += VL)
                store(out + k * width + i, HST_F32, i < lanes ? elements(s, s.first + i, lanes - i) : splat(0));
    } else if (s.k_stride == 1) {
        for (int64_t i = 0; i < width; i += VL, s.first += VL * s.lane_stride)
            for (int64_t k = 0; k < terms; k += VL) {
                panel_source square = s;
                square.first += k;
                if (lanes - i >= VL && terms - k >= VL)
                    pack_square(out + k * width + i, width, square, VL, VL);
                else
                    pack_square(out + k * width + i, width, square, lanes - i, terms - k);
            }
    } else {
        for (int64_t k = 0; k < terms; k++)
            for (int64_t i = 0; i < width; i++)
                out[k * width + i] = i < lanes ? elements(s, s.first + i * s.lane_stride + k * s.k_stride, 1)[0] : 0;
    }
}

// out (terms, width) in f32, width a multiple of VL; lanes from `lanes` on are zero.
static void pack(float *out, int64_t width, panel_source s, int64_t lanes, int64_t terms) {
    static_assert(HST_F32 == 0 && HST_F16 == 1 && HST_BF16 == 2, "each pair has a number of its own");
#define PACK(dtype, lower)                                                                                             \
    case 3 * (dtype) + (lower):                                                                                        \
        pack_as(out, width, s, lanes, terms, dtype, lower);                                                            \
        break;
    switch (3 * s.source.dtype + (s.lower == s.source.dtype ? HST_F32 : s.lower)) { // constants select the code
        PACK(HST_F32, HST_F32)
        PACK(HST_F32, HST_F16)
        PACK(HST_F32, HST_BF16)
        PACK(HST_F16, HST_F32)
        PACK(HST_F16, HST_BF16)
        PACK(HST_BF16, HST_F32)
        PACK(HST_BF16, HST_F16)
    }
#undef PACK
}

#endif
