// cat.c: tensors one after the other along an axis (cat) or along a new one (stack), and the way back (split).
//     x_i (..., n_i, ...)          y (..., n_0 + n_1 + ..., ...)
#include <stdio.h>
#include "ops/ops.h"
#include "ops/table.h"

// ---- the operation: at most HST_MAX_INPUTS tensors, checked below ----

typedef struct {
    int64_t extent[HST_MAX_INPUTS]; // n_i
    int axis;
    hst_dtype dtype; // of the whole result: where it takes several calls, none may round what a later one would not
} cat_attributes;

static bool cat_shape(hst_call *call, hst_type *out) {
    const cat_attributes *a = (const void *)call->attributes;
    out[0] = hst_type_of(call->in[0]);
    out[0].dtype = a->dtype;
    for (int i = 1; i < HST_MAX_INPUTS; i++) out[0].shape[a->axis] += a->extent[i];
    return true;
}

// Input i's part of the result, or of the result's gradient; *start is where it starts and then where the next one
// does.
static hst_tensor *part(const hst_call *call, hst_tensor *whole, int i, int64_t *start) {
    const cat_attributes *a = (const void *)call->attributes;
    hst_type type = hst_type_of(whole);
    int64_t offset = whole->offset + *start * whole->stride[a->axis];
    type.shape[a->axis] = a->extent[i];
    *start += a->extent[i];
    return hst_view(whole, type.rank, type.shape, whole->stride, offset);
}

static bool cat_forward(hst_call *call) {
    int64_t start = 0;
    for (int i = 0; i < HST_MAX_INPUTS && call->in[i]; i++)
        if (!hst_copy_tensor(part(call, call->out[0], i, &start), call->in[i], false)) return false;
    return true;
}

// dx_i = the part of dy that is x_i's
static bool cat_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    int64_t start = 0;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        hst_tensor *from = part(call, dy[0], i, &start);
        if (!from) return false;
        if (dx[i].request != HST_NULL && !hst_copy_tensor(dx[i].into, from, dx[i].request == HST_ADD)) return false;
    }
    return true;
}

_Static_assert(HST_MAX_INPUTS == 8, "a name for each, below");
const hst_op hst_op_cat = {
    .name = "cat",
    .inputs = {"x0", "x1?", "x2?", "x3?", "x4?", "x5?", "x6?", "x7?"},
    .outputs = {"y"},
    .takes_strides = (1 << HST_MAX_INPUTS) - 1,
    .shape = cat_shape,
    .forward = cat_forward,
    .backward = cat_backward,
};

// ---- any number of them ----

// The context of a list of tensors, in which an error can be recorded; NULL if there is none, or one stands there.
static hst_context *context_of(const char *name, int count, hst_tensor *const *x) {
    hst_context *ctx = NULL;
    for (int i = 0; x && i < count && !ctx; i++)
        if (x[i]) ctx = x[i]->ctx;
    if (!ctx || ctx->status != HST_OK) return NULL;
    for (int i = 0; i < count; i++)
        if (!x[i]) return hst_fail(ctx, HST_ERROR_VALUE, "%s: tensor %d is NULL", name, i), NULL;
    return ctx;
}

static bool same_but(const hst_tensor *a, const hst_tensor *b, int axis) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = i == axis || a->shape[i] == b->shape[i];
    return same;
}

// Whether the tensors go together, where only `axis` (-1: none) may differ, and the dtype in which all fit.
static bool check(const char *name, int count, hst_tensor *const *x, int axis, hst_dtype *dtype) {
    char a[64], b[64], wanted[48] = "the shapes must agree";
    if (axis >= 0) snprintf(wanted, sizeof wanted, "only axis %d may differ", axis);
    *dtype = x[0]->dtype;
    for (int i = 1; i < count; i++) {
        bool fits = same_but(x[i], x[0], axis), floats = hst_is_float(x[i]->dtype) && hst_is_float(*dtype);
        if (!fits || (x[i]->dtype != *dtype && !floats))
            return hst_fail(x[0]->ctx, fits ? HST_ERROR_DTYPE : HST_ERROR_SHAPE,
                            "%s: tensor %d is %s and tensor 0 is %s; %s", name, i, hst_describe(x[i], a),
                            hst_describe(x[0], b), fits ? "only f32, f16 and bf16 go together" : wanted),
                   false;
        *dtype = hst_promote(*dtype, x[i]->dtype);
    }
    return true;
}

// An axis among `axes`, counted from the end where it is negative; -1 after recording an error.
static int find_axis(const char *name, const hst_tensor *x, int axis, int axes) {
    char text[64];
    int found = axis < 0 ? axis + axes : axis;
    if (found >= 0 && found < axes) return found;
    hst_fail(x->ctx, HST_ERROR_VALUE, "%s: tensor 0 is %s and %s no axis %d", name, hst_describe(x, text),
             axes == x->rank ? "has" : "the result would have", axis);
    return -1;
}

// More than HST_MAX_INPUTS are put together in groups, and the groups in groups, as few levels as possible.
static hst_tensor *join(int count, hst_tensor *const *x, cat_attributes a) {
    hst_tensor *in[HST_MAX_INPUTS] = {NULL};
    int group = 1;
    while (count > group * HST_MAX_INPUTS) group *= HST_MAX_INPUTS;
    for (int i = 0, at = 0; at < count; i++, at += group) {
        int left = count - at;
        in[i] = group == 1 ? x[at] : join(left < group ? left : group, x + at, a);
        if (!in[i]) return NULL;
    }
    for (int i = 0; i < HST_MAX_INPUTS; i++) a.extent[i] = in[i] ? in[i]->shape[a.axis] : 0;
    return hst_apply(&hst_op_cat, in, &a, sizeof a, NULL);
}

hst_tensor *hst_cat(int count, hst_tensor *const *x, int axis) {
    hst_context *ctx = context_of("cat", count, x);
    if (!ctx) return NULL;
    cat_attributes a = {.axis = find_axis("cat", x[0], axis, x[0]->rank)};
    if (a.axis < 0 || !check("cat", count, x, a.axis, &a.dtype)) return NULL;
    if (count <= HST_MAX_INPUTS) return join(count, x, a);
    hst_scope_begin(ctx); // the groups die here
    return hst_scope_end(ctx, join(count, x, a));
}

hst_tensor *hst_stack(int count, hst_tensor *const *x, int axis) {
    hst_context *ctx = context_of("stack", count, x);
    hst_dtype dtype;
    if (!ctx || !check("stack", count, x, -1, &dtype)) return NULL;
    int at = find_axis("stack", x[0], axis, x[0]->rank + 1);
    if (at < 0) return NULL;
    if (x[0]->rank == HST_MAX_RANK) {
        char text[64];
        hst_fail(ctx, HST_ERROR_VALUE, "stack: tensor 0 is %s; the result would have more than %d axes",
                 hst_describe(x[0], text), HST_MAX_RANK);
        return NULL;
    }
    hst_tensor **rows = hst_workspace(ctx, (size_t)count * sizeof *rows), *y = NULL;
    if (!rows) return NULL;
    for (int i = 0; i < count; i++) rows[i] = hst_unsqueeze(x[i], at);
    if (ctx->status == HST_OK) y = hst_cat(count, rows, at);
    hst_workspace_free(ctx, rows);
    return y;
}

hst_status hst_split(hst_tensor *x, int axis, int count, const int64_t *sizes, hst_tensor **out) {
    for (int i = 0; i < count; i++) out[i] = NULL;
    if (!x) return HST_ERROR_STATE;
    if (x->ctx->status != HST_OK) return x->ctx->status;
    char text[64];
    int at = axis < 0 ? axis + x->rank : axis;
    if (at < 0 || at >= x->rank)
        return hst_fail(x->ctx, HST_ERROR_VALUE, "split: x is %s and has no axis %d", hst_describe(x, text), axis);
    int64_t left = x->shape[at];
    bool fits = true;
    for (int i = 0; i < count && fits; i++) {
        fits = sizes[i] >= 0 && sizes[i] <= left;
        left -= sizes[i];
    }
    if (!fits || left != 0)
        return hst_fail(x->ctx, HST_ERROR_SHAPE,
                        "split: %d sizes along axis %d of %s; none may be negative, and their sum must be %lld", count,
                        axis, hst_describe(x, text), (long long)x->shape[at]);
    for (int64_t i = 0, start = 0; i < count; start += sizes[i++]) out[i] = hst_slice(x, at, start, start + sizes[i]);
    if (x->ctx->status != HST_OK)
        for (int i = 0; i < count; i++) out[i] = NULL;
    return x->ctx->status;
}
