// nll.c: the negative log-likelihood of a softmax (cross entropy) and its gradient, a row of logits at a time:
//
//     logsumexp = m + log(sum of exp(x - m))     where m is the largest x, so that no exp overflows
//     loss = logsumexp - x[target]
//     dx = (exp(x - logsumexp) - onehot(target)) dloss
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_math.h"

#include <math.h>

static float row_maximum(hst_source x, int64_t first, int64_t width) {
    vf most = splat(-INFINITY);
    for (int64_t j = 0; j < width; j += VL)
        most = maximum(first_lanes(get(x, first + j, width - j), width - j, -INFINITY), most);
    return maximum_of_lanes(most);
}

// e[v] = exp(x - shift) for `count` vectors from element i on; the last has n elements
INLINE void shifted_exp(hst_source x, int64_t i, int64_t n, split shift, vf *e, int count) {
    UNROLL for (int v = 0; v < count; v++) e[v] = minus_split(get(x, i + v * VL, n), shift);
    exp_of(e, count);
}

INLINE void add_exp(wide *sum, hst_source x, int64_t i, int64_t n, split shift, int count) {
    vf e[4];
    shifted_exp(x, i, n, shift, e, count);
    UNROLL for (int v = 0; v < count; v++) accumulate(sum, widened(first_lanes(e[v], n, 0)));
}

static double logsumexp(hst_source x, int64_t first, int64_t width) {
    split most = {row_maximum(x, first, width), 0};
    wide sum = {{0}, {0}};
    int64_t j = 0;
    for (; j + 4 * VL <= width; j += 4 * VL) add_exp(&sum, x, first + j, VL, most, 4);
    for (; j < width; j += VL) add_exp(&sum, x, first + j, width - j, most, 1);
    return most.high + log(total(sum));
}

static void nll_task(void *arg, int64_t task) {
    const hst_nll_args *a = arg;
    for (range r = part(task, task_rows(a->width), a->rows); r.begin < r.end; r.begin++) {
        int64_t first = r.begin * a->width;
        double sum = logsumexp(a->logits, first, a->width);
        a->logsumexp[r.begin] = sum;
        a->loss[r.begin] = (float)(sum - hst_load(a->logits, first + hst_index_at(a->targets, r.begin)));
    }
}

bool KERNEL(nll)(hst_context *ctx, const hst_nll_args *args) {
    if (!hst_check_ids(ctx, "cross entropy: target", args->targets, HST_INDEX_RAISE, args->rows, args->width))
        return false;
    hst_parallel(ctx, divide_up(args->rows, task_rows(args->width)), nll_task, (void *)args);
    return true;
}

// `target` counts from the first column here.
INLINE void put_grad(const hst_nll_grad_args *a, int64_t i, int64_t n, int64_t target, split shift, float scale,
                     int count) {
    vf p[4];
    shifted_exp(a->logits, i, n, shift, p, count);
    UNROLL for (int v = 0; v < count; v++) {
        vf onehot = pick(lane_numbers() == (int32_t)(target - v * VL), splat(1), splat(0));
        put(a->dlogits, i + v * VL, (p[v] - onehot) * scale, n);
    }
}

static void grad_task(void *arg, int64_t task) {
    const hst_nll_grad_args *a = arg;
    int64_t width = a->width;
    for (range r = part(task, task_rows(width), a->rows); r.begin < r.end; r.begin++) {
        int64_t first = r.begin * width, target = hst_index_at(a->targets, r.begin), j = 0;
        split shift = split_of(a->logsumexp[r.begin]);
        float scale = (float)hst_load(a->dloss, r.begin);
        for (; j + 4 * VL <= width; j += 4 * VL) put_grad(a, first + j, VL, target - j, shift, scale, 4);
        for (; j < width; j += VL) put_grad(a, first + j, width - j, target - j, shift, scale, 1);
    }
}

bool KERNEL(nll_grad)(hst_context *ctx, const hst_nll_grad_args *args) {
    hst_parallel(ctx, divide_up(args->rows, task_rows(args->width)), grad_task, (void *)args);
    return true;
}
