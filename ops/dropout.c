// dropout.c (Srivastava et al. 2014): y = x m / (1 - p), m = 0 with probability p, else 1. The mask is not stored: the
// key of the random stream is, and backward draws the same numbers again. Variational dropout (Gal & Ghahramani 2016)
// has one mask for all steps of a sequence.
#include "ops/ops.h"
#include "ops/table.h"

typedef struct attributes {
    double p;
    hst_random_key key;
    bool variational; // the first axis shares one mask
} attributes;

static bool shape(hst_call *call, hst_type *out) {
    const attributes *a = (const void *)call->attributes;
    if (!hst_check_float(call, 0)) return false;
    if (!(a->p >= 0 && a->p < 1)) {
        hst_fail(call->ctx, HST_ERROR_VALUE, "dropout: p is %g; it must be at least 0 and less than 1", a->p);
        return false;
    }
    out[0] = hst_type_of(call->in[0]);
    return true;
}

static bool drop(const hst_call *call, const hst_tensor *x, hst_target y) {
    const attributes *a = (const void *)call->attributes;
    int64_t repeats = a->variational && x->rank > 0 ? x->shape[0] : 1;
    hst_dropout_args d = {.repeats = repeats,
                          .count = repeats > 0 ? hst_count(x) / repeats : 0,
                          .p = a->p,
                          .key = a->key,
                          .x = hst_source_of(x),
                          .y = y};
    return call->ctx->backend->dropout(call->ctx, &d);
}

static bool forward(hst_call *call) { return drop(call, call->in[0], hst_target_of(call->out[0])); }

// dx = dy m / (1 - p)
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    return drop(call, dy[0], hst_gradient_target(dx[0]));
}

const hst_op hst_op_dropout = {
    .name = "dropout",
    .inputs = {"x"},
    .outputs = {"y"},
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

static hst_tensor *dropout(hst_tensor *x, double p, bool variational) {
    if (!x || p == 0) return x;
    attributes a = {p, hst_next_key(x->ctx), variational};
    return hst_apply(&hst_op_dropout, (hst_tensor *[HST_MAX_INPUTS]){x}, &a, sizeof a, NULL);
}

hst_tensor *hst_dropout(hst_tensor *x, double p) { return dropout(x, p, false); }
hst_tensor *hst_variational_dropout(hst_tensor *x, double p) { return dropout(x, p, true); }
