// precision.c: the table of presets.
#include <string.h>
#include "amp/amp.h"

static const hst_precision presets[] = {
    [HST_FP32] = {"fp32"},
    [HST_AMP_FP16] = {"amp-fp16", .region = {HST_F16}, .scaler = HST_SCALER_TORCH},
    [HST_AMP_BF16] = {"amp-bf16", .region = {HST_BF16}},
    [HST_APEX_O1] = {"apex-O1", .region = {HST_F16, HST_LIST_APEX_O1}, .scaler = HST_SCALER_APEX},
    [HST_APEX_O2] = {"apex-O2", .parameters = HST_F16, .scaler = HST_SCALER_APEX},
    [HST_APEX_O3] = {"apex-O3", .parameters = HST_F16, .no_master = true, .scaler = HST_SCALER_STATIC},
    [HST_DEEPSPEED_FP16] = {"deepspeed-fp16", .parameters = HST_F16, .scaler = HST_SCALER_DEEPSPEED_ZERO},
    [HST_DEEPSPEED_BF16] = {"deepspeed-bf16", .parameters = HST_BF16},
    [HST_MXNET_AMP] = {"mxnet-amp", .region = {HST_F16, HST_LIST_MXNET_FP16}, .scaler = HST_SCALER_MXNET},
};

const hst_precision *hst_precision_of(hst_precision_kind kind) {
    return (unsigned)kind < HST_PRECISIONS ? &presets[kind] : NULL;
}

bool hst_precision_find(const char *name, hst_precision_kind *kind) {
    for (int i = 0; name && i < HST_PRECISIONS; i++)
        if (!strcmp(name, presets[i].name)) return *kind = (hst_precision_kind)i, true;
    return false;
}
