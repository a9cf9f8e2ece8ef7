// softmax.c: softmax, its logarithm, and their gradients. With m the greatest x, so that no exp overflows:
//
//     y = exp(x - m) / s,   s = sum of exp(x - m)          dx = y (dy - sum of dy y)
//     log: y = x - (m + log s)                             dx = dy - exp(y) sum of dy
#include "ops/cpu/kernels.h"
#include "ops/cpu/strips.h"
#include "ops/cpu/vector_math.h"

#include <math.h>

enum { ABREAST = 4 }; // vectors of a strip whose exponentials are taken side by side

// e[v] = exp(x - shift) for vectors i .. of a strip; what lies beyond its lanes is 0.
INLINE void shifted_exp(hst_source x, const strip *s, int64_t i, vf shift, vf *e, int count) {
    EACH(v, count) e[v] = get(x, s->first + (i + v) * s->step, lanes_of(s, i + v)) - shift;
    exp_of(e, count);
    EACH(v, count) e[v] = first_lanes(e[v], lanes_of(s, i + v), 0);
}

INLINE void add_exp(wide *sum, hst_source x, const strip *s, int64_t i, vf shift, int count) {
    vf e[ABREAST];
    shifted_exp(x, s, i, shift, e, count);
    EACH(v, count) accumulate(sum, widened(e[v]));
}

INLINE void put_exp(const hst_softmax_args *a, const strip *s, int64_t i, vf shift, wide factor, int count) {
    vf e[ABREAST];
    shifted_exp(a->x, s, i, shift, e, count);
    EACH(v, count) {
        wide y = widened(e[v]);
        put_sums(a->y, s->first + (i + v) * s->step, (wide){y.low * factor.low, y.high * factor.high},
                 lanes_of(s, i + v));
    }
}

static void put_log(const hst_softmax_args *a, const strip *s, wide logsumexp) {
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i), at = s->first + i * s->step;
        wide x = widened(get(a->x, at, n));
        put_sums(a->y, at, (wide){x.low - logsumexp.low, x.high - logsumexp.high}, n);
    }
}

static wide log_of_each(wide x, const strip *s) {
    double lanes[VL];
    memcpy(lanes, &x, sizeof lanes);
    for (int l = 0; l < VL; l++) lanes[l] = l > 0 && s->across ? lanes[0] : log(lanes[l]);
    memcpy(&x, lanes, sizeof x);
    return x;
}

static void softmax_strip(const hst_softmax_args *a, const strip *s) {
    vf most = maximum_of(a->x, s);
    wide sum = {{0}, {0}};
    int64_t i = 0, in_fours = s->count - s->count % ABREAST;
    for (; i < in_fours; i += ABREAST) add_exp(&sum, a->x, s, i, most, ABREAST);
    for (; i < s->count; i++) add_exp(&sum, a->x, s, i, most, 1);
    sum = gathered(s, sum);
    if (a->log) {
        wide logsumexp = log_of_each(sum, s);
        accumulate(&logsumexp, widened(most));
        put_log(a, s, logsumexp);
        return;
    }
    wide factor = {1 / sum.low, 1 / sum.high};
    for (i = 0; i < in_fours; i += ABREAST) put_exp(a, s, i, most, factor, ABREAST);
    for (; i < s->count; i++) put_exp(a, s, i, most, factor, 1);
}

static void softmax_task(void *arg, int64_t task) {
    const hst_softmax_args *a = arg;
    range r = part(task, strips_in_task(a->rows, a->width), strips_in(a->outer, a->width));
    for (; r.begin < r.end; r.begin++) {
        strip s = strip_of(r.begin, a->rows, a->width);
        softmax_strip(a, &s);
    }
}

bool KERNEL(softmax)(hst_context *ctx, const hst_softmax_args *args) {
    int64_t strips = strips_in(args->outer, args->width), in_task = strips_in_task(args->rows, args->width);
    hst_parallel(ctx, divide_up(strips, in_task), softmax_task, (void *)args);
    return true;
}

// ---- gradients ----

static void grad_strip(const hst_softmax_grad_args *a, const strip *s) {
    wide sum = {{0}, {0}};
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i), at = s->first + i * s->step;
        wide dy = widened(get(a->dy, at, n));
        if (a->log)
            accumulate(&sum, dy);
        else
            accumulate_product(&sum, dy, widened(get(a->y, at, n)));
    }
    sum = gathered(s, sum);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i), at = s->first + i * s->step;
        vf p = get(a->y, at, n);
        if (a->log) exp_of(&p, 1);
        wide dy = widened(get(a->dy, at, n)), y = widened(p);
        wide dx = a->log ? (wide){dy.low - y.low * sum.low, dy.high - y.high * sum.high}
                         : (wide){y.low * (dy.low - sum.low), y.high * (dy.high - sum.high)};
        put_sums(a->dx, at, dx, n);
    }
}

static void grad_task(void *arg, int64_t task) {
    const hst_softmax_grad_args *a = arg;
    range r = part(task, strips_in_task(a->rows, a->width), strips_in(a->outer, a->width));
    for (; r.begin < r.end; r.begin++) {
        strip s = strip_of(r.begin, a->rows, a->width);
        grad_strip(a, &s);
    }
}

bool KERNEL(softmax_grad)(hst_context *ctx, const hst_softmax_grad_args *args) {
    int64_t strips = strips_in(args->outer, args->width), in_task = strips_in_task(args->rows, args->width);
    hst_parallel(ctx, divide_up(strips, in_task), grad_task, (void *)args);
    return true;
}
