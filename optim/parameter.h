// parameter.h: the insides of a parameter list, for this folder.
#ifndef HST_PARAMETER_H
#define HST_PARAMETER_H

#include "autograd/op.h"
#include "optim/optim.h"

typedef struct hst_parameter_item {
    char *name;
    hst_tensor *value; // the fp32 master, with its fp32 gradient
    bool decays;
} hst_parameter_item;

struct hst_parameters {
    hst_context *ctx;
    hst_parameter_item *items;
    int count, capacity;
};

#endif
