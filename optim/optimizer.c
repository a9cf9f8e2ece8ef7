// optimizer.c: SGD, Adam, AdamW and RAdam. An optimizer is its options, up to two state tensors a parameter, and a
// kernel that updates one parameter in one pass.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "optim/parameter.h"

enum { MAX_STATES = 2 };

struct hst_optimizer {
    hst_parameters *list;
    hst_optimizer_options options;
    int states_each;     // of a parameter
    hst_tensor **states; // state s of parameter i: [i * MAX_STATES + s]
    int count;           // parameters
    int64_t steps;
};

static hst_real *values(const hst_tensor *t) { return t ? (hst_real *)hst_raw(t) : NULL; }

static hst_row_list rows_of(const hst_tensor *w) {
    if (!w->row_values || hst_count(w) == 0) return (hst_row_list){0};
    return (hst_row_list){(const int64_t *)(const void *)hst_raw(w->row_ids), hst_count(w) / w->shape[0]};
}

// The place of the shadow of w that is kept up to date in the same pass: the one that operations see, or else the first
// that is; -1 where none is up to date now. A second one, of a program that has regions in f16 and in bf16, is made
// again when it is asked for.
static int follower(const hst_tensor *w) {
    int slot = w->shown == HST_BF16 || !w->shadows[0];
    return w->shadows[slot] && w->shadow_version[slot] == w->storage->version ? slot : -1;
}

static hst_rounded rounded(const hst_parameters *list, const hst_tensor *w) {
    int slot = follower(w);
    return (hst_rounded){.dtype = slot < 0 ? list->shown : w->shadows[slot]->dtype,
                         .shadow = slot < 0 ? NULL : hst_raw(w->shadows[slot]),
                         .round = list->no_master};
}

// After the update: w has changed, and its follower with it.
static void bump(hst_tensor *w) {
    int slot = follower(w);
    hst_bump(w);
    if (slot < 0) return;
    hst_bump(w->shadows[slot]);
    w->shadow_version[slot] = w->storage->version;
}

// ---- the update of one parameter ----

// With t = steps, from 1: m and v start at zero and are too small by the factors 1 - b1^t and 1 - b2^t.
//     Adam, AdamW:  w = w - rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
static void set_adam(hst_adam_args *a, int64_t t, double rate) {
    a->rate = rate / (1 - pow(a->beta1, (double)t));
    a->scale = 1 / sqrt(1 - pow(a->beta2, (double)t));
}

// RAdam: v is the average of about s = s_inf - 2 t b2^t / (1 - b2^t) squares, s_inf = 2 / (1 - b2) - 1 of them in the
// end. From 4 of them on the variance of 1 / sqrt(v) is finite, from 5 on not too large, and
//     w = w - rate r (m / (1 - b1^t)) sqrt(1 - b2^t) / (sqrt(v) + eps)
//     r^2 = (s - 4) (s - 2) s_inf / ((s_inf - 4) (s_inf - 2) s)
// brings it to what it is in the end; before that, w = w - rate m / (1 - b1^t).
static void set_radam(hst_adam_args *a, int64_t t, double rate) {
    double v_weight = 1 - pow(a->beta2, (double)t), s_inf = 2 / (1 - a->beta2) - 1;
    double s = s_inf - 2 * (double)t * (1 - v_weight) / v_weight;
    a->rate = rate / (1 - pow(a->beta1, (double)t));
    a->scale = 1;
    a->adaptive = s > 5;
    if (a->adaptive) a->rate *= sqrt((s - 4) * (s - 2) * s_inf / ((s_inf - 4) * (s_inf - 2) * s) * v_weight);
}

static bool adam_update(hst_optimizer *o, int i, double rate, double factor) {
    const hst_parameter_item *p = &o->list->items[i];
    double decay = p->decays ? o->options.decay : 0;
    bool decoupled = o->options.kind == HST_ADAMW;
    hst_adam_args a = {.count = hst_count(hst_gradient_of(p->value)),
                       .w = values(p->value),
                       .m = values(o->states[i * MAX_STATES]),
                       .v = values(o->states[i * MAX_STATES + 1]),
                       .g = hst_source_of(hst_gradient_of(p->value)),
                       .rows = rows_of(p->value),
                       .rounded = rounded(o->list, p->value),
                       .factor = factor,
                       .l2 = decoupled ? 0 : decay,
                       .shrink = decoupled ? rate * decay : 0,
                       .beta1 = o->options.beta1,
                       .beta2 = o->options.beta2,
                       .eps = o->options.eps,
                       .adaptive = true};
    if (o->options.kind == HST_RADAM)
        set_radam(&a, o->steps, rate);
    else
        set_adam(&a, o->steps, rate);
    return o->list->ctx->backend->adam(o->list->ctx, &a);
}

static bool sgd_update(hst_optimizer *o, int i, double rate, double factor) {
    const hst_parameter_item *p = &o->list->items[i];
    hst_sgd_args a = {.count = hst_count(hst_gradient_of(p->value)),
                      .w = values(p->value),
                      .m = values(o->states[i * MAX_STATES]),
                      .g = hst_source_of(hst_gradient_of(p->value)),
                      .rows = rows_of(p->value),
                      .rounded = rounded(o->list, p->value),
                      .lr = rate,
                      .momentum = o->options.momentum,
                      .decay = p->decays ? o->options.decay : 0,
                      .factor = factor,
                      .nesterov = o->options.nesterov};
    return o->list->ctx->backend->sgd(o->list->ctx, &a);
}

// ---- the kinds ----

static const struct {
    const char *name;
    bool (*update)(hst_optimizer *o, int i, double rate, double factor);
    const char *states[MAX_STATES]; // in files: what they mean is the same for all who share a name
} kinds[] = {
    [HST_ADAMW] = {"adamw", adam_update, {"adam.m", "adam.v"}},
    [HST_SGD] = {"sgd", sgd_update, {"sgd.momentum"}},
    [HST_ADAM] = {"adam", adam_update, {"adam.m", "adam.v"}},
    [HST_RADAM] = {"radam", adam_update, {"adam.m", "adam.v"}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

hst_optimizer_options hst_optimizer_defaults(hst_optimizer_kind kind) {
    return (hst_optimizer_options){
        .kind = kind, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .momentum = 0.9, .decay = kind == HST_ADAMW ? 0.01 : 0};
}

const char *hst_optimizer_name(hst_optimizer_kind kind) { return (unsigned)kind < KINDS ? kinds[kind].name : NULL; }

bool hst_optimizer_find(const char *name, hst_optimizer_kind *kind) {
    for (int i = 0; name && i < KINDS; i++)
        if (!strcmp(name, kinds[i].name)) return *kind = (hst_optimizer_kind)i, true;
    return false;
}

// ---- making ----

static bool check_adam(hst_context *ctx, const hst_optimizer_options *o) {
    // As a float, eps must not vanish: 0 / 0 on a zero gradient is a NaN.
    if (o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && (float)o->eps > 0 && isfinite(o->eps) &&
        o->decay >= 0 && isfinite(o->decay))
        return true;
    hst_fail(ctx, HST_ERROR_VALUE,
             "hst_optimizer_new: %s's betas %g and %g must be in [0, 1), eps %g positive, decay %g not negative",
             kinds[o->kind].name, o->beta1, o->beta2, o->eps, o->decay);
    return false;
}

static bool check_sgd(hst_context *ctx, const hst_optimizer_options *o) {
    if (!(o->momentum >= 0 && o->momentum < 1 && o->decay >= 0 && isfinite(o->decay)))
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_optimizer_new: sgd's momentum %g must be in [0, 1), decay %g not negative", o->momentum,
                        o->decay),
               false;
    if (o->nesterov && o->momentum == 0)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_optimizer_new: sgd's nesterov needs a momentum above 0"), false;
    return true;
}

static bool check(hst_context *ctx, const hst_optimizer_options *o) {
    if ((unsigned)o->kind < KINDS) return o->kind == HST_SGD ? check_sgd(ctx, o) : check_adam(ctx, o);
    hst_fail(ctx, HST_ERROR_VALUE, "hst_optimizer_new: there is no optimizer of kind %d; kinds are 0 to %d",
             (int)o->kind, KINDS - 1);
    return false;
}

static bool make_states(hst_optimizer *o) {
    hst_context *ctx = o->list->ctx;
    size_t bytes = (size_t)o->list->count * MAX_STATES * sizeof *o->states + 1;
    if (!(o->states = hst_allocate(ctx, bytes, HST_WORKSPACE))) return false;
    memset(o->states, 0, bytes);
    hst_category category = ctx->category;
    ctx->category = HST_OPTIMIZER;
    for (int i = 0; i < o->list->count; i++)
        for (int s = 0; s < o->states_each; s++) {
            const hst_tensor *w = o->list->items[i].value;
            o->states[i * MAX_STATES + s] = hst_own(hst_zeros(ctx, HST_F32, w->rank, w->shape));
        }
    ctx->category = category;
    return ctx->status == HST_OK;
}

hst_optimizer *hst_optimizer_new(hst_parameters *list, const hst_optimizer_options *options) {
    if (!list) return NULL;
    hst_context *ctx = list->ctx;
    hst_optimizer_options chosen = options ? *options : hst_optimizer_defaults(HST_ADAMW);
    hst_optimizer *o =
        ctx->status == HST_OK && check(ctx, &chosen) ? hst_allocate(ctx, sizeof *o, HST_WORKSPACE) : NULL;
    if (!o) return NULL;
    bool stateless = chosen.kind == HST_SGD && chosen.momentum == 0;
    *o = (hst_optimizer){.list = list, .options = chosen, .count = list->count};
    while (!stateless && o->states_each < MAX_STATES && kinds[chosen.kind].states[o->states_each]) o->states_each++;
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

// ---- stepping, and what a checkpoint needs ----

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
        if (!hst_gradient_of(o->list->items[i].value)) continue; // frozen
        kinds[o->options.kind].update(o, i, rate, factor);
        bump(o->list->items[i].value);
    }
    return ctx->status;
}

hst_parameters *hst_optimizer_parameters(const hst_optimizer *o) {
    if (!o) return NULL;
    return o->list;
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

int hst_optimizer_state_count(const hst_optimizer *o) {
    if (!o) return 0;
    return o->count * o->states_each;
}

hst_tensor *hst_optimizer_state(const hst_optimizer *o, int i, char *name, size_t name_size) {
    if (i < 0 || i >= hst_optimizer_state_count(o)) return NULL;
    int parameter = i / o->states_each, state = i % o->states_each;
    snprintf(name, name_size, "%s.%s", kinds[o->options.kind].states[state], o->list->items[parameter].name);
    return o->states[parameter * MAX_STATES + state];
}
