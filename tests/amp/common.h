// common.h: what the tests of regions share.
#ifndef TESTS_AMP_COMMON_H
#define TESTS_AMP_COMMON_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "amp/amp.h"
#include "tests/tensor/expect.h"

static hst_context *ctx;

static inline void open_context(void) { ctx = hst_open(NULL); }
static inline void close_context(void) { hst_close(ctx); }

static inline void begin(hst_dtype dtype, hst_op_list ops) {
    hst_autocast_begin(ctx, &(hst_autocast){.dtype = dtype, .ops = ops});
}

static inline void expect_all(const hst_tensor *t, double value) {
    cr_assert(t, "%s", hst_error(ctx));
    double values[64];
    hst_copy_out(t, HST_F64, values);
    for (int64_t i = 0; i < hst_count(t); i++) cr_assert(values[i] == value, "%.9g, not %.9g", values[i], value);
}

#endif
