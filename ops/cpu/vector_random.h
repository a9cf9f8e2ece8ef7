// vector_random.h: hst_philox (tensor/random.c) for VL blocks at once, with the same words.
#ifndef HST_VECTOR_RANDOM_H
#define HST_VECTOR_RANDOM_H

#include "ops/cpu/blocks.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef uint64_t vq __attribute__((vector_size(VL * 4))); // VL / 2 of them

// The products of m and the lower half of each lane.
INLINE vq multiply_lower(vq a, uint32_t m) {
#if defined __AVX512F__
    return (vq)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi32((int)m));
#elif defined __AVX2__
    return (vq)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi32((int)m));
#elif defined __SSE2__
    return (vq)_mm_mul_epu32((__m128i)a, _mm_set1_epi32((int)m));
#else
    return (a & 0xffffffff) * m;
#endif
}

// Both halves of the 64-bit products of m and each of the VL lanes.
INLINE void multiply_wide(vu a, uint32_t m, vu *high, vu *low) {
    vq even = multiply_lower((vq)a, m), odd = multiply_lower((vq)a >> 32, m);
    *high = (vu)(even >> 32 | (odd >> 32) << 32);
    *low = (vu)((even << 32) >> 32 | odd << 32);
}

// words[4 b + w] = word w of block first + b, for VL blocks: the words of 4 VL elements.
static inline void random_words(hst_random_key key, uint64_t first, uint32_t words[4 * VL]) {
    uint32_t low = (uint32_t)first, high = (uint32_t)(first >> 32), step = (uint32_t)(key.step << 8);
    vu zero = {0}, k0 = zero + (uint32_t)key.seed, k1 = zero + (uint32_t)(key.seed >> 32), c[4];
    c[0] = (vu)lane_numbers() + low;
    c[1] = ((high - (vu)(c[0] < low)) & 0xff) | step; // a comparison is -1 where it holds: the carry
    c[2] = zero + (uint32_t)(key.step >> 24);
    c[3] = zero + key.operation;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        vu high0, low0, high1, low1;
        multiply_wide(c[0], 0xD2511F53, &high0, &low0);
        multiply_wide(c[2], 0xCD9E8D57, &high1, &low1);
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
    }
    for (int b = 0; b < VL; b++)
        for (int w = 0; w < 4; w++) words[4 * b + w] = c[w][b];
}

#endif
