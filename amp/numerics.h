// numerics.h: the numerics doctor: what 16 bits would do to a program's own numbers. It watches one forward and one
// backward pass, whatever their dtypes are, and says for each tensor what storing it in f16 or bf16 would lose, and for
// each sum how far it would be off had it been added in f16 or bf16.
//
//     hst_numerics *n = hst_numerics_begin(ctx, scale);
//     for (...) hst_numerics_watch(n, weight, "its name");
//     hst_backward(ctx, hst_scale(loss_of(...), scale));
//     if (hst_numerics_end(n) == HST_OK) ...hst_numerics_tensor_at(n, 0) is the worst...
//     hst_numerics_free(n);
#ifndef HST_NUMERICS_H
#define HST_NUMERICS_H

#include "autograd/autograd.h"

#ifdef __cplusplus
extern "C" {
#endif

// What becomes of numbers that are rounded to a 16-bit dtype: shares of those that are finite and not 0.
typedef struct hst_narrowing {
    double zero;      // becomes 0
    double subnormal; // has fewer significant bits than the dtype
    double infinite;  // becomes infinite
    double lost;      // of the sum of |x|, what becomes 0
} hst_narrowing;

typedef enum hst_numerics_kind {
    HST_NUMERICS_WEIGHT, // a tensor that the program named
    HST_NUMERICS_WEIGHT_GRADIENT,
    HST_NUMERICS_RESULT,         // of an operation
    HST_NUMERICS_RESULT_GRADIENT // complete, of all uses
} hst_numerics_kind;

typedef struct hst_numerics_tensor {
    const char *name; // of a result: what its last weight's name begins with, and the operation, "rnn.rnn_lst.0 matmul"
    hst_numerics_kind kind;
    hst_dtype dtype;                  // as it was stored
    int64_t count, zeros, not_finite; // elements; those that are 0; infinite or NaN
    double largest;                   // |x|, of the finite ones
    hst_narrowing f16, bf16;          //
    const char *advice;               // one sentence, or ""
} hst_numerics_tensor;

// Distances from the sum in fp32, as shares of it (2-norms over all its results). "Added": by the unsafe kernels, which
// round after each addition, on the same operands; infinite where a result is not finite. "Stored": rounded once.
typedef struct hst_numerics_sum {
    const char *name;  // "rnn.rnn_lst.0 matmul db"
    const char *terms; // what is added, as hst_op_sums has it
    char kind;         // 'a' to 'd'; ops/README.md says what each promises
    int64_t count;     // results
    double f16_added, f16_stored, bf16_added, bf16_stored;
    const char *advice; // one sentence, or ""
} hst_numerics_sum;

// Loss scales, powers of two times the one in use: with `least` no gradient, of weight or result, loses more than a
// thousandth of its sum of |x| in f16; from above `most` on one becomes infinite. least > most: no scale is right for
// all. The gradient of a result of one number, a loss, does not count. Without gradients both are the one in use.
typedef struct hst_numerics_scale {
    double used, least, most;
    const char *advice; // one sentence
} hst_numerics_scale;

typedef struct hst_numerics hst_numerics;

// Watches every operation of the context, and every hst_backward, from now on. `scale` is what the program multiplies
// its loss by. One at a time: a second is HST_ERROR_STATE. NULL after an error. Each sum is formed three times more, by
// slow kernels: give it little data. Operations of the application's own are seen, but not run again.
HST_API hst_numerics *hst_numerics_begin(hst_context *ctx, double scale);

// Names a weight, a leaf of any dtype: it and its gradient are looked at by hst_numerics_end, and what operations make
// of it is called after it. The tensor is kept until hst_numerics_free.
HST_API hst_status hst_numerics_watch(hst_numerics *numerics, hst_tensor *weight, const char *name);

// Ends watching. Worst first: tensors by the share that is infinite in f16, then 0, then subnormal, then the same in
// bf16; sums by the larger of the two distances. Returns the context's status.
HST_API hst_status hst_numerics_end(hst_numerics *numerics);

// After hst_numerics_end; owned by it, as all their texts. NULL where there is none; after an error there are none.
HST_API int hst_numerics_tensor_count(const hst_numerics *numerics);
HST_API const hst_numerics_tensor *hst_numerics_tensor_at(const hst_numerics *numerics, int i);
HST_API int hst_numerics_sum_count(const hst_numerics *numerics);
HST_API const hst_numerics_sum *hst_numerics_sum_at(const hst_numerics *numerics, int i);
HST_API hst_numerics_scale hst_numerics_scale_of(const hst_numerics *numerics);

HST_API void hst_numerics_free(hst_numerics *numerics); // also ends watching; NULL is accepted

#ifdef __cplusplus
}
#endif
#endif
