// sum.c: sums over the rows of (outer, rows, width), and of all squares, in double; gradients are unscaled on the way.
//
// Long sums are cut into blocks whose partial sums are added in order; short ones are treated several to a task and
// written at once.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

// ---- width 1: the sum of each row of `rows` elements ----

typedef struct rows_job {
    int64_t outer, rows;
    hst_source x;
    bool squares;
    float *unscaled; // of squares: where x goes, times `unscale`, before it is squared; NULL: x is only read
    float unscale;
    double factor;
    hst_target y;
    int64_t blocks, in_task; // in a row; in a task
    double *partial;         // [outer][block], where there are several blocks
} rows_job;

static double block_sum(const rows_job *job, range r) {
    wide sum = {{0}, {0}};
    for (; r.begin < r.end; r.begin += VL) {
        vf narrow = get(job->x, r.begin, r.end - r.begin);
        if (job->unscaled) {
            narrow *= job->unscale;
            put(to_f32(job->unscaled), r.begin, narrow, r.end - r.begin);
            narrow = first_lanes(narrow, r.end - r.begin, 0); // the others are 0 times a factor that may be infinite
        }
        wide x = widened(narrow);
        if (job->squares)
            accumulate_product(&sum, x, x);
        else
            accumulate(&sum, x);
    }
    return total(sum);
}

static void rows_task(void *arg, int64_t task) {
    const rows_job *job = arg;
    for (range r = part(task, job->in_task, job->outer * job->blocks); r.begin < r.end; r.begin++) {
        int64_t row = r.begin / job->blocks;
        range block = part(r.begin % job->blocks, TASK_ELEMENTS, job->rows);
        double sum = block_sum(job, (range){row * job->rows + block.begin, row * job->rows + block.end});
        if (job->partial)
            job->partial[r.begin] = sum;
        else
            put_sum(job->y, row, job->factor * sum);
    }
}

static bool sum_rows_of(hst_context *ctx, rows_job job) {
    job.blocks = job.rows > TASK_ELEMENTS ? divide_up(job.rows, TASK_ELEMENTS) : 1;
    job.in_task = job.blocks > 1 ? 1 : task_rows(job.rows);
    int64_t all = job.outer * job.blocks;
    if (job.blocks > 1 && !(job.partial = hst_workspace(ctx, (size_t)all * sizeof *job.partial))) return false;
    hst_parallel(ctx, divide_up(all, job.in_task), rows_task, &job);
    for (int64_t row = 0; job.partial && row < job.outer; row++) {
        double sum = 0;
        for (int64_t i = 0; i < job.blocks; i++) sum += job.partial[row * job.blocks + i];
        put_sum(job.y, row, job.factor * sum);
    }
    hst_workspace_free(ctx, job.partial);
    return true;
}

bool KERNEL(square_sum)(hst_context *ctx, const hst_square_sum_args *args) {
    return sum_rows_of(ctx, (rows_job){.outer = 1,
                                       .rows = args->count,
                                       .x = args->x,
                                       .squares = true,
                                       .factor = 1,
                                       .y = {args->sum, HST_F64, false}});
}

bool KERNEL(unscale)(hst_context *ctx, const hst_unscale_args *args) {
    return sum_rows_of(ctx, (rows_job){.outer = 1,
                                       .rows = args->count,
                                       .x = from_f32(args->g),
                                       .squares = true,
                                       .unscaled = args->g,
                                       .unscale = (float)args->factor,
                                       .factor = 1,
                                       .y = {args->sum, HST_F64, false}});
}

// ---- several columns ----

enum { COLUMNS = 1024 }; // in a task, at most

typedef struct columns_job {
    const hst_sum_args *args;
    int64_t block_rows, blocks, column_blocks, in_task; // blocks of rows and of columns; of both in a task
    wide *partial;                                      // [outer][block of rows][vector of columns], if several
} columns_job;

static void put_columns(const hst_sum_args *a, int64_t outer, int64_t j, wide sum, int64_t n) {
    sum.low *= a->factor;
    sum.high *= a->factor;
    put_sums(a->y, outer * a->width + j, sum, n);
}

static void columns_task(void *arg, int64_t task) {
    const columns_job *job = arg;
    const hst_sum_args *a = job->args;
    for (range r = part(task, job->in_task, a->outer * job->blocks * job->column_blocks); r.begin < r.end; r.begin++) {
        int64_t index = r.begin / job->column_blocks, outer = index / job->blocks;
        range rows = part(index % job->blocks, job->block_rows, a->rows);
        range columns = part(r.begin % job->column_blocks, COLUMNS, a->width);
        rows.begin += outer * a->rows;
        rows.end += outer * a->rows;
        for (int64_t j = columns.begin, left; (left = columns.end - j) > 0; j += left < 4 * VL ? VL : 4 * VL) {
            wide sum[4];
            int count = left < 4 * VL ? 1 : 4;
            if (count == 4)
                sum_columns(a->x, a->width, NULL, rows, j, VL, sum, 4);
            else
                sum_columns(a->x, a->width, NULL, rows, j, left, sum, 1);
            for (int v = 0; v < count; v++)
                if (job->partial)
                    job->partial[index * vectors(a->width) + j / VL + v] = sum[v];
                else
                    put_columns(a, outer, j + v * VL, sum[v], left - v * VL);
        }
    }
}

static void add_blocks(const columns_job *job) {
    const hst_sum_args *a = job->args;
    int64_t stride = vectors(a->width);
    for (int64_t outer = 0; outer < a->outer; outer++)
        add_partials(job->partial + outer * job->blocks * stride, job->blocks, stride, a->factor, a->y,
                     outer * a->width, a->width);
}

bool KERNEL(sum)(hst_context *ctx, const hst_sum_args *args) {
    if (args->width == 1)
        return sum_rows_of(
            ctx,
            (rows_job){.outer = args->outer, .rows = args->rows, .x = args->x, .factor = args->factor, .y = args->y});
    columns_job job = {.args = args, .block_rows = sum_rows(args->rows)};
    job.blocks = args->rows > job.block_rows ? divide_up(args->rows, job.block_rows) : 1;
    job.column_blocks = divide_up(args->width, COLUMNS);
    int64_t rows = args->rows < job.block_rows ? args->rows : job.block_rows;
    job.in_task = task_rows(rows * (args->width < COLUMNS ? args->width : COLUMNS));
    size_t partials = (size_t)(args->outer * job.blocks * vectors(args->width));
    if (job.blocks > 1 && !(job.partial = hst_workspace(ctx, partials * sizeof *job.partial))) return false;
    hst_parallel(ctx, divide_up(args->outer * job.blocks * job.column_blocks, job.in_task), columns_task, &job);
    if (job.partial) add_blocks(&job);
    hst_workspace_free(ctx, job.partial);
    return true;
}
