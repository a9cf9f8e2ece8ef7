// optimizer.c: AdamW and SGD. An optimizer is its options, one state tensor or two a parameter, and a kernel that
// updates one parameter in one pass.
#include <stdio.h>
#include <string.h>
#include "optim/parameter.h"

enum { MAX_STATES = 2 };

struct hst_optimizer {
    hst_parameters *list;
    const char *state_names[MAX_STATES]; // NULL: none
    hst_tensor **states;                 // state s of parameter i: [i * MAX_STATES + s]
    int count;                           // parameters
    int64_t steps;
    bool (*update)(hst_optimizer *o, int i, double rate, double factor);
    hst_adamw_options adamw;
    hst_sgd_options sgd;
};

static hst_real *values(const hst_tensor *t) { return t ? (hst_real *)hst_raw(t) : NULL; }

static bool make_states(hst_optimizer *o) {
    hst_context *ctx = o->list->ctx;
    size_t bytes = (size_t)o->list->count * MAX_STATES * sizeof *o->states + 1;
    if (!(o->states = hst_allocate(ctx, bytes, HST_WORKSPACE))) return false;
    memset(o->states, 0, bytes);
    hst_category category = ctx->category;
    ctx->category = HST_OPTIMIZER;
    for (int i = 0; i < o->list->count; i++)
        for (int s = 0; s < MAX_STATES; s++) {
            const hst_tensor *w = o->list->items[i].value;
            if (o->state_names[s]) o->states[i * MAX_STATES + s] = hst_own(hst_zeros(ctx, HST_F32, w->rank, w->shape));
        }
    ctx->category = category;
    return ctx->status == HST_OK;
}

static hst_optimizer *make(hst_parameters *list, hst_optimizer like) {
    hst_context *ctx = list->ctx;
    hst_optimizer *o = ctx->status == HST_OK ? hst_allocate(ctx, sizeof *o, HST_WORKSPACE) : NULL;
    if (!o) return NULL;
    *o = like;
    o->list = list;
    o->count = list->count;
    if (make_states(o)) return o;
    hst_optimizer_free(o);
    return NULL;
}

void hst_optimizer_free(hst_optimizer *o) {
    if (!o) return;
    for (int i = 0; o->states && i < o->count * MAX_STATES; i++) hst_unretain(o->states[i]);
    hst_free(o->list->ctx, o->states);
    hst_free(o->list->ctx, o);
}

// ---- AdamW ----

static bool adamw_update(hst_optimizer *o, int i, double rate, double factor) {
    const hst_parameter_item *p = &o->list->items[i];
    hst_tensor **state = &o->states[i * MAX_STATES];
    hst_adamw_args a = {.count = hst_count(p->value),
                        .w = values(p->value),
                        .m = values(state[0]),
                        .v = values(state[1]),
                        .g = hst_source_of(p->value->grad),
                        .lr = rate,
                        .beta1 = o->adamw.beta1,
                        .beta2 = o->adamw.beta2,
                        .eps = o->adamw.eps,
                        .decay = p->decays ? o->adamw.decay : 0,
                        .factor = factor,
                        .step = o->steps};
    return o->list->ctx->backend->adamw(o->list->ctx, &a);
}

hst_optimizer *hst_adamw(hst_parameters *list, hst_adamw_options a) {
    if (!list) return NULL;
    // As a float, eps must not vanish: 0 / 0 on a zero gradient is a NaN.
    if (!(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1 && (float)a.eps > 0 && a.decay >= 0)) {
        hst_fail(list->ctx, HST_ERROR_VALUE,
                 "hst_adamw: betas %g and %g must be in [0, 1), eps %g positive, decay %g not negative", a.beta1,
                 a.beta2, a.eps, a.decay);
        return NULL;
    }
    return make(list, (hst_optimizer){.state_names = {"adam.m", "adam.v"}, .update = adamw_update, .adamw = a});
}

// ---- SGD ----

static bool sgd_update(hst_optimizer *o, int i, double rate, double factor) {
    const hst_parameter_item *p = &o->list->items[i];
    hst_sgd_args a = {.count = hst_count(p->value),
                      .w = values(p->value),
                      .m = values(o->states[i * MAX_STATES]),
                      .g = hst_source_of(p->value->grad),
                      .lr = rate,
                      .momentum = o->sgd.momentum,
                      .decay = p->decays ? o->sgd.decay : 0,
                      .factor = factor};
    return o->list->ctx->backend->sgd(o->list->ctx, &a);
}

hst_optimizer *hst_sgd(hst_parameters *list, hst_sgd_options s) {
    if (!list) return NULL;
    if (!(s.momentum >= 0 && s.momentum < 1 && s.decay >= 0)) {
        hst_fail(list->ctx, HST_ERROR_VALUE, "hst_sgd: momentum %g must be in [0, 1), decay %g not negative",
                 s.momentum, s.decay);
        return NULL;
    }
    return make(
        list, (hst_optimizer){.state_names = {s.momentum > 0 ? "sgd.momentum" : NULL}, .update = sgd_update, .sgd = s});
}

// ---- both ----

hst_status hst_optimizer_step(hst_optimizer *o, double rate, double factor) {
    if (!o) return HST_ERROR_STATE;
    hst_context *ctx = o->list->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (o->count != o->list->count)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_optimizer_step: the list had %d parameters when the optimizer was made, now it has %d",
                        o->count, o->list->count);
    o->steps++;
    for (int i = 0; i < o->list->count && ctx->status == HST_OK; i++) {
        if (!o->list->items[i].value->grad) continue; // frozen
        o->update(o, i, rate, factor);
        hst_bump(o->list->items[i].value);
    }
    return ctx->status;
}

int64_t hst_optimizer_steps(const hst_optimizer *o) {
    if (!o) return 0;
    return o->steps;
}
void hst_optimizer_set_steps(hst_optimizer *o, int64_t steps) {
    if (o && steps < 0)
        hst_fail(o->list->ctx, HST_ERROR_VALUE, "hst_optimizer_set_steps: %lld steps", (long long)steps);
    else if (o)
        o->steps = steps;
}

static int states_each(const hst_optimizer *o) { return (o->state_names[0] != NULL) + (o->state_names[1] != NULL); }

int hst_optimizer_state_count(const hst_optimizer *o) {
    if (!o) return 0;
    return o->count * states_each(o);
}

hst_tensor *hst_optimizer_state(const hst_optimizer *o, int i, char *name, size_t name_size) {
    if (i < 0 || i >= hst_optimizer_state_count(o)) return NULL;
    int parameter = i / states_each(o), state = i % states_each(o);
    snprintf(name, name_size, "%s.%s", o->state_names[state], o->list->items[parameter].name);
    return o->states[parameter * MAX_STATES + state];
}
