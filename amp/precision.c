// precision.c: the table of presets.
#include <string.h>
#include "amp/amp.h"

#define REGION(type, list)                                                                                             \
    { .dtype = HST_##type, .ops = HST_LIST_##list }

static const hst_precision presets[] = {
    [HST_FP32] = {.name = "fp32"},
    [HST_AMP_FP16] = {.name = "amp-fp16", .region = REGION(F16, HALFSTEP), .scaler = HST_SCALER_TORCH},
    [HST_AMP_BF16] = {.name = "amp-bf16", .region = REGION(BF16, HALFSTEP)},
    [HST_APEX_O1] = {.name = "apex-O1", .region = REGION(F16, APEX_O1), .scaler = HST_SCALER_APEX},
    [HST_APEX_O2] = {.name = "apex-O2", .parameters = HST_F16, .scaler = HST_SCALER_APEX},
    [HST_APEX_O3] = {.name = "apex-O3", .parameters = HST_F16, .no_master = true, .scaler = HST_SCALER_STATIC},
    [HST_DEEPSPEED_FP16] = {.name = "deepspeed-fp16", .parameters = HST_F16, .scaler = HST_SCALER_DEEPSPEED_ZERO},
    [HST_DEEPSPEED_BF16] = {.name = "deepspeed-bf16", .parameters = HST_BF16},
    [HST_MXNET_AMP] = {.name = "mxnet-amp", .region = REGION(F16, MXNET_FP16), .scaler = HST_SCALER_MXNET},
};

const hst_precision *hst_precision_of(hst_precision_kind kind) {
    return (unsigned)kind < HST_PRECISIONS ? &presets[kind] : NULL;
}

bool hst_precision_find(const char *name, hst_precision_kind *kind) {
    for (int i = 0; name && i < HST_PRECISIONS; i++)
        if (!strcmp(name, presets[i].name)) return *kind = (hst_precision_kind)i, true;
    return false;
}
