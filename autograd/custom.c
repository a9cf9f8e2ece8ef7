// custom.c: operations of the application's own. A registered operation is an hst_op like any other; its functions here
// hand the call to the application's callbacks, and take care of requests, dtypes and what the callbacks leave behind.
#include <string.h>
#include "autograd/casts.h"

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
    hst_tensor *results[HST_MAX_OUTPUTS]; // f32, of results that are stored in another dtype
};

static hst_custom_call seen(hst_call *call) {
    return (hst_custom_call){.call = call, .operation = (const hst_operation *)(const void *)call->op};
}

// Runs a callback. What it computes is not recorded and dies with it; whoever fails without a word gets a sentence. The
// scopes and regions that are open now are the caller's, and open afterwards.
static bool run(hst_custom_call *c, bool (*callback)(hst_custom_call *call), const char *which) {
    hst_context *ctx = c->call->ctx;
    const char *name = c->call->op->name;
    int floor = ctx->floor, no_grad = ctx->no_grad, region_floor = ctx->region_floor, regions = ctx->region_depth;
    const hst_region *region = ctx->region;
    if (hst_scope_begin(ctx) != HST_OK) return hst_scope_end(ctx, NULL), false;
    ctx->floor = ctx->depth;
    ctx->no_grad = no_grad + 1;
    ctx->region = NULL; // what the callback computes runs in the dtypes that it is given
    ctx->region_floor = regions;
    bool done = callback(c);
    if (ctx->depth != ctx->floor || ctx->no_grad != no_grad + 1 || ctx->region_depth != regions)
        hst_fail(ctx, HST_ERROR_STATE, "%s: its %s function must end the scopes and the regions that it begins", name,
                 which);
    ctx->region = region;
    ctx->region_floor = region_floor;
    ctx->region_depth = regions;
    ctx->too_deep = 0;
    while (ctx->depth > ctx->floor) hst_scope_end(ctx, NULL);
    ctx->floor = floor;
    ctx->no_grad = no_grad;
    hst_scope_end(ctx, NULL);
    if (!done && ctx->status == HST_OK)
        hst_fail(ctx, HST_ERROR_VALUE, "%s: its %s function failed and did not say why (hst_fail does)", name, which);
    return ctx->status == HST_OK;
}

// The dtype in which a result with a rule is stored.
static hst_dtype stored(const hst_call *call, const hst_custom_op *record, int rule) {
    if (rule >= HST_AS_ARGUMENT(0)) {
        hst_dtype given = call->given[rule - HST_AS_ARGUMENT(0)];
        return hst_is_float(given) ? given : HST_F32;
    }
    if (rule >= HST_WIDEST_GROUP(0)) return hst_widest(call, hst_cast_group(record->casts, rule));
    return rule == HST_CAST_LOWER ? call->lower : HST_F32;
}

static bool shape(hst_call *call, hst_type *out) {
    hst_custom_call c = seen(call);
    const hst_custom_op *record = &c.operation->record;
    c.types = out;
    if (!run(&c, record->shape, "shape")) return false;
    for (int i = 0; i < HST_MAX_OUTPUTS && call->op->outputs[i]; i++) {
        if (out[i].rank < 0)
            return hst_fail(call->ctx, HST_ERROR_STATE, "%s: its shape function did not set result %s", call->op->name,
                            call->op->outputs[i]),
                   false;
        if (record->results[i] != HST_CAST_NONE) out[i].dtype = stored(call, record, record->results[i]);
    }
    return true;
}

// Result i as the callbacks see it: with a rule it is f32, and rounded behind them.
static bool is_seen_in_f32(const hst_custom_call *c, int i) {
    return c->operation->record.results[i] != HST_CAST_NONE && c->call->out[i]->dtype != HST_F32;
}

static bool compute(hst_custom_call *c) {
    hst_call *call = c->call;
    for (int i = 0; i < HST_MAX_OUTPUTS && call->op->outputs[i]; i++) {
        const hst_tensor *out = c->results[i] = call->out[i];
        if (is_seen_in_f32(c, i) && !(c->results[i] = hst_new(call->ctx, HST_F32, out->rank, out->shape))) return false;
    }
    if (!run(c, c->operation->record.forward, "forward")) return false;
    for (int i = 0; i < HST_MAX_OUTPUTS && call->op->outputs[i]; i++)
        if (c->results[i] != call->out[i] && !hst_copy_tensor(call->out[i], c->results[i], false)) return false;
    return true;
}

static bool forward(hst_call *call) {
    hst_custom_call c = seen(call);
    hst_scope_begin(call->ctx); // what was computed in f32 goes as soon as it is rounded
    bool done = compute(&c);
    hst_scope_end(call->ctx, NULL);
    return done;
}

// The callback writes each gradient into a buffer of its own, or into the target itself where that comes to the same.
static bool backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    hst_custom_call c = seen(call);
    const hst_custom_op *record = &c.operation->record;
    hst_tensor *seen_dy[HST_MAX_OUTPUTS];
    for (int i = 0; i < HST_MAX_OUTPUTS; i++) {
        bool ruled = record->results[i] != HST_CAST_NONE;
        seen_dy[i] = ruled ? hst_in_dtype(dy[i], HST_F32) : dy[i];
        c.results[i] = ruled ? hst_in_dtype(call->out[i], HST_F32) : call->out[i];
    }
    c.dy = seen_dy;
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        if (dx[i].request == HST_NULL) continue;
        hst_tensor *into = dx[i].into;
        bool direct = dx[i].request == HST_WRITE && into->dtype == record->accumulator;
        c.dx[i] = direct ? into : hst_zeros(call->ctx, record->accumulator, into->rank, into->shape);
        if (!c.dx[i]) return false;
        if (direct) memset(hst_raw(into), 0, (size_t)hst_count(into) * hst_dtype_size(into->dtype));
    }
    if (!run(&c, record->backward, "backward")) return false;
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

static bool is_group(int rule) { return rule >= HST_WIDEST_GROUP(0) && rule < HST_WIDEST_GROUP(8); }

static bool check_rules(hst_context *ctx, const hst_custom_op *op) {
    int inputs = count_names(op->inputs, HST_MAX_INPUTS);
    for (int i = 0; i < HST_MAX_INPUTS; i++) {
        int rule = op->casts[i];
        if (rule == HST_CAST_NONE || rule == HST_CAST_LOWER || rule == HST_CAST_F32 || is_group(rule)) continue;
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_register: rule %d for argument %d of %s; HST_CAST_NONE, HST_CAST_LOWER, HST_CAST_F32 or "
                        "HST_WIDEST_GROUP(0 to 7) is needed",
                        rule, i, op->name),
               false;
    }
    for (int i = 0; i < HST_MAX_OUTPUTS; i++) {
        int rule = op->results[i];
        bool argument = rule >= HST_AS_ARGUMENT(0) && rule < HST_AS_ARGUMENT(inputs);
        bool joins = is_group(rule) && hst_cast_group(op->casts, rule);
        if (rule == HST_CAST_NONE || rule == HST_CAST_LOWER || rule == HST_CAST_F32 || argument || joins) continue;
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_register: rule %d for result %d of %s; HST_CAST_NONE, HST_CAST_LOWER, HST_CAST_F32, the "
                        "HST_WIDEST_GROUP of an argument or HST_AS_ARGUMENT(0 to %d) is needed",
                        rule, i, op->name, inputs - 1),
               false;
    }
    if (op->accumulator == HST_F32 || op->accumulator == HST_F64) return true;
    hst_fail(ctx, HST_ERROR_DTYPE, "hst_register: %s accumulates in %s; HST_F32 or HST_F64 is needed", op->name,
             hst_dtype_name(op->accumulator));
    return false;
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
    if (!check_rules(ctx, op)) return false;
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
                                   .casts = made->record.casts,
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
    return c->results[i];
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
