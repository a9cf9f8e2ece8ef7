// view.c: reshape, slice, transpose. No elements move; a gradient goes back through the same view of the buffer.
#include <string.h>
#include "ops/ops.h"
#include "ops/table.h"

// ---- reshape ----

typedef struct {
    int rank;
    int64_t shape[HST_MAX_RANK];
} reshape_attributes;

// The new extents, of which one may be -1: what is left. False if they do not hold `count` elements.
static bool fit(const reshape_attributes *a, int64_t count, int64_t *shape) {
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < a->rank; i++) {
        shape[i] = a->shape[i];
        if (shape[i] == -1 && open < 0)
            open = i;
        else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known))
            return false;
    }
    if (open < 0) return known == count;
    if (known == 0 || count % known != 0) return false; // 0: any extent would do
    shape[open] = count / known;
    return true;
}

static bool reshape_shape(hst_call *call, hst_type *out) {
    const reshape_attributes *a = (const void *)call->attributes;
    const hst_tensor *x = call->in[0];
    char have[64], want[64];
    if (!hst_is_contiguous(x)) {
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "reshape: %s is a strided view; hst_cast to its own dtype makes a contiguous copy",
                 hst_describe(x, have));
        return false;
    }
    out[0] = (hst_type){.dtype = x->dtype, .rank = a->rank};
    if (fit(a, hst_count(x), out[0].shape)) return true;
    hst_tensor wanted = {.dtype = x->dtype, .rank = a->rank};
    memcpy(wanted.shape, a->shape, sizeof a->shape);
    hst_fail(call->ctx, HST_ERROR_SHAPE,
             "reshape: %s does not fit %s; the product of the extents must be the same; one extent may be -1",
             hst_describe(x, have), strchr(hst_describe(&wanted, want), '('));
    return false;
}

static hst_tensor *reshape_view(hst_call *call, const hst_type *out) {
    int64_t stride[HST_MAX_RANK], step = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= out->shape[i] > 0 ? out->shape[i] : 1; // of an empty tensor no stride is used, and none overflows
    }
    return hst_view(call->in[0], out->rank, out->shape, stride, call->in[0]->offset);
}

static bool reshape_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    (void)call;
    hst_tensor *into = dx[0].into, *same = hst_view(dy[0], into->rank, into->shape, into->stride, dy[0]->offset);
    return same && hst_copy_tensor(into, same, dx[0].request == HST_ADD);
}

const hst_op hst_op_reshape = {
    .name = "reshape",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .takes_strides = 1,
    .shape = reshape_shape,
    .view = reshape_view,
    .backward = reshape_backward,
};

hst_tensor *hst_reshape(hst_tensor *x, int rank, const int64_t *shape) {
    if (!x) return NULL;
    if (rank < 0 || rank > HST_MAX_RANK) {
        hst_fail(x->ctx, HST_ERROR_VALUE, "reshape: rank %d; ranks are 0 to %d", rank, HST_MAX_RANK);
        return NULL;
    }
    reshape_attributes a = {.rank = rank};
    if (rank > 0) memcpy(a.shape, shape, (size_t)rank * sizeof *shape);
    return hst_apply(&hst_op_reshape, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

// ---- slice ----

typedef struct {
    int axis;
    int64_t start, end;
} slice_attributes;

static bool slice_shape(hst_call *call, hst_type *out) {
    slice_attributes *a = (void *)call->attributes;
    const hst_tensor *x = call->in[0];
    if (a->axis < 0) a->axis += x->rank;
    if (a->axis < 0 || a->axis >= x->rank || a->start < 0 || a->end < a->start || a->end > x->shape[a->axis]) {
        char text[64];
        hst_fail(call->ctx, HST_ERROR_VALUE, "slice: [%lld, %lld) of axis %d is not inside %s", (long long)a->start,
                 (long long)a->end, a->axis, hst_describe(x, text));
        return false;
    }
    out[0] = hst_type_of(x);
    out[0].shape[a->axis] = a->end - a->start;
    return true;
}

static hst_tensor *slice_view(hst_call *call, const hst_type *out) {
    const slice_attributes *a = (const void *)call->attributes;
    hst_tensor *x = call->in[0];
    return hst_view(x, out->rank, out->shape, x->stride, x->offset + a->start * x->stride[a->axis]);
}

// dx = dy in the slice, 0 elsewhere
static bool slice_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const slice_attributes *a = (const void *)call->attributes;
    hst_tensor *into = dx[0].into;
    if (dx[0].request == HST_WRITE) memset(hst_raw(into), 0, (size_t)hst_count(into) * hst_dtype_size(into->dtype));
    hst_tensor *part =
        hst_view(into, dy[0]->rank, dy[0]->shape, into->stride, into->offset + a->start * into->stride[a->axis]);
    return part && hst_copy_tensor(part, dy[0], dx[0].request == HST_ADD);
}

const hst_op hst_op_slice = {
    .name = "slice",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .takes_strides = 1,
    .shape = slice_shape,
    .view = slice_view,
    .backward = slice_backward,
};

hst_tensor *hst_slice(hst_tensor *x, int axis, int64_t start, int64_t end) {
    slice_attributes a = {axis, start, end};
    return hst_apply(&hst_op_slice, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

// ---- transpose ----

typedef struct {
    int axis[2];
} transpose_attributes;

static void swap(int64_t *values, const int axis[2]) {
    int64_t first = values[axis[0]];
    values[axis[0]] = values[axis[1]];
    values[axis[1]] = first;
}

static hst_tensor *transposed(hst_tensor *x, const int axis[2]) {
    hst_tensor *view = hst_view(x, x->rank, x->shape, x->stride, x->offset);
    if (!view) return NULL;
    swap(view->shape, axis);
    swap(view->stride, axis);
    return view;
}

static bool transpose_shape(hst_call *call, hst_type *out) {
    transpose_attributes *a = (void *)call->attributes;
    const hst_tensor *x = call->in[0];
    for (int i = 0; i < 2; i++) {
        if (a->axis[i] < 0) a->axis[i] += x->rank;
        if (a->axis[i] >= 0 && a->axis[i] < x->rank) continue;
        char text[64];
        hst_fail(call->ctx, HST_ERROR_VALUE, "transpose: %s has no axis %d", hst_describe(x, text), a->axis[i]);
        return false;
    }
    out[0] = hst_type_of(x);
    swap(out[0].shape, a->axis);
    return true;
}

static hst_tensor *transpose_view(hst_call *call, const hst_type *out) {
    (void)out;
    return transposed(call->in[0], ((const transpose_attributes *)(const void *)call->attributes)->axis);
}

static bool transpose_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_tensor *back = transposed(dy[0], ((const transpose_attributes *)(const void *)call->attributes)->axis);
    return back && hst_copy_tensor(dx[0].into, back, dx[0].request == HST_ADD);
}

const hst_op hst_op_transpose = {
    .name = "transpose",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .takes_strides = 1,
    .shape = transpose_shape,
    .view = transpose_view,
    .backward = transpose_backward,
};

hst_tensor *hst_transpose(hst_tensor *x, int axis0, int axis1) {
    transpose_attributes a = {{axis0, axis1}};
    return hst_apply(&hst_op_transpose, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}
