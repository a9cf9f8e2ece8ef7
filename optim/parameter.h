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
    hst_dtype shown; // as what operations see the parameters
    bool no_master;  // and after each update they are rounded to it
};

// Takes away all but the first `count`, of something that could not be made as a whole.
void hst_parameters_cut(hst_parameters *list, int count);

#endif
