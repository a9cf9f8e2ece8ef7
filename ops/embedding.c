// embedding.c: y[i] = table[ids[i]]. The gradient adds row i of dy to row ids[i] of dtable: a scatter-add whose sums
// grow with the data, so each is formed in double and rounded once (apache/mxnet#17703 is what happens otherwise).
//     table (V, D), ids (...)          y (..., D)
#include "ops/ops.h"
#include "ops/table.h"

enum { TABLE, IDS };

static bool shape(hst_call *call, hst_type *out) {
    const hst_tensor *table = call->in[TABLE], *ids = call->in[IDS];
    if (!hst_check_float(call, TABLE) || !hst_check_index(call, IDS)) return false;
    if (table->rank != 2 || ids->rank == HST_MAX_RANK) {
        char a[64], b[64];
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "embedding: table is %s and ids is %s; table needs two dimensions, ids at most %d",
                 hst_describe(table, a), hst_describe(ids, b), HST_MAX_RANK - 1);
        return false;
    }
    out[0] = hst_type_of(ids);
    out[0].dtype = table->dtype;
    out[0].shape[out[0].rank++] = table->shape[1];
    return true;
}

static bool forward(hst_call *call) {
    const hst_tensor *table = call->in[TABLE], *ids = call->in[IDS];
    hst_lookup_args l = {.outer = 1,
                         .what = "embedding: id",
                         .rows = table->shape[0],
                         .width = table->shape[1],
                         .count = hst_count(ids),
                         .table = hst_source_of(table),
                         .ids = hst_source_of(ids),
                         .y = hst_target_of(call->out[0])};
    return call->ctx->backend->lookup(call->ctx, &l);
}

// dtable[r] = sum of dy[i] over the i with ids[i] = r
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *ids = call->in[IDS], *into = dx[TABLE].into;
    hst_lookup_grad_args l = {.outer = 1,
                              .rows = into->shape[0],
                              .width = into->shape[1],
                              .count = hst_count(ids),
                              .dy = hst_source_of(dy[0]),
                              .ids = hst_source_of(ids),
                              .dtable = hst_gradient_target(dx[TABLE])};
    return call->ctx->backend->lookup_grad(call->ctx, &l);
}

const hst_op hst_op_embedding = {
    .name = "embedding",
    .inputs = {"table", "ids"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .reads_inputs = 1 << IDS,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_embedding(hst_tensor *table, hst_tensor *ids) {
    return hst_apply(&hst_op_embedding, (hst_tensor *[HST_MAX_INPUTS]){table, ids}, NULL, 0, NULL);
}
