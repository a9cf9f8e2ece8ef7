// parameter.h: the insides of a parameter list, for this folder.
#ifndef HST_PARAMETER_H
#define HST_PARAMETER_H

#include "amp/scaler.h"
#include "autograd/op.h"
#include "optim/optim.h"

typedef struct hst_parameter_item {
    char *name;
    hst_tensor *value; // the fp32 master, with its fp32 gradient
    bool decays;

    // Of its gradient, for scaling.c. A backward is known by the value's `pass`.
    hst_scaler *scaler; // whose scale it has; NULL: nobody's, and `scale` is 1
    double scale;
    uint64_t pass;    // the backward that these two are about
    uint64_t stepped; // the last one that a step has used, or skipped
    bool overflowed;  // in this window: what is added to it says nothing of the scale that it comes with
} hst_parameter_item;

// What happens to a list's gradients from the first backward to the step.
typedef struct hst_window {
    int64_t backwards;
    bool nan_loss, overflow;
    const char *unscaled; // the first parameter with an overflow that belongs to no scaler, or NULL
    bool checked;         // all gradients are unscaled, and `norm` is theirs
    double norm;
    bool over; // the step was done, or skipped
} hst_window;

struct hst_parameters {
    hst_context *ctx;
    hst_parameter_item *items;
    int count, capacity;
    hst_dtype shown; // as what operations see the parameters
    bool no_master;  // and after each update they are rounded to it
    hst_window window;
    int64_t batches; // that a step is the mean of; 0: any number, their sum
};

static inline void hst_begin_window(hst_parameters *list) {
    list->window = (hst_window){0};
    for (int i = 0; i < list->count; i++) list->items[i].overflowed = false;
}

// The gradient of w as far as it is stored: all of it or, if it is row-sparse, its rows. NULL: frozen.
static inline hst_tensor *hst_gradient_of(const hst_tensor *w) { return w->row_values ? w->row_values : w->grad; }

// Takes away all but the first `count`, of something that could not be made as a whole.
void hst_parameters_cut(hst_parameters *list, int count);

#endif
