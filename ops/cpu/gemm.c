// gemm.c: the matrix multiply C (M,N) (+)= A (M,K) B (K,N) + bias, hst_gemm_args in tensor/backend.h.
//
//   for each SLAB of columns, for which B fits into the last-level cache:
//     all threads pack B: panels of NR columns                         (B is packed once)
//     blocks of at most MC rows; a thread takes one after the other:
//       for each KC terms of the sum over K:
//         pack A: the block's rows, in panels of VL                    (stays in L2)
//         for each panel of B                                          (stays in L1)
//           for each MR rows: micro-kernel -> tile -> C
//
// A panel holds, for every k, its rows of A (or columns of B) side by side in f32, whatever the operand's dtype and
// strides (gemm_pack.h), so that there is one micro-kernel for all.
//
// The order of a sum depends on K alone. An element is ((old value + bias) + s0) + s1 + ..., where s0, s1, ... are the
// sums of KC terms each, formed by one multiply_add after the other; all in fp32, rounded to C's dtype once. No block,
// edge, tile or thread changes that: a row computed alone has the bits that it has in a batch.
//
// The products of a batch are small, as a rule: their blocks are shared out together, and each block packs the panels
// of B that it needs.
#include <stdatomic.h>
#include "ops/cpu/blocks.h"
#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/kernels.h"

// MR x NV accumulators, NV vectors of B and one of A fill the registers.
#if defined __AVX512F__
enum { MR = 8, NV = 3 };
#elif defined __AVX2__
enum { MR = 4, NV = 3 };
#else
enum { MR = 2, NV = 3 };
#endif
enum { NR = NV * VL, KC = 256, MC = 128, SLAB_FLOATS = 1 << 21, STRIP = 32 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

// ---- the micro-kernel: tile (rows, NR) = a panel of A times a panel of B whose rows are b_row apart ----

INLINE void micro(int rows, int nv, int64_t terms, const float *a, const float *b, int64_t b_row, float *tile) {
    vf acc[MR][NV], bk[NV];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] = splat(0);
    for (int64_t k = 0; k < terms; k++, a += VL, b += b_row) {
        UNROLL for (int j = 0; j < nv; j++) bk[j] = load(b + j * VL, HST_F32);
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
            multiply_add(splat(a[i]), bk[j], acc[i][j]);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++)
        store(tile + i * NR + j * VL, HST_F32, acc[i][j]);
}

typedef void micro_kernel(int64_t terms, const float *a, const float *b, int64_t b_row, float *tile);
#define MICRO(rows, nv)                                                                                                \
    static void micro_##rows##_##nv(int64_t terms, const float *a, const float *b, int64_t b_row, float *tile) {       \
        micro(rows, nv, terms, a, b, b_row, tile);                                                                     \
    }
MICRO(1, 1)
MICRO(1, 2)
MICRO(1, 3)
MICRO(MR, 1)
MICRO(MR, 2)
MICRO(MR, 3)

// For at most MR rows and NR columns. The tile's rows and columns beyond them are not used.
static micro_kernel *kernel_for(int64_t rows, int64_t columns) {
    static micro_kernel *const one[NV] = {micro_1_1, micro_1_2, micro_1_3};
    static micro_kernel *const many[NV] = {micro_MR_1, micro_MR_2, micro_MR_3};
    return (rows == 1 ? one : many)[(columns - 1) / VL];
}

// ---- the job of all threads ----

typedef struct job {
    const hst_gemm_batch_args *batch;
    const hst_gemm_args *g;        // the batch's first product
    int64_t j, columns;            // the slab
    int64_t rows, width;           // of a block of C
    int64_t down, across;          // how many blocks in a product
    _Atomic int64_t next;          // the first block that nobody has taken
    float *packed_b;               // the slab's; NULL: each block packs what it needs, or reads B as it lies there
    float *own;                    // every thread's packed A, one panel of B, sums
    int64_t packed_a, panel, sums; // its parts, in floats
} job;

// ---- packing B: the panel at column j, terms from k on, starts at k * width of the slab + j * terms ----

static int64_t terms_from(const hst_gemm_args *g, int64_t k) { return smaller(KC, g->k - k); }

// Packs rows k .. k + rows of the panel of g's B at column j of the slab.
static void pack_panel(const job *w, const hst_gemm_args *g, float *panel, int64_t j, int64_t k, int64_t rows) {
    int64_t columns = smaller(NR, w->columns - j);
    panel_source source = {g->b, k * g->b_row + (w->j + j) * g->b_col, g->b_col, g->b_row, g->lower};
    pack(panel, round_up(columns, VL), source, columns, rows);
}

// Where rows of B are contiguous, STRIP of them are read along their whole length: a panel takes a line or two of each.
static void pack_strip(void *arg, int64_t task) {
    const job *w = arg;
    int64_t slab = round_up(w->columns, VL), k = task * STRIP, block = k / KC * KC, terms = terms_from(w->g, block);
    int64_t rows = smaller(STRIP, w->g->k - k);
    for (int64_t row = k; row < k + rows; row += 8)
        for (int64_t j = 0; j < w->columns; j += NR) {
            int64_t width = round_up(smaller(NR, w->columns - j), VL);
            pack_panel(w, w->g, w->packed_b + block * slab + j * terms + (row - block) * width, j, row,
                       smaller(8, k + rows - row));
        }
}

static void pack_columns(void *arg, int64_t task) {
    const job *w = arg;
    int64_t slab = round_up(w->columns, VL), j = task * NR;
    for (int64_t k = 0; k < w->g->k; k += KC) {
        int64_t terms = terms_from(w->g, k);
        pack_panel(w, w->g, w->packed_b + k * slab + j * terms, j, k, terms);
    }
}

static void pack_b(hst_context *ctx, job *w) {
    if (w->g->b_col == 1)
        hst_parallel(ctx, divide_up(w->g->k, STRIP), pack_strip, w);
    else
        hst_parallel(ctx, divide_up(w->columns, NR), pack_columns, w);
}

// ---- one block of C ----

typedef struct block {
    hst_gemm_args g;             // its product
    int64_t i, j, rows, columns; // where in C, j from the start of the slab
    bool first, last;            // of the blocks of K
    float *packed_a, *panel, *sums;
} block;

// Adds a tile, which belongs at (i, j) of the block. Between blocks of K the sum waits in C if C is f32, else in sums.
INLINE void add_as(const job *w, const block *b, int64_t i, int64_t j, const float *tile, hst_dtype dtype) {
    const hst_gemm_args *g = &b->g;
    int64_t columns = smaller(NR, b->columns - j), first_column = w->j + b->j + j;
    for (int64_t row = 0; row < MR && i + row < b->rows; row++)
        for (int64_t v = 0; v < columns; v += VL) {
            int64_t n = columns - v, at = (b->i + i + row) * g->c_row + first_column + v;
            float *sum = dtype == HST_F32 ? (float *)g->c.data + at : b->sums + (i + row) * w->width + j + v;
            vf x = splat(0);
            if (!b->first)
                x = load_n(sum, HST_F32, n);
            else if (g->c.add)
                x = get((hst_source){g->c.data, dtype}, at, n);
            if (b->first && g->bias.data) x += rounded(get(g->bias, first_column + v, n), g->lower);
            x += load(tile + row * NR + v, HST_F32);
            if (b->last)
                put((hst_target){g->c.data, dtype, false}, at, x, n);
            else
                store_n(sum, HST_F32, x, n);
        }
}

static void add_tile(const job *w, const block *b, int64_t i, int64_t j, const float *tile) {
    switch (w->g->c.dtype) { // constants select the code
    case HST_F16:
        add_as(w, b, i, j, tile, HST_F16);
        break;
    case HST_BF16:
        add_as(w, b, i, j, tile, HST_BF16);
        break;
    default:
        add_as(w, b, i, j, tile, HST_F32);
    }
}

// Asks for the lines of C that a tile will be added to, while the micro-kernel computes it.
static void prefetch_tile(const hst_gemm_args *g, int64_t i, int64_t j, int64_t rows) {
    size_t size = size_of(g->c.dtype);
    const char *c = (const char *)g->c.data + (size_t)(i * g->c_row + j) * size;
    for (int64_t row = 0; row < rows; row++, c += (size_t)g->c_row * size)
        for (size_t line = 0; line < NR * size; line += 64) __builtin_prefetch(c + line, 1);
}

// The panel of B at column j of the block and terms from k on; *row gets the distance of its rows.
static const float *find_panel(const job *w, const block *b, int64_t j, int64_t k, int64_t terms, int64_t *row) {
    const hst_gemm_args *g = &b->g;
    int64_t columns = smaller(NR, b->columns - j);
    *row = round_up(columns, VL);
    if (w->packed_b) return w->packed_b + k * round_up(w->columns, VL) + (b->j + j) * terms;
    bool as_packed = g->b.dtype == HST_F32 && g->lower == HST_F32 && g->b_col == 1 && columns % VL == 0;
    if (g->m <= MR && as_packed) { // it is read once
        *row = g->b_row;
        return (const float *)g->b.data + k * g->b_row + w->j + b->j + j;
    }
    pack_panel(w, g, b->panel, b->j + j, k, terms);
    return b->panel;
}

// Adds KC terms, from k on, to the block.
static void add_terms(const job *w, const block *b, int64_t k) {
    const hst_gemm_args *g = &b->g;
    int64_t terms = terms_from(g, k), panel_row;
    float tile[MR * NR] __attribute__((aligned(64)));
    for (int64_t i = 0; i < b->rows; i += VL) {
        panel_source rows = {g->a, (b->i + i) * g->a_row + k * g->a_col, g->a_row, g->a_col, g->lower};
        pack(b->packed_a + i * terms, VL, rows, b->rows - i, terms);
    }
    for (int64_t j = 0; j < b->columns; j += NR) {
        const float *panel = find_panel(w, b, j, k, terms, &panel_row);
        for (int64_t i = 0; i < b->rows; i += MR) {
            const float *a = b->packed_a + i / VL * VL * terms + i % VL;
            prefetch_tile(g, b->i + i, w->j + b->j + j, smaller(MR, b->rows - i));
            kernel_for(b->rows - i, smaller(NR, b->columns - j))(terms, a, panel, panel_row, tile);
            add_tile(w, b, i, j, tile);
        }
    }
}

static hst_gemm_args product(const hst_gemm_batch_args *batch, int64_t i) {
    hst_gemm_args g = batch->first;
    g.a.data = (const char *)g.a.data + (size_t)(i * batch->a_step) * size_of(g.a.dtype);
    g.b.data = (const char *)g.b.data + (size_t)(i * batch->b_step) * size_of(g.b.dtype);
    g.c.data = (char *)g.c.data + (size_t)(i * batch->c_step) * size_of(g.c.dtype);
    return g;
}

static int64_t block_count(const job *w) { return w->down * w->across * w->batch->count; }

// One thread's part: blocks, for as long as there are any.
static void take_blocks(void *arg, int64_t task) {
    job *w = arg;
    float *own = w->own + task * (w->packed_a + w->panel + w->sums);
    for (int64_t n; (n = atomic_fetch_add(&w->next, 1)) < block_count(w);) {
        int64_t row = n / w->across;
        block b = {.g = product(w->batch, row / w->down),
                   .i = row % w->down * w->rows,
                   .j = n % w->across * w->width,
                   .packed_a = own,
                   .panel = own + w->packed_a};
        b.sums = b.panel + w->panel;
        b.rows = smaller(w->rows, w->g->m - b.i);
        b.columns = smaller(w->width, w->columns - b.j);
        b.first = true;
        for (int64_t k = 0; b.first || k < w->g->k; k += KC, b.first = false) { // once even if there are no terms
            b.last = k + KC >= w->g->k;
            add_terms(w, &b, k);
        }
    }
}

// ---- the whole product ----

// Cuts a slab into blocks, two at least for each thread if they are not too small.
static void cut(job *w, int threads) {
    w->rows = MC;
    w->width = round_up(w->columns, NR);
    for (;;) {
        w->down = divide_up(w->g->m, w->rows);
        w->across = divide_up(w->columns, w->width);
        if (block_count(w) >= 2 * threads) break;
        if (w->rows > MC / 4 && w->g->m > MC / 4)
            w->rows /= 2;
        else if (w->width > 4 * NR)
            w->width = round_up(w->width / 2, NR);
        else
            break;
    }
    w->rows = round_up(divide_up(w->g->m, w->down), VL);
}

static bool multiply_slab(hst_context *ctx, job *w) {
    const hst_gemm_args *g = w->g;
    int threads = hst_thread_count(ctx);
    cut(w, threads);
    int64_t terms = smaller(KC, g->k), tasks = smaller(threads, block_count(w));
    bool shared = g->m > MR && w->batch->count == 1; // a panel used for one tile is not worth a round of its own
    int64_t slab = shared ? round_up(w->columns, VL) * g->k : 0;
    w->packed_a = w->rows * terms;
    w->panel = shared ? 0 : NR * terms;
    w->sums = g->k > KC && g->c.dtype != HST_F32 ? w->rows * w->width : 0;
    float *workspace = hst_workspace(ctx, sizeof(float) * (size_t)(slab + tasks * (w->packed_a + w->panel + w->sums)));
    if (!workspace) return false;
    w->packed_b = shared ? workspace : NULL;
    w->own = workspace + slab;
    if (shared) pack_b(ctx, w);
    hst_parallel(ctx, tasks, take_blocks, w);
    hst_workspace_free(ctx, workspace);
    return true;
}

bool KERNEL(gemm_batch)(hst_context *ctx, const hst_gemm_batch_args *batch) {
    const hst_gemm_args *g = &batch->first;
    if (g->m == 0 || batch->count == 0) return true;
    int64_t most = smaller(round_up(g->n, NR), round_up(SLAB_FLOATS / (g->k > 0 ? g->k : 1) + 1, NR));
    for (int64_t j = 0; j < g->n; j += most) {
        job w = {.batch = batch, .g = g, .j = j, .columns = smaller(most, g->n - j)};
        if (!multiply_slab(ctx, &w)) return false;
    }
    return true;
}

bool KERNEL(gemm)(hst_context *ctx, const hst_gemm_args *g) {
    return KERNEL(gemm_batch)(ctx, &(hst_gemm_batch_args){.count = 1, .first = *g});
}
