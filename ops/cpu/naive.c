// naive.c: the naive kernels that work element by element: copy, dropout. Arithmetic and functions are in
// naive_math.c, sums and products in naive_sums.c, norms and cross entropy in naive_rows.c, the SRU in naive_sru.c, the
// optimizers' steps in naive_update.c.
#include "ops/cpu/naive.h"

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

bool KERNEL(copy)(hst_context *ctx, const hst_copy_args *args) {
    (void)ctx;
    bool integers = is_integer(args->from.dtype) && is_integer(args->to.dtype);
    int64_t count = elements(args->rank, args->shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = position(args->rank, args->shape, args->from_stride, i);
        int64_t to = position(args->rank, args->shape, args->to_stride, i);
        if (integers)
            put_integer(args->to, to, hst_index_at(args->from, from));
        else
            put(args->to, to, hst_load(args->from, from));
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
