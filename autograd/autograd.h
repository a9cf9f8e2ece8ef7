// autograd.h: gradients.
//
//     hst_attach_grad(w, HST_WRITE, HST_F32);            // w is a leaf: its gradient is wanted, in fp32
//     hst_tensor *loss = hst_mean(hst_linear(x, w, b));  // recorded, because w wants a gradient
//     hst_backward(ctx, loss);                           // now hst_grad(w) holds dloss/dw
//
// Operations are recorded on the context's tape while an argument wants a gradient. The tape belongs to the scope it
// was recorded in and dies with it; hst_backward uses it up.
#ifndef HST_AUTOGRAD_H
#define HST_AUTOGRAD_H

#include "autograd/custom.h" // operations of the application's own
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hst_request {
    HST_NULL,  // no gradient
    HST_WRITE, // each hst_backward overwrites the buffer, if the loss depends on the leaf; else it keeps what it had
    HST_ADD    // each hst_backward adds to it; the program zeroes it
} hst_request;

// Makes the floating-point tensor t a leaf with a zeroed gradient buffer of its shape, in `dtype` (HST_F32 unless there
// is a reason: 16-bit sums over many calls stall). HST_NULL takes the buffer away.
HST_API hst_status hst_attach_grad(hst_tensor *t, hst_request request, hst_dtype dtype);

// The gradient buffer, owned by t; NULL where none is attached, and while it is row-sparse.
HST_API hst_tensor *hst_grad(const hst_tensor *t);

// As hst_attach_grad, but the gradient is row-sparse: of t (V, ...) only the rows that hst_embedding or hst_take along
// axis 0 has read are kept, in memory that is their size; all others are 0. They have the bits that the dense gradient
// would have. It starts without rows. As soon as another operation has a gradient for t, as an output layer tied to an
// embedding has, it becomes dense and stays so: hst_grad_rows is then NULL and hst_grad the buffer.
HST_API hst_status hst_attach_grad_rows(hst_tensor *t, hst_request request, hst_dtype dtype);

// The rows of a row-sparse gradient, owned by t until its next hst_backward: ids i64 (n), ascending, each once, and
// their values (n, ...) in the gradient's dtype. n is hst_dim of either, 0. NULL where it is dense or there is none.
HST_API hst_tensor *hst_grad_rows(const hst_tensor *t);
HST_API hst_tensor *hst_grad_row_values(const hst_tensor *t);

// Runs the tape backwards from a one-element tensor with dloss/dloss = 1. The nodes it passes are used up: a second
// call through them is an error. hst_backward_keeping leaves them in place, for several losses over one graph.
HST_API hst_status hst_backward(hst_context *ctx, hst_tensor *loss);
HST_API hst_status hst_backward_keeping(hst_context *ctx, hst_tensor *loss);

// The same from `count` tensors of any shape, with the gradients given: dy[i] has the shape of y[i].
HST_API hst_status hst_backward_from(hst_context *ctx, int count, hst_tensor *const *y, hst_tensor *const *dy);

// Nothing is recorded between the two; they nest. An end without a begin is an error.
HST_API hst_status hst_no_grad_begin(hst_context *ctx);
HST_API hst_status hst_no_grad_end(hst_context *ctx);

// The same storage, cut off from the tape: what came before is a constant.
HST_API hst_tensor *hst_detach(hst_tensor *t);

// While on, every operation's results and every gradient are searched for NaN, and the first operation that made one
// from arguments without becomes an error by name. Slow.
HST_API void hst_anomaly_mode(hst_context *ctx, bool on);

// Compares the gradients of f with central differences. f computes a tensor of any shape from the `count`
// floating-point leaves x, deterministically; the objective is the sum of its elements times fixed pseudo-random
// weights. *error gets the largest over the leaves of |analytic - numeric| / max(|analytic|, |numeric|, 1e-3) in the
// 2-norm. Meant for the double build (make REAL=double), where 1e-7 is the bar; in fp32 expect 1e-2. The leaves are
// contiguous; they get new gradient buffers.
HST_API hst_status hst_gradcheck(hst_context *ctx, hst_tensor *(*f)(hst_context *ctx, hst_tensor *const *x, void *user),
                                 void *user, int count, hst_tensor *const *x, double *error);

#ifdef __cplusplus
}
#endif
#endif
