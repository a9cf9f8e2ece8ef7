// take.c: entries of an axis by their ids, and one-hot rows. The gradient of take is that of the embedding: a
// scatter-add, whose sums are formed in double.
//     x (..., V, ...), ids (i...)          y (..., i..., ...)
#include "ops/lookup.h"
#include "ops/ops.h"
#include "ops/table.h"

// ---- take ----

enum { X, IDS };

typedef struct {
    int axis;
    hst_index_mode mode;
} take_attributes;

static const take_attributes *attributes_of(const hst_call *call) { return (const void *)call->attributes; }

static bool take_shape(hst_call *call, hst_type *out) {
    const hst_tensor *x = call->in[X], *ids = call->in[IDS];
    take_attributes *a = (void *)call->attributes;
    int given = a->axis;
    char text[64], other[64];
    if (!hst_check_float(call, X) || !hst_check_index(call, IDS) || !hst_check_index_mode(call, a->mode)) return false;
    if (a->axis < 0) a->axis += x->rank;
    if (a->axis < 0 || a->axis >= x->rank) {
        hst_fail(call->ctx, HST_ERROR_VALUE, "take: x is %s and has no axis %d", hst_describe(x, text), given);
        return false;
    }
    if (x->rank - 1 + ids->rank > HST_MAX_RANK) {
        hst_fail(call->ctx, HST_ERROR_SHAPE, "take: x is %s and ids is %s; the result would have more than %d axes",
                 hst_describe(x, text), hst_describe(ids, other), HST_MAX_RANK);
        return false;
    }
    hst_type y = {.dtype = x->dtype, .rank = x->rank - 1 + ids->rank};
    for (int i = 0; i < a->axis; i++) y.shape[i] = x->shape[i];
    for (int i = 0; i < ids->rank; i++) y.shape[a->axis + i] = ids->shape[i];
    for (int i = a->axis + 1; i < x->rank; i++) y.shape[i + ids->rank - 1] = x->shape[i];
    out[0] = y;
    return true;
}

static bool take_forward(hst_call *call) {
    const hst_tensor *x = call->in[X], *ids = call->in[IDS];
    int axis = attributes_of(call)->axis;
    hst_lookup_args l = {.outer = hst_product(x->shape, 0, axis),
                         .rows = x->shape[axis],
                         .width = hst_product(x->shape, axis + 1, x->rank),
                         .count = hst_count(ids),
                         .mode = attributes_of(call)->mode,
                         .what = "take: id",
                         .table = hst_source_of(x),
                         .ids = hst_source_of(ids),
                         .y = hst_target_of(call->out[0])};
    return call->ctx->backend->lookup(call->ctx, &l);
}

// dx[o][r] = sum of dy[o][i] over the i with ids[i] = r, clipped or wrapped
static bool take_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *ids = call->in[IDS];
    int axis = attributes_of(call)->axis;
    hst_lookup_grad_args l = {.width = hst_product(dy[0]->shape, axis + ids->rank, dy[0]->rank),
                              .count = hst_count(ids),
                              .mode = attributes_of(call)->mode,
                              .dy = hst_source_of(dy[0]),
                              .ids = hst_source_of(ids)};
    return hst_lookup_backward(call, l, dx[X], axis);
}

const hst_op hst_op_take = {
    .name = "take",
    .inputs = {"x", "ids"},
    .outputs = {"y"},
    .reads_inputs = 1 << IDS,
    .gives_rows = 1 << X,
    .shape = take_shape,
    .forward = take_forward,
    .backward = take_backward,
};

hst_tensor *hst_take_with(hst_tensor *x, hst_tensor *ids, int axis, hst_index_mode mode) {
    if (axis == HST_AXIS_NONE) {
        if (x) x = hst_reshape(hst_is_contiguous(x) ? x : hst_cast(x, x->dtype), 1, (int64_t[]){-1});
        if (!x) return NULL;
        axis = 0;
    }
    take_attributes a = {axis, mode};
    return hst_apply(&hst_op_take, (hst_tensor *[HST_MAX_INPUTS]){x, ids}, &a, sizeof a, NULL);
}

hst_tensor *hst_take(hst_tensor *x, hst_tensor *ids, int axis) { return hst_take_with(x, ids, axis, HST_INDEX_RAISE); }

// ---- one-hot: ids have no gradient, so there is no backward ----

typedef struct {
    int64_t classes;
    hst_dtype dtype;
} one_hot_attributes;

static bool one_hot_shape(hst_call *call, hst_type *out) {
    const one_hot_attributes *a = (const void *)call->attributes;
    const hst_tensor *ids = call->in[0];
    if (!hst_check_index(call, 0)) return false;
    if (a->classes < 0 || (unsigned)a->dtype >= HST_DTYPES || ids->rank == HST_MAX_RANK) {
        char text[64];
        hst_fail(
            call->ctx, HST_ERROR_VALUE,
            "one_hot: %lld classes in dtype %d of ids %s; classes are not negative, dtypes 0 to %d, and ids have at "
            "most %d axes",
            (long long)a->classes, (int)a->dtype, hst_describe(ids, text), HST_DTYPES - 1, HST_MAX_RANK - 1);
        return false;
    }
    out[0] = hst_type_of(ids);
    out[0].dtype = a->dtype;
    out[0].shape[out[0].rank++] = a->classes;
    return true;
}

static bool one_hot_forward(hst_call *call) {
    const one_hot_attributes *a = (const void *)call->attributes;
    hst_one_hot_args o = {.count = hst_count(call->in[0]),
                          .classes = a->classes,
                          .what = "one_hot: id",
                          .ids = hst_source_of(call->in[0]),
                          .y = hst_target_of(call->out[0])};
    return call->ctx->backend->one_hot(call->ctx, &o);
}

const hst_op hst_op_one_hot = {
    .name = "one_hot",
    .inputs = {"ids"},
    .outputs = {"y"},
    .own_dtype = true,
    .shape = one_hot_shape,
    .forward = one_hot_forward,
};

hst_tensor *hst_one_hot(hst_tensor *ids, int64_t classes, hst_dtype dtype) {
    one_hot_attributes a = {classes, dtype};
    return hst_apply(&hst_op_one_hot, (hst_tensor *[HST_MAX_INPUTS]){ids}, &a, sizeof a, NULL);
}
