// update.c: the optimizers' steps, in one pass over weight, state and gradient; and the average of the weights.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

#include <math.h>

static void adam_task(void *arg, int64_t task) {
    const hst_adam_args *a = arg;
    float b1 = (float)a->beta1, b2 = (float)a->beta2, rest1 = (float)(1 - a->beta1), rest2 = (float)(1 - a->beta2);
    float factor = (float)a->factor, l2 = (float)a->l2, shrink = (float)a->shrink;
    float rate = (float)a->rate, scale = (float)a->scale, eps = (float)a->eps;
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t i = r.begin, n = r.end - i;
        vf w = get(from_f32(a->w), i, n), h = factor * get(a->g, i, n) + l2 * w;
        vf m = b1 * get(from_f32(a->m), i, n) + rest1 * h;
        vf v = b2 * get(from_f32(a->v), i, n) + rest2 * h * h;
        put(to_f32(a->m), i, m, n);
        put(to_f32(a->v), i, v, n);
        vf step = rate * m;
        if (a->adaptive) step /= scale * square_root(v) + eps;
        put(to_f32(a->w), i, w - (shrink * w + step), n);
    }
}

bool KERNEL(adam)(hst_context *ctx, const hst_adam_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), adam_task, (void *)args);
    return true;
}

static void sgd_task(void *arg, int64_t task) {
    const hst_sgd_args *a = arg;
    float factor = (float)a->factor, decay = (float)a->decay, momentum = (float)a->momentum, lr = (float)a->lr;
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin += VL) {
        int64_t i = r.begin, n = r.end - i;
        vf w = get(from_f32(a->w), i, n), h = factor * get(a->g, i, n) + decay * w, step = h;
        if (a->m) {
            vf m = momentum * get(from_f32(a->m), i, n) + h;
            step = a->nesterov ? h + momentum * m : m;
            put(to_f32(a->m), i, m, n);
        }
        put(to_f32(a->w), i, w - lr * step, n);
    }
}

bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), sgd_task, (void *)args);
    return true;
}

static void average_task(void *arg, int64_t task) {
    const hst_average_args *a = arg;
    double rest = 1 - a->decay;
    for (range r = part(task, TASK_ELEMENTS, a->count); r.begin < r.end; r.begin++)
        a->average[r.begin] = (float)(a->decay * (double)a->average[r.begin] + rest * (double)a->w[r.begin]);
}

bool KERNEL(average)(hst_context *ctx, const hst_average_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), average_task, (void *)args);
    return true;
}
