// tape.c: recording, finding and ending nodes; leaves and no-grad regions.
#include <math.h>
#include <string.h>
#include "autograd/rows.h"
#include "autograd/tape.h"

// ---- leaves ----

// Whether t may have a gradient in `dtype`; if so, what it had is taken away.
static bool prepare(const char *function, hst_tensor *t, hst_request request, hst_dtype dtype) {
    hst_context *ctx = t->ctx;
    if (!hst_is_float(t->dtype) || !hst_is_float(dtype))
        hst_fail(ctx, HST_ERROR_DTYPE, "%s: a gradient in %s for a tensor of %s; both must be f32, f16 or bf16",
                 function, hst_dtype_name(dtype), hst_dtype_name(t->dtype));
    else if (request != HST_NULL && request != HST_WRITE && request != HST_ADD)
        hst_fail(ctx, HST_ERROR_VALUE, "%s: request %d; HST_NULL, HST_WRITE or HST_ADD is needed", function,
                 (int)request);
    else if (t->node)
        hst_fail(ctx, HST_ERROR_STATE,
                 "%s: this tensor was computed; only a leaf has a gradient of its own (hst_detach makes one)",
                 function);
    if (ctx->status != HST_OK) return false;
    hst_unretain(t->grad);
    hst_unretain(t->row_ids);
    hst_unretain(t->row_values);
    t->grad = t->row_ids = t->row_values = NULL;
    t->request = HST_NULL;
    return true;
}

hst_status hst_attach_grad(hst_tensor *t, hst_request request, hst_dtype dtype) {
    if (!t) return HST_ERROR_STATE;
    hst_context *ctx = t->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (!prepare("hst_attach_grad", t, request, dtype) || request == HST_NULL) return ctx->status;
    hst_category category = ctx->category;
    ctx->category = HST_GRADIENTS;
    t->grad = hst_own(hst_zeros(ctx, dtype, t->rank, t->shape));
    ctx->category = category;
    if (t->grad) t->request = request;
    return ctx->status;
}

hst_status hst_attach_grad_rows(hst_tensor *t, hst_request request, hst_dtype dtype) {
    if (!t) return HST_ERROR_STATE;
    hst_context *ctx = t->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (t->rank == 0)
        return hst_fail(ctx, HST_ERROR_SHAPE, "hst_attach_grad_rows: a scalar has no rows; hst_attach_grad is for it");
    if (!prepare("hst_attach_grad_rows", t, request, dtype) || request == HST_NULL) return ctx->status;
    if (hst_make_rows(t, dtype, 0)) t->request = request;
    return ctx->status;
}

hst_tensor *hst_grad(const hst_tensor *t) { return t ? t->grad : NULL; }

hst_tensor *hst_detach(hst_tensor *t) {
    return t && t->ctx->status == HST_OK ? hst_view(t, t->rank, t->shape, t->stride, t->offset) : NULL;
}

hst_status hst_no_grad_begin(hst_context *ctx) {
    if (!ctx) return HST_ERROR_MEMORY;
    ctx->no_grad++;
    return HST_OK;
}

hst_status hst_no_grad_end(hst_context *ctx) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (ctx->no_grad == 0)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_no_grad_end: no region is open; each end needs its hst_no_grad_begin");
    ctx->no_grad--;
    return HST_OK;
}

void hst_anomaly_mode(hst_context *ctx, bool on) {
    if (!ctx) return;
    ctx->anomaly = on;
}

bool hst_has_nan(hst_tensor *t) {
    bool found = false;
    if (!t || !hst_is_float(t->dtype)) return false;
    hst_scope_begin(t->ctx);
    hst_tensor *c = hst_contiguous(t);
    for (int64_t i = 0, n = c ? hst_count(c) : 0; i < n && !found; i++) found = isnan(hst_load(hst_source_of(c), i));
    hst_scope_end(t->ctx, NULL);
    return found;
}

// ---- nodes ----

int hst_node_index(const hst_tape *tape, uint64_t id) {
    int low = 0, high = tape ? tape->count : 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (tape->nodes[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return tape && low < tape->count && tape->nodes[low]->id == id ? low : -1;
}

hst_node *hst_find_node(const hst_tape *tape, uint64_t id) {
    int i = id ? hst_node_index(tape, id) : -1;
    return i < 0 ? NULL : tape->nodes[i];
}

void hst_let_go(hst_node *node) {
    hst_call *call = &node->call;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        hst_unretain(call->in[i]);
        hst_unretain(node->from[i].leaf);
        call->in[i] = node->from[i].leaf = NULL;
    }
    for (int i = 0; i < HST_MAX_OUTPUTS; i++) {
        hst_unretain(call->out[i]);
        call->out[i] = NULL;
    }
    for (int i = 0; i < HST_MAX_SAVED; i++) {
        hst_unretain(call->saved[i]);
        call->saved[i] = NULL;
    }
    node->used = true;
}

static void drop(hst_context *ctx, hst_node *node) {
    hst_let_go(node);
    hst_free(ctx, node);
}

// A scope is about to end. Its nodes die with it, or move out with a result that one of them made.
static void scope_ended(hst_context *ctx, hst_tensor *result) {
    hst_tape *tape = ctx->tape;
    int first = tape->count;
    while (first > 0 && tape->nodes[first - 1]->depth >= ctx->depth) first--;
    bool move = result && hst_node_index(tape, result->node) >= first;
    for (int i = first; i < tape->count; i++) {
        if (move)
            tape->nodes[i]->depth = ctx->depth - 1;
        else
            drop(ctx, tape->nodes[i]);
    }
    if (!move) tape->count = first;
}

void hst_forget_used(hst_context *ctx) {
    hst_tape *tape = ctx->tape;
    while (tape->count > 0 && tape->nodes[tape->count - 1]->used) drop(ctx, tape->nodes[--tape->count]);
}

static void closing(hst_context *ctx) {
    for (int i = 0; i < ctx->tape->count; i++) hst_let_go(ctx->tape->nodes[i]);
}

static hst_tape *tape_of(hst_context *ctx) {
    if (ctx->tape) return ctx->tape;
    ctx->tape = hst_allocate(ctx, sizeof *ctx->tape, HST_WORKSPACE);
    if (!ctx->tape) return NULL;
    *ctx->tape = (hst_tape){0};
    ctx->scope_ended = scope_ended;
    ctx->closing = closing;
    return ctx->tape;
}

static bool grow(hst_context *ctx, hst_tape *tape) {
    if (tape->count < tape->capacity) return true;
    int capacity = tape->capacity ? 2 * tape->capacity : 64;
    hst_node **nodes = hst_allocate(ctx, (size_t)capacity * sizeof *nodes, HST_WORKSPACE);
    if (!nodes) return false;
    if (tape->count) memcpy(nodes, tape->nodes, (size_t)tape->count * sizeof *nodes);
    hst_free(ctx, tape->nodes);
    tape->nodes = nodes;
    tape->capacity = capacity;
    return true;
}

static bool wants(const hst_op *op, int i, const hst_tensor *t) {
    if (!t || op->constants >> i & 1 || !hst_is_float(t->dtype)) return false;
    return t->request != HST_NULL || hst_find_node(t->ctx->tape, t->node);
}

bool hst_wants_gradient(const hst_op *op, hst_tensor *const *in) {
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++)
        if (wants(op, i, in[i])) return in[i]->ctx->no_grad == 0;
    return false;
}

// Input i of the node: where its gradient goes, and a reference if backward will read it.
static void record_input(hst_node *node, const hst_call *call, int i, hst_tensor *given) {
    node->in_type[i].rank = -1;
    if (!given) return;
    node->in_type[i] = hst_type_of(given);
    if (call->op->reads_inputs >> i & 1) {
        node->call.in[i] = hst_retain(call->in[i]);
        node->in_version[i] = call->in[i]->storage->version;
    }
    if (!wants(call->op, i, given)) return;
    if (given->node)
        node->from[i] = (hst_origin){.node = given->node, .output = given->node_output};
    else
        node->from[i].leaf = hst_retain(given);
}

bool hst_record(const hst_call *call, hst_tensor *const *in) {
    hst_context *ctx = call->ctx;
    hst_tape *tape = tape_of(ctx);
    hst_node *node = tape && grow(ctx, tape) ? hst_allocate(ctx, sizeof *node, HST_WORKSPACE) : NULL;
    if (!node) return false;
    *node = (hst_node){.id = ++tape->last_id, .depth = ctx->depth, .call = *call};
    node->call.arguments = NULL;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        node->call.in[i] = NULL;
        record_input(node, call, i, call->op->inputs[i] ? in[i] : NULL);
    }
    for (int i = 0; i < HST_MAX_OUTPUTS; i++) {
        hst_tensor *out = call->out[i];
        node->out_type[i].rank = -1;
        node->call.out[i] = NULL;
        if (!out) continue;
        node->out_type[i] = hst_type_of(out);
        out->node = node->id;
        out->node_output = i;
        if (!(call->op->reads_outputs >> i & 1)) continue;
        node->call.out[i] = hst_retain(out);
        node->out_version[i] = out->storage->version;
    }
    const hst_node *source = hst_find_node(tape, node->from[0].node);
    node->shows_leaf = call->op->view && (node->from[0].leaf || (source && source->shows_leaf));
    tape->nodes[tape->count++] = node;
    return true;
}
