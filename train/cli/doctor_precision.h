// doctor_precision.h: `halfstep doctor precision`, the doctor's look at a model of the user's own.
#ifndef CLI_DOCTOR_PRECISION_H
#define CLI_DOCTOR_PRECISION_H

#include "train/cli/cli.h"

typedef struct doctor_precision {
    int64_t batch, length;
    double scale; // of the loss
} doctor_precision;

void doctor_precision_defaults(doctor_precision *v);
// Operands: MODEL TEXT... Returns the exit code.
int doctor_show_precision(const doctor_precision *v, bool json, hst_context *ctx, int count, char **operands);

#endif
