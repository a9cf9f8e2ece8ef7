// blocks.h: what the fast kernels share beside vectors: how work is cut into tasks, and sums in double.
//
// A task is a block of elements, rows or columns, and it owns its outputs. Where many blocks add to one sum, each
// leaves a partial sum of its own, and add_partials puts them together in the order of the blocks. How large a block is
// depends on the shape alone; hence the same bits for any number of threads.
#ifndef HST_BLOCKS_H
#define HST_BLOCKS_H

#include "ops/cpu/vector.h"
#include "tensor/context.h"

enum {
    TASK_ELEMENTS = 16384, // enough to be worth a thread's attention
    SUM_ROWS = 64,         // rows in a partial sum of columns, at least: then partial sums are small beside the rows
    SUM_BLOCKS = 256,      // partial sums, at most
    STREAM_BYTES = 1 << 24 // results as large as that are not found in a cache by whoever reads them
};

typedef struct range {
    int64_t begin, end;
} range;

INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Part `index` of `count` things cut into parts of `size`.
INLINE range part(int64_t index, int64_t size, int64_t count) {
    int64_t begin = index * size, end = begin + size;
    return (range){begin, end < count ? end : count};
}

// Rows in one task of a kernel that treats each row alone; and of one that also sums over the rows.
INLINE int64_t task_rows(int64_t width) { return divide_up(TASK_ELEMENTS, width > 0 ? width : 1); }
INLINE int64_t sum_rows(int64_t rows) {
    int64_t least = divide_up(rows, SUM_BLOCKS);
    return least > SUM_ROWS ? least : SUM_ROWS;
}

// Whether rows of `bytes` bytes, `rows` of them from p on, are worth streaming and can be streamed by whole vectors.
INLINE bool can_stream(const void *p, int64_t rows, size_t bytes) {
    return (size_t)rows * bytes >= STREAM_BYTES && (uintptr_t)p % sizeof(vf) == 0 && bytes % sizeof(vf) == 0;
}

// How many vectors hold n elements.
INLINE int64_t vectors(int64_t n) { return divide_up(n, VL); }

INLINE hst_source as_source(hst_target t) { return (hst_source){t.data, t.dtype}; }
INLINE hst_source from_f32(const float *x) { return (hst_source){x, HST_F32}; }
INLINE hst_target to_f32(float *x) { return (hst_target){x, HST_F32, false}; }

// As get and put of vector.h, for what may be absent.
INLINE vf get_or(hst_source s, int64_t i, int64_t n, float otherwise) {
    return s.data ? get(s, i, n) : splat(otherwise);
}
INLINE void put_if(hst_target t, int64_t i, vf x, int64_t n) {
    if (t.data) put(t, i, x, n);
}

// 0, 1, .. VL-1
INLINE vi lane_numbers(void) {
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi lanes;
    memcpy(&lanes, numbers, sizeof lanes);
    return lanes;
}

// The first n lanes of x; the rest are `otherwise`.
INLINE vf first_lanes(vf x, int64_t n, float otherwise) {
    return n < VL ? pick(lane_numbers() < (int32_t)n, x, splat(otherwise)) : x;
}

// ---- sums in double ----

typedef struct wide {
    vd low, high;
} wide; // one double for each lane of a vf

INLINE wide splat_wide(double x) { return (wide){x - (vd){0}, x - (vd){0}}; } // as splat
INLINE wide widened(vf x) { return (wide){low_lanes(x), high_lanes(x)}; }
INLINE vf narrowed(wide x) { return narrow_lanes(x.low, x.high); }
INLINE void accumulate(wide *sum, wide x) {
    sum->low += x.low;
    sum->high += x.high;
}
INLINE void accumulate_product(wide *sum, wide x, wide y) { // exact products, of two floats each
    sum->low += x.low * y.low;
    sum->high += x.high * y.high;
}
// To f32 on the way to 16 bits, so that the two roundings are as one: an inexact number becomes the neighbour whose
// last bit is 1, never one that lies in the middle of two 16-bit numbers (Boldo & Melquiond 2008).
INLINE vf narrowed_to_odd(wide x) {
    vf r = narrowed(x);
    wide back = widened(r);
    vf rest = narrowed((wide){(x.low - back.low) * 0x1p100, (x.high - back.high) * 0x1p100}); // NaN for an infinite x
    vi inexact = (rest < 0) | (rest > 0), away = (vi)(((vu)rest ^ (vu)r) >> 31); // away: r lies beyond x, seen from 0
    return (vf)((vi)((vu)r - (vu)(inexact & away)) | (inexact & 1));
}
// A double as two floats, to be subtracted from floats near it: x - high is exact there, where x minus the double
// rounded to f32 would carry that rounding. Infinities have no rest.
typedef struct split {
    float high, low;
} split;
INLINE split split_of(double x) {
    float high = (float)x;
    return (split){high, high - high == 0 ? (float)(x - high) : 0};
}
INLINE vf minus_split(vf x, split s) { return x - s.high - s.low; }

INLINE double total(wide x) { return sum_of_lanes(x.low + x.high); }

// sum[v] = columns j + v VL .. of x, summed over rows[begin .. end), or over all rows begin .. end if `rows` is NULL.
// `count` <= 4 is a constant; the last vector has n columns (all VL if n is greater).
INLINE void sum_columns(hst_source x, int64_t width, const int64_t *rows, range r, int64_t j, int64_t n, wide *sum,
                        int count) {
    UNROLL for (int v = 0; v < count; v++) sum[v] = (wide){{0}, {0}};
    for (int64_t i = r.begin; i < r.end; i++) {
        int64_t at = (rows ? rows[i] : i) * width + j;
        UNROLL for (int v = 0; v < count; v++) accumulate(&sum[v], widened(get(x, at + v * VL, n)));
    }
}

// y[i] (+)= sum, rounded once.
INLINE void put_sum(hst_target y, int64_t i, double sum) {
    hst_store(y, i, y.add ? sum + hst_load(as_source(y), i) : sum);
}
INLINE void put_sums(hst_target y, int64_t i, wide sum, int64_t n) {
    if (y.add) accumulate(&sum, widened(get(as_source(y), i, n)));
    put((hst_target){y.data, y.dtype, false}, i, y.dtype == HST_F32 ? narrowed(sum) : narrowed_to_odd(sum), n);
}

// y[offset + j] (+)= factor * sum of partial[block * stride][j] over the blocks, for j < width; a vector of partial
// sums covers VL columns.
static inline void add_partials(const wide *partial, int64_t blocks, int64_t stride, double factor, hst_target y,
                                int64_t offset, int64_t width) {
    if (!y.data) return;
    for (int64_t j = 0; j < width; j += VL) {
        wide sum = {{0}, {0}};
        for (int64_t block = 0; block < blocks; block++) accumulate(&sum, partial[block * stride + j / VL]);
        sum.low *= factor;
        sum.high *= factor;
        put_sums(y, offset + j, sum, width - j);
    }
}

#endif
