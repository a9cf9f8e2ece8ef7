// select.c: y = c ? a : b over an index space in which operands may repeat, and the gradient, which sums over the
// repetitions in double.
#include "ops/cpu/kernels.h"
#include "ops/cpu/repeated.h"

enum { C = OUT + 1, A, B, FORWARD, DY = A, BACKWARD }; // operands of the spaces, and how many each way has

// Lane l: -1 where (c != 0) == when, for element l of n; 0 in the lanes from n on.
INLINE vi choice(hst_source c, int64_t at, int64_t stride, bool when, int64_t n) {
    int32_t lanes[VL] = {0};
    for (int64_t l = 0; l < n && l < VL; l++) lanes[l] = -((hst_index_at(c, at + l * stride) != 0) == when);
    vi chosen;
    memcpy(&chosen, lanes, sizeof chosen);
    return chosen;
}

static void combine(const results *job, const int64_t *at, int64_t n) {
    const hst_select_args *args = job->args;
    const int64_t *stride = job->last.stride;
    vf first_a = repeated_at(args->a, at[A], stride[A]), first_b = repeated_at(args->b, at[B], stride[B]);
    for (int64_t i = 0; i < n; i += VL) {
        vi chosen = choice(args->c, at[C] + i * stride[C], stride[C], true, n - i);
        vf a = fetch(args->a, at[A] + i * stride[A], stride[A], n - i, first_a);
        vf b = fetch(args->b, at[B] + i * stride[B], stride[B], n - i, first_b);
        put(args->y, at[OUT] + i, pick(chosen, a, b), n - i);
    }
}

bool KERNEL(select)(hst_context *ctx, const hst_select_args *args) {
    space all = {.rank = args->rank};
    memcpy(all.shape, args->shape, sizeof args->shape);
    hst_row_major(args->rank, args->shape, all.stride[OUT]);
    memcpy(all.stride[C], args->c_stride, sizeof args->c_stride);
    memcpy(all.stride[A], args->a_stride, sizeof args->a_stride);
    memcpy(all.stride[B], args->b_stride, sizeof args->b_stride);
    make_results(ctx, &(results){.args = args, .operands = FORWARD, .combine = combine}, &all);
    return true;
}

// A term is dy where it was chosen, and 0 elsewhere: not a product, so that a NaN stays out.
static void add_run(const sums *job, const int64_t *at, int64_t n, wide *sum) {
    const hst_select_grad_args *args = job->args;
    const int64_t *stride = job->last.stride;
    vf first = repeated_at(args->dy, at[DY], stride[DY]); // in a space of one element
    for (int64_t i = 0; i < n; i += VL, sum += job->last_is_kept) {
        vi chosen = choice(args->c, at[C] + i * stride[C], stride[C], args->when, n - i);
        vf dy = fetch(args->dy, at[DY] + i * stride[DY], stride[DY], n - i, first);
        accumulate(sum, widened(pick(chosen, dy, splat(0))));
    }
}

bool KERNEL(select_grad)(hst_context *ctx, const hst_select_grad_args *args) {
    space all = {.rank = args->rank};
    memcpy(all.shape, args->shape, sizeof args->shape);
    memcpy(all.stride[OUT], args->d_stride, sizeof args->d_stride);
    memcpy(all.stride[C], args->c_stride, sizeof args->c_stride);
    hst_row_major(args->rank, args->shape, all.stride[DY]);
    return make_sums(ctx, &(sums){.args = args, .operands = BACKWARD, .to = args->d, .add_run = add_run}, &all);
}
