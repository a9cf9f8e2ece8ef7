// common.h: what the autograd tests share: a context for each test, small tensors, comparing values.
#ifndef TESTS_AUTOGRAD_COMMON_H
#define TESTS_AUTOGRAD_COMMON_H

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "ops/ops.h"
#include "tests/tensor/expect.h"

static hst_context *ctx;

static inline void open_context(void) { ctx = hst_open(NULL); }
static inline void close_context(void) { hst_close(ctx); }

#define LENGTH(array) ((int64_t)(sizeof(array) / sizeof *(array)))

// A vector of the given dtype and elements, an fp32 matrix, and an fp32 vector as a leaf with an fp32 gradient.
static inline hst_tensor *vector_of(hst_dtype dtype, int64_t count, const double *values) {
    return hst_from_array(ctx, dtype, 1, &count, HST_F64, values);
}
static inline hst_tensor *with_gradient(hst_tensor *t, hst_request request) {
    hst_attach_grad(t, request, HST_F32);
    return t;
}
#define VECTOR(dtype, ...) vector_of(dtype, LENGTH(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})
#define MATRIX(rows, columns, ...)                                                                                     \
    hst_from_array(ctx, HST_F32, HST_SHAPE(rows, columns), HST_F32, (float[]){__VA_ARGS__})
#define LEAF(...) with_gradient(VECTOR(HST_F32, __VA_ARGS__), HST_WRITE)

static inline void expect_values(int line, const hst_tensor *t, int64_t count, const double *expected) {
    cr_assert_eq(hst_get_status(ctx), HST_OK, "line %d: %s", line, hst_error(ctx));
    cr_assert(t && hst_count(t) == count, "line %d: %lld elements expected", line, (long long)count);
    double values[64];
    hst_copy_out(t, HST_F64, values);
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(values[i], expected[i], "line %d: element %lld is %.9g, not %.9g", line, (long long)i, values[i],
                     expected[i]);
}
#define EXPECT(t, ...) expect_values(__LINE__, t, LENGTH(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

#define EXPECT_ERROR(status, words) EXPECT_ERROR_OF(ctx, status, words)

static inline int tape_length(void) { return ctx->tape ? ctx->tape->count : 0; }

static inline hst_memory memory(void) {
    hst_memory stats;
    hst_memory_stats(ctx, &stats);
    return stats;
}

#endif
