// max.c: the greatest of the rows, and its gradient, which equals share.
#include "ops/cpu/kernels.h"
#include "ops/cpu/strips.h"

static void max_task(void *arg, int64_t task) {
    const hst_max_args *a = arg;
    range r = part(task, strips_in_task(a->rows, a->width), strips_in(a->outer, a->width));
    for (; r.begin < r.end; r.begin++) {
        strip s = strip_of(r.begin, a->rows, a->width);
        put(a->y, s.result, maximum_of(a->x, &s), results_of(&s));
    }
}

bool KERNEL(max)(hst_context *ctx, const hst_max_args *args) {
    int64_t strips = strips_in(args->outer, args->width), in_task = strips_in_task(args->rows, args->width);
    hst_parallel(ctx, divide_up(strips, in_task), max_task, (void *)args);
    return true;
}

static void put_shares(const hst_max_grad_args *a, const strip *s) {
    vf y = result_at(a->y, s);
    wide equals = {{0}, {0}};
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i);
        vf x = get(a->x, s->first + i * s->step, n);
        accumulate(&equals, widened(first_lanes(pick(x == y, splat(1), splat(0)), n, 0)));
    }
    vf share = result_at(a->dy, s) / narrowed(gathered(s, equals));
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i), at = s->first + i * s->step;
        vf dx = pick(get(a->x, at, n) == y, share, splat(0));
        put(a->dx, at, pick(y != y, y, dx), n);
    }
}

static void max_grad_task(void *arg, int64_t task) {
    const hst_max_grad_args *a = arg;
    range r = part(task, strips_in_task(a->rows, a->width), strips_in(a->outer, a->width));
    for (; r.begin < r.end; r.begin++) {
        strip s = strip_of(r.begin, a->rows, a->width);
        put_shares(a, &s);
    }
}

bool KERNEL(max_grad)(hst_context *ctx, const hst_max_grad_args *args) {
    int64_t strips = strips_in(args->outer, args->width), in_task = strips_in_task(args->rows, args->width);
    hst_parallel(ctx, divide_up(strips, in_task), max_grad_task, (void *)args);
    return true;
}
