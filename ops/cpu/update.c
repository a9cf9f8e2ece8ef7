// update.c: the optimizers' steps, in one pass over weight, state and gradient; and the average of the weights.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"

#include <math.h>

// How the elements of g are cut into tasks: blocks, or, with a list of rows, some rows at a time.
static int64_t task_count(int64_t count, hst_row_list rows) {
    return rows.ids && count > 0 ? divide_up(count / rows.width, task_rows(rows.width))
                                 : divide_up(count, TASK_ELEMENTS);
}

// Calls update(args, i, k, n) for what belongs to a task: n elements, from i on in w and from k on in g.
INLINE void for_task(int64_t task, int64_t count, hst_row_list rows, const void *args,
                     void (*update)(const void *args, int64_t i, int64_t k, int64_t n)) {
    if (rows.ids) {
        for (range r = part(task, task_rows(rows.width), count / rows.width); r.begin < r.end; r.begin++)
            update(args, rows.ids[r.begin] * rows.width, r.begin * rows.width, rows.width);
        return;
    }
    range r = part(task, TASK_ELEMENTS, count);
    update(args, r.begin, r.begin, r.end - r.begin);
}

// w = x, and what follows it.
INLINE void put_weight(float *w, hst_rounded r, int64_t i, vf x, int64_t n) {
    if (r.shadow) put((hst_target){r.shadow, r.dtype, false}, i, x, n);
    if (r.round) {
        uint16_t half[VL];
        store(half, r.dtype, x);
        x = get((hst_source){half, r.dtype}, 0, VL);
    }
    put(to_f32(w), i, x, n);
}

INLINE void adam_update(const void *args, int64_t i, int64_t k, int64_t n) {
    const hst_adam_args *a = args;
    float b1 = (float)a->beta1, b2 = (float)a->beta2, rest1 = (float)(1 - a->beta1), rest2 = (float)(1 - a->beta2);
    float factor = (float)a->factor, l2 = (float)a->l2, shrink = (float)a->shrink;
    float rate = (float)a->rate, scale = (float)a->scale, eps = (float)a->eps;
    for (; n > 0; i += VL, k += VL, n -= VL) {
        vf w = get(from_f32(a->w), i, n), h = factor * get(a->g, k, n) + l2 * w;
        vf m = b1 * get(from_f32(a->m), i, n) + rest1 * h;
        vf v = b2 * get(from_f32(a->v), i, n) + rest2 * h * h;
        put(to_f32(a->m), i, m, n);
        put(to_f32(a->v), i, v, n);
        vf step = rate * m;
        if (a->adaptive) step /= scale * square_root(v) + eps;
        put_weight(a->w, a->rounded, i, w - (shrink * w + step), n);
    }
}

static void adam_task(void *arg, int64_t task) {
    const hst_adam_args *a = arg;
    for_task(task, a->count, a->rows, a, adam_update);
}

bool KERNEL(adam)(hst_context *ctx, const hst_adam_args *args) {
    hst_parallel(ctx, task_count(args->count, args->rows), adam_task, (void *)args);
    return true;
}

INLINE void sgd_update(const void *args, int64_t i, int64_t k, int64_t n) {
    const hst_sgd_args *a = args;
    float factor = (float)a->factor, decay = (float)a->decay, momentum = (float)a->momentum, lr = (float)a->lr;
    for (; n > 0; i += VL, k += VL, n -= VL) {
        vf w = get(from_f32(a->w), i, n), h = factor * get(a->g, k, n) + decay * w, step = h;
        if (a->m) {
            vf m = momentum * get(from_f32(a->m), i, n) + h;
            step = a->nesterov ? h + momentum * m : m;
            put(to_f32(a->m), i, m, n);
        }
        put_weight(a->w, a->rounded, i, w - lr * step, n);
    }
}

static void sgd_task(void *arg, int64_t task) {
    const hst_sgd_args *a = arg;
    for_task(task, a->count, a->rows, a, sgd_update);
}

bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args) {
    hst_parallel(ctx, task_count(args->count, args->rows), sgd_task, (void *)args);
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
