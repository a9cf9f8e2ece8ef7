// sums.h: the property of every sum, |r - s| <= 1/2 ulp(r) + g sum |x|, row by row: test_sums.c draws the terms x and
// judges, drivers in sums_drivers.c and sums_by_kernels.c have each row of ops/sums.c add them.
#ifndef TESTS_OPS_SUMS_H
#define TESTS_OPS_SUMS_H

#include "ops/sums.h"
#include "tests/ops/isas.h"

enum { TERMS = 1 << 17, STEPS = 4096 }; // of most rows; of those that need a call or a recorded operation a term

// What a driver is given, and what it finds.
typedef struct probe {
    hst_context *ctx;
    bool planted;        // the context rounds while adding; a driver whose sum would be f32 all the same plants 16 bits
    hst_dtype dtype;     // of operands and gradients
    const double *terms; // [TERMS], numbers of that dtype; the last is 0
    const double *prefix; // prefix[n]: exact sums of the first n terms, and of their sizes
    const double *size;
    // found:
    double got, want; // the result and what it would be exactly
    double ulp;       // at the result, of the dtype that it was rounded to
    double count;     // n of the bound
    double sizes;     // sum |x|
    double other;     // errors of the driver's own that are not the sum's
} probe;

double ulp_of(hst_dtype dtype, double x);

typedef void sum_driver(probe *p);

// One for each row of hst_sum_table, in its order.
typedef struct driven_row {
    const char *operation, *result;
    sum_driver *drive;
    bool own_terms;    // not p->terms: once for each dtype is enough
    bool f32_is_meant; // with f32 operands rounding after each addition is what the row does, or its terms are exact so
    bool always_f32;   // there is no 16-bit form that could be planted
} driven_row;
extern const driven_row driven_rows[];
extern const int driven_row_count;

#endif
