// naive_rows.c: the naive kernels that work on whole rows: layer and RMS norm and cross entropy, with their gradients.
#include "ops/cpu/naive.h"

#include <math.h>

bool KERNEL(norm)(hst_context *ctx, const hst_norm_args *args) {
    (void)ctx;
    int64_t width = args->width;
    for (int64_t i = 0; i < args->rows; i++) {
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < width; j++) mean = add(args->y.dtype, mean, hst_load(args->x, i * width + j));
        mean = args->rms ? 0 : mean / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double x = hst_load(args->x, i * width + j) - mean;
            variance = add(args->y.dtype, variance, x * x);
        }
        variance /= (double)width;
        double rstd = 1 / sqrt(variance + args->eps);
        for (int64_t j = 0; j < width; j++) {
            double n = (hst_load(args->x, i * width + j) - mean) * rstd;
            put(args->y, i * width + j, n * load_or(args->gain, j, 1) + load_or(args->bias, j, 0));
        }
        if (args->mean) args->mean[i] = mean;
        if (args->rstd) args->rstd[i] = rstd;
    }
    return true;
}

// (x - mean) rstd
static double normed(const hst_norm_grad_args *args, int64_t i, int64_t j) {
    return (hst_load(args->x, i * args->width + j) - args->mean[i]) * args->rstd[i];
}

// With n = (x - mean) rstd and y = n gain + bias: dgain = sum of dy n and dbias = sum of dy, over the rows.
static void norm_grad_parameters(const hst_norm_grad_args *args) {
    for (int64_t j = 0; j < args->width; j++) {
        double dgain = start(args->dgain, j), dbias = start(args->dbias, j);
        for (int64_t i = 0; i < args->rows; i++) {
            double dy = hst_load(args->dy, i * args->width + j);
            dgain = add(args->dgain.dtype, dgain, dy * normed(args, i, j));
            dbias = add(args->dbias.dtype, dbias, dy);
        }
        finish(args->dgain, j, dgain);
        finish(args->dbias, j, dbias);
    }
}

// dn = dy gain. A row of n has mean 0 and (but for eps) mean square 1 whatever x is, so x gets only the part of dn that
// is orthogonal to 1 and to n: dx = rstd (dn - mean(dn) - n mean(dn n)). RMS norm leaves the mean alone, and mean(dn)
// goes.
bool KERNEL(norm_grad)(hst_context *ctx, const hst_norm_grad_args *args) {
    (void)ctx;
    int64_t width = args->width;
    norm_grad_parameters(args);
    for (int64_t i = 0; i < args->rows; i++) {
        double dn_sum = 0, dn_n_sum = 0;
        for (int64_t j = 0; j < width; j++) {
            double dn = hst_load(args->dy, i * width + j) * load_or(args->gain, j, 1);
            if (!args->rms) dn_sum = add(args->dx.dtype, dn_sum, dn);
            dn_n_sum = add(args->dx.dtype, dn_n_sum, dn * normed(args, i, j));
        }
        for (int64_t j = 0; j < width; j++) {
            double dn = hst_load(args->dy, i * width + j) * load_or(args->gain, j, 1);
            double along = (dn_sum + normed(args, i, j) * dn_n_sum) / (double)width;
            put(args->dx, i * width + j, args->rstd[i] * (dn - along));
        }
    }
    return true;
}

// Subtracting the row's largest logit first keeps every exponential in [0, 1] and changes nothing:
// log sum exp(x) = max + log sum exp(x - max).
static double logsumexp(hst_source logits, int64_t row, int64_t width) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < width; j++) max = fmax(max, hst_load(logits, row * width + j));
    for (int64_t j = 0; j < width; j++) sum = add(HST_F32, sum, exp(hst_load(logits, row * width + j) - max));
    return max + log(sum);
}

bool KERNEL(nll)(hst_context *ctx, const hst_nll_args *args) {
    if (!hst_check_ids(ctx, "cross entropy: target", args->targets, HST_INDEX_RAISE, args->rows, args->width))
        return false;
    for (int64_t i = 0; i < args->rows; i++) {
        int64_t target = hst_index_at(args->targets, i);
        double total = logsumexp(args->logits, i, args->width);
        args->logsumexp[i] = total;
        args->loss[i] = (hst_real)(total - hst_load(args->logits, i * args->width + target));
    }
    return true;
}

// loss = log sum exp(x) - x[target], and d log sum exp(x) / d x[j] = exp(x[j]) / sum exp(x) = softmax(x)[j]; hence
// dx[j] = (softmax(x)[j] - (j is the target)) dloss.
bool KERNEL(nll_grad)(hst_context *ctx, const hst_nll_grad_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->rows; i++) {
        int64_t target = hst_index_at(args->targets, i);
        double dloss = hst_load(args->dloss, i);
        for (int64_t j = 0; j < args->width; j++) {
            double softmax = exp(hst_load(args->logits, i * args->width + j) - args->logsumexp[i]);
            put(args->dlogits, i * args->width + j, (softmax - (j == target)) * dloss);
        }
    }
    return true;
}
