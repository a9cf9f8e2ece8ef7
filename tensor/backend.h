// backend.h: what a device must be able to do. One struct of function pointers per backend; the CPU has one per
// instruction set (ops/cpu), CUDA's will come as a plug-in. Kernels see plain arrays with a dtype, never tensors or
// tapes.
//
// Each kernel loads, widens, computes, and rounds once on the way out. A target with `add` takes the old value into the
// accumulator first. A source or target whose data is NULL is absent. Kernels return false after recording an error
// with hst_fail; results never depend on the number of threads.
#ifndef HST_BACKEND_H
#define HST_BACKEND_H

#include "tensor/arrays.h"

// to[i] (+)= from[i] over a strided index space; any dtypes. Strides in elements; 0 repeats an element.
typedef struct hst_copy_args {
    int rank;
    int64_t shape[HST_MAX_RANK], from_stride[HST_MAX_RANK], to_stride[HST_MAX_RANK];
    hst_source from;
    hst_target to;
} hst_copy_args;

// y (+)= a + b, a - b, a b or a / b over an index space whose elements y holds in order. Strides in elements; 0 repeats
// an operand along an axis, and an operand repeated along all of them may have any dtype.
typedef enum hst_arithmetic { HST_PLUS, HST_MINUS, HST_TIMES, HST_OVER } hst_arithmetic;
typedef struct hst_binary_args {
    hst_arithmetic function;
    int rank;
    int64_t shape[HST_MAX_RANK], a_stride[HST_MAX_RANK], b_stride[HST_MAX_RANK];
    hst_source a, b;
    hst_target y;
} hst_binary_args;

// The gradient of operand 0, a, or 1, b: dx (+)= the sum of its terms over the axes along which it was repeated, those
// with dx_stride 0. Terms: dy, -dy (b of a - b), dy b, dy a, dy / b, -dy a / b^2. dy holds the index space in order; a
// and b may be absent in sums and differences.
typedef struct hst_binary_grad_args {
    hst_arithmetic function;
    int operand, rank;
    int64_t shape[HST_MAX_RANK], a_stride[HST_MAX_RANK], b_stride[HST_MAX_RANK], dx_stride[HST_MAX_RANK];
    hst_source dy, a, b;
    hst_target dx;
} hst_binary_grad_args;

// y (+)= f(x), element by element: 1 / (1 + exp(-x)); tanh x; max(x, 0); x P(x), P the normal distribution's
// cumulative function, and the same with P(x) = (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2; exp x; log x; sqrt x;
// x^parameter.
typedef enum hst_function {
    HST_FUNCTION_SIGMOID,
    HST_FUNCTION_TANH,
    HST_FUNCTION_RELU,
    HST_FUNCTION_GELU,
    HST_FUNCTION_GELU_TANH,
    HST_FUNCTION_EXP,
    HST_FUNCTION_LOG,
    HST_FUNCTION_SQRT,
    HST_FUNCTION_POW
} hst_function;
typedef struct hst_unary_args {
    hst_function function;
    double parameter;
    int64_t count;
    hst_source x;
    hst_target y;
} hst_unary_args;

// dx (+)= dy f'(x), from the argument x or, for sigmoid, tanh, relu, exp and sqrt, from the result y; the other is
// absent.
typedef struct hst_unary_grad_args {
    hst_function function;
    double parameter;
    int64_t count;
    hst_source dy, x, y;
    hst_target dx;
} hst_unary_grad_args;

// C (M,N) (+)= A (M,K) B (K,N) + bias (N), sums over K in fp32 blocks of at most 256 terms. Strides in elements; the
// columns of C are adjacent. The order of a sum never depends on M, N or the threads. With `lower` A, B and bias are
// rounded to f16 or bf16, as by a cast, while they are read; with HST_F32 they are taken as they are.
typedef struct hst_gemm_args {
    int64_t m, n, k;
    hst_source a, b, bias;
    int64_t a_row, a_col, b_row, b_col, c_row;
    hst_target c;
    hst_dtype lower;
} hst_gemm_args;

// `count` such products, with the same sizes and bias. Each next one has its A, B and C so many elements further on; a
// step may be 0 for A and B.
typedef struct hst_gemm_batch_args {
    int64_t count, a_step, b_step, c_step;
    hst_gemm_args first;
} hst_gemm_batch_args;

// y (+)= factor * sum of x over the rows: (outer, rows, width) -> (outer, width).
typedef struct hst_sum {
    int64_t outer, rows, width;
    double factor;
    hst_source x;
    hst_target y;
} hst_sum_args;

// y (+)= the greatest x of the rows, NaN if one of them is: (outer, rows, width) -> (outer, width).
typedef struct hst_max_args {
    int64_t outer, rows, width;
    hst_source x;
    hst_target y;
} hst_max_args;

// dx (+)= dy / (how many of the rows equal y) where x = y, else 0; NaN where y is.
typedef struct hst_max_grad_args {
    int64_t outer, rows, width;
    hst_source dy, x, y;
    hst_target dx;
} hst_max_grad_args;

// y (+)= exp(x) / sum of exp(x), or its logarithm, over the rows of (outer, rows, width).
typedef struct hst_softmax_args {
    int64_t outer, rows, width;
    bool log;
    hst_source x;
    hst_target y;
} hst_softmax_args;

// dx (+)= y (dy - sum of dy y) or, for the logarithm, dy - exp(y) sum of dy, with sums over the rows.
typedef struct hst_softmax_grad_args {
    int64_t outer, rows, width;
    bool log;
    hst_source dy, y;
    hst_target dx;
} hst_softmax_grad_args;

// *sum = sum of x[i]^2, in double.
typedef struct hst_square_sum_args {
    int64_t count;
    hst_source x;
    double *sum;
} hst_square_sum_args;

// g = factor g in place, rounded once, and *sum = sum of g[i]^2 of the new g, in double as square_sum. A g[i] that is
// not finite before or after the product makes the sum infinite or NaN, and nothing else does: squares of f32 are far
// below the end of double's range.
typedef struct hst_unscale_args {
    int64_t count;
    hst_real *g;
    double factor;
    double *sum;
} hst_unscale_args;

// y[o][i] = table[o][ids[i]]; y (outer, count, width), table (outer, rows, width). Fails naming the first id that the
// mode refuses, after `what`: "embedding: id", say.
typedef struct hst_lookup_args {
    int64_t outer, rows, width, count;
    hst_index_mode mode;
    const char *what;
    hst_source table, ids;
    hst_target y;
} hst_lookup_args;

// dtable[o][r] (+)= sum of dy[o][i] over all i with ids[i] == r, or, with `mean`, that sum divided by how many there
// are. Row `padding` gets nothing, if has_padding. The ids were checked in forward; one that is no row adds nothing.
typedef struct hst_lookup_grad_args {
    int64_t outer, rows, width, count;
    hst_index_mode mode;
    bool mean, has_padding;
    int64_t padding;
    hst_source dy, ids;
    hst_target dtable;
} hst_lookup_grad_args;

// The rows that ids name, `padding` left out, together with old[old_count], which ascend: unique[*unique_count] ascends
// and has room for old_count + count. numbers[i] is the place of ids[i] in it, -1 for the padding.
typedef struct hst_lookup_rows_args {
    int64_t rows, count, old_count;
    hst_index_mode mode;
    bool has_padding;
    int64_t padding;
    hst_source ids;
    const int64_t *old;
    int64_t *unique, *unique_count, *numbers;
} hst_lookup_rows_args;

// Each row of the table (rows, width) that an id names and whose norm, (sum of |x|^power)^(1/power), exceeds `limit` is
// multiplied by limit / (norm + 1e-7), once. Power is positive and may be infinite: the greatest |x|. Fails as lookup.
typedef struct hst_lookup_limit_args {
    int64_t rows, width, count;
    hst_index_mode mode;
    const char *what;
    double limit, power;
    hst_source ids;
    hst_target table;
} hst_lookup_limit_args;

// y[i][c] = (ids[i] == c); y (count, classes), of any dtype. Fails naming the first id out of range, after `what`.
typedef struct hst_one_hot_args {
    int64_t count, classes;
    const char *what;
    hst_source ids;
    hst_target y;
} hst_one_hot_args;

// y = c != 0 ? a : b over an index space; y is contiguous. Strides in elements; 0 repeats an element.
typedef struct hst_select_args {
    int rank;
    int64_t shape[HST_MAX_RANK], c_stride[HST_MAX_RANK], a_stride[HST_MAX_RANK], b_stride[HST_MAX_RANK];
    hst_source c, a, b; // c: u8, i32 or i64
    hst_target y;
} hst_select_args;

// d (+)= the sum of dy, contiguous over the index space, where (c != 0) == when. d is contiguous and has the axes whose
// stride in it is not 0; the sums are over the others.
typedef struct hst_select_grad_args {
    int rank;
    int64_t shape[HST_MAX_RANK], c_stride[HST_MAX_RANK], d_stride[HST_MAX_RANK];
    hst_source c, dy;
    bool when;
    hst_target d;
} hst_select_grad_args;

// y = (x - mean) rstd gain + bias over each row, rstd = 1 / sqrt(mean((x - mean)^2) + eps); with `rms`, mean is 0. gain
// and bias may be absent. mean and rstd, if not NULL, get (rows).
typedef struct hst_norm_args {
    int64_t rows, width;
    bool rms;
    double eps;
    hst_source x, gain, bias;
    hst_target y;
    double *mean, *rstd;
} hst_norm_args;

typedef struct hst_norm_grad_args {
    int64_t rows, width;
    bool rms;
    hst_source dy, x, gain;
    const double *mean, *rstd; // as forward left them
    hst_target dx, dgain, dbias;
} hst_norm_grad_args;

// loss[i] = logsumexp(logits[i]) - logits[i][target[i]]; fails naming the first target out of range. logsumexp stays a
// double: at 10^4 its rounding to f32, 5 10^-4, would be a relative error of that size of every probability.
typedef struct hst_nll_args {
    int64_t rows, width;
    hst_source logits, targets;
    hst_real *loss;    // (rows)
    double *logsumexp; // (rows)
} hst_nll_args;

// dlogits[i] (+)= (softmax(logits[i]) - onehot(target[i])) * dloss[i]; dloss (rows)
typedef struct hst_nll_grad_args {
    int64_t rows, width;
    hst_source logits, targets, dloss;
    const double *logsumexp; // as forward left them
    hst_target dlogits;
} hst_nll_grad_args;

// How many rows of logits are formed at once where output layer and loss are one operation: some 10 million logits, and
// a multiple of the terms that a product adds up in one go, so that the chunks do not change the order of a sum.
static inline int64_t hst_loss_rows(int64_t vocabulary) {
    int64_t chunks = (10 << 20) / vocabulary / 256;
    return 256 * (chunks > 0 ? chunks : 1);
}

// loss[i] = -(t log x + (1 - t) log(1 - x)), each logarithm at least -100, of probabilities x and targets t; of logits
// x max(x, 0) - x t + log(1 + exp(-|x|)).
typedef struct hst_bce_args {
    bool logits;
    int64_t count;
    hst_source x, targets;
    hst_real *loss;
} hst_bce_args;

// dx (+)= dloss (x - t) / max(x (1 - x), 10^-12); of logits dloss (s(x) - t), s the logistic sigmoid.
typedef struct hst_bce_grad_args {
    bool logits;
    int64_t count;
    hst_source x, targets, dloss;
    hst_target dx;
} hst_bce_grad_args;

// One place in the random stream: which operation of which step.
typedef struct hst_random_key {
    uint64_t seed, step;
    uint32_t operation;
} hst_random_key;

// y[r][i] (+)= uniform(i) < p ? 0 : x[r][i] / (1 - p), for r < repeats and i < count: all rows have one mask. The same
// key gives the same mask, so backward is the same kernel.
typedef struct hst_dropout_args {
    int64_t repeats, count;
    double p;
    hst_random_key key;
    hst_source x;
    hst_target y;
} hst_dropout_args;

// The SRU recurrence (Lei et al. 2018), for each b and j, p = c at the step before:
//     f = s(U1 + vf p + bf)   r = s(U2 + vr p + br)   c = U0 + (p - U0) f   h = x' + (a - x') m r   a = c or tanh(c)
// The last `backward_columns` of the D columns run from the last t to the first, the others from the first to the last.
// x' = scale_x x (k = 3), U3 (k = 4), or 0 (k = 3, x absent). U is k planes of D per (l, b) row: [l][b][m][j].
// pad[l][b] != 0: c stays, h = 0, and no gradient. bias is (2, D): forget, then reset. (vf, vr) is the sum of v (2, D)
// and v_steps (L,B,2,D), of which either may be absent (zero). Of c backward gets every 16th state, those before steps
// 0, 16, 32, .. of each column in its own direction, and computes the others again.
enum { HST_SRU_SEGMENT = 16 };
typedef struct hst_sru_args {
    int64_t length, batch, width, backward_columns;
    int k;
    bool tanh;
    double scale_x;
    hst_source u, x, v, v_steps, bias;
    hst_source c0, mask, pad; // c0 (B,D) or absent (zero), mask (B,D) or absent (one), pad (L,B) u8
    hst_target h;             // (L,B,D)
    hst_real *c;              // (ceil(L/16),B,D): the states that backward needs, or NULL
    hst_real *c_last;         // (B,D)
} hst_sru_args;

typedef struct hst_sru_grad_args {
    hst_sru_args forward;                        // as forward had it, c included; of h only the dtype, no c_last
    hst_source dh, dc_last;                      // either may be absent (zero)
    hst_target du, dx, dv, dv_steps, dbias, dc0; // any may be absent; du may be u, dv_steps may be v_steps, in place
} hst_sru_grad_args;

// The rows of a row-sparse gradient g: row i of g belongs to row ids[i] of w, m and v, and what is in no row stays as
// it is. `count` is then that of g's elements. ids NULL: g has all of them.
typedef struct hst_row_list {
    const int64_t *ids;
    int64_t width;
} hst_row_list;

// What follows a parameter w in the same pass: its value rounded to `dtype`, f16 or bf16, which goes to `shadow` (NULL:
// nowhere) and, with `round`, back into w, for those who train without a master. HST_F32: nothing.
typedef struct hst_rounded {
    hst_dtype dtype;
    void *shadow;
    bool round;
} hst_rounded;

// One step of Adam and its kin, whose differences are in the numbers (optim/optimizer.c). With h = factor g + l2 w:
//     m = b1 m + (1-b1) h      v = b2 v + (1-b2) h^2      w = w - (shrink w + rate m / (scale sqrt(v) + eps))
// Where it is not `adaptive`, m is not divided.
typedef struct hst_adam_args {
    int64_t count;
    hst_real *w, *m, *v;
    hst_source g;
    double factor, l2, beta1, beta2, shrink, rate, scale, eps;
    bool adaptive;
    hst_row_list rows;
    hst_rounded rounded;
} hst_adam_args;

// SGD. With h = factor g + decay w:  m = momentum m + h;  w = w - lr m, or, `nesterov`, w - lr (h + momentum m). m
// NULL: no momentum, w - lr h.
typedef struct hst_sgd_args {
    int64_t count;
    hst_real *w, *m;
    hst_source g;
    double lr, momentum, decay, factor;
    bool nesterov;
    hst_row_list rows;
    hst_rounded rounded;
} hst_sgd_args;

// average = decay average + (1 - decay) w, in double, rounded once: with floats for decay and 1 - decay, which do not
// add up to 1, the average of a constant would drift away from it.
typedef struct hst_average_args {
    int64_t count;
    hst_real *average;
    const hst_real *w;
    double decay;
} hst_average_args;

// Every kernel, by name: kernel(ctx, const hst_<name>_args *). The backend struct, the CPU's declarations and its
// tables are made from this list, in which the matrix products may be told from the rest.
// clang-format off
#define HST_KERNELS(X) HST_PRODUCTS_AND_REST(X, X)
#define HST_PRODUCTS_AND_REST(P, X) \
    X(copy) \
    X(binary) \
    X(binary_grad) \
    X(unary) \
    X(unary_grad) \
    P(gemm) \
    P(gemm_batch) \
    X(sum) \
    X(square_sum) \
    X(unscale) \
    X(max) \
    X(max_grad) \
    X(softmax) \
    X(softmax_grad) \
    X(lookup) \
    X(lookup_grad) \
    X(lookup_rows) \
    X(lookup_limit) \
    X(one_hot) \
    X(select) \
    X(select_grad) \
    X(norm) \
    X(norm_grad) \
    X(nll) \
    X(nll_grad) \
    X(bce) \
    X(bce_grad) \
    X(dropout) \
    X(sru) \
    X(sru_grad) \
    X(adam) \
    X(sgd) \
    X(average)
// clang-format on
#define HST_KERNEL_FIELD(name) bool (*name)(hst_context *, const hst_##name##_args *);

#define HST_BACKEND_ABI 1

typedef struct hst_backend {
    uint32_t abi;
    size_t size;
    const char *name;             // "avx2"
    HST_KERNELS(HST_KERNEL_FIELD) // copy, binary, ...: one a line of the list
} hst_backend;

// True if each of `count` ids names an entry of an axis of extent n; otherwise records the first that does not. `what`
// is "embedding: id", say.
bool hst_check_ids(hst_context *ctx, const char *what, hst_source ids, hst_index_mode mode, int64_t count, int64_t n);

// Defined in ops/cpu: the backend for an ISA name ("auto" or NULL: the best this CPU runs), or NULL if it cannot run
// here.
const hst_backend *hst_cpu_backend(const char *isa);
extern const hst_backend hst_backend_unsafe; // the naive kernels with every addition rounded

// As the kernels sru and sru_grad, with the roundings of SRU's own 16-bit kernel in h's dtype (ops/cpu/upstream_sru.c).
void hst_upstream_sru(const hst_sru_args *args);
void hst_upstream_sru_grad(const hst_sru_grad_args *args);

// ---- services for kernels ----

// Calls body(arg, task) for every task in [0, tasks), shared among the context's threads. Which thread runs a task is
// left open, so a task must own its outputs. Tasks do not start tasks.
void hst_parallel(hst_context *ctx, int64_t tasks, void (*body)(void *arg, int64_t task), void *arg);

// Scratch memory from the pool, 64-byte aligned; NULL after recording HST_ERROR_MEMORY. Give it back with
// hst_workspace_free (NULL accepted).
void *hst_workspace(hst_context *ctx, size_t bytes);
void hst_workspace_free(hst_context *ctx, void *memory);

// Four random words for block i of the stream at `key`: elements 4i .. 4i+3.
void hst_philox(hst_random_key key, uint64_t i, uint32_t words[4]);

// A word as a uniform number in [0, 1): 24 bits.
static inline float hst_unit(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#endif
