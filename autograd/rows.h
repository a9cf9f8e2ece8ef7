// rows.h: row-sparse gradients. A leaf has either a dense `grad` or the pair row_ids (n), ascending, and row_values
// (n, ...), whose other rows are 0.
#ifndef HST_ROWS_H
#define HST_ROWS_H

#include "autograd/op.h"

// Gives the leaf n rows, whose ids and values are not set; those that it had are let go.
bool hst_make_rows(hst_tensor *leaf, hst_dtype dtype, int64_t n);

// Gives it the rows ids[n], ascending; keeping: those that it had, which are among them, keep their values and the
// others are 0, else no value is set.
bool hst_set_rows(hst_tensor *leaf, int64_t n, const int64_t *ids, bool keep);

// Makes the gradient of gradient->leaf a dense one, which `into` then is.
bool hst_make_dense(hst_gradient *gradient);

#endif
