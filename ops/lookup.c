// lookup.c: the gradient of embedding and take, dense or as rows. Rows are a dense gradient of a smaller table: that of
// the rows that were read, under new numbers. So one kernel forms both, and their sums have the same bits.
#include <string.h>
#include "autograd/rows.h"
#include "ops/lookup.h"

bool hst_check_index_mode(const hst_call *call, hst_index_mode mode) {
    if ((unsigned)mode <= HST_INDEX_WRAP) return true;
    hst_fail(call->ctx, HST_ERROR_VALUE, "%s: index mode %d; modes are 0 to %d", call->op->name, (int)mode,
             HST_INDEX_WRAP);
    return false;
}

// What is needed of the rows that the gradient has had so far, and of those that it gets.
typedef struct numbering {
    int64_t *unique, count; // all rows, ascending
    int64_t *numbers;       // of each position: which of them it adds to, or -1
} numbering;

static bool number_rows(hst_context *ctx, const hst_lookup_grad_args *l, const hst_tensor *old, numbering *n) {
    int64_t old_count = old ? hst_count(old) : 0;
    n->unique = hst_workspace(ctx, (size_t)(old_count + 2 * l->count) * sizeof *n->unique);
    if (!n->unique) return false;
    n->numbers = n->unique + old_count + l->count;
    hst_lookup_rows_args r = {.rows = l->rows,
                              .count = l->count,
                              .old_count = old_count,
                              .mode = l->mode,
                              .has_padding = l->has_padding,
                              .padding = l->padding,
                              .ids = l->ids,
                              .old = old ? (const int64_t *)(const void *)hst_raw(old) : NULL,
                              .unique = n->unique,
                              .unique_count = &n->count,
                              .numbers = n->numbers};
    return ctx->backend->lookup_rows(ctx, &r);
}

static bool rows_backward(hst_call *call, hst_lookup_grad_args l, hst_gradient into) {
    hst_context *ctx = call->ctx;
    hst_tensor *leaf = into.leaf;
    numbering n = {0};
    bool add = into.request == HST_ADD;
    bool done = number_rows(ctx, &l, add ? leaf->row_ids : NULL, &n) && hst_set_rows(leaf, n.count, n.unique, add);
    if (done) {
        l.rows = n.count;
        l.mode = HST_INDEX_RAISE;
        l.has_padding = false;
        l.ids = (hst_source){n.numbers, HST_I64};
        l.dtable = (hst_target){hst_raw(leaf->row_values), leaf->row_values->dtype, add};
        done = ctx->backend->lookup_grad(ctx, &l);
    }
    hst_workspace_free(ctx, n.unique);
    return done;
}

bool hst_lookup_backward(hst_call *call, hst_lookup_grad_args args, hst_gradient into, int axis) {
    if (into.leaf && axis != 0 && !hst_make_dense(&into)) return false;
    const hst_tensor *table = into.leaf ? into.leaf : into.into;
    args.outer = hst_product(table->shape, 0, axis);
    args.rows = table->shape[axis];
    if (into.leaf) return rows_backward(call, args, into);
    args.dtable = hst_gradient_target(into);
    return call->ctx->backend->lookup_grad(call->ctx, &args);
}
