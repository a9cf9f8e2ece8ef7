// ops.h: the operations. Each returns a tensor of the innermost scope, or NULL after recording an error; NULL passes
// through, so that a whole forward pass is checked once. "float" below means f32, f16 or bf16, in any mix; a result's
// dtype is that of the first argument unless it says otherwise. Sums: see ops/README.md.
#ifndef HST_OPS_H
#define HST_OPS_H

#include "autograd/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = a b. a (..., M, K), b (..., K, N), y (..., M, N); float, y in a's dtype. The leading axes are equal, or
// broadcast: matched from the last, one that is 1 or missing is repeated. A vector a (K) is a row and a vector b (K) a
// column, whose axis of extent 1 is then left out of y. Both may be strided views.
HST_API hst_tensor *hst_matmul(hst_tensor *a, hst_tensor *b);

// y = x w + bias. x (..., K), w (K, N), bias (N) or NULL, y (..., N); float.
HST_API hst_tensor *hst_linear(hst_tensor *x, hst_tensor *w, hst_tensor *bias);

// y[i] = table[ids[i]]. table (V, D) float, ids any shape, u8, i32 or i64; y (ids' shape, D) in table's dtype. An id
// out of range is HST_ERROR_VALUE, naming its position and value.
HST_API hst_tensor *hst_embedding(hst_tensor *table, hst_tensor *ids);

// The same with options, which are those of PyTorch's embedding. NULL: the defaults.
#define HST_NO_PADDING INT64_MIN
typedef struct hst_embedding_options {
    int64_t padding_index;   // its row is read as any other and gets no gradient; below 0: from the end; HST_NO_PADDING
    bool scale_by_frequency; // the gradient of a row is divided by how often it was read; false
    double max_norm;         // INFINITY. A row that is read and whose norm exceeds it is first multiplied by max_norm /
    double norm_power;       // (norm + 1e-7), in the table itself, which must be contiguous, and for good. The norm is
                             // (sum of |x|^norm_power)^(1/norm_power); 2; INFINITY: the greatest |x|
    hst_index_mode mode;     // HST_INDEX_RAISE
} hst_embedding_options;
HST_API hst_embedding_options hst_embedding_defaults(void);
HST_API hst_tensor *hst_embedding_with(hst_tensor *table, hst_tensor *ids, const hst_embedding_options *options);

// Layer norm over the last dimension (Ba et al. 2016): y = (x - mean) / sqrt(var + eps) * gain + bias, var the biased
// variance. x (..., D), gain and bias (D) or NULL.
HST_API hst_tensor *hst_layer_norm(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, double eps);

// The same with y in f32, f16 or bf16, whatever region it is in: in 16 bits where y goes into a product that would
// round it anyway, it takes half the memory.
HST_API hst_tensor *hst_layer_norm_as(hst_tensor *x, hst_tensor *gain, hst_tensor *bias, double eps, hst_dtype dtype);

// RMS norm over the last dimension (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * gain. x (..., D), gain (D)
// or NULL.
HST_API hst_tensor *hst_rms_norm(hst_tensor *x, hst_tensor *gain, double eps);

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
    int k;              // 3 or 4; 3
    double scale_x;     // unless the model rescales, 1
    bool use_tanh;      // false
    bool bidirectional; // D is even: two directions; false
    bool names_dtype;   // h gets `dtype` (f32, f16 or bf16) instead; false
    hst_dtype dtype;
    bool upstream_fp16; // for teaching: state, gates and gradient sums lose what they lose in SRU's own 16-bit kernel,
                        // in h's dtype, 16-bit or not; false
} hst_recurrence;
static inline hst_recurrence hst_recurrence_defaults(void) { // as SRU has it, to be changed field by field
    hst_recurrence recurrence = {3, 1, false, false, false, HST_F32, false};
    return recurrence;
}
HST_API hst_tensor *hst_sru_recurrence(hst_tensor *u, hst_tensor *x, hst_tensor *v, hst_tensor *v_steps,
                                       hst_tensor *bias, hst_tensor *c0, hst_tensor *mask, hst_tensor *pad,
                                       hst_recurrence options, hst_tensor **c_last);

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

// factor x, float, the product formed in double and rounded once; and x in another dtype, where any two are possible:
// to integers it is truncated toward zero and saturates.
HST_API hst_tensor *hst_scale(hst_tensor *x, double factor);
HST_API hst_tensor *hst_cast(hst_tensor *x, hst_dtype dtype);

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

// hst_cross_entropy(hst_linear(x, w^T, bias), targets) without all its logits at once: a chunk of at most some 10
// million of them, or of 256 rows, is formed at a time. x (..., K), w (V, K), one row a symbol, bias (V) or NULL,
// float; targets
// (...) u8, i32 or i64; f32. Loss and gradients are those of the two together (dx by way of x's dtype);
// the logits have the dtype that hst_linear gives them. In f16 their gradients are formed 1024 times as large as they
// are, which is safe for w up to 32.
HST_API hst_tensor *hst_linear_cross_entropy(hst_tensor *x, hst_tensor *w, hst_tensor *bias, hst_tensor *targets);

// Binary cross entropy in nats, one loss an element, f32 in every region: -(t log p + (1 - t) log(1 - p)), each
// logarithm at least -100 as in PyTorch; and the same of p = s(x), s the logistic sigmoid, from the logits x. p, logits
// (...) float; targets t (...) float, which get no gradient. NaN where p is outside [0, 1]. Since d loss / dp is
// (p - t) / (p (1 - p)), dp = dloss (p - t) / max(p (1 - p), 1e-12) and dlogits = dloss (s(x) - t). Op lists of mixed
// precision ban the first (HST_ERROR_DTYPE); the second takes any dtype in all of them.
HST_API hst_tensor *hst_binary_cross_entropy(hst_tensor *p, hst_tensor *targets);
HST_API hst_tensor *hst_binary_cross_entropy_with_logits(hst_tensor *logits, hst_tensor *targets);

// Views: the same storage, no copies, any dtype; negative axes count from the end. One extent of hst_reshape may be -1
// (what is left). A strided view is reshaped where strides can express it (axes of extent 1 come and go, axes are cut
// in parts) and otherwise refused: hst_cast to its own dtype makes a contiguous copy.
HST_API hst_tensor *hst_reshape(hst_tensor *x, int rank, const int64_t *shape);
HST_API hst_tensor *hst_slice(hst_tensor *x, int axis, int64_t start, int64_t end); // [start, end)
HST_API hst_tensor *hst_transpose(hst_tensor *x, int axis0, int axis1);
HST_API hst_tensor *hst_unsqueeze(hst_tensor *x, int axis); // a new axis of extent 1 there
HST_API hst_tensor *hst_squeeze(hst_tensor *x, int axis);   // without this axis, whose extent must be 1

// x repeated to a shape: axes are matched from the last, and those that are 1 or missing in x are repeated (stride 0:
// do not write into it). The gradient is the sum over the repetitions.
HST_API hst_tensor *hst_broadcast_to(hst_tensor *x, int rank, const int64_t *shape);

// out[i], i < count: the slices of sizes[i] along an axis, one after the other; views. The sizes' sum is the axis's
// extent. After an error all out[i] are NULL.
HST_API hst_status hst_split(hst_tensor *x, int axis, int count, const int64_t *sizes, hst_tensor **out);

// `count` tensors, at least one, as one, after each other along an axis in which alone they may differ; or along a new
// axis, at `axis` of the result, if the shapes are equal. f32, f16 and bf16 mix, to f32 where they differ; other dtypes
// must be equal. One tensor may be given several times. HST_ERROR_VALUE if one of them is NULL. Where all are, or there
// is none, no context is known that could hold an error: the result is NULL and the status stays as it is.
HST_API hst_tensor *hst_cat(int count, hst_tensor *const *x, int axis);
HST_API hst_tensor *hst_stack(int count, hst_tensor *const *x, int axis);

// y = a where condition is not 0, else b. condition u8, i32 or i64, a and b float, f32 where their dtypes differ; all
// three are broadcast as by hst_broadcast_to. What was not chosen gets a gradient of exactly 0, even where it is NaN.
HST_API hst_tensor *hst_where(hst_tensor *condition, hst_tensor *a, hst_tensor *b);

// x with `value` where the mask (u8, i32 or i64, broadcast to x's shape) is not 0; float, in x's dtype.
HST_API hst_tensor *hst_masked_fill(hst_tensor *x, hst_tensor *mask, double value);

// The entries `ids` (u8, i32 or i64, any shape) of an axis of x (float), in place of which y has the axes of ids: y
// (x's axes before it, ids' axes, x's axes after it), in x's dtype. A negative axis counts from the end; HST_AXIS_NONE
// takes from all elements of x in a row, so that y has ids' shape. hst_take has the mode HST_INDEX_RAISE: an id outside
// the axis is HST_ERROR_VALUE, naming its position and value. The gradient goes to the entry that was read.
#define HST_AXIS_NONE INT32_MIN
HST_API hst_tensor *hst_take(hst_tensor *x, hst_tensor *ids, int axis);
HST_API hst_tensor *hst_take_with(hst_tensor *x, hst_tensor *ids, int axis, hst_index_mode mode);

// y (ids' shape, classes) in `dtype`: 1 at the class that ids (u8, i32 or i64) names, else 0. No gradient. Errors as
// hst_take.
HST_API hst_tensor *hst_one_hot(hst_tensor *ids, int64_t classes, hst_dtype dtype);

// The op lists of mixed precision: what an autocast region (amp/amp.h) does with each operation.
typedef enum hst_op_list {
    HST_LIST_HALFSTEP,
    HST_LIST_TORCH_CUDA, // PyTorch's autocast on CUDA
    HST_LIST_TORCH_CPU,  // and on CPUs
    HST_LIST_MXNET_FP16,
    HST_LIST_MXNET_BF16,
    HST_LIST_APEX_O1,
    HST_OP_LISTS // how many there are
} hst_op_list;

// "halfstep", "torch_cuda", "torch_cpu", "mxnet_fp16", "mxnet_bf16", "apex_o1"; NULL where there is no such list.
HST_API const char *hst_op_list_name(hst_op_list list);
HST_API bool hst_op_list_find(const char *name, hst_op_list *list); // false where there is no such name

// All operations, one a line: name, its class in each op list, arguments and results, under a line of titles, into
// text[size], as snprintf does.
HST_API size_t hst_op_names(char *text, size_t size);

// All sums that operations, backward and optimizers form, one a line: who adds, into what, kind (ops/README.md says
// what each promises), terms; into text[size], as snprintf does.
HST_API size_t hst_op_sums(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
