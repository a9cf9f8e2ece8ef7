// naive_math.c: the naive kernels of arithmetic with broadcasting and of functions of one number.
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
        sum[x] = add(args->dx.dtype, sum[x], term(args->function, args->operand, dy, a, b));
    }
    for (int64_t i = 0; i < size; i++) finish(args->dx, i, sum[i]);
    hst_workspace_free(ctx, sum);
    return true;
}

// ---- functions ----

// Beyond 40 on either side a Gaussian is 0 even in double: what is computed from x there has reached its limit, which
// infinities, inserted, would miss (infinity times 0).
static double within_40(double x) { return x < -40 ? -40 : x > 40 ? 40 : x; }

// The normal distribution's cumulative function P and its density. erfc keeps all digits of small P.
static double normal(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double density(double x) { return exp(-0.5 * x * x) / sqrt(2 * acos(-1)); }

// (1 + tanh(u)) / 2 = s(2 u) with the logistic sigmoid s; here 2 u = 2 sqrt(2/pi) (x + 0.044715 x^3) and its
// derivative.
static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double gelu_argument(double x) { return sqrt(8 / acos(-1)) * (x + 0.044715 * x * x * x); }
static double gelu_argument_slope(double x) { return sqrt(8 / acos(-1)) * (1 + 3 * 0.044715 * x * x); }

static double value(hst_function function, double parameter, double x) {
    double low = x < -40 ? -40 : x;
    switch (function) {
    case HST_FUNCTION_SIGMOID:
        return logistic(x);
    case HST_FUNCTION_TANH:
        return tanh(x);
    case HST_FUNCTION_RELU:
        return x <= 0 ? 0 : x;
    case HST_FUNCTION_GELU:
        return low * normal(low);
    case HST_FUNCTION_GELU_TANH:
        return low * logistic(gelu_argument(low));
    case HST_FUNCTION_EXP:
        return exp(x);
    case HST_FUNCTION_LOG:
        return log(x);
    case HST_FUNCTION_SQRT:
        return sqrt(x);
    default:
        return pow(x, parameter);
    }
}

// dy f'(x), from x or from y = f(x).
static double gradient(hst_function function, double parameter, double dy, double x, double y) {
    double near = within_40(x), s;
    switch (function) {
    case HST_FUNCTION_SIGMOID:
        return dy * y * (1 - y);
    case HST_FUNCTION_TANH:
        return dy * (1 - y) * (1 + y);
    case HST_FUNCTION_RELU:
        return y <= 0 ? 0 : dy;
    case HST_FUNCTION_GELU: // (x P(x))'
        return dy * (normal(near) + near * density(near));
    case HST_FUNCTION_GELU_TANH: // (x s(v(x)))', s' = s (1 - s)
        s = logistic(gelu_argument(near));
        return dy * (s + near * s * (1 - s) * gelu_argument_slope(near));
    case HST_FUNCTION_EXP:
        return dy * y;
    case HST_FUNCTION_LOG:
        return dy / x;
    case HST_FUNCTION_SQRT:
        return dy / (2 * y);
    default: // x^0 = 1 is level everywhere
        return parameter == 0 ? 0 : dy * parameter * pow(x, parameter - 1);
    }
}

bool KERNEL(unary)(hst_context *ctx, const hst_unary_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++)
        put(args->y, i, value(args->function, args->parameter, hst_load(args->x, i)));
    return true;
}

bool KERNEL(unary_grad)(hst_context *ctx, const hst_unary_grad_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++) {
        double x = load_or(args->x, i, 0), y = load_or(args->y, i, 0);
        put(args->dx, i, gradient(args->function, args->parameter, hst_load(args->dy, i), x, y));
    }
    return true;
}
