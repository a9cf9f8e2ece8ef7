// apply.c: the dispatcher. Every operation goes through hst_apply: checked, shaped, allocated, computed, recorded.
#include <string.h>
#include "autograd/casts.h"
#include "autograd/tape.h"

static bool is_optional(const char *input) { return input[strlen(input) - 1] == '?'; }

static hst_context *find_context(const hst_op *op, hst_tensor *const *in) {
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++)
        if (in[i]) return in[i]->ctx;
    return NULL;
}

// A computed tensor whose node backward has used up, or whose scope was closed, would silently be a constant.
static bool has_ended(const hst_tensor *t) {
    if (!t->node || t->ctx->no_grad > 0) return false;
    const hst_node *node = hst_find_node(t->ctx->tape, t->node);
    return !node || node->used;
}

static bool check_arguments(hst_context *ctx, const hst_op *op, hst_tensor *const *in) {
    if (ctx->status == HST_OK && ctx->options.cancel && ctx->options.cancel(ctx->options.user))
        hst_fail(ctx, HST_CANCELLED, "%s: cancelled by the program", op->name);
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i]; i++) {
        if (!in[i] && !is_optional(op->inputs[i]))
            hst_fail(ctx, HST_ERROR_VALUE, "%s: argument %s is NULL; only optional arguments may be", op->name,
                     op->inputs[i]);
        if (in[i] && in[i]->ctx != ctx) {
            hst_fail(ctx, HST_ERROR_STATE, "%s: argument %.*s belongs to another context", op->name,
                     HST_ARGUMENT(op->inputs[i]));
            hst_fail(in[i]->ctx, HST_ERROR_STATE, "%s: argument %.*s was used in another context", op->name,
                     HST_ARGUMENT(op->inputs[i]));
        }
    }
    for (int i = 0; i < HST_MAX_INPUTS && op->inputs[i] && ctx->status == HST_OK; i++)
        if (in[i] && has_ended(in[i]))
            hst_fail(
                ctx, HST_ERROR_STATE,
                "%s: argument %.*s was computed on a tape that has ended: its scope was closed, or hst_backward used "
                "it up; hst_detach makes it a constant",
                op->name, HST_ARGUMENT(op->inputs[i]));
    if (ctx->status == HST_OK && !op->backward && hst_wants_gradient(op, in))
        hst_fail(ctx, HST_ERROR_UNSUPPORTED,
                 "%s: has no gradient, and an argument wants one; hst_detach makes it a constant", op->name);
    return ctx->status == HST_OK;
}

static bool make_outputs(hst_call *call) {
    hst_type types[HST_MAX_OUTPUTS];
    for (int i = 0; i < HST_MAX_OUTPUTS; i++) types[i] = (hst_type){.rank = -1};
    if (!call->op->shape(call, types)) return false;
    hst_cast_outputs(call, types);
    if (call->op->view) return (call->out[0] = call->op->view(call, &types[0])) != NULL;
    for (int i = 0; i < HST_MAX_OUTPUTS; i++)
        if (types[i].rank >= 0 && !(call->out[i] = hst_new(call->ctx, types[i].dtype, types[i].rank, types[i].shape)))
            return false;
    return call->op->forward(call);
}

static void drop_saved(hst_call *call) {
    for (int i = 0; i < HST_MAX_SAVED; i++) hst_unretain(call->saved[i]);
}

static void check_for_nan(const hst_call *call) {
    for (int i = 0; i < HST_MAX_INPUTS; i++)
        if (hst_has_nan(call->in[i])) return; // it came from before
    for (int i = 0; i < HST_MAX_OUTPUTS; i++)
        if (hst_has_nan(call->out[i]))
            hst_fail(call->ctx, HST_ERROR_DIVERGED, "%s: made the first NaN, from arguments without one",
                     call->op->name);
}

hst_tensor *hst_apply(const hst_op *op, hst_tensor *const *in, const void *attributes, size_t attributes_size,
                      hst_tensor **out) {
    for (int i = 0; out && i < HST_MAX_OUTPUTS; i++) out[i] = NULL;
    hst_context *ctx = find_context(op, in);
    if (!ctx || !check_arguments(ctx, op, in)) return NULL;
    hst_call call = {.op = op, .ctx = ctx, .arguments = in, .recording = hst_wants_gradient(op, in)};
    if (attributes_size) memcpy(call.attributes, attributes, attributes_size);
    if (!hst_cast_inputs(&call, in)) return NULL;
    if (!make_outputs(&call) || (call.recording && !hst_record(&call, in))) {
        drop_saved(&call);
        return NULL;
    }
    if (!call.recording) drop_saved(&call);
    if (ctx->anomaly) check_for_nan(&call);
    if (ctx->observe) ctx->observe(ctx, &call, NULL, NULL, NULL);
    if (ctx->status != HST_OK) return NULL;
    for (int i = 0; out && i < HST_MAX_OUTPUTS; i++) out[i] = call.out[i];
    return call.out[0];
}

hst_tensor *hst_call_save(hst_call *call, int slot, hst_dtype dtype, int rank, const int64_t *shape) {
    return call->saved[slot] = hst_own(hst_new(call->ctx, dtype, rank, shape));
}

// ---- checks for shape rules ----

static bool refuse(const hst_call *call, int input, hst_status status, const char *wanted) {
    char have[64];
    hst_fail(call->ctx, status, "%s: argument %.*s is %s; %s", call->op->name, HST_ARGUMENT(call->op->inputs[input]),
             hst_describe(call->in[input], have), wanted);
    return false;
}

bool hst_check_float(const hst_call *call, int input) {
    if (!call->in[input] || hst_is_float(call->in[input]->dtype)) return true;
    return refuse(call, input, HST_ERROR_DTYPE, "f32, f16 or bf16 is needed");
}

bool hst_check_index(const hst_call *call, int input) {
    hst_dtype d = call->in[input]->dtype;
    if (d == HST_U8 || d == HST_I32 || d == HST_I64) return true;
    return refuse(call, input, HST_ERROR_DTYPE, "u8, i32 or i64 is needed");
}

bool hst_check_shape(const hst_call *call, int input, int rank, const int64_t *shape) {
    const hst_tensor *t = call->in[input];
    if (!t || (t->rank == rank && (rank == 0 || !memcmp(t->shape, shape, (size_t)rank * sizeof *shape)))) return true;
    hst_tensor wanted = {.dtype = t->dtype, .rank = rank};
    for (int i = 0; i < rank; i++) wanted.shape[i] = shape[i];
    char text[64], sentence[96];
    strcpy(sentence, "its shape should be ");
    strcat(sentence, strchr(hst_describe(&wanted, text), '('));
    return refuse(call, input, HST_ERROR_SHAPE, sentence);
}
