// casts.c: the rules of casts.h.
#include "autograd/casts.h"

// ---- shadows ----

hst_tensor *hst_shadow(hst_tensor *t, hst_dtype dtype) {
    int slot = dtype == HST_BF16;
    uint32_t version = t->storage->version;
    if (t->shadows[slot] && t->shadow_version[slot] == version) return t->shadows[slot];
    if (!t->shadows[slot]) {
        hst_category category = t->ctx->category;
        t->ctx->category = HST_WEIGHTS;
        t->shadows[slot] = hst_own(hst_new(t->ctx, dtype, t->rank, t->shape));
        t->ctx->category = category;
    }
    if (!t->shadows[slot] || !hst_copy_tensor(t->shadows[slot], t, false)) return NULL;
    hst_bump(t->shadows[slot]);
    t->shadow_version[slot] = version;
    return t->shadows[slot];
}

hst_tensor *hst_seen(hst_tensor *t) { return t && t->shown != HST_F32 ? hst_shadow(t, t->shown) : t; }

// ---- arguments ----

hst_dtype hst_widest(const hst_call *call, unsigned arguments) {
    bool found = false;
    hst_dtype widest = HST_F32;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        if (!(arguments >> i & 1) || !call->in[i] || !hst_is_float(call->given[i])) continue;
        widest = found ? hst_promote(widest, call->given[i]) : call->given[i];
        found = true;
    }
    return widest;
}

unsigned hst_cast_group(const int *casts, int rule) {
    unsigned members = 0;
    for (int i = 0; i < HST_MAX_INPUTS; i++) members |= (unsigned)(casts[i] == rule) << i;
    return members;
}

// The dtype in which the kernel is to read argument i.
static hst_dtype wanted(const hst_call *call, int i) {
    const int *casts = call->op->casts;
    int rule = casts ? casts[i] : call->cast == HST_CAST_LOWER ? HST_CAST_LOWER : HST_CAST_NONE;
    if (!hst_is_float(call->given[i])) return call->given[i];
    if (rule == HST_CAST_F32) return HST_F32;
    if (rule == HST_CAST_LOWER) return call->lower == HST_F32 ? call->given[i] : call->lower;
    return rule >= HST_WIDEST_GROUP(0) ? hst_widest(call, hst_cast_group(casts, rule)) : call->given[i];
}

// A trainable weight: what is rounded once an update and read often.
static bool has_shadow(const hst_tensor *t) { return t->dtype == HST_F32 && !t->node && t->request != 0; }

static hst_tensor *readable(const hst_call *call, int i) {
    hst_tensor *t = call->in[i];
    hst_dtype dtype = wanted(call, i);
    if (t->dtype != dtype && hst_is_float(dtype)) {
        if (dtype != HST_F32 && has_shadow(t))
            t = hst_shadow(t, dtype);
        else if (!(call->op->lowers >> i & 1))
            t = hst_in_dtype(t, dtype);
    }
    return t && !(call->op->takes_strides >> i & 1) ? hst_contiguous(t) : t;
}

bool hst_cast_inputs(hst_call *call, hst_tensor *const *in) {
    const hst_op *op = call->op;
    const hst_region *region = call->ctx->region;
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++) {
        if (in[i] && !(call->in[i] = hst_seen(in[i]))) return false;
        call->given[i] = in[i] ? call->in[i]->dtype : HST_F32;
    }
    if (region && !region->class_of(region, call, call->in, &call->cast)) return false;
    if (region && (op->casts || call->cast == HST_CAST_LOWER)) call->lower = region->lower;
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++)
        if (in[i] && !(call->in[i] = readable(call, i))) return false;
    return true;
}

// ---- results ----

void hst_cast_outputs(const hst_call *call, hst_type *out) {
    if (call->cast == HST_CAST_NONE || call->op->casts) return;
    for (int i = 0; i < HST_MAX_OUTPUTS; i++)
        if (out[i].rank >= 0 && hst_is_float(out[i].dtype) && !(call->op->f32_outputs >> i & 1))
            out[i].dtype = call->cast == HST_CAST_LOWER    ? call->lower
                           : call->cast == HST_CAST_WIDEST ? hst_widest(call, ~0u)
                                                           : HST_F32;
}
