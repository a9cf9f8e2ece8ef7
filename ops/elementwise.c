// elementwise.c: add, scale, cast. All are y = alpha a + beta b, or a copy into another dtype.
#include "ops/ops.h"
#include "ops/table.h"

static bool combine(const hst_call *call, int64_t count, double alpha, hst_source a, double beta, hst_source b,
                    hst_target y) {
    hst_combine_args c = {
        .count = count, .alpha = alpha, .beta = beta, .a = a, .b = b, .a_step = 1, .b_step = 1, .y = y};
    return !y.data || call->ctx->backend->combine(call->ctx, &c);
}

// ---- add ----

static bool add_shape(hst_call *call, hst_type *out) {
    const hst_tensor *a = call->in[0], *b = call->in[1];
    if (!hst_check_float(call, 0) || !hst_check_float(call, 1) || !hst_check_shape(call, 1, a->rank, a->shape))
        return false;
    out[0] = hst_type_of(a);
    out[0].dtype = hst_promote(a->dtype, b->dtype);
    return true;
}

static bool add_forward(hst_call *call) {
    return combine(call, hst_count(call->out[0]), 1, hst_source_of(call->in[0]), 1, hst_source_of(call->in[1]),
                   hst_target_of(call->out[0]));
}

// da = dy, db = dy
static bool add_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_source from = hst_source_of(dy[0]), none = {0};
    return combine(call, hst_count(dy[0]), 1, from, 0, none, hst_gradient_target(dx[0])) &&
           combine(call, hst_count(dy[0]), 1, from, 0, none, hst_gradient_target(dx[1]));
}

const hst_op hst_op_add = {
    .name = "add",
    .inputs = {"a", "b"},
    .outputs = {"y"},
    .cast = HST_CAST_WIDEST,
    .shape = add_shape,
    .forward = add_forward,
    .backward = add_backward,
};

hst_tensor *hst_add(hst_tensor *a, hst_tensor *b) {
    return hst_apply(&hst_op_add, (hst_tensor *[HST_MAX_INPUTS]){a, b}, NULL, 0, NULL);
}

// ---- scale ----

static double factor_of(const hst_call *call) { return *(const double *)(const void *)call->attributes; }

static bool scale_shape(hst_call *call, hst_type *out) {
    if (!hst_check_float(call, 0)) return false;
    out[0] = hst_type_of(call->in[0]);
    return true;
}

static bool scale_forward(hst_call *call) {
    return combine(call, hst_count(call->in[0]), factor_of(call), hst_source_of(call->in[0]), 0, (hst_source){0},
                   hst_target_of(call->out[0]));
}

// dx = factor dy
static bool scale_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return combine(call, hst_count(dy[0]), factor_of(call), hst_source_of(dy[0]), 0, (hst_source){0},
                   hst_gradient_target(dx[0]));
}

const hst_op hst_op_scale = {
    .name = "scale",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .shape = scale_shape,
    .forward = scale_forward,
    .backward = scale_backward,
};

hst_tensor *hst_scale(hst_tensor *x, double factor) {
    return hst_apply(&hst_op_scale, (hst_tensor *[HST_MAX_INPUTS]){x}, &factor, sizeof factor, NULL);
}

// ---- cast ----

static bool cast_shape(hst_call *call, hst_type *out) {
    const hst_dtype *dtype = (const void *)call->attributes;
    if ((unsigned)*dtype >= HST_DTYPES) {
        hst_fail(call->ctx, HST_ERROR_DTYPE, "cast: dtype %d; dtypes are 0 to %d", (int)*dtype, HST_DTYPES - 1);
        return false;
    }
    out[0] = hst_type_of(call->in[0]);
    out[0].dtype = *dtype;
    return true;
}

static bool cast_forward(hst_call *call) { return hst_copy_tensor(call->out[0], call->in[0], false); }

// dx = dy, in x's dtype
static bool cast_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    (void)call;
    return dx[0].request == HST_NULL || hst_copy_tensor(dx[0].into, dy[0], dx[0].request == HST_ADD);
}

const hst_op hst_op_cast = {
    .name = "cast",
    .inputs = {"x"},
    .outputs = {"y"},
    .cast = HST_CAST_NONE,
    .takes_strides = 1,
    .shape = cast_shape,
    .forward = cast_forward,
    .backward = cast_backward,
};

hst_tensor *hst_cast(hst_tensor *x, hst_dtype dtype) {
    if (!hst_is_float(dtype)) x = hst_detach(x); // integers have no gradients
    return hst_apply(&hst_op_cast, (hst_tensor *[HST_MAX_INPUTS]){x}, &dtype, sizeof dtype, NULL);
}
