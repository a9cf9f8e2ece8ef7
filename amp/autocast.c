// autocast.c: the stack of a context's regions, and what their op lists say.
#include "amp/autocast.h"
#include <string.h>
#include "amp/amp.h"
#include "ops/table.h"

#define ONE_MORE(...) +1
enum { MAX_REGIONS = 64, OPERATIONS = HST_OPS(ONE_MORE), NO_OVERRIDE = -1 };

// A region as the dispatcher knows it, with the list that it was opened with.
typedef struct region {
    hst_region seen;
    hst_op_list ops;
    const signed char *overrides; // by place in the op table
} region;

struct hst_regions {
    region stack[MAX_REGIONS]; // [depth]; [0] is not used
    signed char overrides[OPERATIONS];
};

// ---- classes ----

static bool is_mxnet(hst_op_list ops) { return ops == HST_LIST_MXNET_FP16 || ops == HST_LIST_MXNET_BF16; }

static hst_cast_class class_in(const region *r, const hst_op *op) {
    int place = hst_op_place(op);
    if (place < 0) return HST_CAST_NONE; // an application's: it has rules of its own
    return r->overrides[place] != NO_OVERRIDE ? (hst_cast_class)r->overrides[place] : hst_cast_class_at(place, r->ops);
}

// The first argument of a dtype, or -1.
static int find_dtype(hst_tensor *const *in, hst_dtype dtype) {
    for (int i = 0; i < HST_MAX_INPUTS; i++)
        if (in[i] && in[i]->dtype == dtype) return i;
    return -1;
}

// PyTorch bans whatever the dtype is; the others only 16 bits.
static bool refuse_banned(const region *r, const hst_call *call, hst_tensor *const *in) {
    int half = find_dtype(in, HST_F16), i = half >= 0 ? half : find_dtype(in, HST_BF16);
    if (i < 0 && r->ops != HST_LIST_TORCH_CUDA) return true;
    if (i < 0) i = 0;
    hst_fail(call->ctx, HST_ERROR_DTYPE, "%s: is banned in this region, and argument %.*s is %s; %s", call->op->name,
             HST_ARGUMENT(call->op->inputs[i]), hst_dtype_name(in[i]->dtype),
             call->op->instead ? call->op->instead : "hst_cast it to f32 outside of the region");
    return false;
}

// APEX promotes fp16 and fp32 to fp32, and nothing else.
static bool refuse_bf16(const hst_call *call, hst_tensor *const *in) {
    int half = find_dtype(in, HST_F16), bf16 = find_dtype(in, HST_BF16);
    if (half < 0 || bf16 < 0) return true;
    hst_fail(call->ctx, HST_ERROR_DTYPE, "%s: argument %.*s is f16 and %.*s bf16, which APEX does not promote",
             call->op->name, HST_ARGUMENT(call->op->inputs[half]), HST_ARGUMENT(call->op->inputs[bf16]));
    return false;
}

// Where PyTorch's or APEX's region is off, their products want operands of one dtype.
static bool refuse_mix(const hst_call *call, hst_tensor *const *in) {
    for (int i = 1; i < HST_MAX_INPUTS; i++) {
        if (!in[i] || !in[0] || in[i]->dtype == in[0]->dtype) continue;
        hst_fail(call->ctx, HST_ERROR_DTYPE,
                 "%s: argument %d, %.*s, is %s and argument 0, %.*s, %s; where a region of another system's op list is "
                 "left out, they must agree",
                 call->op->name, i, HST_ARGUMENT(call->op->inputs[i]), hst_dtype_name(in[i]->dtype),
                 HST_ARGUMENT(call->op->inputs[0]), hst_dtype_name(in[0]->dtype));
        return false;
    }
    return true;
}

static bool class_of(const hst_region *seen, const hst_call *call, hst_tensor *const *in, hst_cast_class *class) {
    const region *r = (const region *)(const void *)seen;
    hst_cast_class found = class_in(r, call->op);
    if (seen->lower == HST_F32) return r->ops == HST_LIST_HALFSTEP || found != HST_CAST_LOWER || refuse_mix(call, in);
    if (found == HST_CAST_BANNED) return refuse_banned(r, call, in);
    if (found == HST_CAST_WIDEST && r->ops == HST_LIST_APEX_O1 && !refuse_bf16(call, in)) return false;
    *class = found;
    return true;
}

hst_dtype hst_operand_dtype(const hst_context *ctx, const hst_op *op) {
    const region *r = (const region *)(const void *)ctx->region;
    return r && class_in(r, op) == HST_CAST_LOWER ? r->seen.lower : HST_F32;
}

// All places hold a region that is off, for those that could not be opened for lack of this memory.
static struct hst_regions *regions_of(hst_context *ctx) {
    if (ctx->regions) return ctx->regions;
    struct hst_regions *made = hst_allocate(ctx, sizeof *made, HST_WORKSPACE); // until hst_close
    if (!made) return NULL;
    memset(made->overrides, NO_OVERRIDE, sizeof made->overrides);
    for (int i = 0; i < MAX_REGIONS; i++)
        made->stack[i] = (region){.seen = {.class_of = class_of}, .overrides = made->overrides};
    return ctx->regions = made;
}

hst_status hst_autocast_class(hst_context *ctx, const char *operation, hst_cast_class cast) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (ctx->status != HST_OK || !regions_of(ctx)) return ctx->status;
    int place = 0;
    while (place < hst_op_count && (!operation || strcmp(hst_op_table[place]->name, operation))) place++;
    if (place == hst_op_count)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_autocast_class: there is no operation %s",
                        operation ? operation : "without a name");
    const hst_op *op = hst_op_table[place];
    if ((unsigned)cast > HST_CAST_BANNED)
        return hst_fail(ctx, HST_ERROR_VALUE, "hst_autocast_class: class %d for %s; classes are 0 to %d", (int)cast,
                        operation, HST_CAST_BANNED);
    if (cast != HST_CAST_NONE && (op->view || op->own_dtype))
        return hst_fail(ctx, HST_ERROR_VALUE,
                        "hst_autocast_class: the dtype of %s's result is not a region's to choose", operation);
    ctx->regions->overrides[place] = (signed char)cast;
    return HST_OK;
}

// ---- the stack ----

// Whether the options make a region; false after an error.
static bool check(hst_context *ctx, const hst_autocast *o) {
    const hst_region *outer = ctx->region;
    bool off = o->dtype == HST_F32;
    if (!off && o->dtype != HST_F16 && o->dtype != HST_BF16)
        hst_fail(ctx, HST_ERROR_VALUE,
                 "hst_autocast_begin: dtype %d; HST_F16, HST_BF16 or, for no casts, HST_F32 is needed", (int)o->dtype);
    else if (!hst_op_list_name(o->ops))
        hst_fail(ctx, HST_ERROR_VALUE, "hst_autocast_begin: there is no op list %d; they are 0 to %d", (int)o->ops,
                 HST_OP_LISTS - 1);
    else if (off && outer && outer->lower != HST_F32 && is_mxnet(((const region *)(const void *)outer)->ops))
        hst_fail(ctx, HST_ERROR_STATE,
                 "hst_autocast_begin: MXNet's casts hold for all of a program; nothing can be left out of this region");
    else if (ctx->region_depth + 1 >= MAX_REGIONS)
        hst_fail(ctx, HST_ERROR_STATE, "hst_autocast_begin: more than %d regions inside each other", MAX_REGIONS - 1);
    return ctx->status == HST_OK;
}

// Also after an error a region is counted, so that its end is recognised.
hst_status hst_autocast_begin(hst_context *ctx, const hst_autocast *options) {
    if (!ctx) return HST_ERROR_MEMORY;
    struct hst_regions *regions = regions_of(ctx);
    hst_autocast o = options ? *options : (hst_autocast){.dtype = HST_F32};
    bool good = regions && check(ctx, &o);
    if (++ctx->region_depth >= MAX_REGIONS || !regions) return ctx->status;
    regions->stack[ctx->region_depth] =
        (region){.seen = {.lower = good ? o.dtype : HST_F32, .recurrence_f32 = o.recurrence_f32, .class_of = class_of},
                 .ops = good ? o.ops : HST_LIST_HALFSTEP,
                 .overrides = regions->overrides};
    ctx->region = &regions->stack[ctx->region_depth].seen;
    return ctx->status;
}

hst_status hst_autocast_end(hst_context *ctx) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (ctx->region_depth == ctx->region_floor)
        return hst_fail(ctx, HST_ERROR_STATE,
                        "hst_autocast_end: no region is open; each end needs its hst_autocast_begin");
    int depth = --ctx->region_depth;
    if (depth < MAX_REGIONS - 1)
        ctx->region = depth > ctx->region_floor && ctx->regions ? &ctx->regions->stack[depth].seen : NULL;
    return ctx->status;
}

hst_dtype hst_autocast_dtype(const hst_context *ctx) { return ctx && ctx->region ? ctx->region->lower : HST_F32; }
