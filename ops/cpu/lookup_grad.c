// lookup_grad.c: the scatter-add of a lookup's gradient. It is a sum of any number of rows of dy into one row of the
// table, so the positions are sorted by row first, stably. Each row of the table then has its own sums, in double, in
// the order of the positions, rounded once; whoever forms them owns them.
//
//     ids        2 0 2 1 2              a row with more than PIECE terms is cut into pieces, which leave partial sums:
//     order      1 | 3 | 0 2 4          a table of few rows is shared among the threads too. Where the cuts are depends
//     start      0   1   2     5        on the row's own number of terms alone, not on other rows or on threads.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

enum {
    PIECE = 256,  // terms of a partial sum
    COLUMNS = 512 // of a task: their sums, 4 KB, stay in the first cache while dy streams by
};

typedef struct piece {
    int64_t row, begin, end; // terms order[begin] .. order[end - 1] of this row
} piece;

typedef struct grad_job {
    const hst_lookup_grad_args *args;
    int64_t column_blocks, block_rows;
    bool streams; // what is written goes past the caches
    // Row r of the table was looked up at positions order[start[r]] .. order[start[r + 1] - 1].
    int64_t *start, *order;
    int64_t pieces;
    piece *piece;  // of the rows with more than PIECE terms, in ascending order
    wide *partial; // [outer][piece][vector of columns]
} grad_job;

// The row that position i adds to, or -1.
static int64_t row_of(const hst_lookup_grad_args *a, int64_t i) {
    int64_t row = hst_entry_at(a->ids, a->mode, a->rows, i);
    return row < 0 || row >= a->rows || (a->has_padding && row == a->padding) ? -1 : row;
}

// Stable counting sort: how many terms each row has; where the rows begin; then each position goes to the next place of
// its row. start has rows + 2 entries: shifted by one, the places are at the end where the next rows begin.
static void sort_positions(grad_job *job) {
    const hst_lookup_grad_args *a = job->args;
    int64_t *next = job->start + 1;
    memset(job->start, 0, (size_t)(a->rows + 2) * sizeof *job->start);
    for (int64_t i = 0, row; i < a->count; i++)
        if ((row = row_of(a, i)) >= 0) next[row + 1]++;
    for (int64_t row = 0; row < a->rows; row++) next[row + 1] += next[row];
    for (int64_t i = 0, row; i < a->count; i++)
        if ((row = row_of(a, i)) >= 0) job->order[next[row]++] = i;
}

static int64_t terms_of(const grad_job *job, int64_t row) { return job->start[row + 1] - job->start[row]; }

static bool cut_long_rows(hst_context *ctx, grad_job *job) {
    const hst_lookup_grad_args *a = job->args;
    for (int64_t row = 0; row < a->rows; row++)
        if (terms_of(job, row) > PIECE) job->pieces += divide_up(terms_of(job, row), PIECE);
    if (job->pieces == 0) return true;
    size_t partials = (size_t)(a->outer * job->pieces * vectors(a->width));
    job->piece = hst_workspace(ctx, (size_t)job->pieces * sizeof *job->piece);
    job->partial = hst_workspace(ctx, partials * sizeof *job->partial);
    if (!job->piece || !job->partial) return false;
    piece *next = job->piece;
    for (int64_t row = 0; row < a->rows; row++)
        for (int64_t at = job->start[row]; terms_of(job, row) > PIECE && at < job->start[row + 1]; at += PIECE) {
            int64_t end = at + PIECE < job->start[row + 1] ? at + PIECE : job->start[row + 1];
            *next++ = (piece){row, at, end};
        }
    return true;
}

// The first piece of a row or of one after it.
static int64_t find_piece(const grad_job *job, int64_t row) {
    int64_t low = 0, high = job->pieces;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (job->piece[middle].row < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// sum[v] = columns begin + v VL .. of the terms' rows of dy. The rows lie anywhere: the next is asked for on the way.
INLINE void add_terms(const char *dy, hst_dtype dtype, int64_t width, const int64_t *order, range terms, range columns,
                      wide *sum) {
    int64_t full = (columns.end - columns.begin) / VL, rest = (columns.end - columns.begin) % VL;
    size_t size = size_of(dtype);
    for (int64_t v = 0; v < full + (rest > 0); v++) sum[v] = (wide){{0}, {0}};
    for (int64_t i = terms.begin; i < terms.end; i++) {
        const char *row = dy + (size_t)(order[i] * width + columns.begin) * size,
                   *next = dy + (size_t)(order[i + (i + 1 < terms.end)] * width + columns.begin) * size;
        for (int64_t v = 0; v < full; v++) {
            if (v * VL * (int64_t)size % 64 == 0) __builtin_prefetch(next + (size_t)(v * VL) * size);
            accumulate(&sum[v], widened(load(row + (size_t)(v * VL) * size, dtype)));
        }
        if (rest) accumulate(&sum[full], widened(load_n(row + (size_t)(full * VL) * size, dtype, rest)));
    }
}

// The same for dy of table number `outer`; a constant dtype leaves no branch in the loop.
static void sum_terms(const grad_job *job, int64_t outer, range terms, range columns, wide *sum) {
    const hst_lookup_grad_args *a = job->args;
    const char *dy = (const char *)a->dy.data + (size_t)(outer * a->count * a->width) * size_of(a->dy.dtype);
    if (a->dy.dtype == HST_F32)
        add_terms(dy, HST_F32, a->width, job->order, terms, columns, sum);
    else if (a->dy.dtype == HST_F16)
        add_terms(dy, HST_F16, a->width, job->order, terms, columns, sum);
    else
        add_terms(dy, HST_BF16, a->width, job->order, terms, columns, sum);
}

static void piece_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    range columns = part(task % job->column_blocks, COLUMNS, job->args->width);
    int64_t index = task / job->column_blocks; // of outer and piece
    const piece *p = &job->piece[index % job->pieces];
    wide *sum = job->partial + index * vectors(job->args->width) + columns.begin / VL;
    sum_terms(job, index / job->pieces, (range){p->begin, p->end}, columns, sum);
}

// The partial sums of a row, in their order.
static void sum_pieces(const grad_job *job, int64_t outer, int64_t row, range columns, wide *sum) {
    int64_t stride = vectors(job->args->width), first = find_piece(job, row);
    const wide *partial = job->partial + (outer * job->pieces + first) * stride + columns.begin / VL;
    memcpy(sum, partial, (size_t)vectors(columns.end - columns.begin) * sizeof *sum);
    for (int64_t i = first + 1; i < job->pieces && job->piece[i].row == row; i++) {
        partial += stride;
        for (int64_t v = 0; v < vectors(columns.end - columns.begin); v++) accumulate(&sum[v], partial[v]);
    }
}

// Columns of a row of table `outer` that has no terms.
static void clear_row(const grad_job *job, char *to, size_t bytes) {
    if (job->streams)
        for (size_t at = 0; at < bytes; at += sizeof(vf)) stream(to + at, splat(0));
    else
        memset(to, 0, bytes);
}

// Columns of row `row` of table `outer`.
static void row_grad(const grad_job *job, int64_t outer, int64_t row, range columns) {
    const hst_lookup_grad_args *a = job->args;
    int64_t at = (outer * a->rows + row) * a->width, terms = terms_of(job, row);
    char *to = (char *)a->dtable.data + (size_t)(at + columns.begin) * size_of(a->dtable.dtype);
    wide sum[COLUMNS / VL];
    if (terms == 0) {
        if (!a->dtable.add) clear_row(job, to, (size_t)(columns.end - columns.begin) * size_of(a->dtable.dtype));
        return;
    }
    if (terms > PIECE)
        sum_pieces(job, outer, row, columns, sum);
    else
        sum_terms(job, outer, (range){job->start[row], job->start[row + 1]}, columns, sum);
    for (int64_t j = columns.begin; j < columns.end; j += VL) {
        wide *s = &sum[(j - columns.begin) / VL];
        if (a->mean) s->low /= (double)terms, s->high /= (double)terms;
        if (job->streams && a->dtable.dtype == HST_F32)
            stream(to + (size_t)(j - columns.begin) * sizeof(float), narrowed(*s));
        else
            put_sums(a->dtable, at + j, *s, columns.end - j);
    }
}

static void grad_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    const hst_lookup_grad_args *a = job->args;
    range columns = part(task % job->column_blocks, COLUMNS, a->width);
    for (range r = part(task / job->column_blocks, job->block_rows, a->outer * a->rows); r.begin < r.end; r.begin++)
        row_grad(job, r.begin / a->rows, r.begin % a->rows, columns);
    if (job->streams) end_streams();
}

bool KERNEL(lookup_grad)(hst_context *ctx, const hst_lookup_grad_args *args) {
    int64_t all = args->outer * args->rows, columns = args->width < COLUMNS ? args->width : COLUMNS;
    if (all * args->width == 0) return true;
    grad_job job = {.args = args, .column_blocks = divide_up(args->width, COLUMNS)};
    job.block_rows = task_rows(columns * (1 + args->count / args->rows)); // a row reads about so many, and is written
    job.streams =
        !args->dtable.add && can_stream(args->dtable.data, all, (size_t)args->width * size_of(args->dtable.dtype));
    job.start = hst_workspace(ctx, (size_t)(args->rows + 2 + args->count) * sizeof *job.start);
    bool done = job.start != NULL;
    if (done) {
        job.order = job.start + args->rows + 2;
        sort_positions(&job);
        done = cut_long_rows(ctx, &job);
    }
    if (done) {
        hst_parallel(ctx, args->outer * job.pieces * job.column_blocks, piece_task, &job);
        hst_parallel(ctx, divide_up(all, job.block_rows) * job.column_blocks, grad_task, &job);
    }
    hst_workspace_free(ctx, job.partial);
    hst_workspace_free(ctx, job.piece);
    hst_workspace_free(ctx, job.start);
    return done;
}

// ---- the rows of a sparse gradient ----

bool KERNEL(lookup_rows)(hst_context *ctx, const hst_lookup_rows_args *args) {
    int64_t *place = hst_workspace(ctx, (size_t)args->rows * sizeof *place), n = 0; // by row: 1 + where it is in unique
    if (!place) return false;
    memset(place, 0, (size_t)args->rows * sizeof *place);
    for (int64_t i = 0; i < args->count; i++) place[hst_entry_at(args->ids, args->mode, args->rows, i)] = 1;
    if (args->has_padding) place[args->padding] = 0;
    for (int64_t i = 0; i < args->old_count; i++) place[args->old[i]] = 1;
    for (int64_t row = 0; row < args->rows; row++)
        if (place[row]) {
            args->unique[n++] = row;
            place[row] = n;
        }
    *args->unique_count = n;
    for (int64_t i = 0; i < args->count; i++) {
        int64_t row = hst_entry_at(args->ids, args->mode, args->rows, i);
        args->numbers[i] = args->has_padding && row == args->padding ? -1 : place[row] - 1;
    }
    hst_workspace_free(ctx, place);
    return true;
}
