// casts.h: what mixed precision makes of a call: in which dtype each argument is read, and each result stored.
//
// Nothing is put on the tape for it. The kernels take any mix of dtypes, and a gradient is written in the dtype of what
// was given, whatever was read in its place, so a cast needs no node, and no gradient is rounded on its way through
// one.
#ifndef HST_CASTS_H
#define HST_CASTS_H

#include "autograd/op.h"

// The values of t, an f32 tensor, in f16 or bf16: a copy that t keeps, and that is made again when t has changed. Its
// key is t itself, t's version and the dtype. It belongs to t; gradients know nothing of it. NULL after an error.
hst_tensor *hst_shadow(hst_tensor *t, hst_dtype dtype);

// What the operations are given in place of t: t, or the shadow that t is shown as.
hst_tensor *hst_seen(hst_tensor *t);

// Fills in call->in, given, cast and lower for the arguments `in`; false after an error.
bool hst_cast_inputs(hst_call *call, hst_tensor *const *in);

// What the shape rule said, as mixed precision has it.
void hst_cast_outputs(const hst_call *call, hst_type *out);

// The widest dtype among the arguments whose bit is set, as they were given; and the arguments that have a rule.
hst_dtype hst_widest(const hst_call *call, unsigned arguments);
unsigned hst_cast_group(const int *casts, int rule);

#endif
