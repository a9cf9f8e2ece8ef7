// embedding.c: y[i] = table[ids[i]]. The gradient adds row i of dy to row ids[i] of dtable: a scatter-add whose sums
// grow with the data, so each is formed in double and rounded once (apache/mxnet#17703 is what happens otherwise).
//     table (V, D), ids (...)          y (..., D)
#include <math.h>
#include "ops/lookup.h"
#include "ops/ops.h"
#include "ops/table.h"

enum { TABLE, IDS };

static const hst_embedding_options *options_of(const hst_call *call) { return (const void *)call->attributes; }

hst_embedding_options hst_embedding_defaults(void) {
    return (hst_embedding_options){.padding_index = HST_NO_PADDING, .max_norm = INFINITY, .norm_power = 2};
}

static bool check_options(hst_call *call) {
    hst_embedding_options *o = (void *)call->attributes;
    int64_t rows = call->in[TABLE]->shape[0], given = o->padding_index;
    if (given != HST_NO_PADDING && given < 0) o->padding_index += rows;
    if (given != HST_NO_PADDING && (o->padding_index < 0 || o->padding_index >= rows))
        return hst_fail(call->ctx, HST_ERROR_VALUE, "embedding: padding index %lld is not in %lld .. %lld",
                        (long long)given, -(long long)rows, (long long)rows - 1),
               false;
    if (!(o->max_norm >= 0 && o->norm_power > 0))
        return hst_fail(call->ctx, HST_ERROR_VALUE,
                        "embedding: a norm of power %g limited to %g; the power must be above 0, the limit not below",
                        o->norm_power, o->max_norm),
               false;
    return hst_check_index_mode(call, o->mode);
}

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
    return check_options(call);
}

// In place and for good, as PyTorch does it: the rows that are read become shorter first, in the table itself, where
// its shadow is what is read.
static bool limit_norms(hst_call *call) {
    hst_tensor *table = call->arguments[TABLE];
    hst_lookup_limit_args l = {.rows = table->shape[0],
                               .width = table->shape[1],
                               .count = hst_count(call->in[IDS]),
                               .mode = options_of(call)->mode,
                               .what = "embedding: id",
                               .limit = options_of(call)->max_norm,
                               .power = options_of(call)->norm_power,
                               .ids = hst_source_of(call->in[IDS]),
                               .table = hst_target_of(table)};
    if (!call->ctx->backend->lookup_limit(call->ctx, &l)) return false;
    hst_bump(table);
    if (table == call->in[TABLE]) return true;
    hst_bump(call->in[TABLE]);
    return hst_copy_tensor(call->in[TABLE], table, false);
}

static bool forward(hst_call *call) {
    const hst_tensor *table = call->in[TABLE], *ids = call->in[IDS];
    if (!isinf(options_of(call)->max_norm) && !limit_norms(call)) return false;
    hst_lookup_args l = {.outer = 1,
                         .rows = table->shape[0],
                         .width = table->shape[1],
                         .count = hst_count(ids),
                         .mode = options_of(call)->mode,
                         .what = "embedding: id",
                         .table = hst_source_of(table),
                         .ids = hst_source_of(ids),
                         .y = hst_target_of(call->out[0])};
    return call->ctx->backend->lookup(call->ctx, &l);
}

// dtable[r] = sum of dy[i] over the i with ids[i] = r; divided by how many they are (scale_by_frequency), 0 for r =
// padding_index
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_embedding_options *o = options_of(call);
    const hst_tensor *ids = call->in[IDS];
    hst_lookup_grad_args l = {.outer = 1,
                              .width = dy[0]->shape[ids->rank],
                              .count = hst_count(ids),
                              .mode = o->mode,
                              .mean = o->scale_by_frequency,
                              .has_padding = o->padding_index != HST_NO_PADDING,
                              .padding = o->padding_index,
                              .dy = hst_source_of(dy[0]),
                              .ids = hst_source_of(ids)};
    return hst_lookup_backward(call, l, dx[TABLE], 0);
}

const hst_op hst_op_embedding = {
    .name = "embedding",
    .inputs = {"table", "ids"},
    .outputs = {"y"},
    .reads_inputs = 1 << IDS,
    .gives_rows = 1 << TABLE,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_embedding_with(hst_tensor *table, hst_tensor *ids, const hst_embedding_options *options) {
    hst_embedding_options o = options ? *options : hst_embedding_defaults();
    if (table && !isinf(o.max_norm) && !hst_is_contiguous(table)) {
        char text[64];
        hst_fail(table->ctx, HST_ERROR_SHAPE,
                 "embedding: max_norm changes table in place, and %s is a strided view; a contiguous one is needed",
                 hst_describe(table, text));
        return NULL;
    }
    return hst_apply(&hst_op_embedding, (hst_tensor *[HST_MAX_INPUTS]){table, ids}, &o, sizeof o, NULL);
}

hst_tensor *hst_embedding(hst_tensor *table, hst_tensor *ids) { return hst_embedding_with(table, ids, NULL); }
