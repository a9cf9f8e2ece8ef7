// naive_shape.c: the naive kernels that move elements: one-hot rows, and the choice between two operands.
#include "ops/cpu/naive.h"

// ---- one-hot ----

bool KERNEL(one_hot)(hst_context *ctx, const hst_one_hot_args *args) {
    if (!hst_check_ids(ctx, args->what, args->ids, HST_INDEX_RAISE, args->count, args->classes)) return false;
    for (int64_t i = 0; i < args->count; i++)
        for (int64_t c = 0; c < args->classes; c++)
            put(args->y, i * args->classes + c, hst_index_at(args->ids, i) == c);
    return true;
}

// ---- select ----

bool KERNEL(select)(hst_context *ctx, const hst_select_args *args) {
    (void)ctx;
    for (int64_t i = 0, n = elements(args->rank, args->shape); i < n; i++) {
        bool chosen = hst_index_at(args->c, position(args->rank, args->shape, args->c_stride, i)) != 0;
        hst_source from = chosen ? args->a : args->b;
        put(args->y, i, hst_load(from, position(args->rank, args->shape, chosen ? args->a_stride : args->b_stride, i)));
    }
    return true;
}

// y = c ? a : b, hence da = the sum of dy over the elements that are this a and were chosen, and db of the others.
bool KERNEL(select_grad)(hst_context *ctx, const hst_select_grad_args *args) {
    int64_t size = 1;
    for (int axis = 0; axis < args->rank; axis++)
        if (args->d_stride[axis] != 0) size *= args->shape[axis];
    double *sum = hst_workspace(ctx, (size_t)size * sizeof *sum);
    if (!sum) return false;
    for (int64_t i = 0; i < size; i++) sum[i] = start(args->d, i);
    for (int64_t i = 0, n = elements(args->rank, args->shape); i < n; i++) {
        int64_t c = position(args->rank, args->shape, args->c_stride, i);
        int64_t d = position(args->rank, args->shape, args->d_stride, i);
        if ((hst_index_at(args->c, c) != 0) == args->when) sum[d] = add(args->d.dtype, sum[d], hst_load(args->dy, i));
    }
    for (int64_t i = 0; i < size; i++) finish(args->d, i, sum[i]);
    hst_workspace_free(ctx, sum);
    return true;
}
