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

// Each element is zero with probability p in [0, 1), else multiplied by 1 / (1 - p). p = 0 returns x itself.
HST_API hst_tensor *hst_dropout(hst_tensor *x, double p);

// The same with one mask for all of the first axis, the steps of a sequence: x (L, ...).
HST_API hst_tensor *hst_variational_dropout(hst_tensor *x, double p);

// The SRU recurrence; L, B, D from u, p = c at the step before:
//     f = s(U1 + vf p + bf)   r = s(U2 + vr p + br)   c = U0 + (p - U0) f   h = x' + (a - x') m r
// a = c, or tanh(c) with use_tanh. With two directions the first D / 2 columns go from t = 0 to L-1, the others from
// L-1 to 0. u (L, B, k D) as k planes of D: candidate, forget, reset and, for k = 4, skip. x (L, B, D): x' = scale_x x
// for k = 3, NULL for no skip (x' = 0); k = 4 takes no x, x' = U3. (vf, vr) is the sum of v (2 D) and v_steps (L, B,
// 2 D), NULL: zero. bias (2 D). All three hold forget, then reset. c0 (B, D) or NULL (zero). mask m (B, D) or NULL
// (one), as hst_dropout of ones makes it. pad (L, B) u8 or NULL: where it is not 0, c stays, h is 0 and nothing gets a
// gradient. Returns h (L, B, D) in x's dtype (u's without x), or the one that the options name; *c_last, if not NULL,
// gets each column's c after its last step, (B, D), f32. State and gates are fp32 whatever the dtypes.
typedef struct hst_recurrence {
    int k;          // 3 or 4
    double scale_x; // 1 unless the model rescales
    bool use_tanh;
    bool bidirectional; // D is even: two directions
    bool names_dtype;   // h gets `dtype` (f32, f16 or bf16) instead
    hst_dtype dtype;
} hst_recurrence;
HST_API hst_tensor *hst_sru_recurrence(hst_tensor *u, hst_tensor *x, hst_tensor *v, hst_tensor *v_steps,
                                       hst_tensor *bias, hst_tensor *c0, hst_tensor *mask, hst_tensor *pad,
                                       hst_recurrence options, hst_tensor **c_last);

// Elementwise. add: equal shapes; f32 where the dtypes differ.
HST_API hst_tensor *hst_add(hst_tensor *a, hst_tensor *b);
HST_API hst_tensor *hst_scale(hst_tensor *x, double factor);
HST_API hst_tensor *hst_cast(hst_tensor *x,
                             hst_dtype dtype); // any dtypes; to integers truncates toward zero, saturating

// One f32 number from all elements.
HST_API hst_tensor *hst_sum(hst_tensor *x);
HST_API hst_tensor *hst_mean(hst_tensor *x);

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
