// amp.h: mixed precision: autocast regions, and the presets that are made of them.
//
//     hst_autocast_begin(ctx, &(hst_autocast){.dtype = HST_BF16});
//     hst_tensor *loss = hst_cross_entropy(hst_lm_forward(model, ids, NULL, true, NULL), targets);
//     hst_autocast_end(ctx);
//     hst_backward(ctx, loss);          // anywhere: each node runs in the dtypes that its forward had
#ifndef HST_AMP_H
#define HST_AMP_H

#include "amp/scaler.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- regions ----

typedef struct hst_autocast {
    hst_dtype dtype;     // HST_F16 or HST_BF16, in which operations of class "lower" run; HST_F32 (0): nothing is cast,
                         // a part of a region that is left out
    hst_op_list ops;     // which class each operation has; HST_LIST_HALFSTEP (0)
    bool recurrence_f32; // hst_sru_recurrence returns h in f32 (amp_recurrence_fp16 of SRU, off), not in `dtype`; false
} hst_autocast;

// Opens a region inside the current one, in force until its end. What an operation does in it depends on its class,
// which `halfstep info --ops` lists: "lower" rounds its floating-point operands to `dtype` and returns `dtype`; "f32"
// reads its arguments as they are and returns f32; "widest" and "none" return what they return without a region, the
// former f32 where f16 and bf16 meet; "banned" is HST_ERROR_DTYPE. Sums are formed in fp32 or double in all of them. A
// gradient has the dtype of what it belongs to. HST_ERROR_VALUE for another dtype or list; HST_ERROR_STATE for more
// than 63 regions inside each other, and for leaving a part out of a region with MXNet's lists, which have no such
// thing.
HST_API hst_status hst_autocast_begin(hst_context *ctx, const hst_autocast *region);

// Closes the innermost region. HST_ERROR_STATE where none is open.
HST_API hst_status hst_autocast_end(hst_context *ctx);

// The dtype of the innermost region; HST_F32 outside of regions, and where nothing is cast.
HST_API hst_dtype hst_autocast_dtype(const hst_context *ctx);

// From now on the operation of this name has this class in all regions of the context, whatever their lists say.
// HST_ERROR_VALUE for an unknown name, and for an operation whose result cannot have another dtype: a view, cast and
// one_hot, but for HST_CAST_NONE. The losses of token_losses stay f32 in every class.
HST_API hst_status hst_autocast_class(hst_context *ctx, const char *operation, hst_cast_class cast);

// ---- presets ----

// How one of the systems trains in mixed precision, as one row of a table. In all of them but apex-O3 each parameter is
// an fp32 master with an fp32 gradient and fp32 state of the optimizer.
typedef enum hst_precision_kind {
    HST_FP32,           // all in fp32 (APEX O0)
    HST_AMP_FP16,       // PyTorch's native AMP: a region in fp16, a loss scaler
    HST_AMP_BF16,       // the same in bf16, which needs no scaler
    HST_APEX_O1,        // APEX O1: a region with its op list, its scaler
    HST_APEX_O2,        // APEX O2: operations see fp16 weights; its scaler
    HST_APEX_O3,        // APEX O3: fp16 weights without masters, a static scale of 1
    HST_DEEPSPEED_FP16, // DeepSpeed: fp16 weights, ZeRO's scaler
    HST_DEEPSPEED_BF16, // DeepSpeed: bf16 weights
    HST_MXNET_AMP,      // MXNet's AMP: a region with its op list, its scaler
    HST_PRECISIONS      // how many there are
} hst_precision_kind;

typedef struct hst_precision {
    const char *name;     // "amp-fp16"
    hst_dtype parameters; // operations see the parameters in this dtype
    bool no_master;       // a parameter is rounded to it after each step: small updates are lost
    hst_autocast region;  // dtype HST_F32: no region
    hst_scaler_profile scaler;
} hst_precision;

// A row of the table; NULL where there is none. hst_precision_find returns false where there is no such name.
HST_API const hst_precision *hst_precision_of(hst_precision_kind kind);
HST_API bool hst_precision_find(const char *name, hst_precision_kind *kind);

#ifdef __cplusplus
}
#endif
#endif
