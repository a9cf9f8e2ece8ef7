// gemm.c: the matrix multiply C (M,N) (+)= A (M,K) B (K,N) + bias, hst_gemm_args in tensor/backend.h.
//
//   for each slab of B, SLAB_FLOATS that the last-level cache holds: whole rows, if they fit
//     all threads pack it: panels of NR columns                        (B is packed once)
//     blocks of at most MC rows; a thread takes one after the other:
//       for each KC terms of the slab:
//         pack A: the block's rows, in panels of MR                    (stays in L2)
//         for each panel of B                                          (stays in L1; the next one is asked for)
//           for each panel of A: micro-kernel -> C
//
// A panel holds, for every k, its rows of A (or columns of B) side by side in f32, whatever the operand's dtype and
// strides (gemm_pack.h), so that there is one micro-kernel for all. An instruction set that multiplies pairs of bf16
// has a second: where both operands are to be bf16, a step of the sum is two neighbouring terms in the same 32 bits.
//
// The order of a sum depends on K alone. An element is ((old value + bias) + s0) + s1 + ..., where s0, s1, ... are the
// sums of KC terms each, formed by one multiply_add after the other; all in fp32, rounded to C's dtype once. No block,
// edge, tile or thread changes that: a row computed alone has the bits that it has in a batch.
//
// The products of a batch are small, as a rule: their blocks are shared out together, and each block packs the panels
// of B that it needs. With at most MR rows, one or a few symbols that are generated, each number of B is used once or a
// few times: B is then not packed, if its rows are contiguous (multiply_rows), and the time is that of reading it.
#include <stdatomic.h>
#include "ops/cpu/blocks.h"
#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/kernels.h"

// MR x NV accumulators, NV vectors of B and one of A fill the registers. A panel of B takes half of L1, one of A less
// than a quarter; LINE floats after each keep panels from meeting in the same sets of a cache.
#if defined __AVX2__
enum { MR = VL - 2 };
#else
enum { MR = VL };
#endif
enum { NV = 2, NR = NV * VL, KC = 256, MC = 32 * MR, LINE = 16 };
enum { SLAB_FLOATS = 1 << 20, STRIP = 32, FEW_WIDTH = 64 * NR, NEAR_WIDTH = 16 * NR, STEPS = 4, ABREAST = 4 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

INLINE vf add_step(vf a, vf b, vf c, bool pairs) { return pairs ? multiply_add_pairs(a, b, c) : multiply_add(a, b, c); }

// ---- the micro-kernel: rows x (nv vectors) of c (+)= a panel of A times a panel of B ----

INLINE void micro(int rows, int nv, bool pairs, int64_t steps, const float *a, const float *b, float *c, int64_t c_row,
                  bool more) {
    vf acc[MR][NV], bk[NV];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] = splat(0);
    UNROLL_4 for (int64_t k = 0; k < steps; k++, a += MR, b += NR) {
        UNROLL for (int j = 0; j < nv; j++) bk[j] = load(b + j * VL, HST_F32);
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
            add_step(splat(a[i]), bk[j], acc[i][j], pairs);
    }
    UNROLL for (int i = 0; i < rows; i++, c += c_row) UNROLL for (int j = 0; j < nv; j++)
        store(c + j * VL, HST_F32, (more ? load(c + j * VL, HST_F32) : splat(0)) + acc[i][j]);
}

// ---- few rows of A times a B that lies in memory row after row: sums (rows, columns), which wait in the cache ----

// Adds `count` steps, neighbouring rows of B, to the sums of each row in `abreast` vectors of columns, the last of n <=
// VL. A sum follows one after the other, as in the micro-kernel; several abreast do not wait for each other.
INLINE void multiply_steps(panel_source b, const float *a, int rows, int count, int abreast, int64_t n, float *sums,
                           int64_t sums_row) {
    bool pairs = terms_a_step(b.lower) == 2;
    for (int i = 0; i < rows; i++, sums += sums_row) {
        vf acc[ABREAST];
        UNROLL for (int v = 0; v < abreast; v++) acc[v] = load(sums + v * VL, HST_F32);
        UNROLL for (int u = 0; u < count; u++) {
            panel_source step = from_step(b, u);
            UNROLL for (int v = 0; v < abreast; v++, step.first += VL) acc[v] =
                add_step(splat(a[u * MR + i]), step_of_lanes(step, n), acc[v], pairs);
        }
        UNROLL for (int v = 0; v < abreast; v++) store(sums + v * VL, HST_F32, acc[v]);
    }
}

// Asks for columns of the STEPS rows after the next ones, which were asked for a round ago.
INLINE void prefetch_steps(panel_source b, int64_t columns) {
    int64_t line = 64 / (int64_t)size_of(b.source.dtype);
    UNROLL for (int u = 2 * STEPS; u < 3 * STEPS; u++) {
        panel_source step = from_step(b, u);
        UNROLL for (int64_t j = 0; j < columns; j += line, step.first += line) prefetch_step(step);
    }
}

INLINE void multiply_rows_as(panel_source b, const float *a, int rows, int64_t columns, float *sums, int64_t sums_row,
                             hst_dtype dtype, hst_dtype lower) {
    enum { WIDTH = ABREAST * VL };
    int64_t steps = count_steps(b.terms, lower), count;
    b.source.dtype = dtype;
    b.lower = lower;
    memset(sums, 0, sizeof *sums * (size_t)(rows * sums_row));
    for (int64_t k = 0; k < steps; k += count, a += count * MR, b = from_step(b, count)) {
        panel_source part = b;
        int64_t j = 0;
        count = steps - k < STEPS ? 1 : STEPS;
        for (; count == STEPS && j + WIDTH <= columns; j += WIDTH, part.first += WIDTH) { // constants select the code
            prefetch_steps(part, WIDTH);
            multiply_steps(part, a, rows, STEPS, ABREAST, VL, sums + j, sums_row);
        }
        for (; j < columns; j += VL, part.first += VL)
            for (int64_t u = 0; u < count; u++)
                multiply_steps(from_step(part, u), a + u * MR, rows, 1, 1, columns - j, sums + j, sums_row);
    }
}

static void multiply_rows(panel_source b, const float *a, int rows, int64_t columns, float *sums, int64_t sums_row) {
    WITH_DTYPES(b, multiply_rows_as, b, a, rows, columns, sums, sums_row)
}

typedef void micro_kernel(int64_t steps, const float *a, const float *b, float *c, int64_t c_row, bool more);
#define MICRO(rows, nv, pairs)                                                                                         \
    static void micro_##rows##_##nv##_##pairs(int64_t steps, const float *a, const float *b, float *c, int64_t c_row,  \
                                              bool more) {                                                             \
        if (more) /* constants select the code */                                                                      \
            micro(rows, nv, pairs, steps, a, b, c, c_row, true);                                                       \
        else                                                                                                           \
            micro(rows, nv, pairs, steps, a, b, c, c_row, false);                                                      \
    }
MICRO(1, 1, false)
MICRO(1, 2, false)
MICRO(MR, 1, false)
MICRO(MR, 2, false)
MICRO(1, 1, true)
MICRO(1, 2, true)
MICRO(MR, 1, true)
MICRO(MR, 2, true)

// For at most MR rows and NR columns; what is beyond them is computed, but means nothing.
static micro_kernel *kernel_for(int64_t rows, int64_t columns, hst_dtype lower) {
    static micro_kernel *const kernels[2][NV] = {{micro_MR_1_false, micro_MR_2_false},
                                                 {micro_1_1_false, micro_1_2_false}},
                               *const of_pairs[2][NV] = {{micro_MR_1_true, micro_MR_2_true},
                                                         {micro_1_1_true, micro_1_2_true}};
    return (terms_a_step(lower) == 2 ? of_pairs : kernels)[rows == 1][columns > VL];
}

// ---- the job of all threads ----

typedef struct job {
    const hst_gemm_batch_args *batch;
    const hst_gemm_args *g;        // the batch's first product
    hst_dtype lower;               // of its operands
    int64_t j, columns, k, depth;  // the slab: a part of B
    int64_t rows, width;           // of a block of C
    int64_t down, across;          // how many blocks in a product
    _Atomic int64_t next;          // the first block that nobody has taken
    int64_t a_panel, b_panel;      // from one packed panel to the next, in floats
    bool few;                      // rows, of a B whose rows are contiguous: it is read once, as it lies there
    float *packed_b;               // the slab's; NULL: each block packs what it needs
    float *own;                    // every thread's packed A, one panel of B, sums
    int64_t packed_a, panel, sums; // its parts, in floats
} job;

static int64_t end_of_slab(const job *w) { return w->k + w->depth; }
static int64_t terms_from(const job *w, int64_t k) { return smaller(KC, end_of_slab(w) - k); }

// ---- packing B: for each KC terms the panels of the slab's columns ----

static float *packed_panel(const job *w, int64_t j, int64_t k) {
    return w->packed_b + ((k - w->k) / KC * divide_up(w->columns, NR) + j / NR) * w->b_panel;
}

// Rows k, k + 1, ... of B from column j of the slab on, `terms` of them.
static panel_source b_source(const job *w, const hst_gemm_args *g, int64_t j, int64_t k, int64_t terms) {
    int64_t column = w->j + j, first = k * g->b_row + column * g->b_col;
    return (panel_source){g->b, first, g->b_col, g->b_row, g->n - column, terms, w->lower};
}

// Packs `columns` from j on of the slab, `terms` from k on, to where the first of them goes.
static void pack_b(const job *w, const hst_gemm_args *g, float *out, int64_t j, int64_t columns, int64_t k,
                   int64_t terms) {
    pack((panel_target){out, w->b_panel, NR}, b_source(w, g, j, k, terms), columns);
}

static void pack_strip(void *arg, int64_t task) {
    const job *w = arg;
    int64_t k = w->k + task * STRIP;
    float *out = packed_panel(w, 0, k) + count_steps(k % KC, w->lower) * NR;
    pack_b(w, w->g, out, 0, w->columns, k, smaller(STRIP, end_of_slab(w) - k));
}

static void pack_columns(void *arg, int64_t task) {
    const job *w = arg;
    int64_t j = task * NR, columns = smaller(NR, w->columns - j);
    for (int64_t k = w->k; k < end_of_slab(w); k += KC)
        pack_b(w, w->g, packed_panel(w, j, k), j, columns, k, terms_from(w, k));
}

static void pack_slab(hst_context *ctx, job *w) {
    if (w->g->b_col == 1)
        hst_parallel(ctx, divide_up(w->depth, STRIP), pack_strip, w);
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

// A tile of C and where its sum waits between blocks of K: in C if C is f32, else in the block's sums, which hold one
// whole tile after the other in the order in which they are computed.
typedef struct tile {
    int64_t row, column, rows, columns; // in C
    float *sum;
    int64_t sum_row;
} tile;

static tile tile_at(const job *w, const block *b, int64_t i, int64_t j, int64_t most) {
    const hst_gemm_args *g = &b->g;
    tile t = {.row = b->i + i,
              .column = w->j + b->j + j,
              .rows = smaller(MR, b->rows - i),
              .columns = smaller(most, b->columns - j),
              .sum = b->sums + j * w->rows + i * most,
              .sum_row = most};
    if (g->c.dtype == HST_F32) t.sum = (float *)g->c.data + t.row * g->c_row + t.column, t.sum_row = g->c_row;
    return t;
}

// Adds the terms of one block of K that `terms` holds, and what a sum begins with; the last goes to C.
INLINE void add_part(const block *b, const tile *t, int64_t rows, int64_t columns, const float *terms,
                     int64_t terms_row, hst_dtype dtype) {
    const hst_gemm_args *g = &b->g;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += VL) {
            int64_t n = columns - j, at = (t->row + i) * g->c_row + t->column + j;
            float *sum = t->sum + i * t->sum_row + j;
            vf x = splat(0);
            if (!b->first)
                x = load_n(sum, HST_F32, n);
            else if (g->c.add)
                x = get((hst_source){g->c.data, dtype}, at, n);
            if (b->first && g->bias.data) x += rounded(get(g->bias, t->column + j, n), g->lower);
            x += load(terms + i * terms_row + j, HST_F32);
            if (b->last)
                put((hst_target){g->c.data, dtype, false}, at, x, n);
            else
                store_n(sum, HST_F32, x, n);
        }
}

INLINE void add_as(const block *b, const tile *t, const float *terms, int64_t terms_row, hst_dtype dtype) {
    if (t->rows == MR && t->columns == NR) // constants spare the remainders
        add_part(b, t, MR, NR, terms, terms_row, dtype);
    else
        add_part(b, t, t->rows, t->columns, terms, terms_row, dtype);
}

static void add_tile(const block *b, const tile *t, const float *terms, int64_t terms_row) {
    WITH_DTYPE(b->g.c.dtype, add_as, b, t, terms, terms_row)
}

// Asks for the lines of C that a tile will be added to, while the micro-kernel computes it.
static void prefetch_tile(const hst_gemm_args *g, const tile *t) {
    size_t size = size_of(g->c.dtype), row = (size_t)g->c_row * size;
    const char *c = (const char *)g->c.data + (size_t)t->row * row + (size_t)t->column * size;
    for (int64_t i = 0; i < t->rows; i++, c += row) __builtin_prefetch(c, 1);
}

// Asks for part `index` of `parts` of a panel of B, the next one, to be brought nearer.
static void prefetch_panel(const float *panel, int64_t floats, int64_t index, int64_t parts) {
    int64_t each = round_up(divide_up(floats, parts), LINE), end = smaller(floats, (index + 1) * each);
    for (int64_t at = index * each; at < end; at += LINE) __builtin_prefetch(panel + at, 0, 2);
}

// The panel of B at column j of the block and terms from k on.
static const float *find_panel(const job *w, const block *b, int64_t j, int64_t k, int64_t terms) {
    if (w->packed_b) return packed_panel(w, b->j + j, k);
    pack_b(w, &b->g, b->panel, b->j + j, smaller(NR, b->columns - j), k, terms);
    return b->panel;
}

// Adds the steps of a panel of A and one of B to a tile: where its sum waits, if there is room for a whole one and
// nothing else to add.
static void multiply_tile(const job *w, const block *b, int64_t i, int64_t j, int64_t steps, const float *panel) {
    const hst_gemm_args *g = &b->g;
    tile t = tile_at(w, b, i, j, NR);
    const float *a = b->packed_a + i / MR * w->a_panel;
    micro_kernel *kernel = kernel_for(t.rows, t.columns, w->lower);
    bool whole = t.rows == MR && t.columns == NR, begins = b->first && g->bias.data;
    bool stays = g->c.dtype == HST_F32 ? whole : !b->last && !(b->first && g->c.add);
    float sums[MR * NR] __attribute__((aligned(64)));
    if (g->c.dtype == HST_F32 || b->last) prefetch_tile(g, &t);
    if (stays && !begins) {
        kernel(steps, a, panel, t.sum, t.sum_row, !b->first || g->c.add);
    } else {
        kernel(steps, a, panel, sums, NR, false);
        add_tile(b, &t, sums, NR);
    }
}

// Adds KC terms, from k on, to the block.
static void add_terms(const job *w, const block *b, int64_t k) {
    const hst_gemm_args *g = &b->g;
    int64_t terms = terms_from(w, k), steps = count_steps(terms, w->lower), first = b->i * g->a_row + k * g->a_col;
    panel_source a = {g->a, first, g->a_row, g->a_col, g->m - b->i, terms, w->lower};
    pack((panel_target){b->packed_a, w->a_panel, MR}, a, b->rows);
    if (w->few) {
        tile t = tile_at(w, b, 0, 0, b->columns);
        multiply_rows(b_source(w, g, b->j, k, terms), b->packed_a, (int)b->rows, b->columns, b->panel, w->width);
        add_tile(b, &t, b->panel, w->width);
        return;
    }
    for (int64_t j = 0; j < b->columns; j += NR) {
        const float *panel = find_panel(w, b, j, k, terms);
        for (int64_t i = 0; i < b->rows; i += MR) {
            if (w->packed_b && j + NR < b->columns)
                prefetch_panel(panel + w->b_panel, NR * steps, i / MR, divide_up(b->rows, MR));
            multiply_tile(w, b, i, j, steps, panel);
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
        int64_t k = w->k;
        do {
            b.first = k == 0;
            b.last = k + KC >= w->g->k;
            add_terms(w, &b, k);
        } while ((k += KC) < end_of_slab(w));
    }
}

// ---- the whole product ----

// How wide a block may be. Of few rows the sums are to stay in the first cache, where B is read row after row; else the
// columns of B, each contiguous and read KC terms at a time, are to be few enough for the caches and the page tables.
static int64_t most_columns(const job *w) { return w->few ? FEW_WIDTH : w->g->m <= MR ? NEAR_WIDTH : w->columns; }

// Cuts a slab into blocks, two at least for each of several threads if they are not too small. Each block packs its
// rows of A and reads all its panels of B; so it stays about twice as wide as it is high.
static void cut(job *w, int threads) {
    w->rows = smaller(MC, round_up(w->g->m, MR));
    w->width = round_up(smaller(w->columns, most_columns(w)), NR);
    for (;;) {
        w->down = divide_up(w->g->m, w->rows);
        w->across = divide_up(w->columns, w->width);
        bool cut_columns = w->width > 4 * NR, cut_rows = w->rows > MC / 4;
        if (threads == 1 || block_count(w) >= 2 * threads || !(cut_columns || cut_rows)) break;
        if (cut_columns && (w->width > 2 * w->rows || !cut_rows))
            w->width = round_up(w->width / 2, NR);
        else
            w->rows = round_up(w->rows / 2, MR);
    }
    w->rows = round_up(divide_up(w->g->m, w->down), MR);
}

static bool multiply_slab(hst_context *ctx, job *w, bool shared) {
    const hst_gemm_args *g = w->g;
    int threads = hst_thread_count(ctx);
    w->few = !shared && g->m <= MR && g->b_col == 1;
    cut(w, threads);
    int64_t steps = count_steps(smaller(KC, g->k), w->lower), tasks = smaller(threads, block_count(w));
    w->a_panel = MR * steps + LINE;
    w->b_panel = NR * steps + LINE;
    int64_t slab = shared ? divide_up(w->columns, NR) * divide_up(w->depth, KC) * w->b_panel : 0;
    w->packed_a = w->rows / MR * w->a_panel;
    w->panel = shared ? 0 : w->few ? MR * w->width : w->b_panel;
    w->sums = g->k > KC && g->c.dtype != HST_F32 ? w->rows * w->width : 0;
    float *workspace = hst_workspace(ctx, sizeof(float) * (size_t)(slab + tasks * (w->packed_a + w->panel + w->sums)));
    if (!workspace) return false;
    w->packed_b = shared ? workspace : NULL;
    w->own = workspace + slab;
    if (shared) pack_slab(ctx, w);
    hst_parallel(ctx, tasks, take_blocks, w);
    hst_workspace_free(ctx, workspace);
    return true;
}

// What both operands are rounded to. Those of pairs are bf16 to begin with, or become so.
static hst_dtype lower_of(const hst_gemm_args *g) {
    bool bf16 = g->a.dtype == HST_BF16 && g->b.dtype == HST_BF16 && g->lower == HST_F32;
    return PAIRS && bf16 ? HST_BF16 : g->lower;
}

// How much is packed at a time of a B that all threads share: as many columns as leave room for KC terms, and then as
// many terms as there is room for. If C is not f32 sums cannot wait there, and all terms are packed.
static void size_slab(const hst_gemm_args *g, int64_t *columns, int64_t *depth) {
    bool waits = g->c.dtype == HST_F32 && g->k > KC;
    int64_t slabs = divide_up(g->n * (waits ? KC : g->k), SLAB_FLOATS);
    if (slabs > 1) *columns = round_up(divide_up(g->n, slabs), NR);
    if (waits) *depth = round_up(SLAB_FLOATS / *columns, KC);
}

bool KERNEL(gemm_batch)(hst_context *ctx, const hst_gemm_batch_args *batch) {
    const hst_gemm_args *g = &batch->first;
    if (g->m == 0 || g->n == 0 || batch->count == 0) return true;
    bool shared = g->m > MR && batch->count == 1; // a panel used for one tile is not worth a round of its own
    int64_t columns = g->n, depth = g->k;
    if (shared) size_slab(g, &columns, &depth);
    for (int64_t j = 0; j < g->n; j += columns) {
        int64_t k = 0;
        do { // once even if there are no terms
            job w = {.batch = batch, .g = g, .lower = lower_of(g), .j = j, .k = k};
            w.columns = smaller(columns, g->n - j);
            w.depth = smaller(depth, g->k - k);
            if (!multiply_slab(ctx, &w, shared)) return false;
        } while ((k += depth) < g->k);
    }
    return true;
}

bool KERNEL(gemm)(hst_context *ctx, const hst_gemm_args *g) {
    return KERNEL(gemm_batch)(ctx, &(hst_gemm_batch_args){.count = 1, .first = *g});
}
