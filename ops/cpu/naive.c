// naive.c: the naive kernels that work element by element: copy, combine, dropout, and the optimizers'
// updates. Sums and products are in naive_sums.c, layer norm and cross entropy in naive_rows.c, the SRU in naive_sru.c.
#include "ops/cpu/naive.h"

#include <math.h>

static bool is_integer(hst_dtype dtype) { return dtype == HST_I32 || dtype == HST_I64 || dtype == HST_U8; }

// y[i] (+)= value, saturating. Integers do not go through double, which is exact only to 2^53.
static void put_integer(hst_target y, int64_t i, int64_t value) {
    int64_t sum = value;
    if (y.add && __builtin_add_overflow(hst_index_at((hst_source){y.data, y.dtype}, i), value, &sum))
        sum = value < 0 ? INT64_MIN : INT64_MAX;
    if (y.dtype == HST_U8)
        ((uint8_t *)y.data)[i] = (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
    else if (y.dtype == HST_I32)
        ((int32_t *)y.data)[i] = (int32_t)(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
    else
        ((int64_t *)y.data)[i] = sum;
}

// Where element i of an index space, counted with the last axis fastest, lies in memory.
static int64_t position(const hst_copy_args *args, const int64_t *stride, int64_t i) {
    int64_t at = 0;
    for (int axis = args->rank - 1; axis >= 0; axis--) {
        at += i % args->shape[axis] * stride[axis];
        i /= args->shape[axis];
    }
    return at;
}

bool KERNEL(copy)(hst_context *ctx, const hst_copy_args *args) {
    (void)ctx;
    bool integers = is_integer(args->from.dtype) && is_integer(args->to.dtype);
    int64_t count = 1;
    for (int axis = 0; axis < args->rank; axis++) count *= args->shape[axis];
    for (int64_t i = 0; i < count; i++) {
        int64_t from = position(args, args->from_stride, i), to = position(args, args->to_stride, i);
        if (integers)
            put_integer(args->to, to, hst_index_at(args->from, from));
        else
            put(args->to, to, hst_load(args->from, from));
    }
    return true;
}

bool KERNEL(combine)(hst_context *ctx, const hst_combine_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++) {
        double y = args->alpha * hst_load(args->a, i * args->a_step);
        if (args->b.data) y = add(y, args->beta * hst_load(args->b, i * args->b_step));
        put(args->y, i, y);
    }
    return true;
}

// The derivative of y[i] = x[i] scale[i] by x[i] is scale[i], whatever x is: backward is this kernel on dy.
bool KERNEL(dropout)(hst_context *ctx, const hst_dropout_args *args) {
    (void)ctx;
    uint32_t words[4];
    for (int64_t i = 0; i < args->count; i++) {
        if (i % 4 == 0) hst_philox(args->key, (uint64_t)i / 4, words);
        bool dropped = hst_unit(words[i % 4]) < args->p;
        for (int64_t at = i; at < args->repeats * args->count; at += args->count)
            put(args->y, at, dropped ? 0 : hst_load(args->x, at) / (1 - args->p));
    }
    return true;
}

bool KERNEL(adamw)(hst_context *ctx, const hst_adamw_args *args) {
    (void)ctx;
    double b1 = args->beta1, b2 = args->beta2;
    // m and v start at zero; these divisors make them averages of the gradients so far.
    double m_weight = 1 - pow(b1, (double)args->step), v_weight = 1 - pow(b2, (double)args->step);
    for (int64_t i = 0; i < args->count; i++) {
        double g = args->factor * hst_load(args->g, i), w = args->w[i];
        double m = b1 * args->m[i] + (1 - b1) * g;
        double v = b2 * args->v[i] + (1 - b2) * g * g;
        double step = m / m_weight / (sqrt(v / v_weight) + args->eps) + args->decay * w;
        args->m[i] = (hst_real)m;
        args->v[i] = (hst_real)v;
        args->w[i] = (hst_real)(w - args->lr * step);
    }
    return true;
}

bool KERNEL(sgd)(hst_context *ctx, const hst_sgd_args *args) {
    (void)ctx;
    for (int64_t i = 0; i < args->count; i++) {
        double w = args->w[i];
        double step = args->factor * hst_load(args->g, i) + args->decay * w;
        if (args->m) {
            step += args->momentum * args->m[i];
            args->m[i] = (hst_real)step;
        }
        args->w[i] = (hst_real)(w - args->lr * step);
    }
    return true;
}
