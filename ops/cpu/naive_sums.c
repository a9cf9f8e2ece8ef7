// naive_sums.c: the naive matrix product and sums over rows.
#include "ops/cpu/naive.h"

// Gradients of C = A B + bias are products again, with dC: dA = dC B^T, dB = A^T dC; dbias is a sum over rows.
bool KERNEL(gemm)(hst_context *ctx, const hst_gemm_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->m; i++)
        for (int64_t j = 0; j < args->n; j++) {
            double sum = add(args->c.dtype, start(args->c, i * args->c_row + j), load_or(args->bias, j, 0));
            for (int64_t k = 0; k < args->k; k++) {
                double a = hst_load(args->a, i * args->a_row + k * args->a_col);
                double b = hst_load(args->b, k * args->b_row + j * args->b_col);
                sum = add(args->c.dtype, sum, a * b);
            }
            finish(args->c, i * args->c_row + j, sum);
        }
    return true;
}

bool KERNEL(gemm_batch)(hst_context *ctx, const hst_gemm_batch_args *args) {
    for (int64_t i = 0; i < args->count; i++) {
        hst_gemm_args g = args->first;
        g.a.data = (const char *)g.a.data + (size_t)(i * args->a_step) * hst_dtype_size(g.a.dtype);
        g.b.data = (const char *)g.b.data + (size_t)(i * args->b_step) * hst_dtype_size(g.b.dtype);
        g.c.data = (char *)g.c.data + (size_t)(i * args->c_step) * hst_dtype_size(g.c.dtype);
        KERNEL(gemm)(ctx, &g);
    }
    return true;
}

bool KERNEL(sum)(hst_context *ctx, const hst_sum_args *args) {
    (void)ctx;
    for (int64_t o = 0; o < args->outer; o++)
        for (int64_t j = 0; j < args->width; j++) {
            double sum = 0;
            for (int64_t i = 0; i < args->rows; i++)
                sum = add(args->y.dtype, sum, hst_load(args->x, (o * args->rows + i) * args->width + j));
            put(args->y, o * args->width + j, args->factor * sum);
        }
    return true;
}

bool KERNEL(square_sum)(hst_context *ctx, const hst_square_sum_args *args) {
    (void)ctx;
    *args->sum = 0;
    for (int64_t i = 0; i < args->count; i++) {
        double value = hst_load(args->x, i);
        *args->sum = add(args->x.dtype, *args->sum, value * value);
    }
    return true;
}

bool KERNEL(unscale)(hst_context *ctx, const hst_unscale_args *args) {
    (void)ctx;
    *args->sum = 0;
    for (int64_t i = 0; i < args->count; i++) {
        args->g[i] = (hst_real)(args->factor * args->g[i]);
        *args->sum = add(HST_F32, *args->sum, (double)args->g[i] * args->g[i]);
    }
    return true;
}
