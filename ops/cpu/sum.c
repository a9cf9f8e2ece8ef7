// sum.c: sums of all elements, of their squares, and of each column, in double.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

// ---- to one number: each task leaves the sum of a block of elements ----

typedef struct total_job {
    int64_t count;
    hst_source x;
    bool squares;
    double *partial;
} total_job;

static void total_task(void *arg, int64_t task) {
    const total_job *job = arg;
    wide sum = {{0}, {0}};
    for (range r = part(task, TASK_ELEMENTS, job->count); r.begin < r.end; r.begin += VL) {
        wide x = widened(get(job->x, r.begin, r.end - r.begin));
        if (job->squares)
            accumulate_product(&sum, x, x);
        else
            accumulate(&sum, x);
    }
    job->partial[task] = total(sum);
}

static bool sum_all(hst_context *ctx, int64_t count, hst_source x, bool squares, double *sum) {
    int64_t blocks = divide_up(count, TASK_ELEMENTS);
    double *partial = hst_workspace(ctx, (size_t)blocks * sizeof *partial);
    if (!partial) return false;
    total_job job = {count, x, squares, partial};
    hst_parallel(ctx, blocks, total_task, &job);
    *sum = 0;
    for (int64_t i = 0; i < blocks; i++) *sum += partial[i];
    hst_workspace_free(ctx, partial);
    return true;
}

bool KERNEL(square_sum)(hst_context *ctx, const hst_square_sum_args *args) {
    return sum_all(ctx, args->count, args->x, true, args->sum);
}

// ---- to one number a column: each task leaves the sums over a block of rows, for a block of columns ----

enum { COLUMNS = 1024 };

typedef struct columns_job {
    const hst_sum_args *args;
    int64_t block_rows, column_blocks;
    wide *partial; // [block of rows][vector of columns]
} columns_job;

static void columns_task(void *arg, int64_t task) {
    const columns_job *job = arg;
    const hst_sum_args *a = job->args;
    int64_t block = task / job->column_blocks;
    range rows = part(block, job->block_rows, a->rows), columns = part(task % job->column_blocks, COLUMNS, a->width);
    wide *partial = job->partial + block * vectors(a->width);
    int64_t j = columns.begin;
    for (; j + 4 * VL <= columns.end; j += 4 * VL) sum_columns(a->x, a->width, NULL, rows, j, VL, partial + j / VL, 4);
    for (; j < columns.end; j += VL) sum_columns(a->x, a->width, NULL, rows, j, columns.end - j, partial + j / VL, 1);
}

bool KERNEL(sum)(hst_context *ctx, const hst_sum_args *args) {
    if (args->width == 1) {
        double sum;
        if (!sum_all(ctx, args->rows, args->x, false, &sum)) return false;
        put_sum(args->y, 0, args->factor * sum);
        return true;
    }
    columns_job job = {args, sum_rows(args->rows), divide_up(args->width, COLUMNS), NULL};
    int64_t blocks = divide_up(args->rows, job.block_rows), stride = vectors(args->width);
    job.partial = hst_workspace(ctx, (size_t)(blocks * stride) * sizeof *job.partial);
    if (!job.partial) return false;
    hst_parallel(ctx, blocks * job.column_blocks, columns_task, &job);
    add_partials(job.partial, blocks, stride, args->factor, args->y, 0, args->width);
    hst_workspace_free(ctx, job.partial);
    return true;
}
