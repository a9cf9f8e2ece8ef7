// rows.c: row-sparse gradients: rows that come and go, and their end as a dense gradient.
#include <string.h>
#include "autograd/rows.h"

static size_t row_bytes(const hst_tensor *leaf, hst_dtype dtype) {
    size_t bytes = hst_dtype_size(dtype);
    for (int i = 1; i < leaf->rank; i++) bytes *= (size_t)leaf->shape[i];
    return bytes;
}

bool hst_make_rows(hst_tensor *leaf, hst_dtype dtype, int64_t n) {
    hst_context *ctx = leaf->ctx;
    int64_t shape[HST_MAX_RANK];
    memcpy(shape, leaf->shape, sizeof shape);
    shape[0] = n;
    hst_category category = ctx->category;
    ctx->category = HST_GRADIENTS;
    hst_tensor *ids = hst_own(hst_new(ctx, HST_I64, 1, &n)), *values = hst_own(hst_new(ctx, dtype, leaf->rank, shape));
    ctx->category = category;
    if (!ids || !values) {
        hst_unretain(ids);
        hst_unretain(values);
        return false;
    }
    hst_unretain(leaf->row_ids);
    hst_unretain(leaf->row_values);
    leaf->row_ids = ids;
    leaf->row_values = values;
    return true;
}

static int64_t *ids_of(const hst_tensor *leaf) { return (int64_t *)(void *)hst_raw(leaf->row_ids); }

bool hst_set_rows(hst_tensor *leaf, int64_t n, const int64_t *ids, bool keep) {
    hst_tensor *old_ids = hst_retain(leaf->row_ids), *old_values = hst_retain(leaf->row_values);
    const int64_t *old = ids_of(leaf);
    int64_t old_count = hst_count(old_ids);
    size_t bytes = row_bytes(leaf, old_values->dtype);
    bool made = hst_make_rows(leaf, old_values->dtype, n);
    if (made && n > 0) memcpy(ids_of(leaf), ids, (size_t)n * sizeof *ids);
    for (int64_t i = 0, from = 0; made && keep && i < n; i++) {
        char *row = hst_raw(leaf->row_values) + (size_t)i * bytes;
        if (from < old_count && old[from] == ids[i])
            memcpy(row, hst_raw(old_values) + (size_t)from++ * bytes, bytes);
        else
            memset(row, 0, bytes);
    }
    hst_unretain(old_ids);
    hst_unretain(old_values);
    return made;
}

bool hst_make_dense(hst_gradient *gradient) {
    hst_tensor *leaf = gradient->leaf, *values = leaf->row_values;
    hst_context *ctx = leaf->ctx;
    size_t bytes = row_bytes(leaf, values->dtype);
    hst_category category = ctx->category;
    ctx->category = HST_GRADIENTS;
    leaf->grad = hst_own(hst_zeros(ctx, values->dtype, leaf->rank, leaf->shape));
    ctx->category = category;
    if (!leaf->grad) return false;
    for (int64_t i = 0; i < hst_count(leaf->row_ids); i++)
        memcpy(hst_raw(leaf->grad) + (size_t)ids_of(leaf)[i] * bytes, hst_raw(values) + (size_t)i * bytes, bytes);
    hst_unretain(leaf->row_ids);
    hst_unretain(values);
    leaf->row_ids = leaf->row_values = NULL;
    *gradient = (hst_gradient){.request = gradient->request, .into = leaf->grad};
    return true;
}

hst_tensor *hst_grad_rows(const hst_tensor *t) { return t ? t->row_ids : NULL; }
hst_tensor *hst_grad_row_values(const hst_tensor *t) { return t ? t->row_values : NULL; }
