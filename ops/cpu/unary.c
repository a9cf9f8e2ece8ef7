// unary.c: functions of one number and their gradients. The function is a constant in the loops.
#include "ops/cpu/blocks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector_math.h"

#include <math.h>

enum { ABREAST = 4 };

#define FOR_EACH_FUNCTION(X)                                                                                           \
    X(HST_FUNCTION_SIGMOID)                                                                                            \
    X(HST_FUNCTION_TANH)                                                                                               \
    X(HST_FUNCTION_RELU)                                                                                               \
    X(HST_FUNCTION_GELU)                                                                                               \
    X(HST_FUNCTION_GELU_TANH)                                                                                          \
    X(HST_FUNCTION_EXP)                                                                                                \
    X(HST_FUNCTION_LOG)                                                                                                \
    X(HST_FUNCTION_SQRT)                                                                                               \
    X(HST_FUNCTION_POW)

// ---- values ----

INLINE vf log_of(vf x) {
    UNROLL for (int l = 0; l < VL; l++) x[l] = (float)log((double)x[l]);
    return x;
}
INLINE vf pow_of(vf x, double exponent) {
    UNROLL for (int l = 0; l < VL; l++) x[l] = (float)pow((double)x[l], exponent);
    return x;
}

// x, but at least -15: there x P(x) has reached its limit 0, which -inf times 0 would miss.
INLINE vf from_minus_15(vf x) { return maximum(splat(-15), x); }

INLINE void gelu_of(vf *x, int n) {
    vf e[ABREAST], tail[ABREAST];
    EACH(i, n) e[i] = x[i];
    normal_of(e, tail, n);
    EACH(i, n) x[i] = from_minus_15(x[i]) * pick(x[i] < 0, tail[i], 1 - tail[i]);
}

// (1 + tanh(u)) / 2 = s(2 u) with the logistic sigmoid s, and 2 u = x (V1 + V3 x^2).
#define V1 0x1.988454p+0f // 2 sqrt(2 / pi)
#define V3 0x1.2444f2p-4f // 0.044715 of it
INLINE void gelu_tanh_of(vf *x, int n) {
    vf s[ABREAST];
    EACH(i, n) x[i] = from_minus_15(x[i]);
    EACH(i, n) s[i] = x[i] * multiply_add(x[i] * x[i], splat(V3), splat(V1));
    sigmoid_of(s, n);
    EACH(i, n) x[i] = x[i] * s[i];
}

INLINE void values_of(hst_function function, double parameter, vf *x, int n) {
    if (function == HST_FUNCTION_SIGMOID) sigmoid_of(x, n);
    if (function == HST_FUNCTION_TANH) tanh_of(x, n);
    if (function == HST_FUNCTION_GELU) gelu_of(x, n);
    if (function == HST_FUNCTION_GELU_TANH) gelu_tanh_of(x, n);
    if (function == HST_FUNCTION_EXP) exp_of(x, n);
    EACH(i, n) {
        if (function == HST_FUNCTION_RELU) x[i] = pick(x[i] <= 0, splat(0), x[i]);
        if (function == HST_FUNCTION_LOG) x[i] = log_of(x[i]);
        if (function == HST_FUNCTION_SQRT) x[i] = square_root(x[i]);
        if (function == HST_FUNCTION_POW) x[i] = pow_of(x[i], parameter);
    }
}

// For `count` vectors from element i on; the last has n elements.
INLINE void put_values(const hst_unary_args *a, int64_t i, int64_t n, hst_function function, int count) {
    vf x[ABREAST];
    EACH(v, count) x[v] = get(a->x, i + v * VL, n);
    values_of(function, a->parameter, x, count);
    EACH(v, count) put(a->y, i + v * VL, x[v], n);
}

INLINE void values_task(const hst_unary_args *a, range r, hst_function function) {
    for (; r.begin + ABREAST * VL <= r.end; r.begin += ABREAST * VL) put_values(a, r.begin, VL, function, ABREAST);
    for (; r.begin < r.end; r.begin += VL) put_values(a, r.begin, r.end - r.begin, function, 1);
}

static void unary_task(void *arg, int64_t task) {
    const hst_unary_args *a = arg;
    range r = part(task, TASK_ELEMENTS, a->count);
#define VALUES(name)                                                                                                   \
    case name:                                                                                                         \
        values_task(a, r, name);                                                                                       \
        break;
    switch (a->function) { FOR_EACH_FUNCTION(VALUES) }
}

bool KERNEL(unary)(hst_context *ctx, const hst_unary_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), unary_task, (void *)args);
    return true;
}

// ---- gradients ----

// P(x) + x P'(x); from 15 on it has reached its limit 1, as have 0 below -15.
INLINE void gelu_slope_of(vf *x, int n) {
    vf e[ABREAST], tail[ABREAST];
    EACH(i, n) x[i] = minimum(splat(15), from_minus_15(x[i]));
    EACH(i, n) e[i] = x[i];
    normal_of(e, tail, n);
    EACH(i, n) x[i] = multiply_add(x[i] * 0x1.988454p-2f, e[i], pick(x[i] < 0, tail[i], 1 - tail[i])); // 1 / sqrt(2 pi)
}

// s + x s (1 - s) v', with v = x (V1 + V3 x^2)
INLINE void gelu_tanh_slope_of(vf *x, int n) {
    vf s[ABREAST];
    EACH(i, n) x[i] = minimum(splat(15), from_minus_15(x[i]));
    EACH(i, n) s[i] = x[i] * multiply_add(x[i] * x[i], splat(V3), splat(V1));
    sigmoid_of(s, n);
    EACH(i, n) x[i] = s[i] + x[i] * s[i] * (1 - s[i]) * multiply_add(x[i] * x[i], splat(3 * V3), splat(V1));
}

// v is x or y, as the function wants it, and becomes dx.
INLINE void slopes_of(hst_function function, double parameter, const vf *dy, vf *v, int n) {
    if (function == HST_FUNCTION_GELU) gelu_slope_of(v, n);
    if (function == HST_FUNCTION_GELU_TANH) gelu_tanh_slope_of(v, n);
    EACH(i, n) {
        vf y = v[i];
        switch (function) {
        case HST_FUNCTION_SIGMOID:
            v[i] = dy[i] * (y * (1 - y));
            break;
        case HST_FUNCTION_TANH:
            v[i] = dy[i] * ((1 - y) * (1 + y));
            break;
        case HST_FUNCTION_RELU:
            v[i] = pick(y <= 0, splat(0), dy[i]);
            break;
        case HST_FUNCTION_SQRT:
            v[i] = dy[i] * 0.5f / y;
            break;
        case HST_FUNCTION_LOG:
            v[i] = dy[i] / y;
            break;
        case HST_FUNCTION_POW:
            v[i] = parameter == 0 ? splat(0) : dy[i] * ((float)parameter * pow_of(y, parameter - 1));
            break;
        default: // exp, and the two above
            v[i] = dy[i] * y;
        }
    }
}

INLINE void put_gradients(const hst_unary_grad_args *a, int64_t i, int64_t n, hst_function function, int count) {
    vf dy[ABREAST], v[ABREAST];
    EACH(o, count) dy[o] = get(a->dy, i + o * VL, n);
    EACH(o, count) v[o] = get(a->x.data ? a->x : a->y, i + o * VL, n);
    slopes_of(function, a->parameter, dy, v, count);
    EACH(o, count) put(a->dx, i + o * VL, v[o], n);
}

INLINE void gradients_task(const hst_unary_grad_args *a, range r, hst_function function) {
    for (; r.begin + ABREAST * VL <= r.end; r.begin += ABREAST * VL) put_gradients(a, r.begin, VL, function, ABREAST);
    for (; r.begin < r.end; r.begin += VL) put_gradients(a, r.begin, r.end - r.begin, function, 1);
}

static void unary_grad_task(void *arg, int64_t task) {
    const hst_unary_grad_args *a = arg;
    range r = part(task, TASK_ELEMENTS, a->count);
#define GRADIENTS(name)                                                                                                \
    case name:                                                                                                         \
        gradients_task(a, r, name);                                                                                    \
        break;
    switch (a->function) { FOR_EACH_FUNCTION(GRADIENTS) }
}

bool KERNEL(unary_grad)(hst_context *ctx, const hst_unary_grad_args *args) {
    hst_parallel(ctx, divide_up(args->count, TASK_ELEMENTS), unary_grad_task, (void *)args);
    return true;
}
