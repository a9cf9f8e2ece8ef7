// lookup.c: rows of a table by their ids (embedding, take), and the gradient's scatter-add. That is a sum of any number
// of rows into one, so the ids are sorted first: each row of the table then has its own sums, in double, rounded once.
// And one-hot rows, each of which says which id it was.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

static void lookup_task(void *arg, int64_t task) {
    const hst_lookup_args *a = arg;
    for (range r = part(task, task_rows(a->width), a->outer * a->count); r.begin < r.end; r.begin++) {
        int64_t id = hst_index_at(a->ids, r.begin % a->count);
        int64_t from = (r.begin / a->count * a->rows + id) * a->width, to = r.begin * a->width;
        for (int64_t j = 0; j < a->width; j += VL)
            put(a->y, to + j, get(a->table, from + j, a->width - j), a->width - j);
    }
}

bool KERNEL(lookup)(hst_context *ctx, const hst_lookup_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->count, args->rows)) return false;
    hst_parallel(ctx, divide_up(args->outer * args->count, task_rows(args->width)), lookup_task, (void *)args);
    return true;
}

enum { COLUMNS = 128, ROW_BLOCKS = 64 }; // of a task, so that few long rows are shared out too

typedef struct grad_job {
    const hst_lookup_grad_args *args;
    int64_t column_blocks, block_rows;
    // Row r of the table was looked up at positions order[start[r]] .. order[start[r + 1] - 1].
    const int64_t *start, *order;
} grad_job;

// Stable counting sort: the positions of each id in ascending order. start has rows + 1 entries, order has count.
static void sort_ids(const hst_lookup_grad_args *a, int64_t *start, int64_t *order) {
    memset(start, 0, (size_t)(a->rows + 1) * sizeof *start);
    for (int64_t i = 0; i < a->count; i++) start[hst_index_at(a->ids, i)]++;
    for (int64_t r = 0, sum = 0; r <= a->rows; r++) start[r] = sum += start[r]; // where the row ends
    for (int64_t i = a->count - 1; i >= 0; i--) order[--start[hst_index_at(a->ids, i)]] = i;
}

// `count` vectors of columns of one row of the table, from column j on; dy is that of the row's table.
INLINE void row_grad(const grad_job *job, int64_t row, hst_source dy, int64_t j, int64_t n, int count) {
    const hst_lookup_grad_args *a = job->args;
    const int64_t *start = &job->start[row % a->rows];
    wide sum[4];
    sum_columns(dy, a->width, job->order, (range){start[0], start[1]}, j, n, sum, count);
    for (int v = 0; v < count; v++) put_sums(a->dtable, row * a->width + j + v * VL, sum[v], n);
}

static void grad_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    const hst_lookup_grad_args *a = job->args;
    range columns = part(task % job->column_blocks, COLUMNS, a->width);
    for (range r = part(task / job->column_blocks, job->block_rows, a->outer * a->rows); r.begin < r.end; r.begin++) {
        int64_t table = r.begin / a->rows, row = r.begin % a->rows, j = columns.begin;
        if (a->dtable.add && job->start[row] == job->start[row + 1]) continue; // nothing to add
        hst_source dy = {(const char *)a->dy.data + (size_t)(table * a->count * a->width) * size_of(a->dy.dtype),
                         a->dy.dtype};
        for (; j + 4 * VL <= columns.end; j += 4 * VL) row_grad(job, r.begin, dy, j, VL, 4);
        for (; j < columns.end; j += VL) row_grad(job, r.begin, dy, j, columns.end - j, 1);
    }
}

bool KERNEL(lookup_grad)(hst_context *ctx, const hst_lookup_grad_args *args) {
    int64_t *start = hst_workspace(ctx, (size_t)(args->rows + 1 + args->count) * sizeof *start);
    if (!start) return false;
    int64_t *order = start + args->rows + 1;
    sort_ids(args, start, order);
    int64_t rows = args->outer * args->rows; // of all tables
    grad_job job = {args, divide_up(args->width, COLUMNS), divide_up(rows, ROW_BLOCKS), start, order};
    int64_t row_blocks = rows > 0 ? divide_up(rows, job.block_rows) : 0;
    hst_parallel(ctx, row_blocks * job.column_blocks, grad_task, &job);
    hst_workspace_free(ctx, start);
    return true;
}

// ---- one-hot ----

static void one_hot_task(void *arg, int64_t task) {
    const hst_one_hot_args *a = arg;
    size_t row_bytes = (size_t)a->classes * hst_dtype_size(a->y.dtype);
    for (range r = part(task, task_rows(a->classes), a->count); r.begin < r.end; r.begin++) {
        memset((char *)a->y.data + (size_t)r.begin * row_bytes, 0, row_bytes);
        hst_store(a->y, r.begin * a->classes + hst_index_at(a->ids, r.begin), 1);
    }
}

bool KERNEL(one_hot)(hst_context *ctx, const hst_one_hot_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, args->count, args->classes)) return false;
    hst_parallel(ctx, divide_up(args->count, task_rows(args->classes)), one_hot_task, (void *)args);
    return true;
}
