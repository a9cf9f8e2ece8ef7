// bce.c: binary cross entropy and its gradient, a vector at a time. The losses are formed in double, with libm's
// logarithms, and max(x, 0) - x t without a difference of large numbers.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_math.h"

#include <math.h>

// Written so that NaN, the logarithm of what is no probability, stays.
INLINE double at_least_minus_100(double x) { return x < -100 ? -100 : x; }

INLINE double loss_of(double p, double t) {
    return -(t * at_least_minus_100(log(p)) + (1 - t) * at_least_minus_100(log1p(-p)));
}
INLINE double loss_of_logit(double x, double t) { return (x > 0 ? x * (1 - t) : -x * t) + log1p(exp(-fabs(x))); }

static void bce_task(void *arg, int64_t task) {
    const hst_bce_args *a = arg;
    hst_target loss = {a->loss, HST_F32, false};
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t n = r.end - r.begin;
        vf x = get(a->x, r.begin, n), t = get(a->targets, r.begin, n), y = splat(0);
        for (int l = 0; l < VL && l < n; l++)
            y[l] = (float)(a->logits ? loss_of_logit((double)x[l], (double)t[l]) : loss_of((double)x[l], (double)t[l]));
        put(loss, r.begin, y, n);
    }
}

bool KERNEL(bce)(hst_context *ctx, const hst_bce_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), bce_task, (void *)args);
    return true;
}

static void bce_grad_task(void *arg, int64_t task) {
    const hst_bce_grad_args *a = arg;
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t n = r.end - r.begin;
        vf x = get(a->x, r.begin, n), t = get(a->targets, r.begin, n), dloss = get(a->dloss, r.begin, n), slope;
        if (a->logits) {
            sigmoid_of(&x, 1);
            slope = x - t;
        } else {
            slope = (x - t) / maximum(x * (1 - x), splat(1e-12f));
        }
        put(a->dx, r.begin, dloss * slope, n);
    }
}

bool KERNEL(bce_grad)(hst_context *ctx, const hst_bce_grad_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), bce_grad_task, (void *)args);
    return true;
}
