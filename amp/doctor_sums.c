// doctor_sums.c: each sum again, as it would be had it been added in 16 bits. The operation's own forward or backward
// runs again on the same operands: with the context's kernels into fp32, and with the unsafe ones, which round after
// each addition, into f16 and bf16.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "amp/doctor.h"
#include "ops/sums.h"

enum { FP32, FP16, BFLOAT16, WAYS };
static const hst_dtype dtypes[WAYS] = {[FP32] = HST_F32, [FP16] = HST_F16, [BFLOAT16] = HST_BF16};

// The kernels of a way of adding; to be given back to the context.
static const hst_backend *begin_way(hst_context *ctx, int way) {
    const hst_backend *usual = ctx->backend;
    if (way != FP32) ctx->backend = &hst_backend_unsafe;
    return usual;
}

// ---- how far two results are apart ----

static double size_of(double x, double y) { return isfinite(x) || x == y ? (x - y) * (x - y) : INFINITY; }

// The distance of x from y, as a share of y; what y is not finite itself says nothing. x NULL: y itself, stored in
// `to`.
static double distance(const hst_tensor *x, const hst_tensor *y, hst_dtype to) {
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < hst_count(y); i++) {
        double exact = hst_load(hst_source_of(y), i);
        if (!isfinite(exact)) continue;
        double stored =
            to == HST_F16 ? (double)hst_from_f16(hst_to_f16(exact)) : (double)hst_from_bf16(hst_to_bf16(exact));
        apart += size_of(x ? hst_load(hst_source_of(x), i) : stored, exact);
        whole += exact * exact;
    }
    return apart == 0 ? 0 : sqrt(apart / whole);
}

static bool report(hst_numerics *n, const char *name, char kind, const char *terms, hst_tensor *const results[WAYS]) {
    hst_sum_finding *f = hst_list_add(n->ctx, &n->sums, sizeof *f);
    if (!f) return false;
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->terms, sizeof f->terms, "%s", terms);
    f->public = (hst_numerics_sum){.kind = kind,
                                   .count = hst_count(results[FP32]),
                                   .f16_added = distance(results[FP16], results[FP32], HST_F16),
                                   .f16_stored = distance(NULL, results[FP32], HST_F16),
                                   .bf16_added = distance(results[BFLOAT16], results[FP32], HST_BF16),
                                   .bf16_stored = distance(NULL, results[FP32], HST_BF16)};
    return true;
}

// ---- the rows of the list ----

// Whether the list has sums of `operation` that end up in `result`; their terms, together. The names of optional inputs
// end with a "?".
static bool find_sums(const char *operation, const char *prefix, const char *result, char terms[HST_MAX_LABEL],
                      char *kind) {
    char name[HST_MAX_LABEL];
    snprintf(name, sizeof name, "%s%.*s", prefix, HST_ARGUMENT(result));
    *terms = 0;
    for (int i = 0; i < hst_sum_count; i++) {
        const hst_sum_row *row = &hst_sum_table[i];
        if (strcmp(row->operation, operation) != 0 || strcmp(row->result, name) != 0) continue;
        size_t length = strlen(terms);
        snprintf(terms + length, HST_MAX_LABEL - length, "%s%s", length ? "; " : "", row->terms);
        *kind = "abcd"[row->kind];
    }
    return *terms;
}

static void name_result(char name[HST_MAX_LABEL], const char *label, const char *prefix, const char *result) {
    snprintf(name, HST_MAX_LABEL, "%.*s %s%.*s", HST_MAX_LABEL - 40, label, prefix, HST_ARGUMENT(result));
}

// ---- forward ----

static bool forward_again(const hst_call *call, int way, hst_tensor *out[HST_MAX_OUTPUTS]) {
    hst_context *ctx = call->ctx;
    hst_call again = *call;
    memset(again.saved, 0, sizeof again.saved);
    for (int o = 0; o < HST_MAX_OUTPUTS; o++) {
        hst_dtype dtype = call->op->f32_outputs >> o & 1 ? HST_F32 : dtypes[way];
        if (call->out[o]) again.out[o] = hst_new(ctx, dtype, call->out[o]->rank, call->out[o]->shape);
        if (call->out[o] && !again.out[o]) return false;
        out[o] = again.out[o];
    }
    const hst_backend *usual = begin_way(ctx, way);
    bool done = call->op->forward(&again);
    ctx->backend = usual;
    for (int i = 0; i < HST_MAX_SAVED; i++) hst_unretain(again.saved[i]);
    return done;
}

bool hst_sums_forward(hst_numerics *n, const hst_call *call, const char *label) {
    char terms[HST_MAX_LABEL], name[HST_MAX_LABEL], kind;
    bool any = false;
    if (hst_op_place(call->op) < 0) return true; // the application's functions are called as often as it expects
    for (int o = 0; o < HST_MAX_OUTPUTS; o++)
        any |= call->out[o] && find_sums(call->op->name, "", call->op->outputs[o], terms, &kind);
    if (!any) return true;
    hst_tensor *out[WAYS][HST_MAX_OUTPUTS];
    for (int way = 0; way < WAYS; way++)
        if (!forward_again(call, way, out[way])) return false;
    for (int o = 0; o < HST_MAX_OUTPUTS; o++) {
        if (!call->out[o] || !find_sums(call->op->name, "", call->op->outputs[o], terms, &kind)) continue;
        name_result(name, label, "", call->op->outputs[o]);
        if (!report(n, name, kind, terms, (hst_tensor *[WAYS]){out[FP32][o], out[FP16][o], out[BFLOAT16][o]}))
            return false;
    }
    return true;
}

// ---- backward ----

static bool is_wanted(const hst_gradient *dx) { return dx->request != HST_NULL; }

// What this call alone contributes to its gradients: into tensors of their own, with HST_WRITE.
static bool backward_again(const hst_call *call, const hst_node *node, hst_tensor *const *dy, const hst_gradient *dx,
                           int way, hst_tensor *into[HST_MAX_INPUTS]) {
    hst_context *ctx = call->ctx;
    hst_call again = *call;
    hst_gradient g[HST_MAX_INPUTS] = {0};
    for (int k = 0; k < HST_MAX_INPUTS; k++) {
        into[k] = is_wanted(&dx[k]) ? hst_new(ctx, dtypes[way], node->in_type[k].rank, node->in_type[k].shape) : NULL;
        if (is_wanted(&dx[k]) && !into[k]) return false;
        if (into[k]) g[k] = (hst_gradient){.request = HST_WRITE, .into = into[k]};
    }
    const hst_backend *usual = begin_way(ctx, way);
    bool done = call->op->backward(&again, dy, g);
    ctx->backend = usual;
    return done;
}

// ---- gradients with several uses ----

static hst_collected *find_collected(const hst_numerics *n, const hst_origin *to) {
    hst_collected *collected = n->collected.items;
    for (int i = 0; i < n->collected.count; i++)
        if (collected[i].to.leaf == to->leaf && collected[i].to.node == to->node &&
            collected[i].to.output == to->output)
            return &collected[i];
    return NULL;
}

static void forget(hst_collected *c) {
    for (int way = 0; way < WAYS; way++) hst_unretain(c->sums[way]);
    *c = (hst_collected){0};
}

// Adds a contribution, one rounding each time. A collection begins with one that is written: what a buffer held before
// is not known.
static bool collect(hst_numerics *n, const hst_origin *to, const hst_gradient *dx, const hst_tensor *part) {
    hst_collected *c = find_collected(n, to);
    if (dx->request == HST_WRITE && c) forget(c); // of an earlier backward
    if (!c && dx->request != HST_WRITE) return true;
    if (!c && !(c = hst_list_add(n->ctx, &n->collected, sizeof *c))) return false;
    c->to = *to;
    for (int way = 0; way < WAYS; way++) {
        if (!c->uses && !(c->sums[way] = hst_own(hst_new(n->ctx, dtypes[way], part->rank, part->shape)))) return false;
        const hst_backend *usual = begin_way(n->ctx, way);
        bool done = hst_copy_tensor(c->sums[way], part, c->uses > 0);
        n->ctx->backend = usual;
        if (!done) return false;
    }
    c->uses++;
    return true;
}

static bool report_collected(hst_numerics *n, const hst_origin *to, const char *result, const char *label) {
    const hst_collected *c = find_collected(n, to);
    if (!c || c->uses < 2) return true;
    char terms[HST_MAX_LABEL], name[HST_MAX_LABEL], kind;
    if (!find_sums("hst_backward", "", result, terms, &kind)) return true;
    snprintf(name, sizeof name, "%.*s, %d uses", HST_MAX_LABEL - 40, label, c->uses);
    return report(n, name, kind, terms, c->sums);
}

bool hst_sums_of_leaf(hst_numerics *n, hst_tensor *leaf, const char *name) {
    char label[HST_MAX_LABEL];
    snprintf(label, sizeof label, "%.*s gradient", HST_MAX_LABEL - 50, name);
    return report_collected(n, &(hst_origin){.leaf = leaf}, "a gradient that is added to", label);
}

// ---- a node ----

// A sum that has a part which is not known is not reported.
static void skip(hst_numerics *n, const hst_node *node, const hst_gradient *dx) {
    for (int k = 0; k < HST_MAX_INPUTS; k++) {
        hst_collected *c = is_wanted(&dx[k]) ? find_collected(n, &node->from[k]) : NULL;
        if (c) forget(c);
    }
}

bool hst_sums_backward(hst_numerics *n, const hst_call *call, const hst_node *node, hst_tensor *const *dy,
                       const hst_gradient *dx, const char *label) {
    const hst_op *op = call->op;
    char terms[HST_MAX_LABEL], name[HST_MAX_LABEL], kind;
    hst_tensor *into[WAYS][HST_MAX_INPUTS];
    for (int o = 0; o < HST_MAX_OUTPUTS; o++) {
        snprintf(name, sizeof name, "%.*s gradient", HST_MAX_LABEL - 50, label);
        if (dy[o] && !report_collected(n, &(hst_origin){.node = node->id, .output = o},
                                       "dy of a result used several times", name))
            return false;
    }
    if (hst_op_place(op) < 0) return skip(n, node, dx), true;
    if (!backward_again(call, node, dy, dx, FP32, into[FP32])) return false;
    bool any = false;
    for (int k = 0; k < HST_MAX_INPUTS; k++) {
        if (!is_wanted(&dx[k])) continue;
        if (!collect(n, &node->from[k], &dx[k], into[FP32][k])) return false;
        any |= find_sums(op->name, "d", op->inputs[k], terms, &kind);
    }
    for (int way = FP16; any && way < WAYS; way++)
        if (!backward_again(call, node, dy, dx, way, into[way])) return false;
    for (int k = 0; k < HST_MAX_INPUTS && any; k++) {
        if (!is_wanted(&dx[k]) || !find_sums(op->name, "d", op->inputs[k], terms, &kind)) continue;
        name_result(name, label, "d", op->inputs[k]);
        if (!report(n, name, kind, terms, (hst_tensor *[WAYS]){into[FP32][k], into[FP16][k], into[BFLOAT16][k]}))
            return false;
    }
    return true;
}
