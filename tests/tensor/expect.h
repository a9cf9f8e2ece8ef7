// expect.h: asserts that a context holds an error with certain words in its sentence, and clears it.
//
//     hst_zeros(ctx, HST_F32, HST_SHAPE(-1));
//     EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "-1");
#ifndef TESTS_TENSOR_EXPECT_H
#define TESTS_TENSOR_EXPECT_H

#include <criterion/criterion.h>
#include <string.h>

#include "tensor/tensor.h"

static inline void expect_error(hst_context *ctx, int line, hst_status status, const char *words) {
    cr_assert_eq(hst_get_status(ctx), status, "line %d: status %d, not %d: %s", line, (int)hst_get_status(ctx),
                 (int)status, hst_error(ctx));
    cr_assert(strstr(hst_error(ctx), words), "line %d: \"%s\" should say \"%s\"", line, hst_error(ctx), words);
    hst_clear_error(ctx);
}
#define EXPECT_ERROR_OF(ctx, status, words) expect_error(ctx, __LINE__, status, words)

#endif
