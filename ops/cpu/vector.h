// vector.h: one vector type, VL floats, for every instruction set. A kernel that includes it is compiled once for
// each and does not ask which one it is on, except through VL.
//
//     for (int64_t i = 0; i < n; i += VL)
//         put(y, i, multiply_add(get(a, i, n - i), get(b, i, n - i), splat(1)), n - i);
//
// Arithmetic and comparisons are the operators + - * / < ==, on whole vectors; a comparison gives a mask (vi: 0 or -1 a
// lane) for `pick`. 16-bit types exist in memory only: loads widen exactly, stores round once, to nearest even, with
// subnormals and infinities right and NaN kept, quiet. Everything is inlined, so that a constant dtype costs no branch.
#ifndef HST_VECTOR_H
#define HST_VECTOR_H

#include <math.h>
#include <string.h>
#include "tensor/backend.h"

#if defined __AVX512F__
#include <immintrin.h>
#define VL 16
#elif defined __AVX2__
#include <immintrin.h>
#define VL 8
#else
#define VL 4
#endif

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));
typedef uint32_t vu __attribute__((vector_size(VL * 4)));
typedef uint16_t vh __attribute__((vector_size(VL * 2))); // f16 or bf16 bits
typedef double vd __attribute__((vector_size(VL * 4)));   // VL / 2 of them

#define INLINE static inline __attribute__((always_inline))

// Before a loop of few constant rounds over an array of vectors, which then lives in registers. Clang unrolls unasked.
#ifdef __clang__
#define UNROLL
#define UNROLL_4
#define ONCE static __attribute__((noinline, unused))
#else
#define ONCE static __attribute__((noinline, noclone, unused)) // what is long and rare is in a file once
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_4 _Pragma("GCC unroll 4") // four rounds of a longer loop at a time
#endif

INLINE vf splat(float x) { return x - (vf){0}; } // not x + 0, which would lose the sign of -0

// mask ? a : b
#if defined __AVX2__ && !defined __AVX512F__
INLINE vf pick(vi mask, vf a, vf b) { return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask); }
#else
INLINE vf pick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
#endif

// The greater, the smaller; b if either is NaN.
#if defined __AVX512F__
INLINE vf maximum(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf minimum(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined __AVX2__
INLINE vf maximum(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf minimum(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE vf maximum(vf a, vf b) { return pick(a > b, a, b); }
INLINE vf minimum(vf a, vf b) { return pick(a < b, a, b); }
#endif

// a b + c: rounded once where the instruction set has it, twice elsewhere.
INLINE vf multiply_add(vf a, vf b, vf c) {
#if defined __AVX512F__
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

// Two bf16 in each lane's 32 bits, the first in the lower: a first b first + a second b second + c, where the
// instruction set has it. The second product is added before the first, and each sum rounded to nearest even; products
// are exact. What is subnormal, among operands and sums, is taken as 0.
#if defined __AVX512BF16__
#define PAIRS 1
INLINE vf multiply_add_pairs(vf a, vf b, vf c) { return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b); }
#elif !defined PAIRS // a test brings its own
#define PAIRS 0
INLINE vf multiply_add_pairs(vf a, vf b, vf c) {
    (void)a, (void)b;
    return c; // not called
}
#endif

INLINE vf square_root(vf x) {
#if defined __AVX512F__
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined __AVX2__
    return (vf)_mm256_sqrt_ps((__m256)x);
#else
    UNROLL for (int i = 0; i < VL; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}

// The lanes as doubles, for sums whose length grows with the data. GCC 12 splits its own conversion in halves.
#if defined __AVX512F__
INLINE vd low_lanes(vf x) { return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
INLINE vd high_lanes(vf x) { return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
#elif defined __AVX2__
INLINE vd low_lanes(vf x) { return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
INLINE vd high_lanes(vf x) { return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
#else
INLINE vd low_lanes(vf x) { return (vd){x[0], x[1]}; }
INLINE vd high_lanes(vf x) { return (vd){x[2], x[3]}; }
#endif

// The lanes of two of them as floats, each rounded once.
#if defined __AVX512F__
INLINE vf narrow_lanes(vd low, vd high) {
    return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)), _mm512_cvtpd_ps((__m512d)high),
                                  1);
}
#elif defined __AVX2__
INLINE vf narrow_lanes(vd low, vd high) {
    return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
#else // in two halves: lane by lane, GCC 12 takes low_lanes and high_lanes of the result for the doubles themselves
typedef float half_vf __attribute__((vector_size(VL * 2)));
INLINE vf narrow_lanes(vd low, vd high) {
    half_vf halves[2] = {__builtin_convertvector(low, half_vf), __builtin_convertvector(high, half_vf)};
    vf x;
    memcpy(&x, halves, sizeof x);
    return x;
}
#endif

INLINE double sum_of_lanes(vd x) { // first lane to last
    double sum = 0;
    UNROLL for (int i = 0; i < VL / 2; i++) sum += x[i];
    return sum;
}
INLINE float maximum_of_lanes(vf x) {
    float most = x[0];
    UNROLL for (int i = 1; i < VL; i++) most = x[i] > most ? x[i] : most;
    return most;
}

// ---- 16 bits to f32, exact, and back ----

// truncate16: u < 2^16
#if defined __AVX512F__ // GCC 12 splits these in halves
INLINE vu extend(vh h) { return (vu)_mm512_cvtepu16_epi32((__m256i)h); }
INLINE vh truncate16(vu u) { return (vh)_mm512_cvtepi32_epi16((__m512i)u); }
#elif defined __AVX2__
INLINE vu extend(vh h) { return (vu)_mm256_cvtepu16_epi32((__m128i)h); }
INLINE vh truncate16(vu u) {
    return (vh)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)u), _mm256_extracti128_si256((__m256i)u, 1));
}
#else
INLINE vu extend(vh h) { return __builtin_convertvector(h, vu); }
INLINE vh truncate16(vu u) { return __builtin_convertvector(u, vh); }
#endif

INLINE vf widen_bf16(vh h) { return (vf)(extend(h) << 16); }

// x's bits; the upper 16 are those of x as bf16.
INLINE vu round_to_bf16(vf x) {
    vu u = (vu)x, rounded = u + 0x7fff + ((u >> 16) & 1);     // a carry gives the next exponent, in the end inf
    return (vu)pick(x != x, (vf)(u | 0x400000), (vf)rounded); // NaN: a quiet one
}
INLINE vh narrow_bf16(vf x) { return truncate16(round_to_bf16(x) >> 16); }

// Pairs, of numbers that bf16 holds exactly: lane by lane one of each; and neighbours, first all of low, then of high.
INLINE vf zip_bf16(vf first, vf second) { return (vf)((vu)first >> 16 | ((vu)second & 0xffff0000)); }
INLINE vf pair_bf16(vf low, vf high) {
    vh halves[2] = {truncate16((vu)low >> 16), truncate16((vu)high >> 16)};
    vf pairs;
    memcpy(&pairs, halves, sizeof pairs);
    return pairs;
}

#if defined __AVX512F__
INLINE vf widen_f16(vh h) { return (vf)_mm512_cvtph_ps((__m256i)h); }
INLINE vh narrow_f16(vf x) { return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined __F16C__
INLINE vf widen_f16(vh h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
INLINE vh narrow_f16(vf x) { return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }
#else
ONCE vf widen_f16(vh h) {
    vu u = extend(h), size = u & 0x7fff;
    vu normal = (size << 13) + (112 << 23);        // the exponent's bias is 15 there, 127 here
    vf tiny = (vf)(normal + (1 << 23)) - 0x1p-14f; // the fraction of a subnormal, after a leading 1 that goes again
    vu special = (normal + (112 << 23)) | ((vu)(size > 0x7c00) & 0x400000); // inf and quiet NaN
    vu r = (vu)pick((vi)(size < 0x400), tiny, (vf)normal);
    r = (vu)pick((vi)(size >= 0x7c00), (vf)special, (vf)r);
    return (vf)(r | (u & 0x8000) << 16);
}
ONCE vh narrow_f16(vf x) {
    vu u = (vu)x, size = u & 0x7fffffff;
    vu normal = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
    vu tiny = (vu)((vf)size + 0.5f) - 0x3f000000; // the last bit of 0.5 .. 1 is 2^-24, as of f16's subnormals
    vu special = 0x7c00 | ((vu)(size > 0x7f800000) & (0x200 | ((size >> 13) & 0x3ff)));
    vu r = (vu)pick((vi)(size < 0x38800000), (vf)tiny, (vf)normal);
    r = (vu)pick((vi)(size >= 0x47800000), (vf)special, (vf)r); // 65536 and more, NaN; 65520 has been rounded to inf
    return truncate16(r | (u >> 16 & 0x8000));
}
#endif

// ---- loads and stores: VL elements, or with _n the first n >= 1 (VL at most; the other lanes are loaded as 0) ----

INLINE size_t size_of(hst_dtype t) { return t == HST_F32 ? 4 : 2; }
INLINE vf widen(vh h, hst_dtype t) { return t == HST_F16 ? widen_f16(h) : widen_bf16(h); }
INLINE vh narrow(vf x, hst_dtype t) { return t == HST_F16 ? narrow_f16(x) : narrow_bf16(x); }

INLINE vf load(const void *p, hst_dtype t) {
    vf x;
    vh h;
    if (t == HST_F32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&h, p, sizeof h);
    return widen(h, t);
}

INLINE void store(void *p, hst_dtype t, vf x) {
    if (t == HST_F32) {
        memcpy(p, &x, sizeof x);
        return;
    }
    vh h = narrow(x, t);
    memcpy(p, &h, sizeof h);
}

#if defined __AVX512F__
INLINE vf load_n(const void *p, hst_dtype t, int64_t n) {
    if (n >= VL) return load(p, t);
    __mmask16 some = (__mmask16)((1u << n) - 1);
    if (t == HST_F32) return (vf)_mm512_maskz_loadu_ps(some, p);
    return widen((vh)_mm256_maskz_loadu_epi16(some, p), t);
}
INLINE void store_n(void *p, hst_dtype t, vf x, int64_t n) {
    __mmask16 some = (__mmask16)((1u << n) - 1);
    if (n >= VL)
        store(p, t, x);
    else if (t == HST_F32)
        _mm512_mask_storeu_ps(p, some, (__m512)x);
    else
        _mm256_mask_storeu_epi16(p, some, (__m256i)narrow(x, t));
}
#else
// memcpy, of less than 32 bytes
INLINE void copy_part(char *to, const char *from, size_t bytes) {
    UNROLL for (size_t piece = 16; piece > 1; to += bytes & piece, from += bytes & piece, piece /= 2) if (bytes & piece)
        memcpy(to, from, piece);
}
ONCE vf load_part(const void *p, hst_dtype t, int64_t n) {
    char buffer[sizeof(vf)] = {0};
    copy_part(buffer, p, (size_t)n * size_of(t));
    return load(buffer, t);
}
ONCE void store_part(void *p, hst_dtype t, vf x, int64_t n) {
    char buffer[sizeof(vf)];
    store(buffer, t, x);
    copy_part(p, buffer, (size_t)n * size_of(t));
}
INLINE vf load_n(const void *p, hst_dtype t, int64_t n) { return n >= VL ? load(p, t) : load_part(p, t, n); }
INLINE void store_n(void *p, hst_dtype t, vf x, int64_t n) {
    if (n >= VL)
        store(p, t, x);
    else
        store_part(p, t, x, n);
}
#endif

// f(..., dtype), the dtype a constant, which selects the code.
#define WITH_DTYPE(dtype, f, ...)                                                                                      \
    switch (dtype) {                                                                                                   \
    case HST_F32:                                                                                                      \
        f(__VA_ARGS__, HST_F32);                                                                                       \
        break;                                                                                                         \
    case HST_F16:                                                                                                      \
        f(__VA_ARGS__, HST_F16);                                                                                       \
        break;                                                                                                         \
    default:                                                                                                           \
        f(__VA_ARGS__, HST_BF16);                                                                                      \
    }

// Past the caches, for results that are too large to be found there again: a plain store first reads the memory that it
// writes. p is divisible by sizeof(vf); a task that has done so ends with end_streams, before others read.
#if defined __AVX512F__
INLINE void stream(void *p, vf x) { _mm512_stream_ps(p, (__m512)x); }
INLINE void end_streams(void) { _mm_sfence(); }
#elif defined __AVX2__
INLINE void stream(void *p, vf x) { _mm256_stream_ps(p, (__m256)x); }
INLINE void end_streams(void) { _mm_sfence(); }
#else
INLINE void stream(void *p, vf x) { memcpy(p, &x, sizeof x); }
INLINE void end_streams(void) {}
#endif

// What a store to memory and a load make of x.
INLINE vf rounded(vf x, hst_dtype t) {
    if (t == HST_BF16) return (vf)(round_to_bf16(x) & 0xffff0000);
    return t == HST_F32 ? x : widen(narrow(x, t), t);
}

// Elements i .. i+n-1 (at most VL) of a kernel's source; and to its target, with the old values added if it says so.
INLINE vf get(hst_source s, int64_t i, int64_t n) {
    return load_n((const char *)s.data + (size_t)i * size_of(s.dtype), s.dtype, n);
}
INLINE void put(hst_target t, int64_t i, vf x, int64_t n) {
    void *p = (char *)t.data + (size_t)i * size_of(t.dtype);
    if (t.add) x = load_n(p, t.dtype, n) + x;
    store_n(p, t.dtype, x, n);
}

#endif
