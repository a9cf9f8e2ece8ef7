// backward.c: from the loss to the leaves. Nodes are visited from the last to the first; the gradient of each output is
// complete when its node's turn comes. An output with one use gets its gradient in its own dtype, one with several in
// an fp32 buffer that is rounded once (with unsafe accumulation in its own dtype, rounded after each); a leaf gets its
// gradient in the buffer that the program attached, rounded once for each use.
#include <string.h>
#include "autograd/rows.h"
#include "autograd/tape.h"

// The gradient of one output of one node, as it is collected.
typedef struct pending {
    hst_tensor *sum;
    int uses;
    bool given; // sum is the program's own tensor, only to be read
} pending;

typedef struct pass {
    hst_context *ctx;
    hst_tape *tape;
    pending (*outputs)[HST_MAX_OUTPUTS]; // by index in the tape
    bool keeping;
} pass;

static hst_tensor *new_gradient(hst_context *ctx, hst_dtype dtype, const hst_type *type) {
    return hst_own(hst_new(ctx, dtype, type->rank, type->shape));
}

// ---- which nodes matter, and how often their outputs were used ----

// Before anything is added to a gradient that the program gave: its copy in fp32.
static bool make_own(pass *p, pending *out, const hst_type *type) {
    if (!out->given) return true;
    hst_tensor *given = out->sum;
    out->sum = new_gradient(p->ctx, HST_F32, type);
    out->given = false;
    bool done = out->sum && hst_copy_tensor(out->sum, given, false);
    hst_unretain(given);
    return done;
}

static bool add_root(pass *p, hst_tensor *y, hst_tensor *dy) {
    int i = y->node ? hst_node_index(p->tape, y->node) : -1;
    if (i < 0) {
        hst_fail(p->ctx, HST_ERROR_STATE,
                 y->node ? "hst_backward: the tape of this tensor has ended: its scope was closed, or an earlier "
                           "hst_backward used it up"
                         : "hst_backward: nothing was recorded for this tensor; no argument of it wants a gradient");
        return false;
    }
    pending *root = &p->outputs[i][y->node_output];
    const hst_type *type = &p->tape->nodes[i]->out_type[y->node_output];
    root->uses++;
    if (root->sum) return make_own(p, root, type) && hst_copy_tensor(root->sum, dy, true);
    root->given = dy->dtype == type->dtype && hst_is_contiguous(dy);
    root->sum = root->given ? hst_retain(dy) : new_gradient(p->ctx, HST_F32, type);
    return root->given || (root->sum && hst_copy_tensor(root->sum, dy, false));
}

static bool is_needed(const pass *p, int i) { return p->outputs[i][0].uses + p->outputs[i][1].uses > 0; }

static void count_uses(pass *p) {
    for (int i = p->tape->count - 1; i >= 0; i--)
        for (int k = 0; is_needed(p, i) && k < HST_MAX_INPUTS; k++) {
            const hst_origin *from = &p->tape->nodes[i]->from[k];
            if (from->node) p->outputs[hst_node_index(p->tape, from->node)][from->output].uses++;
        }
}

// ---- one node ----

static bool check_node(const pass *p, const hst_node *node) {
    const hst_op *op = node->call.op;
    if (node->used)
        return hst_fail(p->ctx, HST_ERROR_STATE,
                        "hst_backward: %s was used up by an earlier hst_backward; hst_backward_keeping leaves the tape "
                        "in place",
                        op->name),
               false;
    for (int i = 0; i < HST_MAX_INPUTS; i++)
        if (node->call.in[i] && node->call.in[i]->storage->version != node->in_version[i])
            return hst_fail(p->ctx, HST_ERROR_STATE,
                            "hst_backward: argument %.*s of %s was changed in place after it was used",
                            HST_ARGUMENT(op->inputs[i]), op->name),
                   false;
    for (int i = 0; i < HST_MAX_OUTPUTS; i++)
        if (node->call.out[i] && node->call.out[i]->storage->version != node->out_version[i])
            return hst_fail(p->ctx, HST_ERROR_STATE,
                            "hst_backward: result %s of %s was changed in place after it was made", op->outputs[i],
                            op->name),
                   false;
    return true;
}

// The complete gradient of an output, in the output's dtype: an fp32 sum is rounded here, once. What only shows a leaf
// hands its gradient on as it is: a weight's gradient is not rounded because operations see the weight in 16 bits.
static bool finish_output(pass *p, int i, int output, hst_tensor **dy) {
    pending *out = &p->outputs[i][output];
    const hst_type *type = &p->tape->nodes[i]->out_type[output];
    if (out->sum && out->sum->dtype != type->dtype && !p->tape->nodes[i]->shows_leaf) {
        hst_tensor *rounded = new_gradient(p->ctx, type->dtype, type);
        if (!rounded || !hst_copy_tensor(rounded, out->sum, false)) return false;
        hst_unretain(out->sum);
        out->sum = rounded;
    }
    *dy = out->sum;
    return true;
}

// The gradient of what nobody but this node reads any more may be written over it, which saves its memory, and the time
// to fetch another's. Observers read both.
static bool is_last_reader(const pass *p, const hst_node *node, int k, hst_dtype dtype) {
    const hst_tensor *x = node->call.in[k];
    return node->call.op->in_place >> k & 1 && x && x->dtype == dtype && x->references == 1 &&
           x->storage->references == 1 && !x->storage->adopted && !p->keeping && !p->ctx->observe;
}

static bool choose_target(pass *p, const hst_node *node, int k, hst_gradient *dx) {
    const hst_origin *from = &node->from[k];
    if (from->leaf) {
        hst_tensor *leaf = from->leaf;
        if (!leaf->grad && !leaf->row_values) return true; // taken away since the call was recorded
        bool first = leaf->pass != p->tape->pass;
        dx->request = first ? (hst_request)leaf->request : HST_ADD;
        dx->into = leaf->grad;
        dx->leaf = leaf->grad ? NULL : leaf;
        leaf->pass = p->tape->pass;
        if (dx->leaf && !(node->call.op->gives_rows >> k & 1)) return hst_make_dense(dx);
    } else if (from->node) {
        int maker = hst_node_index(p->tape, from->node);
        pending *out = &p->outputs[maker][from->output];
        if (!make_own(p, out, &node->in_type[k])) return false;
        *dx = (hst_gradient){.request = out->sum ? HST_ADD : HST_WRITE, .into = out->sum};
        if (out->sum) return true;
        bool wide = (out->uses > 1 && !p->ctx->options.unsafe_accumulation) || p->tape->nodes[maker]->shows_leaf;
        hst_dtype dtype = wide ? HST_F32 : node->in_type[k].dtype;
        dx->into = out->sum = is_last_reader(p, node, k, dtype) ? hst_retain(node->call.in[k])
                                                                : new_gradient(p->ctx, dtype, &node->in_type[k]);
    }
    return dx->request == HST_NULL || dx->into || dx->leaf;
}

// A kernel writes its gradients side by side, so where one tensor was given twice (x + x) the later ones go through a
// buffer of their own.
static hst_tensor *separate(pass *p, hst_gradient *dx, int k) {
    for (int i = 0; i < k && dx[k].into; i++)
        if (dx[k].request != HST_NULL && dx[i].request != HST_NULL && dx[i].into == dx[k].into) {
            hst_tensor *shared = dx[k].into;
            dx[k] = (hst_gradient){.request = HST_WRITE, .into = hst_new(p->ctx, HST_F32, shared->rank, shared->shape)};
            return shared;
        }
    return NULL;
}

static void check_for_nan(const pass *p, const hst_node *node, hst_tensor *const *dy, const hst_gradient *dx) {
    if (hst_has_nan(dy[0]) || hst_has_nan(dy[1])) return;
    for (int k = 0; k < HST_MAX_INPUTS; k++)
        if (dx[k].request != HST_NULL && hst_has_nan(dx[k].leaf ? dx[k].leaf->row_values : dx[k].into))
            hst_fail(p->ctx, HST_ERROR_DIVERGED,
                     "%s: its gradient for %.*s made the first NaN, from a gradient without one", node->call.op->name,
                     HST_ARGUMENT(node->call.op->inputs[k]));
}

static bool visit(pass *p, int i) {
    hst_node *node = p->tape->nodes[i];
    hst_tensor *dy[HST_MAX_OUTPUTS], *shared[HST_MAX_INPUTS];
    hst_gradient dx[HST_MAX_INPUTS] = {0};
    if (!check_node(p, node)) return false;
    for (int o = 0; o < HST_MAX_OUTPUTS; o++)
        if (!finish_output(p, i, o, &dy[o])) return false;
    bool wanted = false;
    for (int k = 0; k < HST_MAX_INPUTS; k++) {
        if (!choose_target(p, node, k, &dx[k])) return false;
        shared[k] = separate(p, dx, k);
        if (dx[k].request != HST_NULL && !dx[k].into && !dx[k].leaf) return false;
        wanted |= dx[k].request != HST_NULL;
    }
    if (wanted && !node->call.op->backward(&node->call, dy, dx)) return false;
    for (int k = 0; k < HST_MAX_INPUTS; k++) {
        if (!shared[k]) continue;
        if (!hst_copy_tensor(shared[k], dx[k].into, true)) return false;
        dx[k] = (hst_gradient){.request = HST_ADD, .into = shared[k]};
    }
    if (p->ctx->anomaly) check_for_nan(p, node, dy, dx);
    if (wanted && p->ctx->observe) p->ctx->observe(p->ctx, &node->call, node, dy, dx);
    for (int o = 0; o < HST_MAX_OUTPUTS; o++) {
        hst_unretain(dy[o]);
        p->outputs[i][o].sum = NULL;
    }
    if (!p->keeping) hst_let_go(node);
    return p->ctx->status == HST_OK;
}

// ---- the whole pass ----

static bool run(pass *p, int count, hst_tensor *const *y, hst_tensor *const *dy) {
    for (int r = 0; r < count; r++)
        if (!add_root(p, y[r], dy[r])) return false;
    count_uses(p);
    for (int i = p->tape->count - 1; i >= 0; i--) {
        if (!is_needed(p, i)) continue;
        hst_scope_begin(p->ctx); // what a backward makes for itself dies here
        bool done = visit(p, i);
        hst_scope_end(p->ctx, NULL);
        if (!done) return false;
    }
    return true;
}

static hst_status backward(hst_context *ctx, int count, hst_tensor *const *y, hst_tensor *const *dy, bool keeping) {
    if (ctx->status != HST_OK) return ctx->status;
    if (!ctx->tape)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_backward: nothing was recorded; no argument of any operation wanted a gradient");
    pass p = {.ctx = ctx, .tape = ctx->tape, .keeping = keeping};
    size_t bytes = ((size_t)p.tape->count + 1) * sizeof *p.outputs;
    if (!(p.outputs = hst_workspace(ctx, bytes))) return ctx->status;
    memset(p.outputs, 0, bytes);
    p.tape->pass++;
    ctx->no_grad++;
    const hst_region *region = ctx->region; // each node has its own dtypes already
    ctx->region = NULL;
    int nodes = p.tape->count;
    run(&p, count, y, dy);
    ctx->no_grad--;
    ctx->region = region;
    for (int i = 0; i < nodes; i++)
        for (int o = 0; o < HST_MAX_OUTPUTS; o++) hst_unretain(p.outputs[i][o].sum); // only after an error
    hst_workspace_free(ctx, p.outputs);
    hst_forget_used(ctx);
    return ctx->status;
}

static bool check_given(hst_context *ctx, const char *what, int i, const hst_tensor *t) {
    if (t && t->ctx == ctx) return true;
    hst_fail(ctx, t ? HST_ERROR_STATE : HST_ERROR_VALUE, "hst_backward: %s %d %s", what, i,
             t ? "belongs to another context" : "is NULL");
    if (t) hst_fail(t->ctx, HST_ERROR_STATE, "hst_backward: %s %d was used in another context", what, i);
    return false;
}

hst_status hst_backward_from(hst_context *ctx, int count, hst_tensor *const *y, hst_tensor *const *dy) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (count > 0 && (!y || !dy))
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_backward: the list of %s is NULL", y ? "gradients" : "roots");
    for (int i = 0; i < count && ctx->status == HST_OK; i++) {
        if (!check_given(ctx, "root", i, y[i]) || !check_given(ctx, "gradient", i, dy[i])) return ctx->status;
        if (y[i]->rank != dy[i]->rank || memcmp(y[i]->shape, dy[i]->shape, sizeof y[i]->shape)) {
            char a[64], b[64];
            return hst_fail(ctx, HST_ERROR_SHAPE, "hst_backward: gradient %d is %s, its root %s; the shapes must agree",
                            i, hst_describe(dy[i], a), hst_describe(y[i], b));
        }
    }
    return backward(ctx, count, y, dy, false);
}

static hst_status backward_from_one(hst_context *ctx, hst_tensor *loss, bool keeping) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (ctx->status != HST_OK) return ctx->status;
    if (!check_given(ctx, "root", 0, loss)) return ctx->status;
    char text[64];
    if (hst_count(loss) != 1)
        return hst_fail(ctx, HST_ERROR_SHAPE,
                        "hst_backward: the loss is %s; one element is needed (hst_sum or hst_mean makes one)",
                        hst_describe(loss, text));
    hst_scope_begin(ctx);
    hst_tensor *one = hst_full(ctx, loss->dtype, loss->rank, loss->shape, 1);
    if (one) backward(ctx, 1, &loss, &one, keeping);
    hst_scope_end(ctx, NULL);
    return ctx->status;
}

hst_status hst_backward(hst_context *ctx, hst_tensor *loss) { return backward_from_one(ctx, loss, false); }
hst_status hst_backward_keeping(hst_context *ctx, hst_tensor *loss) { return backward_from_one(ctx, loss, true); }
