// scaler.c: the loss scalers of five systems as one struct: a table of profiles over three small state machines.
#include "amp/scaler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tensor/context.h"

struct hst_scaler {
    hst_context *ctx;
    hst_scaler_options options; // scales rounded to f32
    hst_scaler_state state;
    bool reported; // since the last update
    hst_finding found;
    char where[128];
};

// ---- the machines: one update each ----

// Upwards the scale is taken only if it is finite in f32, downwards only if it is not 0.
static hst_scaler_action lower(const hst_scaler *s, float from, float *to) {
    float least = (float)s->options.min_scale, lowered = (float)(from * s->options.backoff);
    *to = lowered > least ? lowered : least;
    if (from > least && *to > 0) return HST_SCALER_LOWERED;
    *to = from;
    return HST_SCALER_AT_FLOOR;
}

static hst_scaler_action raise(const hst_scaler *s, float from, float *to) {
    float most = (float)s->options.max_scale, raised = (float)(from * s->options.growth);
    *to = raised < most ? raised : most;
    if (from < most && isfinite(*to)) return HST_SCALER_RAISED;
    *to = from;
    return HST_SCALER_AT_CAP;
}

static hst_scaler_action constant(hst_scaler *s, bool overflow) {
    (void)s;
    return overflow ? HST_SCALER_CONSTANT : HST_SCALER_KEPT;
}

static hst_scaler_action one(hst_scaler *s, bool overflow) {
    (void)s;
    return overflow ? HST_SCALER_AT_FLOOR : HST_SCALER_KEPT;
}

// What the next overflow does, where hysteresis may let it pass.
static hst_scaler_action lower_or_hold(hst_scaler *s) {
    hst_scaler_state *t = &s->state;
    if (t->hysteresis_left <= 1) return lower(s, t->scale, &t->scale);
    t->hysteresis_left--;
    return HST_SCALER_HELD;
}

static hst_scaler_action raise_and_refill(hst_scaler *s) {
    s->state.hysteresis_left = s->options.hysteresis;
    return raise(s, s->state.scale, &s->state.scale);
}

// torch, apex: a tracker counts the steps since the last overflow or growth.
static hst_scaler_action by_tracker(hst_scaler *s, bool overflow) {
    hst_scaler_state *t = &s->state;
    hst_scaler_action action = HST_SCALER_KEPT;
    t->tracker = overflow ? 0 : t->tracker + 1;
    if (!overflow && s->options.consecutive) t->hysteresis_left = s->options.hysteresis;
    if (overflow)
        action = lower_or_hold(s);
    else if (t->tracker >= s->options.interval) {
        t->tracker = 0;
        action = raise_and_refill(s);
    }
    t->next_scale = t->scale;
    return action;
}

// deepspeed: growth comes with step interval + 1 after an overflow, and after the start, then every interval steps.
static hst_scaler_action by_iteration(hst_scaler *s, bool overflow) {
    hst_scaler_state *t = &s->state;
    hst_scaler_action action = HST_SCALER_KEPT;
    int64_t stable = t->iteration - t->last_overflow - 1;
    if (!overflow && s->options.consecutive) t->hysteresis_left = s->options.hysteresis;
    if (overflow) {
        action = lower_or_hold(s);
        t->last_overflow = t->iteration;
    } else if (stable > 0 && stable % s->options.interval == 0)
        action = raise_and_refill(s);
    t->iteration++;
    t->next_scale = t->scale;
    return action;
}

// mxnet: an update first makes the scale that the last one chose the one in use.
static hst_scaler_action one_late(hst_scaler *s, bool overflow) {
    hst_scaler_state *t = &s->state;
    t->scale = t->next_scale;
    t->tracker = overflow ? 0 : t->tracker + 1;
    if (overflow) {
        hst_scaler_action action = lower(s, t->scale, &t->next_scale);
        bool untried = t->before > t->scale; // the floor: this overflow was that of the scale before
        return action == HST_SCALER_AT_FLOOR && untried ? HST_SCALER_LOWERED : action;
    }
    if (t->tracker < s->options.interval) return HST_SCALER_KEPT;
    t->tracker = 0;
    return raise(s, t->scale, &t->next_scale);
}

// ---- the profiles ----

static const struct {
    const char *name;
    hst_scaler_action (*next)(hst_scaler *s, bool overflow);
    double init_scale;
    int64_t interval, hysteresis; // 0: it has none
    bool ends_at_floor;           // an overflow there is an error
} profiles[] = {
    [HST_SCALER_NONE] = {"none", one, 1, 0, 0, true},
    [HST_SCALER_STATIC] = {"static", constant, 1, 0, 0, false},
    [HST_SCALER_TORCH] = {"torch", by_tracker, 0x1p16, 2000, 1, true},
    [HST_SCALER_APEX] = {"apex", by_tracker, 0x1p16, 2000, 1, false},
    [HST_SCALER_DEEPSPEED_ZERO] = {"deepspeed_zero", by_iteration, 0x1p16, 1000, 2, true},
    [HST_SCALER_DEEPSPEED_FUSED] = {"deepspeed_fused", by_iteration, 0x1p32, 1000, 0, false},
    [HST_SCALER_MXNET] = {"mxnet", one_late, 0x1p16, 2000, 0, true},
};
enum { PROFILES = sizeof profiles / sizeof *profiles };

hst_scaler_options hst_scaler_defaults(hst_scaler_profile profile) {
    unsigned p = (unsigned)profile < PROFILES ? (unsigned)profile : HST_SCALER_TORCH;
    return (hst_scaler_options){.profile = profile,
                                .init_scale = profiles[p].init_scale,
                                .growth = 2,
                                .backoff = 0.5,
                                .interval = profiles[p].interval > 0 ? profiles[p].interval : 1,
                                .hysteresis = profiles[p].hysteresis > 0 ? profiles[p].hysteresis : 1,
                                .min_scale = 0x1p-14,
                                .max_scale = fmax(0x1p24, profiles[p].init_scale),
                                .max_consecutive_skips = 64};
}

const char *hst_scaler_name(hst_scaler_profile profile) {
    return (unsigned)profile < PROFILES ? profiles[profile].name : NULL;
}

bool hst_scaler_find(const char *name, hst_scaler_profile *profile) {
    for (int i = 0; name && i < PROFILES; i++)
        if (!strcmp(name, profiles[i].name)) return *profile = (hst_scaler_profile)i, true;
    return false;
}

// ---- making ----

static bool refuse(hst_context *ctx, const char *name, double x, const char *right) {
    hst_fail(ctx, HST_ERROR_VALUE, "hst_scaler_new: %s %.9g; %s", name, x, right);
    return false;
}

static bool check_machine(hst_context *ctx, const hst_scaler_options *o) {
    if (!(o->growth > 1 && isfinite(o->growth))) return refuse(ctx, "growth", o->growth, "a number above 1 is needed");
    if (!(o->backoff > 0 && o->backoff < 1))
        return refuse(ctx, "backoff", o->backoff, "a number between 0 and 1 is needed");
    if (o->interval < 1) return refuse(ctx, "interval", (double)o->interval, "at least 1 step is needed");
    if (o->hysteresis < 1) return refuse(ctx, "hysteresis", (double)o->hysteresis, "at least 1 is needed");
    if (o->hysteresis > 1 && profiles[o->profile].hysteresis == 0)
        return refuse(ctx, "hysteresis", (double)o->hysteresis,
                      "this profile has none: its first overflow lowers the scale, so it must be 1");
    if (!(o->min_scale >= 0 && isfinite(o->min_scale)))
        return refuse(ctx, "min_scale", o->min_scale, "a finite number is needed, 0 for no floor");
    if (!(o->max_scale > 0)) return refuse(ctx, "max_scale", o->max_scale, "a positive number is needed");
    if (o->min_scale <= o->init_scale && o->init_scale <= o->max_scale) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "hst_scaler_new: init_scale %.9g is not between min_scale %.9g and max_scale %.9g",
             o->init_scale, o->min_scale, o->max_scale);
    return false;
}

static bool check(hst_context *ctx, const hst_scaler_options *o) {
    if ((unsigned)o->profile >= PROFILES) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_scaler_new: there is no profile %d; profiles are 0 to %d", (int)o->profile,
                 PROFILES - 1);
        return false;
    }
    if (!(o->init_scale > 0 && isfinite(o->init_scale)))
        return refuse(ctx, "init_scale", o->init_scale, "a positive number that f32 has is needed");
    if (o->max_consecutive_skips < 0)
        return refuse(ctx, "max_consecutive_skips", (double)o->max_consecutive_skips, "0, no limit, or more is needed");
    if (o->profile == HST_SCALER_NONE && o->init_scale != 1)
        return refuse(ctx, "init_scale", o->init_scale, "none multiplies by 1; static is the profile of a constant");
    return profiles[o->profile].interval == 0 || check_machine(ctx, o);
}

hst_scaler *hst_scaler_new(hst_context *ctx, const hst_scaler_options *options) {
    hst_scaler_options o = options ? *options : hst_scaler_defaults(HST_SCALER_TORCH);
    o.init_scale = (float)o.init_scale;
    o.min_scale = (float)o.min_scale;
    o.max_scale = (float)o.max_scale;
    if (hst_get_status(ctx) != HST_OK || !check(ctx, &o)) return NULL;
    hst_scaler *s = hst_allocate(ctx, sizeof *s, HST_WORKSPACE);
    if (!s) return NULL;
    float scale = (float)o.init_scale;
    *s = (hst_scaler){.ctx = ctx,
                      .options = o,
                      .state = {.profile = o.profile,
                                .scale = scale,
                                .before = scale,
                                .next_scale = scale,
                                .hysteresis_left = o.hysteresis,
                                .last_overflow = -1}};
    return s;
}

void hst_scaler_free(hst_scaler *s) {
    if (s) hst_free(s->ctx, s);
}

hst_context *hst_scaler_context(const hst_scaler *s) {
    if (!s) return NULL;
    return s->ctx;
}

double hst_scaler_scale(const hst_scaler *s) {
    if (!s) return 1;
    return (double)s->state.scale;
}

// ---- updates ----

void hst_scaler_report(hst_scaler *s, hst_finding finding, const char *where) {
    if (!s || (s->reported && finding <= s->found)) return;
    s->reported = true;
    s->found = finding;
    snprintf(s->where, sizeof s->where, "%s", where ? where : "a parameter");
}

static hst_status check_progress(const hst_scaler *s) {
    const hst_scaler_state *t = &s->state;
    bool ended = t->action == HST_SCALER_AT_FLOOR && profiles[t->profile].ends_at_floor;
    bool too_many = s->options.max_consecutive_skips > 0 && t->consecutive_skips >= s->options.max_consecutive_skips;
    if (!ended && !too_many) return HST_OK;
    const char *limit = t->action == HST_SCALER_AT_FLOOR   ? ", from where it is not lowered"
                        : t->action == HST_SCALER_CONSTANT ? ", a constant"
                                                           : "";
    char gradient[192], skips[96] = "";
    const char *what =
        t->action == HST_SCALER_NAN_LOSS ? "the loss itself is not finite, whatever the loss scale," : gradient;
    snprintf(gradient, sizeof gradient, "the gradient of %s is not finite at loss scale", s->where);
    if (!ended)
        snprintf(skips, sizeof skips, ", the last of %lld steps skipped in a row", (long long)t->consecutive_skips);
    return hst_fail(s->ctx, HST_ERROR_DIVERGED, "training diverged at the scaler's update %lld: %s %.9g%s%s",
                    (long long)(t->steps + t->skipped), what, (double)t->before, limit, skips);
}

hst_status hst_scaler_update(hst_scaler *s) {
    if (!s) return HST_OK;
    if (s->ctx->status != HST_OK) return s->ctx->status;
    if (!s->reported)
        return hst_fail(s->ctx, HST_ERROR_STATE,
                        "hst_scaler_update: no gradients were checked since the last update; a step comes first");
    hst_scaler_state *t = &s->state;
    s->reported = false;
    if (s->found == HST_FOUND_NO_GRADIENTS) return HST_OK;
    bool overflow = s->found == HST_FOUND_OVERFLOW, stepped = s->found == HST_FOUND_FINITE;
    t->before = t->scale;
    t->action = s->found == HST_FOUND_NAN_LOSS ? HST_SCALER_NAN_LOSS : profiles[t->profile].next(s, overflow);
    t->steps += stepped;
    t->skipped += !stepped;
    t->consecutive_skips = stepped ? 0 : t->consecutive_skips + 1;
    return check_progress(s);
}

// ---- the state ----

hst_scaler_state hst_scaler_get_state(const hst_scaler *s) {
    if (!s)
        return (hst_scaler_state){.scale = 1, .before = 1, .next_scale = 1, .hysteresis_left = 1, .last_overflow = -1};
    return s->state;
}

static bool can_be_scale(const hst_scaler *s, float x) {
    if (!(x > 0 && isfinite(x))) return false;
    if (profiles[s->state.profile].interval == 0) return x == (float)s->options.init_scale;
    return x >= (float)s->options.min_scale && x <= (float)s->options.max_scale;
}

static bool can_be_count(int64_t n) { return n >= 0 && n <= (int64_t)1 << 53; }

// What is wrong with a state, or NULL.
static const char *fault(const hst_scaler *s, const hst_scaler_state *t) {
    if ((unsigned)t->action > (unsigned)HST_SCALER_NAN_LOSS) return "its action is none";
    if (!can_be_scale(s, t->scale) || !can_be_scale(s, t->before) || !can_be_scale(s, t->next_scale))
        return "a scale is not one that the options allow";
    if (s->state.profile != HST_SCALER_MXNET && t->next_scale != t->scale) return "scale and next_scale differ";
    if (!can_be_count(t->tracker) || !can_be_count(t->iteration)) return "a count is out of range";
    if (t->hysteresis_left < 1 || t->hysteresis_left > s->options.hysteresis) return "hysteresis_left is out of range";
    if (t->last_overflow < -1 || t->last_overflow >= t->iteration) return "last_overflow lies in the future";
    if (!can_be_count(t->steps) || !can_be_count(t->skipped) || !can_be_count(t->consecutive_skips) ||
        t->consecutive_skips > t->skipped)
        return "the counts of steps do not fit together";
    return NULL;
}

hst_status hst_scaler_set_state(hst_scaler *s, const hst_scaler_state *state) {
    if (!s) return HST_OK;
    if (s->ctx->status != HST_OK) return s->ctx->status;
    if (!state) return hst_fail(s->ctx, HST_ERROR_VALUE, "hst_scaler_set_state: the state is NULL");
    if (state->profile != s->state.profile)
        return hst_fail(s->ctx, HST_ERROR_VALUE, "hst_scaler_set_state: the state is of profile %s, the scaler is %s",
                        (unsigned)state->profile < PROFILES ? profiles[state->profile].name : "no known",
                        profiles[s->state.profile].name);
    const char *wrong = fault(s, state);
    if (wrong)
        return hst_fail(s->ctx, HST_ERROR_VALUE, "hst_scaler_set_state: this is no state of the scaler: %s", wrong);
    s->state = *state;
    s->reported = false;
    return HST_OK;
}

size_t hst_scaler_describe(const hst_scaler *s, char *text, size_t size) {
    static const char *const reasons[] = {
        [HST_SCALER_STARTED] = ", the first",   [HST_SCALER_KEPT] = "",
        [HST_SCALER_AT_CAP] = ", the cap",      [HST_SCALER_AT_FLOOR] = ", the floor",
        [HST_SCALER_CONSTANT] = ", a constant", [HST_SCALER_NAN_LOSS] = ", the loss is not finite"};
    hst_scaler_state t = hst_scaler_get_state(s);
    bool late = t.next_scale != t.scale;
    char from[32], to[32];
    hst_format_number(from, (double)(late ? t.scale : t.before), 9);
    hst_format_number(to, (double)t.next_scale, 9);
    if (t.action == HST_SCALER_RAISED || t.action == HST_SCALER_LOWERED)
        return (size_t)snprintf(text, size, "%s %s to %s%s", t.action == HST_SCALER_RAISED ? "raised" : "lowered", from,
                                to, late ? " for the step after the next" : "");
    if (t.action == HST_SCALER_HELD)
        return (size_t)snprintf(text, size, "kept %s, hysteresis %lld of %lld used", to,
                                (long long)(s->options.hysteresis - t.hysteresis_left),
                                (long long)s->options.hysteresis);
    return (size_t)snprintf(text, size, "kept %s%s", to, reasons[t.action]);
}
