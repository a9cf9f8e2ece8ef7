// update.c: the optimizers' steps, in one pass over weight, state and gradient.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

#include <math.h>

// With a = lr / (1 - b1^t) and s = 1 / sqrt(1 - b2^t): w = w - lr decay w - a m / (s sqrt(v) + eps)
static void adamw_task(void *arg, int64_t task) {
    const hst_adamw_args *a = arg;
    float rate = (float)(a->lr / (1 - pow(a->beta1, (double)a->step)));
    float scale = (float)(1 / sqrt(1 - pow(a->beta2, (double)a->step)));
    float b1 = (float)a->beta1, b2 = (float)a->beta2, rest1 = (float)(1 - a->beta1), rest2 = (float)(1 - a->beta2);
    float factor = (float)a->factor, eps = (float)a->eps, decay = (float)(a->lr * a->decay);
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t i = r.begin, n = r.end - i;
        vf g = factor * get(a->g, i, n), w = get(from_f32(a->w), i, n);
        vf m = b1 * get(from_f32(a->m), i, n) + rest1 * g;
        vf v = b2 * get(from_f32(a->v), i, n) + rest2 * g * g;
        put(to_f32(a->m), i, m, n);
        put(to_f32(a->v), i, v, n);
        put(to_f32(a->w), i, w - (decay * w + rate * m / (scale * square_root(v) + eps)), n);
    }
}

bool KERNEL(adamw)(hst_context *ctx, const hst_adamw_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), adamw_task, (void *)args);
    return true;
}

static void sgd_task(void *arg, int64_t task) {
    const hst_sgd_args *a = arg;
    float factor = (float)a->factor, decay = (float)a->decay, momentum = (float)a->momentum, lr = (float)a->lr;
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t i = r.begin, n = r.end - i;
        vf w = get(from_f32(a->w), i, n), step = factor * get(a->g, i, n) + decay * w;
        if (a->m) {
            step = momentum * get(from_f32(a->m), i, n) + step;
            put(to_f32(a->m), i, step, n);
        }
        put(to_f32(a->w), i, w - lr * step, n);
    }
}

bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), sgd_task, (void *)args);
    return true;
}
