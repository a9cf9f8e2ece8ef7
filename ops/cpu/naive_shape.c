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

static int64_t count_of(int rank, const int64_t *shape) {
    int64_t count = 1;
    for (int axis = 0; axis < rank; axis++) count *= shape[axis];
    return count;
}

// Where element i of an index space, counted with the last axis fastest, lies in memory.
static int64_t offset_at(int rank, const int64_t *shape, const int64_t *stride, int64_t i) {
    int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        at += i % shape[axis] * stride[axis];
        i /= shape[axis];
    }
    return at;
}

bool KERNEL(select)(hst_context *ctx, const hst_select_args *args) {
    (void)ctx;
    for (int64_t i = 0, n = count_of(args->rank, args->shape); i < n; i++) {
        bool chosen = hst_index_at(args->c, offset_at(args->rank, args->shape, args->c_stride, i)) != 0;
        hst_source from = chosen ? args->a : args->b;
        put(args->y, i,
            hst_load(from, offset_at(args->rank, args->shape, chosen ? args->a_stride : args->b_stride, i)));
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
    for (int64_t i = 0, n = count_of(args->rank, args->shape); i < n; i++) {
        int64_t c = offset_at(args->rank, args->shape, args->c_stride, i);
        int64_t d = offset_at(args->rank, args->shape, args->d_stride, i);
        bool chosen = !args->c.data || hst_index_at(args->c, c) != 0;
        if (chosen == args->when) sum[d] = add(sum[d], hst_load(args->dy, i));
    }
    for (int64_t i = 0; i < size; i++) finish(args->d, i, sum[i]);
    hst_workspace_free(ctx, sum);
    return true;
}
