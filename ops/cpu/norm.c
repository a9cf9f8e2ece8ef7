// norm.c: layer and RMS normalisation and their gradients, a row at a time. With n = (x - mean) rstd and dn = dy gain:
//
//     y = n gain + bias
//     dx = rstd (dn - mean(dn) - n mean(dn n))
//     dgain = sum of dy n     dbias = sum of dy     over the rows
//
// RMS norm is the same with mean and mean(dn) left out.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

#include <math.h>

INLINE double row_mean(hst_source x, int64_t first, int64_t width) {
    wide sum = {{0}, {0}};
    for (int64_t j = 0; j < width; j += VL) accumulate(&sum, widened(get(x, first + j, width - j)));
    return total(sum) / (double)width;
}

INLINE void add_squares(wide *sum, hst_source x, int64_t i, int64_t n, double mean) {
    wide d = widened(get(x, i, n)), one = widened(first_lanes(splat(1), n, 0));
    d.low -= mean * one.low;
    d.high -= mean * one.high;
    accumulate_product(sum, d, d);
}

// In a second pass: mean(x^2) - mean^2 would cancel.
INLINE double row_variance(hst_source x, int64_t first, int64_t width, double mean) {
    wide sum = {{0}, {0}};
    int64_t j = 0;
    for (; j + VL <= width; j += VL) add_squares(&sum, x, first + j, VL, mean);
    if (j < width) add_squares(&sum, x, first + j, width - j, mean);
    return total(sum) / (double)width;
}

// The mean in two parts: in rows far from zero its rounding to f32 would be as large as it is beside the deviation.
INLINE vf normed(vf x, split mean, float rstd) { return minus_split(x, mean) * rstd; }

static void norm_task(void *arg, int64_t task) {
    const hst_norm_args *a = arg;
    int64_t width = a->width;
    for (range r = part(task, task_rows(width), a->rows); r.begin < r.end; r.begin++) {
        int64_t first = r.begin * width;
        double mean = a->rms ? 0 : row_mean(a->x, first, width);
        double rstd = 1 / sqrt(row_variance(a->x, first, width, mean) + a->eps);
        for (int64_t j = 0; j < width; j += VL) {
            int64_t n = width - j;
            vf x = normed(get(a->x, first + j, n), split_of(mean), (float)rstd);
            put(a->y, first + j, multiply_add(x, get_or(a->gain, j, n, 1), get_or(a->bias, j, n, 0)), n);
        }
        if (a->mean) a->mean[r.begin] = mean;
        if (a->rstd) a->rstd[r.begin] = rstd;
    }
}

bool KERNEL(norm)(hst_context *ctx, const hst_norm_args *args) {
    hst_parallel(ctx, divide_up(args->rows, task_rows(args->width)), norm_task, (void *)args);
    return true;
}

typedef struct grad_job {
    const hst_norm_grad_args *args;
    int64_t block_rows;
    wide *partial; // [block of rows][dgain, dbias][vector of columns]
} grad_job;

static void grad_row(const hst_norm_grad_args *a, int64_t row, wide *dgain, wide *dbias) {
    int64_t width = a->width, first = row * width;
    split mean = split_of(a->mean[row]);
    float rstd = (float)a->rstd[row];
    wide sum = {{0}, {0}}, product = {{0}, {0}};
    for (int64_t j = 0; j < width; j += VL) {
        int64_t n = width - j;
        vf dy = get(a->dy, first + j, n);
        wide x = widened(normed(get(a->x, first + j, n), mean, rstd)), dn = widened(dy * get_or(a->gain, j, n, 1));
        accumulate(&sum, dn);
        accumulate_product(&product, dn, x);
        accumulate(&dbias[j / VL], widened(dy));
        accumulate_product(&dgain[j / VL], widened(dy), x);
    }
    if (!a->dx.data) return;
    float mean_dn = a->rms ? 0 : (float)(total(sum) / (double)width),
          mean_dn_n = (float)(total(product) / (double)width);
    for (int64_t j = 0; j < width; j += VL) {
        int64_t n = width - j;
        vf x = normed(get(a->x, first + j, n), mean, rstd), dn = get(a->dy, first + j, n) * get_or(a->gain, j, n, 1);
        put(a->dx, first + j, rstd * (dn - mean_dn - x * mean_dn_n), n);
    }
}

static void grad_task(void *arg, int64_t task) {
    const grad_job *job = arg;
    int64_t stride = vectors(job->args->width);
    wide *dgain = job->partial + task * 2 * stride, *dbias = dgain + stride;
    memset(dgain, 0, (size_t)(2 * stride) * sizeof *dgain);
    for (range r = part(task, job->block_rows, job->args->rows); r.begin < r.end; r.begin++)
        grad_row(job->args, r.begin, dgain, dbias);
}

bool KERNEL(norm_grad)(hst_context *ctx, const hst_norm_grad_args *args) {
    grad_job job = {args, sum_rows(args->rows), NULL};
    int64_t blocks = divide_up(args->rows, job.block_rows), stride = vectors(args->width);
    job.partial = hst_workspace(ctx, (size_t)(blocks * 2 * stride) * sizeof *job.partial);
    if (!job.partial) return false;
    hst_parallel(ctx, blocks, grad_task, &job);
    add_partials(job.partial, blocks, 2 * stride, 1, args->dgain, 0, args->width);
    add_partials(job.partial + stride, blocks, 2 * stride, 1, args->dbias, 0, args->width);
    hst_workspace_free(ctx, job.partial);
    return true;
}
