// reduce.c: sum, mean and maximum over any axes of x. The kernels take x as (outer, rows, width) and reduce the rows:
// so it lies already where the axes are neighbours, which is nearly always; otherwise it is copied with the axes last.
#include <string.h>
#include "ops/ops.h"
#include "ops/table.h"

typedef struct attributes {
    unsigned axes; // bit i: axis i is reduced
    bool keep;     // with extent 1
} attributes;

static const attributes *attributes_of(const hst_call *call) { return (const void *)call->attributes; }
static bool is_reduced(const attributes *a, int axis) { return a->axes >> axis & 1; }

// Elements that make one of the result.
static int64_t rows_of(const attributes *a, const hst_tensor *x) {
    int64_t rows = 1;
    for (int axis = 0; axis < x->rank; axis++)
        if (is_reduced(a, axis)) rows *= x->shape[axis];
    return rows;
}

static bool shape(hst_call *call, hst_type *out, hst_dtype dtype) {
    const attributes *a = attributes_of(call);
    const hst_tensor *x = call->in[0];
    if (!hst_check_float(call, 0)) return false;
    out[0] = (hst_type){.dtype = dtype};
    for (int axis = 0; axis < x->rank; axis++)
        if (!is_reduced(a, axis) || a->keep) out[0].shape[out[0].rank++] = is_reduced(a, axis) ? 1 : x->shape[axis];
    return true;
}

static bool shape_of_some(hst_call *call, hst_type *out, hst_dtype dtype) {
    char text[64];
    if (!shape(call, out, dtype)) return false;
    int64_t results = 1;
    for (int i = 0; i < out[0].rank; i++) results *= out[0].shape[i];
    if (results == 0 || rows_of(attributes_of(call), call->in[0]) > 0) return true;
    hst_fail(call->ctx, HST_ERROR_VALUE, "%s: x is %s; of no elements there is none", call->op->name,
             hst_describe(call->in[0], text));
    return false;
}

// ---- x as (outer, rows, width) ----

typedef struct layout {
    int64_t outer, rows, width;
    int order[HST_MAX_RANK]; // the axes of x in memory
} layout;

// The axes of x in order, cut before and after the reduced ones if these are neighbours; else the reduced ones last.
static layout layout_of(const attributes *a, const hst_tensor *x) {
    layout l = {1, 1, 1, {0}};
    int cuts = 0, axis = 0;
    bool in_order = hst_is_contiguous(x);
    for (int i = 0; i < x->rank; i++) {
        cuts += i > 0 && is_reduced(a, i) != is_reduced(a, i - 1);
        in_order &= cuts < 2 || (cuts == 2 && !is_reduced(a, i));
    }
    for (int i = 0; i < x->rank; i++)
        if (in_order || !is_reduced(a, i)) l.order[axis++] = i;
    for (int i = 0; i < x->rank; i++)
        if (!in_order && is_reduced(a, i)) l.order[axis++] = i;
    for (int i = 0; i < x->rank; i++) {
        int64_t extent = x->shape[l.order[i]];
        if (is_reduced(a, l.order[i]))
            l.rows *= extent, l.outer *= l.width, l.width = 1;
        else
            l.width *= extent;
    }
    return l;
}

static bool is_in_order(const layout *l, const hst_tensor *x) {
    for (int i = 0; i < x->rank; i++)
        if (l->order[i] != i) return false;
    return hst_is_contiguous(x);
}

// x as the layout has it: itself, or a copy in the innermost scope.
static hst_tensor *laid_out(const layout *l, hst_tensor *x) {
    if (is_in_order(l, x)) return x;
    int64_t extents[HST_MAX_RANK], stride[HST_MAX_RANK];
    for (int i = 0; i < x->rank; i++) extents[i] = x->shape[l->order[i]], stride[i] = x->stride[l->order[i]];
    hst_tensor *view = hst_view(x, x->rank, extents, stride, x->offset);
    return view ? hst_contiguous(view) : NULL;
}

// ---- sum and mean: in double, rounded once to f32 ----

static bool reduce(const hst_call *call, bool is_mean) {
    layout l = layout_of(attributes_of(call), call->in[0]);
    hst_tensor *x = laid_out(&l, call->in[0]);
    if (!x) return false;
    hst_sum_args s = {.outer = l.outer,
                      .rows = l.rows,
                      .width = l.width,
                      .factor = is_mean ? 1.0 / (double)l.rows : 1,
                      .x = hst_source_of(x),
                      .y = hst_target_of(call->out[0])};
    return call->ctx->backend->sum(call->ctx, &s);
}

// dx = dy / divisor, repeated along the reduced axes
static bool spread(const hst_call *call, double divisor, const hst_tensor *dy, hst_gradient dx) {
    const hst_tensor *x = dx.into;
    hst_binary_args b = {.function = HST_OVER,
                         .rank = x->rank,
                         .a = hst_source_of(dy),
                         .b = {&divisor, HST_F64},
                         .y = hst_gradient_target(dx)};
    int64_t kept[HST_MAX_RANK];
    for (int axis = 0; axis < x->rank; axis++) {
        b.shape[axis] = x->shape[axis];
        kept[axis] = is_reduced(attributes_of(call), axis) ? 1 : x->shape[axis];
    }
    hst_row_major(x->rank, kept, b.a_stride);
    for (int axis = 0; axis < x->rank; axis++)
        if (is_reduced(attributes_of(call), axis)) b.a_stride[axis] = 0;
    return call->ctx->backend->binary(call->ctx, &b);
}

static bool sum_shape(hst_call *call, hst_type *out) { return shape(call, out, HST_F32); }
static bool sum_forward(hst_call *call) { return reduce(call, false); }
static bool sum_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return spread(call, 1, dy[0], dx[0]);
}

static bool mean_shape(hst_call *call, hst_type *out) { return shape_of_some(call, out, HST_F32); }
static bool mean_forward(hst_call *call) { return reduce(call, true); }
static bool mean_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return spread(call, (double)rows_of(attributes_of(call), dx[0].into), dy[0], dx[0]);
}

const hst_op hst_op_sum = {
    .name = "sum",
    .inputs = {"x"},
    .outputs = {"y"},
    .takes_strides = 1,
    .shape = sum_shape,
    .forward = sum_forward,
    .backward = sum_backward,
};
const hst_op hst_op_mean = {
    .name = "mean",
    .inputs = {"x"},
    .outputs = {"y"},
    .takes_strides = 1,
    .shape = mean_shape,
    .forward = mean_forward,
    .backward = mean_backward,
};

// ---- max ----

static bool max_shape(hst_call *call, hst_type *out) { return shape_of_some(call, out, call->in[0]->dtype); }

static bool max_forward(hst_call *call) {
    layout l = layout_of(attributes_of(call), call->in[0]);
    hst_tensor *x = laid_out(&l, call->in[0]);
    if (!x) return false;
    hst_max_args m = {
        .outer = l.outer, .rows = l.rows, .width = l.width, .x = hst_source_of(x), .y = hst_target_of(call->out[0])};
    return call->ctx->backend->max(call->ctx, &m);
}

// x is in another order than dx: the gradient is computed in that order and copied.
static bool max_backward_reordered(hst_call *call, hst_max_grad_args *g, const layout *l, hst_gradient dx) {
    hst_tensor *x = laid_out(l, call->in[0]), *same = x ? hst_new(x->ctx, HST_F32, x->rank, x->shape) : NULL;
    if (!same) return false;
    g->x = hst_source_of(x);
    g->dx = hst_target_of(same);
    if (!call->ctx->backend->max_grad(call->ctx, g)) return false;
    int64_t stride[HST_MAX_RANK];
    for (int i = 0; i < same->rank; i++) stride[l->order[i]] = same->stride[i];
    hst_tensor *back = hst_view(same, dx.into->rank, dx.into->shape, stride, same->offset);
    return back && hst_copy_tensor(dx.into, back, dx.request == HST_ADD);
}

// dx = dy / (how many x equal y) where x = y, else 0
static bool max_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    layout l = layout_of(attributes_of(call), call->in[0]);
    hst_max_grad_args g = {.outer = l.outer,
                           .rows = l.rows,
                           .width = l.width,
                           .dy = hst_source_of(dy[0]),
                           .x = hst_source_of(call->in[0]),
                           .y = hst_source_of(call->out[0]),
                           .dx = hst_gradient_target(dx[0])};
    if (!is_in_order(&l, call->in[0])) return max_backward_reordered(call, &g, &l, dx[0]);
    return call->ctx->backend->max_grad(call->ctx, &g);
}

const hst_op hst_op_max = {
    .name = "max",
    .inputs = {"x"},
    .outputs = {"y"},
    .reads_inputs = 1,
    .reads_outputs = 1,
    .takes_strides = 1,
    .shape = max_shape,
    .forward = max_forward,
    .backward = max_backward,
};

// ---- which axes ----

static hst_tensor *apply(const hst_op *op, hst_tensor *x, int count, const int *axes, bool keep) {
    if (!x) return NULL;
    char text[64];
    if (count < 0 || (count > 0 && !axes)) {
        hst_fail(x->ctx, HST_ERROR_VALUE, count < 0 ? "%s: %d axes; 0 means all" : "%s: %d axes, and no list of them",
                 op->name, count);
        return NULL;
    }
    attributes a = {.axes = count == 0 ? ~0u : 0, .keep = keep};
    for (int i = 0; i < count; i++) {
        int axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
        if (axis >= 0 && axis < x->rank && !is_reduced(&a, axis)) {
            a.axes |= 1u << axis;
            continue;
        }
        bool exists = axis >= 0 && axis < x->rank;
        hst_fail(x->ctx, HST_ERROR_VALUE, exists ? "%s: %s: axis %d is given twice" : "%s: %s has no axis %d", op->name,
                 hst_describe(x, text), axes[i]);
        return NULL;
    }
    return hst_apply(op, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

hst_tensor *hst_sum(hst_tensor *x) { return apply(&hst_op_sum, x, 0, NULL, false); }
hst_tensor *hst_mean(hst_tensor *x) { return apply(&hst_op_mean, x, 0, NULL, false); }
hst_tensor *hst_max(hst_tensor *x) { return apply(&hst_op_max, x, 0, NULL, false); }
hst_tensor *hst_sum_axes(hst_tensor *x, int count, const int *axes, bool keep_axes) {
    return apply(&hst_op_sum, x, count, axes, keep_axes);
}
hst_tensor *hst_mean_axes(hst_tensor *x, int count, const int *axes, bool keep_axes) {
    return apply(&hst_op_mean, x, count, axes, keep_axes);
}
hst_tensor *hst_max_axes(hst_tensor *x, int count, const int *axes, bool keep_axes) {
    return apply(&hst_op_max, x, count, axes, keep_axes);
}
