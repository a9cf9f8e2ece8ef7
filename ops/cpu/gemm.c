// gemm.c: the matrix multiply C (M,N) (+)= A (M,K) B (K,N) + bias, hst_gemm in tensor/backend.h.
//
//   C is cut into blocks of at most MC rows and NC columns; a thread takes one after the other:
//     for each KC terms of the sum over K:
//       pack A: the block's rows, in panels of VL              (stays in L2)
//       for each GROUP columns:
//         pack B: panels of NR columns                         (stays in L2)
//         for each panel, for each MR rows: micro-kernel -> tile -> C
//
// A panel holds, for every k, its rows of A (or columns of B) side by side in f32, whatever the operand's dtype and strides
// (gemm_pack.h), so that there is one micro-kernel for all.
//
// The bits of C depend on K alone. An element is ((old value + bias) + s0) + s1 + ..., where s0, s1, ... are the sums of KC
// terms each, formed by one multiply_add after the other; all in fp32, rounded to C's dtype once. No block, edge, tile or
// thread changes that order: a row computed alone has the bits that it has in a batch.
#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/kernels.h"
#include <stdatomic.h>

// MR x NV accumulators, NV vectors of B and one of A fill the registers.
#if defined __AVX512F__
enum { MR = 8, NV = 3 };
#elif defined __AVX2__
enum { MR = 4, NV = 3 };
#else
enum { MR = 2, NV = 3 };
#endif
enum { NR = NV * VL, KC = 256, MC = 256, GROUP = 4 * NR, NC = 32 * NR };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

// ---- the micro-kernel: tile (rows, NR) = a panel of A times a panel of B whose rows are b_row apart ----

INLINE void micro(int rows, int nv, int64_t terms, const float *a, const float *b, int64_t b_row, float *tile) {
    vf acc[MR][NV], bk[NV];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < nv; j++) acc[i][j] = splat(0);
    for (int64_t k = 0; k < terms; k++, a += VL, b += b_row) {
        UNROLL for (int j = 0; j < nv; j++) bk[j] = load(b + j * VL, HST_F32);
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int j = 0; j < nv; j++) acc[i][j] = multiply_add(splat(a[i]), bk[j], acc[i][j]);
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < nv; j++) store(tile + i * NR + j * VL, HST_F32, acc[i][j]);
}

typedef void micro_kernel(int64_t terms, const float *a, const float *b, int64_t b_row, float *tile);
#define MICRO(rows, nv)                                                                                     \
    static void micro_##rows##_##nv(int64_t terms, const float *a, const float *b, int64_t b_row, float *tile) { \
        micro(rows, nv, terms, a, b, b_row, tile);                                                          \
    }
MICRO(1, 1) MICRO(1, 2) MICRO(1, 3) MICRO(MR, 1) MICRO(MR, 2) MICRO(MR, 3)

// For at most MR rows and NR columns. The tile's rows and columns beyond them are not used.
static micro_kernel *kernel_for(int64_t rows, int64_t columns) {
    static micro_kernel *const one[NV] = {micro_1_1, micro_1_2, micro_1_3};
    static micro_kernel *const many[NV] = {micro_MR_1, micro_MR_2, micro_MR_3};
    return (rows == 1 ? one : many)[(columns - 1) / VL];
}

// ---- one block of C ----

typedef struct block {
    int64_t i, j, rows, columns; // where in C
    bool first, last;            // of the blocks of K
    float *packed_a, *packed_b;
    float *sums; // (rows, columns) between two blocks of K
} block;

// Adds a tile, which belongs at (i, j) of the block.
INLINE void add_as(const hst_gemm *g, const block *b, int64_t i, int64_t j, const float *tile, hst_dtype dtype) {
    hst_target c = {g->c.data, dtype, false};
    hst_source old = {g->c.data, dtype};
    int64_t columns = smaller(NR, b->columns - j);
    for (int64_t row = 0; row < MR && i + row < b->rows; row++)
        for (int64_t v = 0; v < columns; v += VL) {
            int64_t n = columns - v, at = (b->i + i + row) * g->c_row + b->j + j + v;
            int64_t sum_at = (i + row) * b->columns + j + v;
            vf x = splat(0);
            if (!b->first) x = load_n(b->sums + sum_at, HST_F32, n);
            if (b->first && g->c.add) x = get(old, at, n);
            if (b->first && g->bias.data) x += get(g->bias, b->j + j + v, n);
            x += load(tile + row * NR + v, HST_F32);
            if (b->last) put(c, at, x, n);
            else store_n(b->sums + sum_at, HST_F32, x, n);
        }
}

static void add_tile(const hst_gemm *g, const block *b, int64_t i, int64_t j, const float *tile) {
    switch (g->c.dtype) { // constants select the code
    case HST_F16: add_as(g, b, i, j, tile, HST_F16); break;
    case HST_BF16: add_as(g, b, i, j, tile, HST_BF16); break;
    default: add_as(g, b, i, j, tile, HST_F32);
    }
}

static void pack_a(const hst_gemm *g, const block *b, int64_t k, int64_t terms) {
    for (int64_t i = 0; i < b->rows; i += VL) {
        panel_source rows = {g->a, (b->i + i) * g->a_row + k * g->a_col, g->a_row, g->a_col};
        pack(b->packed_a + i * terms, VL, rows, b->rows - i, terms);
    }
}

// Packs a group of columns, from j of the block on. Where columns are adjacent, a few rows at a time are read along all
// panels: for B's rows may be pages apart, and a panel takes a line or two of each.
static void pack_b(const hst_gemm *g, const block *b, int64_t j, int64_t k, int64_t terms) {
    int64_t columns = smaller(GROUP, b->columns - j), step = g->b_col == 1 ? 8 : terms;
    for (int64_t t = 0; t < terms; t += step)
        for (int64_t p = 0; p < columns; p += NR) {
            int64_t width = round_up(smaller(NR, columns - p), VL);
            panel_source source = {g->b, (k + t) * g->b_row + (b->j + j + p) * g->b_col, g->b_col, g->b_row};
            pack(b->packed_b + p * terms + t * width, width, source, columns - p, smaller(step, terms - t));
        }
}

// For a single tile of rows packing is not worth it, if whole vectors of B can be used as they lie there.
static bool lies_packed(const hst_gemm *g, const block *b) {
    return b->rows <= MR && g->b.dtype == HST_F32 && g->b_col == 1 && b->columns % VL == 0;
}

// Adds KC terms, from k on, to the block.
static void add_terms(const hst_gemm *g, const block *b, int64_t k) {
    int64_t terms = smaller(KC, g->k - k);
    float tile[MR * NR] __attribute__((aligned(64)));
    pack_a(g, b, k, terms);
    for (int64_t j = 0; j < b->columns; j += NR) {
        int64_t columns = smaller(NR, b->columns - j), panel_row = round_up(columns, VL);
        const float *panel = b->packed_b + j % GROUP * terms;
        if (lies_packed(g, b)) {
            panel = (const float *)g->b.data + k * g->b_row + b->j + j;
            panel_row = g->b_row;
        } else if (j % GROUP == 0) {
            pack_b(g, b, j, k, terms);
        }
        for (int64_t i = 0; i < b->rows; i += MR) {
            const float *a = b->packed_a + i / VL * VL * terms + i % VL;
            kernel_for(b->rows - i, columns)(terms, a, panel, panel_row, tile);
            add_tile(g, b, i, j, tile);
        }
    }
}

// ---- all blocks ----

typedef struct job {
    const hst_gemm *g;
    int64_t rows, columns;            // of a block
    int64_t down, across;             // how many blocks
    _Atomic int64_t next;             // the first block that nobody has taken
    float *workspace;                 // every thread's
    int64_t packed_a, packed_b, sums; // its parts, in floats
} job;

// One thread's part: blocks, for as long as there are any.
static void take_blocks(void *arg, int64_t task) {
    job *w = arg;
    const hst_gemm *g = w->g;
    float *own = w->workspace + task * (w->packed_a + w->packed_b + w->sums);
    for (int64_t n; (n = atomic_fetch_add(&w->next, 1)) < w->down * w->across;) {
        block b = {.i = n / w->across * w->rows, .j = n % w->across * w->columns, .packed_a = own};
        b.rows = smaller(w->rows, g->m - b.i);
        b.columns = smaller(w->columns, g->n - b.j);
        b.packed_b = own + w->packed_a;
        b.sums = b.packed_b + w->packed_b;
        b.first = true;
        for (int64_t k = 0; b.first || k < g->k; k += KC, b.first = false) { // once even if there are no terms
            b.last = k + KC >= g->k;
            add_terms(g, &b, k);
        }
    }
}

// Cuts C into blocks: large ones, which share more of the packing, but two for each thread if they are not too small.
static void cut(job *w, int threads) {
    w->rows = MC;
    w->columns = NC;
    for (;;) {
        w->down = divide_up(w->g->m, w->rows);
        w->across = divide_up(w->g->n, w->columns);
        if (w->down * w->across >= 2 * threads) break;
        if (w->columns > NC / 4) w->columns /= 2;
        else if (w->rows > MC / 4) w->rows /= 2;
        else break;
    }
    w->rows = round_up(divide_up(w->g->m, w->down), VL);
    w->columns = round_up(divide_up(w->g->n, w->across), NR);
}

bool KERNEL(gemm)(hst_context *ctx, const hst_gemm *g) {
    if (g->m == 0 || g->n == 0) return true;
    job w = {.g = g};
    cut(&w, hst_thread_count(ctx));
    int64_t terms = smaller(KC, g->k), tasks = smaller(hst_thread_count(ctx), w.down * w.across);
    w.packed_a = w.rows * terms;
    w.packed_b = smaller(GROUP, w.columns) * terms;
    w.sums = g->k > KC ? w.rows * w.columns : 0;
    w.workspace = hst_workspace(ctx, sizeof(float) * (size_t)(tasks * (w.packed_a + w.packed_b + w.sums)));
    if (!w.workspace) return false;
    hst_parallel(ctx, tasks, take_blocks, &w);
    hst_workspace_free(ctx, w.workspace);
    return true;
}
