// naive_bce.c: the naive kernels of binary cross entropy.
#include "ops/cpu/naive.h"

#include <math.h>

// Written so that NaN, the logarithm of what is no probability, stays.
static double at_least_minus_100(double x) { return x < -100 ? -100 : x; }

// max(x, 0) - x t is formed without a difference of large numbers.
static double loss(bool logits, double x, double t) {
    if (logits) return (x > 0 ? x * (1 - t) : -x * t) + log1p(exp(-fabs(x)));
    return -(t * at_least_minus_100(log(x)) + (1 - t) * at_least_minus_100(log1p(-x)));
}

// 10^-12 is a float in PyTorch too.
static double slope(bool logits, double x, double t) {
    if (logits) return 1 / (1 + exp(-x)) - t;
    double spread = x * (1 - x);
    return (x - t) / (spread > 1e-12f ? spread : 1e-12f);
}

bool KERNEL(bce)(hst_context *ctx, const hst_bce_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++)
        args->loss[i] = (hst_real)loss(args->logits, hst_load(args->x, i), hst_load(args->targets, i));
    return true;
}

bool KERNEL(bce_grad)(hst_context *ctx, const hst_bce_grad_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++) {
        double dloss = hst_load(args->dloss, i);
        put(args->dx, i, dloss * slope(args->logits, hst_load(args->x, i), hst_load(args->targets, i)));
    }
    return true;
}
