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

// What the call names; else, in a region, its 16-bit type, or f32 where the region says so; else that of x.
static hst_dtype dtype_of_h(const hst_call *call, const hst_recurrence *o) {
    const hst_region *region = call->ctx->region;
    if (o->names_dtype) return o->dtype;
    if (region && region->lower != HST_F32) return region->recurrence_f32 ? HST_F32 : region->lower;
    return (call->in[X] ? call->in[X] : call->in[U])->dtype;
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
    if (o->names_dtype) call->cast = HST_CAST_NONE; // what a call names is not a region's to choose
    out[H] = (hst_type){dtype_of_h(call, o), 3, {sequence[0], sequence[1], d}};
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
        .h = {NULL, o->dtype, false},
        .c = call->saved[STATES] ? (hst_real *)hst_raw(call->saved[STATES]) : NULL,
    };
}

static bool forward(hst_call *call) {
    hst_recurrence *o = (void *)call->attributes;
    o->dtype = call->out[H]->dtype; // for backward, which sees no results
    const int64_t *h = call->out[H]->shape, segments = (h[0] + HST_SRU_SEGMENT - 1) / HST_SRU_SEGMENT;
    if (call->recording && !hst_call_save(call, STATES, HST_F32, HST_SHAPE(segments, h[1], h[2]))) return false;
    hst_sru_args a = arguments(call);
    a.h = hst_target_of(call->out[H]);
    a.c_last = (hst_real *)hst_raw(call->out[C_LAST]);
    if (!o->upstream_fp16) return call->ctx->backend->sru(call->ctx, &a);
    hst_upstream_sru(&a);
    return true;
}

// g is dL/dc, from c_last's gradient through the steps in reverse; c, f and r are computed again from u and the saved
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
    const hst_recurrence *o = (const void *)call->attributes;
    if (!o->upstream_fp16) return call->ctx->backend->sru_grad(call->ctx, &g);
    hst_upstream_sru_grad(&g);
    return true;
}

const hst_op hst_op_sru_recurrence = {
    .name = "sru_recurrence",
    .inputs = {"u", "x?", "v?", "v_steps?", "bias", "c0?", "mask?", "pad?"},
    .outputs = {"h", "c_last"},
    .reads_inputs = 0xff,
    .constants = 1 << MASK | 1 << PAD,
    .in_place = 1 << U | 1 << V_STEPS,
    .f32_outputs = 1 << C_LAST,
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
