// gradcheck.c: gradients against central differences.
//     objective(x) = sum of w_i f(x)_i        numeric = (objective(x + h) - objective(x - h)) / 2h
// The truncation error grows as h^2 and the rounding error as epsilon / h, so h is the cube root of epsilon.
#include <float.h>
#include <math.h>
#include "autograd/op.h"

typedef struct problem {
    hst_context *ctx;
    hst_tensor *(*f)(hst_context *ctx, hst_tensor *const *x, void *user);
    void *user;
    hst_tensor *const *x;
    hst_random_key random; // restored before each evaluation: dropout repeats its mask
} problem;

static double weight_of(int64_t i) {
    return 0.5 + (double)((uint64_t)i * 2654435761u % 1024) / 1024 * (i % 2 ? -1 : 1);
}

static hst_tensor *evaluate(const problem *p) {
    p->ctx->random = p->random;
    return p->f(p->ctx, p->x, p->user);
}

static double objective(const problem *p) {
    double sum = 0;
    hst_no_grad_begin(p->ctx);
    hst_scope_begin(p->ctx);
    hst_tensor *y = evaluate(p);
    y = y ? hst_contiguous(y) : NULL;
    for (int64_t i = 0; y && i < hst_count(y); i++) sum += weight_of(i) * hst_load(hst_source_of(y), i);
    hst_scope_end(p->ctx, NULL);
    hst_no_grad_end(p->ctx);
    return sum;
}

static bool analytic(const problem *p) {
    hst_scope_begin(p->ctx);
    hst_tensor *y = evaluate(p), *dy = y ? hst_new(p->ctx, y->dtype, y->rank, y->shape) : NULL;
    for (int64_t i = 0; dy && i < hst_count(dy); i++) hst_store(hst_target_of(dy), i, weight_of(i));
    if (dy) hst_backward_from(p->ctx, 1, &y, &dy);
    hst_scope_end(p->ctx, NULL);
    return p->ctx->status == HST_OK;
}

// The relative distance of x's gradient from the numeric one, in the 2-norm.
static double compare(const problem *p, hst_tensor *x) {
    double step = cbrt(sizeof(hst_real) == 8 ? DBL_EPSILON : (double)FLT_EPSILON), distance = 0, a = 0, n = 0;
    for (int64_t i = 0; i < hst_count(x) && p->ctx->status == HST_OK; i++) {
        double old = hst_load(hst_source_of(x), i), side[2];
        for (int s = 0; s < 2; s++) {
            hst_store(hst_target_of(x), i, s ? old - step : old + step);
            side[s] = objective(p);
        }
        hst_store(hst_target_of(x), i, old);
        double numeric = (side[0] - side[1]) / (2 * step), exact = hst_load(hst_source_of(x->grad), i);
        distance += (numeric - exact) * (numeric - exact);
        a += exact * exact;
        n += numeric * numeric;
    }
    return sqrt(distance) / fmax(fmax(sqrt(a), sqrt(n)), 1e-3);
}

hst_status hst_gradcheck(hst_context *ctx, hst_tensor *(*f)(hst_context *ctx, hst_tensor *const *x, void *user),
                         void *user, int count, hst_tensor *const *x, double *error) {
    if (!ctx) return HST_ERROR_MEMORY;
    problem p = {ctx, f, user, x, ctx->random};
    *error = 0;
    for (int i = 0; i < count; i++) hst_attach_grad(x[i], HST_WRITE, HST_F32);
    if (ctx->status != HST_OK || !analytic(&p)) return ctx->status;
    for (int i = 0; i < count; i++) *error = fmax(*error, compare(&p, x[i]));
    return ctx->status;
}
