// sums.h: every sum of the library, one row each: where numbers are added whose count grows with a shape, or call after
// call. The chapter has the same table and what its kinds promise (ops/README.md); `halfstep info --ops` prints it;
// tests/ops/test_sums.c drives every row. The two or three numbers of a + b or of u + bias are no row: such a result is
// rounded once, whatever is added.
#ifndef HST_SUMS_H
#define HST_SUMS_H

#include "ops/table.h"

typedef enum hst_sum_kind {
    HST_SUM_REDUCTION,  // (a) length grows with the data: in double
    HST_SUM_PRODUCT,    // (b) products: f32 in blocks of at most 256 terms
    HST_SUM_RECURRENCE, // (c) step by step: f32, parameters' gradients in f32 for 64 steps and then in double
    HST_SUM_CARRIED     // (d) from call to call: f32, one rounding a call
} hst_sum_kind;

typedef struct hst_sum_row {
    const char *operation; // a row of the op table, or the function that adds
    const char *result;    // where the sum ends up: an output, the gradient of an argument
    hst_sum_kind kind;
    const char *terms;
} hst_sum_row;

extern const hst_sum_row hst_sum_table[];
extern const int hst_sum_count;

#endif
