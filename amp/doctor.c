// doctor.c: the numerics doctor's rounds: it is told of each call by the dispatcher and by backward, names what it
// sees, and puts the worst first. What a tensor loses is counted in doctor_tensors.c, sums are formed again in
// doctor_sums.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "amp/doctor.h"

void *hst_list_add(hst_context *ctx, hst_list *list, size_t size) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 32;
        void *items = hst_allocate(ctx, (size_t)capacity * size, HST_WORKSPACE);
        if (!items) return NULL;
        if (list->count) memcpy(items, list->items, (size_t)list->count * size);
        hst_free(ctx, list->items);
        list->items = items;
        list->capacity = capacity;
    }
    return memset((char *)list->items + (size_t)list->count++ * size, 0, size);
}

// ---- names ----

// Whether t is the weight w, or its shadow, or a view of one of them.
static bool is_of(const hst_tensor *w, const hst_tensor *t) {
    bool found = w->storage == t->storage;
    for (int i = 0; i < 2; i++) found |= w->shadows[i] && w->shadows[i]->storage == t->storage;
    return found;
}

static const char *watched_name(const hst_numerics *n, const hst_tensor *t) {
    const hst_watched *watched = n->watched.items;
    for (int i = 0; t && i < n->watched.count; i++)
        if (is_of(watched[i].tensor, t)) return watched[i].name;
    return NULL;
}

// "rnn.rnn_lst.0.weight" and matmul: "rnn.rnn_lst.0 matmul". The last weight counts: a table that an output layer
// shares with the embedding is its first, the bias its own.
static void make_label(const hst_numerics *n, const hst_call *call, char label[HST_MAX_LABEL]) {
    const char *weight = NULL;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        const char *name = watched_name(n, call->in[i]);
        if (name) weight = name;
    }
    const char *dot = weight ? strrchr(weight, '.') : NULL;
    int length = dot ? (int)(dot - weight) : weight ? (int)strlen(weight) : 0;
    snprintf(label, HST_MAX_LABEL, "%.*s%s%s", length, weight ? weight : "", weight ? " " : "", call->op->name);
}

// Names a call: its label is the list's last.
static void add_label(hst_numerics *n, const hst_call *call) {
    hst_label *label = hst_list_add(n->ctx, &n->labels, sizeof *label), *labels = n->labels.items;
    int number = 1;
    if (!label) return;
    label->node = call->out[0]->node;
    make_label(n, call, label->first);
    for (int i = 0; i < n->labels.count - 1; i++) number += !strcmp(labels[i].first, label->first);
    strcpy(label->name, label->first);
    if (number > 1) snprintf(label->name, HST_MAX_LABEL, "%.*s %d", HST_MAX_LABEL - 12, label->first, number);
}

static const char *label_of(const hst_numerics *n, uint64_t node) {
    const hst_label *labels = n->labels.items;
    for (int i = 0; i < n->labels.count; i++)
        if (labels[i].node == node) return labels[i].name;
    return NULL;
}

// ---- calls ----

static void look_at_outputs(hst_numerics *n, const hst_call *call, hst_tensor *const *tensors, hst_numerics_kind kind,
                            const char *label) {
    char name[HST_MAX_LABEL];
    for (int o = 0; o < HST_MAX_OUTPUTS; o++) {
        snprintf(name, sizeof name, "%.*s%s%s", HST_MAX_LABEL - 32, label, o ? " " : "", o ? call->op->outputs[o] : "");
        if (tensors[o] && hst_is_float(tensors[o]->dtype)) hst_look_at(n, kind, name, tensors[o]);
    }
}

static void after_forward(hst_numerics *n, const hst_call *call) {
    add_label(n, call);
    if (n->ctx->status != HST_OK || call->op->view) return; // a view has no new numbers
    const char *label = ((const hst_label *)n->labels.items)[n->labels.count - 1].name;
    look_at_outputs(n, call, call->out, HST_NUMERICS_RESULT, label);
    hst_sums_forward(n, call, label);
}

static void after_backward(hst_numerics *n, const hst_call *call, const hst_node *node, hst_tensor *const *dy,
                           const hst_gradient *dx) {
    const char *label = label_of(n, node->id);
    if (!label) return; // recorded before anybody watched
    if (!call->op->view) look_at_outputs(n, call, dy, HST_NUMERICS_RESULT_GRADIENT, label);
    hst_sums_backward(n, call, node, dy, dx, label);
}

static void observe(hst_context *ctx, const hst_call *call, const hst_node *node, hst_tensor *const *dy,
                    const hst_gradient *dx) {
    if (ctx->status != HST_OK) return;
    hst_scope_begin(ctx);
    if (node)
        after_backward(ctx->observer, call, node, dy, dx);
    else
        after_forward(ctx->observer, call);
    hst_scope_end(ctx, NULL);
}

// ---- from beginning to end ----

hst_numerics *hst_numerics_begin(hst_context *ctx, double scale) {
    if (!ctx || ctx->status != HST_OK) return NULL;
    if (ctx->observe) {
        hst_fail(ctx, HST_ERROR_STATE, "hst_numerics_begin: this context is watched already; hst_numerics_end ends it");
        return NULL;
    }
    if (!(scale > 0) || scale > 0x1p120) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_numerics_begin: scale is %g; a positive number up to 2^120 is needed",
                 scale);
        return NULL;
    }
    hst_numerics *n = hst_allocate(ctx, sizeof *n, HST_WORKSPACE);
    if (!n) return NULL;
    *n = (hst_numerics){.ctx = ctx, .watching = true, .scale = {scale, scale, scale, n->advice}};
    ctx->observer = n;
    ctx->observe = observe;
    return n;
}

hst_status hst_numerics_watch(hst_numerics *n, hst_tensor *weight, const char *name) {
    if (!n) return HST_ERROR_STATE;
    if (n->ctx->status != HST_OK) return n->ctx->status;
    if (!weight || !name || weight->ctx != n->ctx)
        return hst_fail(n->ctx, HST_ERROR_VALUE,
                        "hst_numerics_watch: %s; a tensor of this context and a name are needed",
                        !weight ? "the tensor is NULL"
                        : !name ? "the name is NULL"
                                : "the tensor is another context's");
    if (!hst_is_float(weight->dtype))
        return hst_fail(n->ctx, HST_ERROR_DTYPE, "hst_numerics_watch: %s is %s; f32, f16 or bf16 is needed", name,
                        hst_dtype_name(weight->dtype));
    hst_watched *watched = hst_list_add(n->ctx, &n->watched, sizeof *watched);
    if (!watched) return n->ctx->status;
    watched->tensor = hst_retain(weight);
    snprintf(watched->name, sizeof watched->name, "%s", name);
    return HST_OK;
}

static void look_at_weights(hst_numerics *n) {
    for (int i = 0; i < n->watched.count; i++) {
        const hst_watched *w = (const hst_watched *)n->watched.items + i;
        hst_tensor *gradient = w->tensor->grad ? w->tensor->grad : w->tensor->row_values;
        hst_look_at(n, HST_NUMERICS_WEIGHT, w->name, w->tensor);
        if (gradient) hst_look_at(n, HST_NUMERICS_WEIGHT_GRADIENT, w->name, gradient);
        hst_sums_of_leaf(n, w->tensor, w->name);
    }
}

static int descending(double a, double b) { return (a < b) - (a > b); }

static int compare_tensors(const void *a, const void *b) {
    const hst_numerics_tensor *x = &((const hst_tensor_row *)a)->public, *y = &((const hst_tensor_row *)b)->public;
    const double pairs[][2] = {{(double)x->not_finite, (double)y->not_finite},
                               {x->f16.infinite, y->f16.infinite},
                               {x->f16.zero, y->f16.zero},
                               {x->f16.subnormal, y->f16.subnormal},
                               {x->bf16.infinite, y->bf16.infinite},
                               {x->bf16.zero, y->bf16.zero},
                               {x->bf16.subnormal, y->bf16.subnormal},
                               {x->largest, y->largest}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int order = descending(pairs[i][0], pairs[i][1]);
        if (order) return order;
    }
    return 0;
}

static double worst_of(const hst_numerics_sum *s) {
    return s->f16_added > s->bf16_added ? s->f16_added : s->bf16_added;
}
static int compare_sums(const void *a, const void *b) {
    return descending(worst_of(&((const hst_sum_finding *)a)->public), worst_of(&((const hst_sum_finding *)b)->public));
}

static void stop(hst_numerics *n) {
    if (!n->watching) return;
    n->watching = false;
    n->ctx->observe = NULL;
    n->ctx->observer = NULL;
}

// Nothing moves any more: the public parts can point at the texts.
static void publish(hst_numerics *n) {
    for (int i = 0; i < n->tensors.count; i++) {
        hst_tensor_row *row = (hst_tensor_row *)n->tensors.items + i;
        row->public.name = row->name;
        row->public.advice = row->advice;
    }
    for (int i = 0; i < n->sums.count; i++) {
        hst_sum_finding *sum = (hst_sum_finding *)n->sums.items + i;
        sum->public.name = sum->name;
        sum->public.terms = sum->terms;
        sum->public.advice = sum->advice;
    }
}

hst_status hst_numerics_end(hst_numerics *n) {
    if (!n) return HST_ERROR_STATE;
    if (!n->watching) return n->ctx->status;
    stop(n);
    hst_scope_begin(n->ctx);
    if (n->ctx->status == HST_OK) look_at_weights(n);
    hst_scope_end(n->ctx, NULL);
    if (n->ctx->status != HST_OK) {
        n->tensors.count = n->sums.count = 0; // half a pass is no finding
        return n->ctx->status;
    }
    if (n->tensors.count) qsort(n->tensors.items, (size_t)n->tensors.count, sizeof(hst_tensor_row), compare_tensors);
    if (n->sums.count) qsort(n->sums.items, (size_t)n->sums.count, sizeof(hst_sum_finding), compare_sums);
    hst_advise(n);
    publish(n);
    return n->ctx->status;
}

void hst_numerics_free(hst_numerics *n) {
    if (!n) return;
    stop(n);
    for (int i = 0; i < n->watched.count; i++) hst_unretain(((hst_watched *)n->watched.items)[i].tensor);
    for (int i = 0; i < n->collected.count; i++) {
        hst_collected *c = (hst_collected *)n->collected.items + i;
        for (int k = 0; k < 3; k++) hst_unretain(c->sums[k]);
    }
    hst_list *lists[] = {&n->tensors, &n->sums, &n->watched, &n->labels, &n->collected};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) hst_free(n->ctx, lists[i]->items);
    hst_free(n->ctx, n);
}

int hst_numerics_tensor_count(const hst_numerics *n) { return n && !n->watching ? n->tensors.count : 0; }
int hst_numerics_sum_count(const hst_numerics *n) { return n && !n->watching ? n->sums.count : 0; }
const hst_numerics_tensor *hst_numerics_tensor_at(const hst_numerics *n, int i) {
    if (i < 0 || i >= hst_numerics_tensor_count(n)) return NULL;
    return &((const hst_tensor_row *)n->tensors.items)[i].public;
}
const hst_numerics_sum *hst_numerics_sum_at(const hst_numerics *n, int i) {
    if (i < 0 || i >= hst_numerics_sum_count(n)) return NULL;
    return &((const hst_sum_finding *)n->sums.items)[i].public;
}
hst_numerics_scale hst_numerics_scale_of(const hst_numerics *n) {
    if (n) return n->scale;
    return (hst_numerics_scale){0, 0, 0, ""};
}
