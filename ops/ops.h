// ops.h: the operations. Each returns a tensor of the innermost scope, or NULL after recording an error; NULL passes
// through, so that a whole forward pass is checked once. "float" below means f32, f16 or bf16, in any mix; a result's
// dtype is that of the first argument unless it says otherwise. Sums: see ops/README.md.
#ifndef HST_OPS_H
#define HST_OPS_H

#include "autograd/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = a b, which is linear without a bias and reports errors as `linear`. a (..., M, K) taken as rows of K, b (K, N), y
// (..., M, N); float. b may be a transposed view.
HST_API hst_tensor *hst_matmul(hst_tensor *a, hst_tensor *b);

// y = x w + bias. x (..., K), w (K, N), bias (N) or NULL, y (..., N); float.
HST_API hst_tensor *hst_linear(hst_tensor *x, hst_tensor *w, hst_tensor *bias);

// y[i] = table[ids[i]]. table (V, D) float, ids any shape, u8, i32 or i64; y (ids' shape, D) in table's dtype. An id
// out of range is HST_ERROR_VALUE, naming its position and value.
HST_API hst_tensor *hst_embedding(hst_tensor *table, hst_tensor *ids);

// Layer norm over the last dimension (Ba et al. 2016): y = (x - mean) / sqrt(var + eps) * gain + bias, var the biased
// variance. x (..., D), gain and bias (D) or NULL.
HST_API hst_tensor *hst_layer_norm(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, double eps);

// RMS norm over the last dimension (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * gain. x (..., D), gain (D)
// or NULL.
HST_API hst_tensor *hst_rms_norm(hst_tensor *x, hst_tensor *gain, double eps);

// Each element is zero with probability p in [0, 1), else multiplied by 1 / (1 - p). p = 0 returns x itself.
HST_API hst_tensor *hst_dropout(hst_tensor *x, double p);

// The SRU recurrence; L, B, D from u, p = c at t - 1:
//     f = s(U1 + vf p + bf)   r = s(U2 + vr p + br)   c = U0 + (p - U0) f   h = x' + (c - x') m r
// u (L, B, k D) as k planes of D: candidate, forget, reset and, for k = 4, skip. x (L, B, D): x' = scale_x x for k = 3,
// NULL for no skip (x' = 0); k = 4 takes no x, x' = U3. v (2 D) or NULL (zero), bias (2 D): forget, then reset. c0 (B,
// D) or NULL (zero). mask m (B, D) or NULL (one), as hst_dropout of ones makes it. pad (L, B) u8 or NULL: where it is
// not 0, c stays, h is 0 and nothing gets a gradient. Returns h (L, B, D) in x's dtype (u's without x); *c_last, if not
// NULL, gets c at L-1, (B, D), f32. State and gates are fp32 whatever the dtypes.
typedef struct hst_recurrence {
    int k;          // 3 or 4
    double scale_x; // 1 unless the model rescales
} hst_recurrence;
HST_API hst_tensor *hst_sru_recurrence(hst_tensor *u, hst_tensor *x, hst_tensor *v, hst_tensor *bias, hst_tensor *c0,
                                       hst_tensor *mask, hst_tensor *pad, hst_recurrence options, hst_tensor **c_last);

// a + b, a - b, a b, a / b; float, the result f32 where the dtypes differ. The shapes broadcast as in NumPy: compared
// from the last axis on, two extents are equal, or one is 1 or missing and its tensor repeated along this axis.
HST_API hst_tensor *hst_add(hst_tensor *a, hst_tensor *b);
HST_API hst_tensor *hst_sub(hst_tensor *a, hst_tensor *b);
HST_API hst_tensor *hst_mul(hst_tensor *a, hst_tensor *b);
HST_API hst_tensor *hst_div(hst_tensor *a, hst_tensor *b);

// Functions of each element of x, float; y has x's shape and dtype. relu is max(x, 0), of slope 0 at 0; gelu
// (Hendrycks & Gimpel 2016) is x P(x), P the cumulative function of the normal distribution or, with tanh_form, its
// approximation (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2. pow is that of C: 0^0 is 1, a negative number to an
// exponent that is no integer NaN, as are its logarithm and square root.
HST_API hst_tensor *hst_sigmoid(hst_tensor *x);
HST_API hst_tensor *hst_tanh(hst_tensor *x);
HST_API hst_tensor *hst_relu(hst_tensor *x);
HST_API hst_tensor *hst_gelu(hst_tensor *x, bool tanh_form);
HST_API hst_tensor *hst_exp(hst_tensor *x);
HST_API hst_tensor *hst_log(hst_tensor *x);
HST_API hst_tensor *hst_sqrt(hst_tensor *x);
HST_API hst_tensor *hst_pow(hst_tensor *x, double exponent);

// Elementwise.
HST_API hst_tensor *hst_scale(hst_tensor *x, double factor);
HST_API hst_tensor *hst_cast(hst_tensor *x,
                             hst_dtype dtype); // any dtypes; to integers truncates toward zero, saturating

// Sum, mean and greatest of all elements, or over `count` axes (0: all); negative axes count from the end, none may be
// given twice. The axes go, or stay with extent 1 (keep_axes). x float; sum and mean are f32, max has x's dtype. max is
// NaN where an element is, and its gradient is shared among equals. Of no elements the sum is 0, the others an error.
HST_API hst_tensor *hst_sum(hst_tensor *x);
HST_API hst_tensor *hst_mean(hst_tensor *x);
HST_API hst_tensor *hst_max(hst_tensor *x);
HST_API hst_tensor *hst_sum_axes(hst_tensor *x, int count, const int *axes, bool keep_axes);
HST_API hst_tensor *hst_mean_axes(hst_tensor *x, int count, const int *axes, bool keep_axes);
HST_API hst_tensor *hst_max_axes(hst_tensor *x, int count, const int *axes, bool keep_axes);

// exp(x) / sum of exp(x) along an axis (negative: from the end), and its logarithm; float, y has x's shape and dtype.
// An element -inf has probability 0; where all are, y is NaN.
HST_API hst_tensor *hst_softmax(hst_tensor *x, int axis);
HST_API hst_tensor *hst_log_softmax(hst_tensor *x, int axis);

// Cross entropy in nats, fused with log-softmax. logits (..., V) float, targets (...) u8, i32 or i64; f32.
// hst_cross_entropy is the mean over all rows, hst_token_losses one loss a row, (...).
HST_API hst_tensor *hst_cross_entropy(hst_tensor *logits, hst_tensor *targets);
HST_API hst_tensor *hst_token_losses(hst_tensor *logits, hst_tensor *targets);

// Views: the same storage, no copies. One extent of hst_reshape may be -1 (what is left); a strided view is refused
// (hst_cast to its own dtype makes a contiguous copy).
HST_API hst_tensor *hst_reshape(hst_tensor *x, int rank, const int64_t *shape);
HST_API hst_tensor *hst_slice(hst_tensor *x, int axis, int64_t start, int64_t end); // [start, end)
HST_API hst_tensor *hst_transpose(hst_tensor *x, int axis0, int axis1);

// All operations, one a line: name, what mixed precision may do to it (amp/README.md), arguments and results, into
// text[size], as snprintf does.
HST_API size_t hst_op_names(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
