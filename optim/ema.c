// ema.c: the moving average of the weights.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "optim/parameter.h"

struct hst_ema {
    hst_parameters *list;
    double decay;
    int64_t updates;
    int count;             // parameters
    hst_tensor **averages; // one a parameter
    bool swapped;          // they hold the weights, and the parameters the averages
};

static bool make_averages(hst_ema *e) {
    hst_context *ctx = e->list->ctx;
    size_t bytes = (size_t)e->count * sizeof *e->averages + 1;
    if (!(e->averages = hst_allocate(ctx, bytes, HST_WORKSPACE))) return false;
    memset(e->averages, 0, bytes);
    hst_category category = ctx->category;
    ctx->category = HST_OPTIMIZER;
    for (int i = 0; i < e->count && ctx->status == HST_OK; i++) {
        const hst_tensor *w = e->list->items[i].value;
        e->averages[i] = hst_own(hst_new(ctx, HST_F32, w->rank, w->shape));
        hst_copy_tensor(e->averages[i], w, false);
    }
    ctx->category = category;
    return ctx->status == HST_OK;
}

hst_ema *hst_ema_new(hst_parameters *list, double decay) {
    if (!list) return NULL;
    hst_context *ctx = list->ctx;
    if (!(decay >= 0 && decay < 1)) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_ema_new: decay %g must be in [0, 1)", decay);
        return NULL;
    }
    hst_ema *e = ctx->status == HST_OK ? hst_allocate(ctx, sizeof *e, HST_WORKSPACE) : NULL;
    if (!e) return NULL;
    *e = (hst_ema){.list = list, .decay = decay, .count = list->count};
    if (make_averages(e)) return e;
    hst_ema_free(e);
    return NULL;
}

void hst_ema_free(hst_ema *e) {
    if (!e) return;
    for (int i = 0; e->averages && i < e->count; i++) hst_unretain(e->averages[i]);
    hst_free(e->list->ctx, e->averages);
    hst_free(e->list->ctx, e);
}

hst_status hst_ema_update(hst_ema *e) {
    if (!e) return HST_ERROR_STATE;
    hst_context *ctx = e->list->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (e->swapped)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_ema_update: the averages are swapped in; hst_ema_swap first brings the weights back");
    if (e->count != e->list->count)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_ema_update: the list had %d parameters when the averages were made, now it has %d",
                        e->count, e->list->count);
    double t = (double)++e->updates, decay = fmin(e->decay, (1 + t) / (10 + t));
    for (int i = 0; i < e->count; i++) {
        const hst_tensor *w = e->list->items[i].value;
        ctx->backend->average(ctx, &(hst_average_args){hst_count(w), (hst_real *)hst_raw(e->averages[i]),
                                                       (const hst_real *)hst_raw(w), decay});
    }
    return ctx->status;
}

// Bytes, not numbers: what comes back is what there was, a NaN's bits included.
static void exchange(hst_tensor *a, hst_tensor *b) {
    char block[4096], *x = hst_raw(a), *y = hst_raw(b);
    size_t left = (size_t)hst_count(a) * sizeof(hst_real);
    while (left > 0) {
        size_t some = left < sizeof block ? left : sizeof block;
        memcpy(block, x, some);
        memcpy(x, y, some);
        memcpy(y, block, some);
        x += some, y += some, left -= some;
    }
    hst_bump(a);
    hst_bump(b);
}

void hst_ema_swap(hst_ema *e) {
    if (!e) return;
    for (int i = 0; i < e->count; i++) exchange(e->list->items[i].value, e->averages[i]);
    e->swapped = !e->swapped;
}

int64_t hst_ema_updates(const hst_ema *e) {
    if (!e) return 0;
    return e->updates;
}
void hst_ema_set_updates(hst_ema *e, int64_t updates) {
    if (e && updates < 0)
        hst_fail(e->list->ctx, HST_ERROR_VALUE, "hst_ema_set_updates: %lld updates", (long long)updates);
    else if (e)
        e->updates = updates;
}

int hst_ema_state_count(const hst_ema *e) {
    if (!e) return 0;
    return e->count;
}

hst_tensor *hst_ema_state(const hst_ema *e, int i, char *name, size_t name_size) {
    if (i < 0 || i >= hst_ema_state_count(e)) return NULL;
    snprintf(name, name_size, "ema.%s", e->list->items[i].name);
    return e->averages[i];
}
