// view.c: reshape, slice, transpose, broadcast_to. No elements move; a gradient goes back through the same view of the
// buffer, or is summed over what the view repeats.
#include <string.h>
#include "ops/broadcast.h"
#include "ops/ops.h"
#include "ops/table.h"

// ---- reshape ----

typedef struct {
    int rank;
    int64_t shape[HST_MAX_RANK];
} reshape_attributes;

// The new extents, of which one may be -1: what is left. False if they do not hold `count` elements.
static bool fit(const reshape_attributes *a, int64_t count, int64_t *shape) {
    int64_t known = 1; // of the extents that are not 0: the strides have to fit too
    int open = -1;
    bool empty = false;
    for (int i = 0; i < a->rank; i++) {
        shape[i] = a->shape[i];
        empty |= shape[i] == 0;
        if (shape[i] == -1 && open < 0)
            open = i;
        else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i] ? shape[i] : 1, &known))
            return false;
    }
    if (open < 0) return (empty ? 0 : known) == count;
    if (empty || count % known != 0) return false; // empty: any extent would do
    shape[open] = count / known;
    return true;
}

// Neighbouring axes of x that one stride runs through are one run; a new axis is cut from the end of the last run.
// False if an axis would need elements of two.
static bool find_strides(const hst_tensor *x, const hst_type *to, int64_t *stride) {
    int64_t length[HST_MAX_RANK + 1] = {1}, step[HST_MAX_RANK + 1] = {1}; // of the runs; run 0 is a scalar's
    int last = 0;
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] == 1) continue;
        bool joins = last > 0 && step[last] == x->shape[i] * x->stride[i];
        if (!joins) length[++last] = 1;
        length[last] *= x->shape[i];
        step[last] = x->stride[i];
    }
    for (int i = to->rank - 1; i >= 0; i--) {
        int64_t n = to->shape[i];
        if (n > 1 && length[last] == 1 && last > 0) last--;
        if (length[last] % n != 0) return false;
        stride[i] = step[last];
        length[last] /= n;
        step[last] *= n;
    }
    return true;
}

static bool reshape_strides(const hst_tensor *x, const hst_type *to, int64_t *stride) {
    if (hst_count(x) > 0) return find_strides(x, to, stride);
    hst_row_major(to->rank, to->shape, stride);
    return true;
}

static bool reshape_shape(hst_call *call, hst_type *out) {
    const reshape_attributes *a = (const void *)call->attributes;
    const hst_tensor *x = call->in[0];
    char have[64], want[64];
    int64_t stride[HST_MAX_RANK];
    out[0] = (hst_type){.dtype = x->dtype, .rank = a->rank};
    bool fits = fit(a, hst_count(x), out[0].shape);
    if (fits && reshape_strides(x, &out[0], stride)) return true;
    if (fits) {
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "reshape: no view of %s, which is strided, has this shape; hst_cast to its own dtype makes a "
                 "contiguous copy",
                 hst_describe(x, have));
        return false;
    }
    hst_tensor wanted = {.dtype = x->dtype, .rank = a->rank};
    memcpy(wanted.shape, a->shape, sizeof a->shape);
    hst_fail(call->ctx, HST_ERROR_SHAPE,
             "reshape: %s does not fit %s; the product of the extents must be the same; one extent may be -1",
             hst_describe(x, have), strchr(hst_describe(&wanted, want), '('));
    return false;
}

static hst_tensor *reshape_view(hst_call *call, const hst_type *out) {
    int64_t stride[HST_MAX_RANK];
    reshape_strides(call->in[0], out, stride);
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
    .takes_strides = 1,
    .shape = reshape_shape,
    .view = reshape_view,
    .backward = reshape_backward,
};

static hst_tensor *with_shape(const hst_op *op, hst_tensor *x, int rank, const int64_t *shape) {
    if (!x) return NULL;
    if (rank < 0 || rank > HST_MAX_RANK || (rank > 0 && !shape)) {
        hst_fail(x->ctx, HST_ERROR_VALUE, "%s: rank %d%s; ranks are 0 to %d", op->name, rank,
                 shape || rank <= 0 ? "" : " without extents", HST_MAX_RANK);
        return NULL;
    }
    reshape_attributes a = {.rank = rank};
    if (rank > 0) memcpy(a.shape, shape, (size_t)rank * sizeof *shape);
    return hst_apply(op, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

hst_tensor *hst_reshape(hst_tensor *x, int rank, const int64_t *shape) {
    return with_shape(&hst_op_reshape, x, rank, shape);
}

// An axis among the given number of axes; -1 after recording an error. Negative ones count from the end.
static int find_axis(const char *name, const hst_tensor *x, int axis, int axes) {
    int found = axis < 0 ? axis + axes : axis;
    if (found >= 0 && found < axes) return found;
    char text[64];
    hst_describe(x, text);
    if (axes == 0)
        hst_fail(x->ctx, HST_ERROR_VALUE, "%s: axis %d of %s, which has no axes", name, axis, text);
    else
        hst_fail(x->ctx, HST_ERROR_VALUE, "%s: axis %d of %s; axes are %d to %d here", name, axis, text, -axes,
                 axes - 1);
    return -1;
}

hst_tensor *hst_unsqueeze(hst_tensor *x, int axis) {
    if (!x || x->ctx->status != HST_OK) return NULL;
    int at = find_axis("unsqueeze", x, axis, x->rank + 1);
    if (at < 0) return NULL;
    if (x->rank == HST_MAX_RANK) {
        char text[64];
        hst_fail(x->ctx, HST_ERROR_VALUE, "unsqueeze: %s has %d axes already; no tensor has more",
                 hst_describe(x, text), HST_MAX_RANK);
        return NULL;
    }
    int64_t shape[HST_MAX_RANK];
    for (int i = 0; i <= x->rank; i++) shape[i] = i == at ? 1 : x->shape[i - (i > at)];
    return hst_reshape(x, x->rank + 1, shape);
}

hst_tensor *hst_squeeze(hst_tensor *x, int axis) {
    if (!x || x->ctx->status != HST_OK) return NULL;
    int at = find_axis("squeeze", x, axis, x->rank);
    if (at < 0) return NULL;
    if (x->shape[at] != 1) {
        char text[64];
        hst_fail(x->ctx, HST_ERROR_SHAPE, "squeeze: axis %d of %s has extent %lld, not 1", axis, hst_describe(x, text),
                 (long long)x->shape[at]);
        return NULL;
    }
    int64_t shape[HST_MAX_RANK];
    for (int i = 0; i < x->rank - 1; i++) shape[i] = x->shape[i + (i >= at)];
    return hst_reshape(x, x->rank - 1, shape);
}

// ---- slice ----

typedef struct {
    int axis;
    int64_t start, end;
} slice_attributes;

static bool slice_shape(hst_call *call, hst_type *out) {
    slice_attributes *a = (void *)call->attributes;
    const hst_tensor *x = call->in[0];
    int given = a->axis;
    if (a->axis < 0) a->axis += x->rank;
    if (a->axis < 0 || a->axis >= x->rank || a->start < 0 || a->end < a->start || a->end > x->shape[a->axis]) {
        char text[64];
        hst_fail(call->ctx, HST_ERROR_VALUE, "slice: [%lld, %lld) of axis %d is not inside %s", (long long)a->start,
                 (long long)a->end, given, hst_describe(x, text));
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
        int given = a->axis[i];
        if (given < 0) a->axis[i] += x->rank;
        if (a->axis[i] >= 0 && a->axis[i] < x->rank) continue;
        char text[64];
        hst_fail(call->ctx, HST_ERROR_VALUE, "transpose: %s has no axis %d", hst_describe(x, text), given);
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
    .takes_strides = 1,
    .shape = transpose_shape,
    .view = transpose_view,
    .backward = transpose_backward,
};

hst_tensor *hst_transpose(hst_tensor *x, int axis0, int axis1) {
    transpose_attributes a = {{axis0, axis1}};
    return hst_apply(&hst_op_transpose, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

// ---- broadcast_to ----

static bool broadcast_shape(hst_call *call, hst_type *out) {
    const reshape_attributes *a = (const void *)call->attributes;
    const hst_tensor *x = call->in[0];
    hst_type to = {.dtype = x->dtype, .rank = a->rank}, both;
    memcpy(to.shape, a->shape, sizeof to.shape);
    both = to;
    bool fits = hst_broadcast_shape(&both, x->rank, x->shape) && both.rank == to.rank;
    for (int i = 0; fits && i < to.rank; i++) fits = both.shape[i] == to.shape[i] && to.shape[i] >= 0;
    if (!fits) {
        hst_tensor wanted = {.dtype = x->dtype, .rank = a->rank};
        memcpy(wanted.shape, a->shape, sizeof a->shape);
        char have[64], want[64];
        hst_fail(call->ctx, HST_ERROR_SHAPE, "broadcast_to: %s does not fit %s; " HST_BROADCAST_RULE,
                 hst_describe(x, have), strchr(hst_describe(&wanted, want), '('));
        return false;
    }
    out[0] = to;
    return true;
}

static hst_tensor *broadcast_view(hst_call *call, const hst_type *out) {
    hst_tensor *x = call->in[0];
    int64_t stride[HST_MAX_RANK];
    hst_broadcast_stride(out, x->rank, x->shape, x->stride, stride);
    return hst_view(x, out->rank, out->shape, stride, x->offset);
}

// dx = the sum of dy over the repetitions
static bool broadcast_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const hst_tensor *into = dx[0].into;
    hst_type y = hst_type_of(dy[0]);
    hst_binary_grad_args g = {
        .function = HST_PLUS, .rank = y.rank, .dy = hst_source_of(dy[0]), .dx = hst_gradient_target(dx[0])};
    memcpy(g.shape, y.shape, sizeof g.shape);
    hst_broadcast_stride(&y, into->rank, into->shape, into->stride, g.dx_stride);
    return call->ctx->backend->binary_grad(call->ctx, &g);
}

const hst_op hst_op_broadcast_to = {
    .name = "broadcast_to",
    .inputs = {"x"},
    .outputs = {"y"},
    .takes_strides = 1,
    .shape = broadcast_shape,
    .view = broadcast_view,
    .backward = broadcast_backward,
};

hst_tensor *hst_broadcast_to(hst_tensor *x, int rank, const int64_t *shape) {
    return with_shape(&hst_op_broadcast_to, x, rank, shape);
}
