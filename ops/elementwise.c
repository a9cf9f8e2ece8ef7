// elementwise.c: scale and cast. Arithmetic of two tensors is in arithmetic.c, functions of one in functions.c.
#include "ops/ops.h"
#include "ops/table.h"

// ---- scale ----

static bool scale_shape(hst_call *call, hst_type *out) {
    if (!hst_check_float(call, 0)) return false;
    out[0] = hst_type_of(call->in[0]);
    return true;
}

static bool scale(const hst_call *call, const hst_tensor *x, hst_target y) {
    hst_binary_args b = {.function = HST_TIMES,
                         .rank = 1,
                         .shape = {hst_count(x)},
                         .a_stride = {1},
                         .a = hst_source_of(x),
                         .b = {call->attributes, HST_F64}, // the factor, for all elements
                         .y = y};
    return call->ctx->backend->binary(call->ctx, &b);
}

static bool scale_forward(hst_call *call) { return scale(call, call->in[0], hst_target_of(call->out[0])); }

// dx = factor dy
static bool scale_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return scale(call, dy[0], hst_gradient_target(dx[0]));
}

const hst_op hst_op_scale = {
    .name = "scale",
    .inputs = {"x"},
    .outputs = {"y"},
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
    .own_dtype = true,
    .takes_strides = 1,
    .shape = cast_shape,
    .forward = cast_forward,
    .backward = cast_backward,
};

hst_tensor *hst_cast(hst_tensor *x, hst_dtype dtype) {
    if (!hst_is_float(dtype)) x = hst_detach(x); // integers have no gradients
    return hst_apply(&hst_op_cast, (hst_tensor *[HST_MAX_INPUTS]){x}, &dtype, sizeof dtype, NULL);
}
