// sums_drivers.h: what the drivers of sums share: operands made of the terms, and where a result goes.
#ifndef TESTS_OPS_SUMS_DRIVERS_H
#define TESTS_OPS_SUMS_DRIVERS_H

#include "autograd/op.h"
#include "ops/ops.h"
#include "tests/ops/sums.h"

#include <math.h>

static inline hst_tensor *terms(const probe *p, int rank, const int64_t *shape) {
    return hst_from_array(p->ctx, p->dtype, rank, shape, HST_F64, p->terms);
}
static inline hst_tensor *ones(const probe *p, int rank, const int64_t *shape) {
    return hst_full(p->ctx, p->dtype, rank, shape, 1);
}
static inline double first_of(hst_tensor *t) {
    double x = NAN;
    if (t) x = hst_load(hst_source_of(t), 0);
    return x;
}

// The result `got`, which is `factor` times the sum of the first n terms and was rounded to `dtype`.
static inline void found(probe *p, double got, hst_dtype dtype, double factor, int64_t n) {
    p->got = got / factor;
    p->want = p->prefix[n];
    p->ulp = ulp_of(dtype, got) / fabs(factor);
    p->count = (double)n;
    p->sizes = p->size[n];
    p->other = 0;
}

// ---- sums_by_kernels.c ----

sum_driver norm_mean, norm_variance, norm_mean_square, norm_dx_sum, norm_dx_product, norm_dx_both, norm_dgain,
    norm_dbias, recurrence_h, recurrence_dc0, recurrence_dv, recurrence_dbias;

#endif
