// gemm.c: the matrix multiply C (M,N) (+)= A (M,K) B (K,N) + bias, hst_gemm in tensor/backend.h.
//
//   C is cut into blocks of at most MC rows and NC columns; a thread takes one after the other:
//     for each KC terms of the sum over K:
//       pack A: MC rows into panels of VL rows                 (stays in L2)
//       for each NR columns:
//         pack B: one panel of NR columns                      (stays in L1)
//         for each MR rows: micro-kernel -> tile -> C
//
// A panel holds, for every k, its rows of A (or columns of B) side by side as f32; gemm_pack.h makes it from any dtype and
// strides. So the micro-kernel is the same for all operands.
//
// The bits of C depend on K alone. One element is old value + bias + s0 + s1 + ..., from the left, where s0, s1, ... are the
// sums of KC terms each, formed by one multiply-add after the other; all in fp32, rounded to C's dtype once. No block,
// edge, tile or thread changes that order: a row computed alone has the bits that it has in a batch.
#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/kernels.h"
#include <stdatomic.h>

// MR x NV accumulators, NV vectors of B and a broadcast of A fill the registers; a panel of VL rows is VL / MR tiles.
#if defined __AVX512F__
enum { MR = 8, NV = 3 };
#elif defined __AVX2__
enum { MR = 4, NV = 3 };
#else
enum { MR = 2, NV = 3 };
#endif
enum { NR = NV * VL, KC = 256 };
#ifndef MC
#define MC 256
#endif
#ifndef GROUP
#define GROUP (4*NR)
#endif
#ifndef NC
#define NC (32*NR)
#endif


static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

// ---- the micro-kernel: tile (rows, NR) = panel of A times panel of B, whose rows are b_row apart ----

INLINE void micro(int rows, int nv, int64_t kc, const float *a, const float *b, int64_t b_row, float *restrict tile) {
    vf acc[MR][NV];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < nv; j++) acc[i][j] = splat(0);
    for (int64_t k = 0; k < kc; k++, a += VL, b += b_row) {
        vf bk[NV];
        UNROLL for (int j = 0; j < nv; j++) bk[j] = load(b + j * VL, HST_F32);
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int j = 0; j < nv; j++) acc[i][j] = multiply_add(splat(a[i]), bk[j], acc[i][j]);
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < nv; j++) store(tile + i * NR + j * VL, HST_F32, acc[i][j]);
}

typedef void micro_kernel(int64_t kc, const float *a, const float *b, int64_t b_row, float *restrict tile);
#define MICRO(rows, nv)                                                                                                \
    static void micro_##rows##_##nv(int64_t kc, const float *a, const float *b, int64_t b_row, float *restrict tile) { \
        micro(rows, nv, kc, a, b, b_row, tile);                                                                        \
    }
MICRO(1, 1) MICRO(1, 2) MICRO(1, 3) MICRO(MR, 1) MICRO(MR, 2) MICRO(MR, 3)

// For at most MR rows and NR columns; what a tile has beyond them is zero or unused.
static micro_kernel *kernel_for(int64_t rows, int64_t columns) {
    static micro_kernel *const one[NV] = {micro_1_1, micro_1_2, micro_1_3};
    static micro_kernel *const many[NV] = {micro_MR_1, micro_MR_2, micro_MR_3};
    return (rows == 1 ? one : many)[(columns - 1) / VL];
}

// ---- from the tile to C ----

// A tile's place in the work: rows i.. and columns j.. of C, the block of K, and where sums wait between two of those.
typedef struct place {
    int64_t i, j, rows, columns;
    bool first, last;
    float *sum;
    int64_t sum_row;
} place;

INLINE void add_as(const hst_gemm *g, hst_dtype dtype, const float *tile, place p) {
    hst_target c = {g->c.data, dtype, false};
    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t j = 0; j < p.columns; j += VL) {
            int64_t n = p.columns - j, at = (p.i + r) * g->c_row + p.j + j;
            float *sum = p.sum + r * p.sum_row + j;
            vf before = splat(0);
            if (!p.first) before = load_n(sum, HST_F32, n);
            if (p.first && g->c.add) before = get((hst_source){c.data, dtype}, at, n);
            if (p.first && g->bias.data) before += get(g->bias, p.j + j, n);
            vf x = before + load(tile + r * NR + j, HST_F32);
            if (p.last) put(c, at, x, n);
            else store_n(sum, HST_F32, x, n);
        }
}

static void add_tile(const hst_gemm *g, const float *tile, place p) {
    switch (g->c.dtype) { // constants select the code
    case HST_F16: add_as(g, HST_F16, tile, p); break;
    case HST_BF16: add_as(g, HST_BF16, tile, p); break;
    default: add_as(g, HST_F32, tile, p);
    }
}

// ---- blocks ----

typedef struct job {
    const hst_gemm *g;
    int64_t rows, columns; // of a block of C
    int64_t down, across;  // how many blocks
    _Atomic int64_t next;  // the first block that nobody has taken
    float *workspace;      // for each thread: a packed block of A, a panel of B, sums
    int64_t packed_a, packed_b, sums;
} job;

static panel_source rows_of_a(const hst_gemm *g, int64_t i, int64_t k) {
    return (panel_source){g->a, i * g->a_row + k * g->a_col, g->a_row, g->a_col};
}
static panel_source columns_of_b(const hst_gemm *g, int64_t j, int64_t k) {
    return (panel_source){g->b, j * g->b_col + k * g->b_row, g->b_col, g->b_row};
}

// Packs the columns from j on. Adjacent columns are read a few rows at a time along all panels: a row of B may be a page.
static void pack_b(float *out, const hst_gemm *g, int64_t j, int64_t columns, int64_t k, int64_t terms) {
    int64_t step = g->b_col == 1 ? 8 : terms;
    for (int64_t row = 0; row < terms; row += step)
        for (int64_t c = 0; c < columns; c += NR) {
            int64_t width = round_up(smaller(NR, columns - c), VL);
            pack(out + c * terms + row * width, width, columns_of_b(g, j + c, k + row), columns - c,
                 smaller(step, terms - row));
        }
}

// A block of C, KC terms from k on.
static void add_block(const hst_gemm *g, place block, int64_t k, float *packed_a, float *packed_b) {
    int64_t terms = smaller(KC, g->k - k);
    float tile[MR * NR] __attribute__((aligned(64)));
    for (int64_t i = 0; i < block.rows; i += VL)
        pack(packed_a + i * terms, VL, rows_of_a(g, block.i + i, k), block.rows - i, terms);
    for (int64_t j = 0; j < block.columns; j += NR) {
        if (j % GROUP == 0) pack_b(packed_b, g, block.j + j, smaller(GROUP, block.columns - j), k, terms);
        place p = block;
        p.columns = smaller(NR, block.columns - j);
        p.j += j;
        p.sum += j;
        for (int64_t i = 0; i < block.rows; i += MR, p.i += MR, p.sum += MR * p.sum_row) {
            p.rows = smaller(MR, block.rows - i);
            const float *a = packed_a + i / VL * VL * terms + i % VL, *b = packed_b + j % GROUP * terms;
            kernel_for(p.rows, p.columns)(terms, a, b, round_up(p.columns, VL), tile);
            add_tile(g, tile, p);
        }
    }
}

// One thread's part: blocks, for as long as there are any.
static void take_blocks(void *arg, int64_t task) {
    job *w = arg;
    const hst_gemm *g = w->g;
    float *packed_a = w->workspace + task * (w->packed_a + w->packed_b + w->sums), *packed_b = packed_a + w->packed_a;
    for (int64_t n; (n = atomic_fetch_add(&w->next, 1)) < w->down * w->across;) {
        place p = {.i = n / w->across * w->rows, .j = n % w->across * w->columns};
        p.rows = smaller(w->rows, g->m - p.i);
        p.columns = smaller(w->columns, g->n - p.j);
        p.sum = packed_b + w->packed_b;
        p.sum_row = w->columns;
        p.first = true;
        for (int64_t k = 0; p.first || k < g->k; k += KC, p.first = false) { // once even if there are no terms
            p.last = k + KC >= g->k;
            add_block(g, p, k, packed_a, packed_b);
        }
    }
}

// Cuts C into blocks: large ones share more of the packing, but each thread should find two.
static job plan(const hst_gemm *g, int threads) {
    job w = {.g = g, .rows = MC, .columns = NC};
    for (;;) {
        w.down = divide_up(g->m, w.rows);
        w.across = divide_up(g->n, w.columns);
        if (w.down * w.across >= 2 * threads) break;
        if (w.columns > NC / 4) w.columns /= 2;
        else if (w.rows > MC / 4) w.rows /= 2;
        else break;
    }
    w.rows = round_up(divide_up(g->m, w.down), VL);
    w.columns = round_up(divide_up(g->n, w.across), NR);
    w.packed_a = w.rows * smaller(KC, g->k);
    w.packed_b = smaller(GROUP, w.columns) * smaller(KC, g->k);
    w.sums = g->k > KC ? w.rows * w.columns : 0;
    return w;
}

bool KERNEL(gemm)(hst_context *ctx, const hst_gemm *g) {
    if (g->m == 0 || g->n == 0) return true;
    int threads = hst_thread_count(ctx);
    job w = plan(g, threads);
    int64_t tasks = smaller(threads, w.down * w.across);
    size_t floats = (size_t)(tasks * (w.packed_a + w.packed_b + w.sums));
    w.workspace = hst_workspace(ctx, floats * sizeof(float));
    if (!w.workspace) return false;
    hst_parallel(ctx, tasks, take_blocks, &w);
    hst_workspace_free(ctx, w.workspace);
    return true;
}
