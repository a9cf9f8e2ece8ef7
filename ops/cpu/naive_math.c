// naive_math.c: the naive kernels of arithmetic with broadcasting.
#include "ops/cpu/naive.h"

#include <math.h>

static double combined(hst_arithmetic function, double a, double b) {
    switch (function) {
    case HST_PLUS:
        return a + b;
    case HST_MINUS:
        return a - b;
    case HST_TIMES:
        return a * b;
    default:
        return a / b;
    }
}

bool KERNEL(binary)(hst_context *ctx, const hst_binary_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < elements(args->rank, args->shape); i++) {
        double a = hst_load(args->a, position(args->rank, args->shape, args->a_stride, i));
        double b = hst_load(args->b, position(args->rank, args->shape, args->b_stride, i));
        put(args->y, i, combined(args->function, a, b));
    }
    return true;
}

// dy times the derivative by a, or by b:   a + b: 1, 1     a - b: 1, -1     a b: b, a     a / b: 1 / b, -a / b^2
static double term(hst_arithmetic function, int operand, double dy, double a, double b) {
    switch (function) {
    case HST_PLUS:
        return dy;
    case HST_MINUS:
        return operand == 0 ? dy : -dy;
    case HST_TIMES:
        return operand == 0 ? dy * b : dy * a;
    default:
        return operand == 0 ? dy / b : -dy * a / (b * b);
    }
}

// Each term goes to the element of the operand that it came from. All sums grow side by side, in double.
bool KERNEL(binary_grad)(hst_context *ctx, const hst_binary_grad_args *args) {
    int64_t size = 1;
    for (int axis = 0; axis < args->rank; axis++)
        if (args->dx_stride[axis] != 0) size *= args->shape[axis];
    double *sum = hst_workspace(ctx, (size_t)size * sizeof *sum);
    if (!sum) return false;
    for (int64_t i = 0; i < size; i++) sum[i] = start(args->dx, i);
    for (int64_t i = 0; i < elements(args->rank, args->shape); i++) {
        double dy = hst_load(args->dy, i);
        double a = load_or(args->a, position(args->rank, args->shape, args->a_stride, i), 0);
        double b = load_or(args->b, position(args->rank, args->shape, args->b_stride, i), 0);
        int64_t x = position(args->rank, args->shape, args->dx_stride, i);
        sum[x] = add(sum[x], term(args->function, args->operand, dy, a, b));
    }
    for (int64_t i = 0; i < size; i++) finish(args->dx, i, sum[i]);
    hst_workspace_free(ctx, sum);
    return true;
}
