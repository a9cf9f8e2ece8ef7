// sru_recurrence.c: the recurrence of the Simple Recurrent Unit (Lei, Zhang, Wang, Dai, Artzi 2018). For each b and j,
// p = c at the step before, s the logistic sigmoid, and a = c or tanh(c):
//     f = s(U1 + vf p + bf)     r = s(U2 + vr p + br)     c = U0 + (p - U0) f     h = x' + (a - x') m r
//     u (L, B, k D), x (L, B, D), v (2 D), v_steps (L, B, 2 D), bias (2 D), c0 (B, D), mask (B, D), pad (L, B)
//     h (L, B, D), c_last (B, D)
#include "ops/ops.h"
#include "ops/table.h"

enum { U, X, V, V_STEPS, BIAS, C0, MASK, PAD };
enum { H, C_LAST };
enum { STATES };

static bool check_width(hst_call *call, const hst_recurrence *o) {
    const hst_tensor *u = call->in[U];
    char text[64];
    if ((o->k != 3 && o->k != 4) || u->rank != 3 || u->shape[2] % o->k != 0)
        hst_fail(call->ctx, HST_ERROR_SHAPE, "sru_recurrence: u is %s and k is %d; k must be 3 or 4 and u (L, B, k D)",
                 hst_describe(u, text), o->k);
    else if (o->k == 4 && call->in[X])
        hst_fail(call->ctx, HST_ERROR_VALUE,
                 "sru_recurrence: x is given with k = 4, whose skip value is the fourth plane of u; pass NULL");
    else if (o->bidirectional && u->shape[2] / o->k % 2 != 0)
        hst_fail(call->ctx, HST_ERROR_SHAPE,
                 "sru_recurrence: u is %s, so D is %lld; two directions need an even number of columns",
                 hst_describe(u, text), (long long)(u->shape[2] / o->k));
    else if (o->names_dtype && !hst_is_float(o->dtype))
        hst_fail(call->ctx, HST_ERROR_DTYPE, "sru_recurrence: h cannot be %s; f32, f16 or bf16 are possible",
                 hst_dtype_name(o->dtype));
    else
        return true;
    return false;
}

static bool shape(hst_call *call, hst_type *out) {
    const hst_recurrence *o = (const void *)call->attributes;
    const hst_tensor *u = call->in[U];
    for (int i = U; i <= MASK; i++)
        if (!hst_check_float(call, i)) return false;
    if (call->in[PAD] && !hst_check_index(call, PAD)) return false;
    if (!check_width(call, o)) return false;
    int64_t d = u->shape[2] / o->k, two_d = 2 * d, sequence[] = {u->shape[0], u->shape[1], d};
    int64_t steps[] = {u->shape[0], u->shape[1], two_d};
    if (!hst_check_shape(call, X, 3, sequence) || !hst_check_shape(call, V, 1, &two_d) ||
        !hst_check_shape(call, V_STEPS, 3, steps) || !hst_check_shape(call, BIAS, 1, &two_d) ||
        !hst_check_shape(call, C0, 2, sequence + 1) || !hst_check_shape(call, MASK, 2, sequence + 1) ||
        !hst_check_shape(call, PAD, 2, sequence))
        return false;
    if (call->in[PAD] && call->in[PAD]->dtype != HST_U8) {
        hst_fail(call->ctx, HST_ERROR_DTYPE, "sru_recurrence: argument pad is %s; u8 is needed",
                 hst_dtype_name(call->in[PAD]->dtype));
        return false;
    }
    hst_dtype dtype = o->names_dtype ? o->dtype : (call->in[X] ? call->in[X] : u)->dtype;
    out[H] = (hst_type){dtype, 3, {sequence[0], sequence[1], d}};
    out[C_LAST] = (hst_type){HST_F32, 2, {sequence[1], d}};
    return true;
}

// What forward and backward have in common.
static hst_sru_args arguments(const hst_call *call) {
    const hst_recurrence *o = (const void *)call->attributes;
    const hst_tensor *u = call->in[U];
    return (hst_sru_args){
        .length = u->shape[0],
        .batch = u->shape[1],
        .width = u->shape[2] / o->k,
        .backward_columns = o->bidirectional ? u->shape[2] / o->k / 2 : 0,
        .k = o->k,
        .tanh = o->use_tanh,
        .scale_x = o->scale_x,
        .u = hst_source_of(u),
        .x = hst_source_of(call->in[X]),
        .v = hst_source_of(call->in[V]),
        .v_steps = hst_source_of(call->in[V_STEPS]),
        .bias = hst_source_of(call->in[BIAS]),
        .c0 = hst_source_of(call->in[C0]),
        .mask = hst_source_of(call->in[MASK]),
        .pad = hst_source_of(call->in[PAD]),
        .c = call->saved[STATES] ? (hst_real *)hst_raw(call->saved[STATES]) : NULL,
    };
}

static bool forward(hst_call *call) {
    if (call->recording && !hst_call_save(call, STATES, HST_F32, 3, call->out[H]->shape)) return false;
    hst_sru_args a = arguments(call);
    a.h = hst_target_of(call->out[H]);
    a.c_last = (hst_real *)hst_raw(call->out[C_LAST]);
    return call->ctx->backend->sru(call->ctx, &a);
}

// g is dL/dc, from c_last's gradient through the steps in reverse; f and r are computed again from u and the saved
// states. a' = 1 or, for a = tanh(c), 1 - a^2:
//     gr = gh (a - x') m r (1 - r)     gc = gh m r a' + g     gf = gc (p - U0) f (1 - f)
//     dU0 = gc (1 - f)   dU1 = gf   dU2 = gr   dx' = gh (1 - r m)
//     db += (gf, gr)     dv += (gf p, gr p)     dv_steps = (gf p, gr p)
//     g = gc f + gf vf + gr vr     and at the end dc0 = g
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_sru_grad_args g = {
        .forward = arguments(call),
        .dh = hst_source_of(dy[H]),
        .dc_last = hst_source_of(dy[C_LAST]),
        .du = hst_gradient_target(dx[U]),
        .dx = hst_gradient_target(dx[X]),
        .dv = hst_gradient_target(dx[V]),
        .dv_steps = hst_gradient_target(dx[V_STEPS]),
        .dbias = hst_gradient_target(dx[BIAS]),
        .dc0 = hst_gradient_target(dx[C0]),
    };
    return call->ctx->backend->sru_grad(call->ctx, &g);
}

const hst_op hst_op_sru_recurrence = {
    .name = "sru_recurrence",
    .inputs = {"u", "x?", "v?", "v_steps?", "bias", "c0?", "mask?", "pad?"},
    .outputs = {"h", "c_last"},
    .cast = HST_CAST_NONE,
    .reads_inputs = 0xff,
    .constants = 1 << MASK | 1 << PAD,
    .always_f32 = 1 << C_LAST,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

hst_tensor *hst_sru_recurrence(hst_tensor *u, hst_tensor *x, hst_tensor *v, hst_tensor *v_steps, hst_tensor *bias,
                               hst_tensor *c0, hst_tensor *mask, hst_tensor *pad, hst_recurrence options,
                               hst_tensor **c_last) {
    hst_tensor *out[HST_MAX_OUTPUTS];
    hst_tensor *h =
        hst_apply(&hst_op_sru_recurrence, (hst_tensor *[HST_MAX_INPUTS]){u, x, v, v_steps, bias, c0, mask, pad},
                  &options, sizeof options, out);
    if (c_last) *c_last = out[C_LAST];
    return h;
}
