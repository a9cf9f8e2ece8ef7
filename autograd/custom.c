// custom.c: operations of the application's own. A registered operation is an hst_op like any other; its functions here
// hand the call to the application's callbacks, and take care of requests, dtypes and what the callbacks leave behind.
#include <string.h>
#include "autograd/op.h"

struct hst_operation {
    hst_op op;
    hst_context *ctx;
    hst_custom_op record; // without the names: those of `op` are copies, and lie behind it
};

// What a callback sees of a call. Only one of `types` (in shape) and `dy` (in backward) is there.
struct hst_custom_call {
    hst_call *call;
    const hst_operation *operation;
    hst_type *types;
    hst_tensor *const *dy;
    hst_tensor *dx[HST_MAX_INPUTS];
};

static hst_custom_call seen(hst_call *call) {
    return (hst_custom_call){.call = call, .operation = (const hst_operation *)(const void *)call->op};
}

// Runs a callback. What it computes is not recorded and dies with it; whoever fails without a word gets a sentence. The
// scopes and regions that are open now are the caller's, and open afterwards.
static bool run(hst_custom_call *c, bool (*callback)(hst_custom_call *call), const char *which) {
    hst_context *ctx = c->call->ctx;
    const char *name = c->call->op->name;
    int floor = ctx->floor, no_grad = ctx->no_grad;
    if (hst_scope_begin(ctx) != HST_OK) return hst_scope_end(ctx, NULL), false;
    ctx->floor = ctx->depth;
    ctx->no_grad = no_grad + 1;
    bool done = callback(c);
    if (ctx->depth != ctx->floor || ctx->no_grad != no_grad + 1)
        hst_fail(ctx, HST_ERROR_STATE, "%s: its %s function must end the scopes and the no-grad regions that it begins",
                 name, which);
    ctx->too_deep = 0;
    while (ctx->depth > ctx->floor) hst_scope_end(ctx, NULL);
    ctx->floor = floor;
    ctx->no_grad = no_grad;
    hst_scope_end(ctx, NULL);
    if (!done && ctx->status == HST_OK)
        hst_fail(ctx, HST_ERROR_VALUE, "%s: its %s function failed and did not say why (hst_fail does)", name, which);
    return ctx->status == HST_OK;
}

static bool shape(hst_call *call, hst_type *out) {
    hst_custom_call c = seen(call);
    c.types = out;
    if (!run(&c, c.operation->record.shape, "shape")) return false;
    for (int i = 0; i < HST_MAX_OUTPUTS && call->op->outputs[i]; i++)
        if (out[i].rank < 0)
            return hst_fail(call->ctx, HST_ERROR_STATE, "%s: its shape function did not set result %s", call->op->name,
                            call->op->outputs[i]),
                   false;
    return true;
}

static bool forward(hst_call *call) {
    hst_custom_call c = seen(call);
    return run(&c, c.operation->record.forward, "forward");
}

// The callback writes each gradient into f32 of its own, or into the target itself where that comes to the same.
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_custom_call c = seen(call);
    c.dy = dy;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        if (dx[i].request == HST_NULL) continue;
        hst_tensor *into = dx[i].into;
        bool direct = dx[i].request == HST_WRITE && into->dtype == HST_F32;
        c.dx[i] = direct ? into : hst_zeros(call->ctx, HST_F32, into->rank, into->shape);
        if (!c.dx[i]) return false;
        if (direct) memset(hst_raw(into), 0, (size_t)hst_count(into) * hst_dtype_size(HST_F32));
    }
    if (!run(&c, c.operation->record.backward, "backward")) return false;
    for (int i = 0; i < HST_MAX_INPUTS; i++)
        if (c.dx[i] && c.dx[i] != dx[i].into && !hst_copy_tensor(dx[i].into, c.dx[i], dx[i].request == HST_ADD))
            return false;
    return true;
}

// ---- registering ----

static int count_names(const char *const *names, int most) {
    int count = 0;
    while (count < most && names[count]) count++;
    return count;
}

static bool check(hst_context *ctx, const hst_custom_op *op) {
    const char *name = op->name && *op->name ? op->name : "an operation without a name";
    const char *missing = !op->shape         ? "a shape function"
                          : !op->forward     ? "a forward function"
                          : !op->inputs[0]   ? "an argument"
                          : !op->outputs[0]  ? "a result"
                          : name != op->name ? "a name"
                                             : NULL;
    if (missing) return hst_fail(ctx, HST_ERROR_VALUE, "hst_register: %s lacks %s", name, missing), false;
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++)
        if (!*op->inputs[i])
            return hst_fail(ctx, HST_ERROR_VALUE, "hst_register: the name of argument %d of %s is empty", i, name),
                   false;
    if (op->attributes_size <= HST_MAX_ATTRIBUTES) return true;
    hst_fail(ctx, HST_ERROR_VALUE, "hst_register: %s has %zu bytes of attributes; at most %d are copied with a call",
             name, op->attributes_size, HST_MAX_ATTRIBUTES);
    return false;
}

// Copies a name to *at, which moves on.
static const char *copy_name(char **at, const char *name) {
    size_t bytes = strlen(name) + 1;
    char *copy = memcpy(*at, name, bytes);
    *at += bytes;
    return copy;
}

const hst_operation *hst_register(hst_context *ctx, const hst_custom_op *op) {
    if (!ctx || ctx->status != HST_OK) return NULL;
    hst_custom_op record = {0};
    if (!op || op->size == 0) {
        hst_fail(ctx, HST_ERROR_VALUE, "hst_register: a record is needed, whose size is sizeof(hst_custom_op)");
        return NULL;
    }
    memcpy(&record, op, op->size < sizeof record ? op->size : sizeof record);
    if (!check(ctx, &record)) return NULL;
    int inputs = count_names(record.inputs, HST_MAX_INPUTS), outputs = count_names(record.outputs, HST_MAX_OUTPUTS);
    size_t bytes = strlen(record.name) + 1;
    for (int i = 0; i < inputs; i++) bytes += strlen(record.inputs[i]) + 1;
    for (int i = 0; i < outputs; i++) bytes += strlen(record.outputs[i]) + 1;
    hst_operation *made = hst_allocate(ctx, sizeof *made + bytes, HST_WORKSPACE); // until hst_close
    if (!made) return NULL;
    char *names = (char *)(made + 1);
    *made = (hst_operation){.ctx = ctx,
                            .record = record,
                            .op = {.name = copy_name(&names, record.name),
                                   .cast = HST_CAST_NONE,
                                   .reads_inputs = record.reads_inputs,
                                   .reads_outputs = record.reads_outputs,
                                   .constants = record.constants,
                                   .shape = shape,
                                   .forward = forward,
                                   .backward = record.backward ? backward : NULL}};
    for (int i = 0; i < inputs; i++) made->op.inputs[i] = copy_name(&names, record.inputs[i]);
    for (int i = 0; i < outputs; i++) made->op.outputs[i] = copy_name(&names, record.outputs[i]);
    made->record.name = NULL; // the caller's, as the others
    memset(made->record.inputs, 0, sizeof made->record.inputs);
    memset(made->record.outputs, 0, sizeof made->record.outputs);
    return made;
}

hst_tensor *hst_custom(const hst_operation *op, hst_tensor *const *inputs, const void *attributes,
                       hst_tensor **outputs) {
    hst_tensor *in[HST_MAX_INPUTS] = {NULL}, *out[HST_MAX_OUTPUTS] = {NULL};
    if (!op) return NULL;
    int results = count_names(op->op.outputs, HST_MAX_OUTPUTS);
    for (int i = 0; outputs && i < results; i++) outputs[i] = NULL;
    for (int i = 0; i < HST_MAX_INPUTS && op->op.inputs[i]; i++) {
        const char *name = op->op.inputs[i];
        in[i] = inputs ? inputs[i] : NULL;
        if (!in[i] && name[strlen(name) - 1] != '?') {
            hst_fail(op->ctx, HST_ERROR_VALUE, "%s: argument %s is NULL; only optional arguments may be", op->op.name,
                     name);
            return NULL;
        }
        if (!in[i] || in[i]->ctx == op->ctx) continue;
        hst_fail(op->ctx, HST_ERROR_STATE, "%s: an argument belongs to another context", op->op.name);
        hst_fail(in[i]->ctx, HST_ERROR_STATE, "%s: this operation was registered with another context", op->op.name);
        return NULL;
    }
    hst_apply(&op->op, in, attributes, attributes ? op->record.attributes_size : 0, out);
    for (int i = 0; outputs && i < results; i++) outputs[i] = out[i];
    return out[0];
}

// ---- what callbacks ask ----

hst_context *hst_custom_context(const hst_custom_call *c) { return c->call->ctx; }
void *hst_custom_user(const hst_custom_call *c) { return c->operation->record.user; }
const void *hst_custom_attributes(const hst_custom_call *c) { return c->call->attributes; }

// Whether i is one of the operation's arguments or results, whose names are given.
static bool exists(const hst_custom_call *c, const char *what, int i, const char *const *names, int most) {
    if (i >= 0 && i < count_names(names, most)) return true;
    hst_fail(c->call->ctx, HST_ERROR_VALUE, "%s: its callback asks for %s %d, which does not exist", c->call->op->name,
             what, i);
    return false;
}

hst_tensor *hst_custom_input(hst_custom_call *c, int i) {
    const hst_op *op = c->call->op;
    if (!exists(c, "argument", i, op->inputs, HST_MAX_INPUTS)) return NULL;
    if (c->dy && !(op->reads_inputs >> i & 1))
        hst_fail(c->call->ctx, HST_ERROR_STATE, "%s: backward reads argument %s without reads_inputs having its bit",
                 op->name, op->inputs[i]);
    return c->call->in[i];
}

hst_tensor *hst_custom_output(hst_custom_call *c, int i) {
    const hst_op *op = c->call->op;
    if (!exists(c, "result", i, op->outputs, HST_MAX_OUTPUTS)) return NULL;
    if (c->dy && !(op->reads_outputs >> i & 1))
        hst_fail(c->call->ctx, HST_ERROR_STATE, "%s: backward reads result %s without reads_outputs having its bit",
                 op->name, op->outputs[i]);
    return c->call->out[i];
}

bool hst_custom_set_output(hst_custom_call *c, int i, hst_dtype dtype, int rank, const int64_t *extents) {
    if (!exists(c, "result", i, c->call->op->outputs, HST_MAX_OUTPUTS)) return false;
    if (!c->types || rank < 0 || rank > HST_MAX_RANK) {
        hst_fail(c->call->ctx, HST_ERROR_VALUE, "%s: result %s gets rank %d; ranks are 0 to %d, given in shape only",
                 c->call->op->name, c->call->op->outputs[i], rank, HST_MAX_RANK);
        return false;
    }
    c->types[i] = (hst_type){.dtype = dtype, .rank = rank};
    for (int axis = 0; axis < rank; axis++) c->types[i].shape[axis] = extents[axis];
    return true;
}

// Whether slot i can be used.
static bool is_slot(const hst_custom_call *c, int slot) {
    if (slot >= 0 && slot < HST_MAX_SAVED) return true;
    hst_fail(c->call->ctx, HST_ERROR_VALUE, "%s: slot %d; tensors are saved in slots 0 to %d", c->call->op->name, slot,
             HST_MAX_SAVED - 1);
    return false;
}

hst_tensor *hst_custom_save(hst_custom_call *c, int slot, hst_dtype dtype, int rank, const int64_t *extents) {
    if (!c->call->recording || !is_slot(c, slot)) return NULL;
    if (c->types || c->dy || c->call->saved[slot]) {
        hst_fail(c->call->ctx, HST_ERROR_STATE, "%s: slot %d is saved into once, by forward", c->call->op->name, slot);
        return NULL;
    }
    return hst_call_save(c->call, slot, dtype, rank, extents);
}

hst_tensor *hst_custom_saved(hst_custom_call *c, int slot) { return is_slot(c, slot) ? c->call->saved[slot] : NULL; }

hst_tensor *hst_custom_output_gradient(hst_custom_call *c, int i) {
    return c->dy && exists(c, "result", i, c->call->op->outputs, HST_MAX_OUTPUTS) ? c->dy[i] : NULL;
}

hst_tensor *hst_custom_input_gradient(hst_custom_call *c, int i) {
    return exists(c, "argument", i, c->call->op->inputs, HST_MAX_INPUTS) ? c->dx[i] : NULL;
}
