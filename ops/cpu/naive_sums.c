// naive_sums.c: the naive matrix product, sums over rows, and the table lookup with its scatter-add backward.
#include "ops/cpu/naive.h"

// Gradients of C = A B + bias are products again, with dC: dA = dC B^T, dB = A^T dC; dbias is a sum over rows.
bool KERNEL(gemm)(hst_context *ctx, const hst_gemm_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->m; i++)
        for (int64_t j = 0; j < args->n; j++) {
            double sum = add(start(args->c, i * args->c_row + j), load_or(args->bias, j, 0));
            for (int64_t k = 0; k < args->k; k++) {
                double a = hst_load(args->a, i * args->a_row + k * args->a_col);
                double b = hst_load(args->b, k * args->b_row + j * args->b_col);
                sum = add(sum, a * b);
            }
            finish(args->c, i * args->c_row + j, sum);
        }
    return true;
}

bool KERNEL(sum)(hst_context *ctx, const hst_sum_args *args) {
    (void)ctx;
    for (int64_t o = 0; o < args->outer; o++)
        for (int64_t j = 0; j < args->width; j++) {
            double sum = 0;
            for (int64_t i = 0; i < args->rows; i++)
                sum = add(sum, hst_load(args->x, (o * args->rows + i) * args->width + j));
            put(args->y, o * args->width + j, args->factor * sum);
        }
    return true;
}

bool KERNEL(square_sum)(hst_context *ctx, const hst_square_sum_args *args) {
    (void)ctx;
    *args->sum = 0;
    for (int64_t i = 0; i < args->count; i++) {
        double value = hst_load(args->x, i);
        *args->sum = add(*args->sum, value * value);
    }
    return true;
}

bool KERNEL(lookup)(hst_context *ctx, const hst_lookup_args *args) {
    if (!hst_check_ids(ctx, "embedding: id", args->ids, args->count, args->rows)) return false;
    for (int64_t i = 0; i < args->count; i++) {
        int64_t id = hst_index_at(args->ids, i);
        for (int64_t j = 0; j < args->width; j++)
            put(args->y, i * args->width + j, hst_load(args->table, id * args->width + j));
    }
    return true;
}

// y[i][j] = table[ids[i]][j], hence dtable[r][j] = sum of dy[i][j] over the i with ids[i] = r. All sums grow side by
// side, in double, and each is rounded once.
bool KERNEL(lookup_grad)(hst_context *ctx, const hst_lookup_grad_args *args) {
    int64_t width = args->width, size = args->rows * width;
    double *sum = hst_workspace(ctx, (size_t)size * sizeof *sum);
    if (!sum) return false;
    for (int64_t i = 0; i < size; i++) sum[i] = start(args->dtable, i);
    for (int64_t i = 0; i < args->count; i++) {
        double *row = sum + hst_index_at(args->ids, i) * width;
        for (int64_t j = 0; j < width; j++) row[j] = add(row[j], hst_load(args->dy, i * width + j));
    }
    for (int64_t i = 0; i < size; i++) finish(args->dtable, i, sum[i]);
    hst_workspace_free(ctx, sum);
    return true;
}
