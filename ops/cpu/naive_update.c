// naive_update.c: the optimizers' steps and the average of the weights, as their equations in tensor/backend.h.
#include "ops/cpu/naive.h"

#include <math.h>

// Where in w the element is that g[k] belongs to.
static int64_t place(hst_row_list rows, int64_t k) {
    return rows.ids ? rows.ids[k / rows.width] * rows.width + k % rows.width : k;
}

// w[i] = x, and what follows it.
static void put_weight(hst_real *w, hst_rounded r, int64_t i, double x) {
    uint16_t half;
    w[i] = (hst_real)x;
    if (r.shadow) hst_store((hst_target){r.shadow, r.dtype, false}, i, w[i]);
    if (!r.round) return;
    hst_store((hst_target){&half, r.dtype, false}, 0, w[i]);
    w[i] = (hst_real)hst_load((hst_source){&half, r.dtype}, 0);
}

bool KERNEL(adam)(hst_context *ctx, const hst_adam_args *args) {
    (void)ctx;
    double b1 = args->beta1, b2 = args->beta2;
    for (int64_t k = 0; k < args->count; k++) {
        int64_t i = place(args->rows, k);
        double w = args->w[i], h = args->factor * hst_load(args->g, k) + args->l2 * w;
        double m = b1 * args->m[i] + (1 - b1) * h;
        double v = b2 * args->v[i] + (1 - b2) * h * h;
        double direction = args->adaptive ? m / (args->scale * sqrt(v) + args->eps) : m;
        args->m[i] = (hst_real)m;
        args->v[i] = (hst_real)v;
        put_weight(args->w, args->rounded, i, w - (args->shrink * w + args->rate * direction));
    }
    return true;
}

bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args) {
    (void)ctx;
    for (int64_t k = 0; k < args->count; k++) {
        int64_t i = place(args->rows, k);
        double w = args->w[i], h = args->factor * hst_load(args->g, k) + args->decay * w, step = h;
        if (args->m) {
            double m = args->momentum * args->m[i] + h;
            step = args->nesterov ? h + args->momentum * m : m;
            args->m[i] = (hst_real)m;
        }
        put_weight(args->w, args->rounded, i, w - args->lr * step);
    }
    return true;
}

bool KERNEL(average)(hst_context *ctx, const hst_average_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++)
        args->average[i] = (hst_real)(args->decay * args->average[i] + (1 - args->decay) * args->w[i]);
    return true;
}
