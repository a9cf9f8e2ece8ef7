// doctor_scaler.h: `halfstep doctor scaler`, one of the doctor's examples.
#ifndef CLI_DOCTOR_SCALER_H
#define CLI_DOCTOR_SCALER_H

#include "train/cli/cli.h"

typedef struct doctor_scaler {
    const char *pattern; // a letter an iteration
    int profile;         // 0: all; else the hst_scaler_profile before it
    double init_scale;
    int64_t growth_interval, hysteresis;
} doctor_scaler;

#define DOCTOR_PROFILES "all|none|static|torch|apex|deepspeed_zero|deepspeed_fused|mxnet"

void doctor_scaler_defaults(doctor_scaler *v);                               // the golden traces
int doctor_show_scaler(const doctor_scaler *v, bool json, hst_context *ctx); // returns the exit code

#endif
