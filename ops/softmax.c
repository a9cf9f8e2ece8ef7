// softmax.c: y = exp(x) / sum of exp(x) along one axis, and its logarithm.
#include "ops/ops.h"
#include "ops/table.h"

typedef struct attributes {
    int axis;
    bool log;
} attributes;

static bool shape(hst_call *call, hst_type *out) {
    attributes *a = (void *)call->attributes;
    const hst_tensor *x = call->in[0];
    if (!hst_check_float(call, 0)) return false;
    int axis = a->axis < 0 ? a->axis + x->rank : a->axis;
    if (axis < 0 || axis >= x->rank) {
        char text[64];
        hst_fail(call->ctx, HST_ERROR_VALUE, "%s: %s has no axis %d", call->op->name, hst_describe(x, text), a->axis);
        return false;
    }
    a->axis = axis;
    out[0] = hst_type_of(x);
    return true;
}

static bool forward(hst_call *call) {
    const attributes *a = (const void *)call->attributes;
    const hst_tensor *x = call->in[0];
    hst_softmax_args s = {.outer = 1,
                          .rows = x->shape[a->axis],
                          .width = 1,
                          .log = a->log,
                          .x = hst_source_of(x),
                          .y = hst_target_of(call->out[0])};
    for (int axis = 0; axis < x->rank; axis++)
        *(axis < a->axis ? &s.outer : &s.width) *= axis == a->axis ? 1 : x->shape[axis];
    return s.width * s.rows == 0 || call->ctx->backend->softmax(call->ctx, &s);
}

// softmax: dx = y (dy - sum of dy y)     log_softmax: dx = dy - exp(y) sum of dy     with the sums along the axis
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    const attributes *a = (const void *)call->attributes;
    const hst_tensor *y = call->out[0];
    hst_softmax_grad_args s = {.outer = 1,
                               .rows = y->shape[a->axis],
                               .width = 1,
                               .log = a->log,
                               .dy = hst_source_of(dy[0]),
                               .y = hst_source_of(y),
                               .dx = hst_gradient_target(dx[0])};
    for (int axis = 0; axis < y->rank; axis++)
        *(axis < a->axis ? &s.outer : &s.width) *= axis == a->axis ? 1 : y->shape[axis];
    return s.width * s.rows == 0 || call->ctx->backend->softmax_grad(call->ctx, &s);
}

const hst_op hst_op_softmax = {
    .name = "softmax",
    .inputs = {"x"},
    .outputs = {"y"},
    .reads_outputs = 1,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
const hst_op hst_op_log_softmax = {
    .name = "log_softmax",
    .inputs = {"x"},
    .outputs = {"y"},
    .reads_outputs = 1,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_softmax(hst_tensor *x, int axis) {
    attributes a = {.axis = axis};
    return hst_apply(&hst_op_softmax, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}
hst_tensor *hst_log_softmax(hst_tensor *x, int axis) {
    attributes a = {.axis = axis, .log = true};
    return hst_apply(&hst_op_log_softmax, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}
