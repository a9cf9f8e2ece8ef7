// op.h: how an operation is made. One file in ops/ holds an hst_op record and its public function; the record is the
// only thing that the dispatcher, the tape, the documentation and the sweeps of the tests know about it.
//
// Dispatch (hst_apply): arguments and contexts checked -> casts chosen (casts.h) -> shape rule -> outputs allocated ->
// forward -> recorded, if an argument wants a gradient. An operation without a backward refuses there, not later.
#ifndef HST_OP_H
#define HST_OP_H

#include "autograd/autograd.h"
#include "tensor/backend.h"
#include "tensor/context.h"
#include <string.h>

// The limits of an application's operations are the library's.
enum {
    HST_MAX_INPUTS = HST_CUSTOM_INPUTS,
    HST_MAX_OUTPUTS = HST_CUSTOM_OUTPUTS,
    HST_MAX_SAVED = HST_CUSTOM_SAVED,
    HST_MAX_ATTRIBUTES = HST_CUSTOM_ATTRIBUTES
};

typedef struct hst_type {
    hst_dtype dtype;
    int rank;
    int64_t shape[HST_MAX_RANK];
} hst_type;

typedef struct hst_op hst_op;

// One application of an operation. Optional arguments that were not given are NULL.
typedef struct hst_call {
    const hst_op *op;
    hst_context *ctx;
    hst_tensor *in[HST_MAX_INPUTS]; // as the kernel reads them: cast, contiguous
    hst_tensor *const *arguments;   // as they were given; not in backward
    hst_tensor *out[HST_MAX_OUTPUTS];
    hst_tensor *saved[HST_MAX_SAVED]; // made by forward for backward (hst_call_save)
    bool recording;                   // backward may come: save what it needs
    hst_dtype lower;     // mixed precision: the dtype to which operands are rounded, f16 or bf16; HST_F32: as they are
    hst_cast_class cast; // what the region asks of the operation
    hst_dtype given[HST_MAX_INPUTS];                          // of in[i], before any cast
    _Alignas(8) unsigned char attributes[HST_MAX_ATTRIBUTES]; // the op's own struct of options
} hst_call;

// Where one input's gradient goes. HST_NULL: not wanted. The kernel takes the old value (HST_ADD) into its accumulator,
// adds everything and rounds once into the dtype of `into`.
typedef struct hst_gradient {
    hst_request request;
    hst_tensor *into; // contiguous, the input's shape
    hst_tensor *leaf; // instead of `into`, where gives_rows allows: a leaf that asked for rows (autograd/rows.h)
} hst_gradient;

struct hst_op {
    const char *name;
    const char *inputs[HST_MAX_INPUTS]; // argument names for error sentences; "bias?" is optional
    const char *outputs[HST_MAX_OUTPUTS];
    unsigned reads_inputs;  // bit i: backward reads in[i]; the others are NULL there
    unsigned reads_outputs; // bit i: backward reads out[i]
    unsigned constants;     // bit i: in[i] never has a gradient (a mask); integers never have one anyway
    unsigned gives_rows;    // bit i: the gradient of in[i] may be row-sparse
    unsigned in_place;      // bit i: the gradient of in[i] may be written over in[i], element by element
    unsigned takes_strides; // bit i: in[i] may be strided; the others are made contiguous first
    unsigned lowers;        // bit i: the kernel itself rounds in[i] to call->lower; for the others a copy is made
    unsigned f32_outputs;   // bit i: out[i] is f32 whatever arguments and region are; forward writes it as hst_real
    bool own_dtype;         // its result has a dtype that the call names: no region changes it
    const char *instead;    // where it is banned: what to use
    const int *casts;       // rules for each argument instead of the region's op list; NULL: as the list says

    // Checks shapes and dtypes, sets out[0..]; false after hst_fail. Output i is made only where out[i].rank >= 0.
    bool (*shape)(hst_call *call, hst_type *out);
    bool (*forward)(hst_call *call);
    hst_tensor *(*view)(hst_call *call, const hst_type *out); // instead of forward: out[0] over in[0]'s storage
    // dy[i] is NULL where no gradient reached output i (a zero); otherwise contiguous, of the output's shape and dtype.
    // No two of the dx[i].into are the same buffer.
    bool (*backward)(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx);
};

// Applies op to its inputs; returns out[0] (all of them in `out`, if not NULL), or NULL after recording an error.
hst_tensor *hst_apply(const hst_op *op, hst_tensor *const *in, const void *attributes, size_t attributes_size,
                      hst_tensor **out);

// An autocast region as the dispatcher sees it; amp/autocast.c makes them.
typedef struct hst_region {
    hst_dtype lower;     // its 16-bit type; HST_F32: it is off, nothing is cast in it
    bool recurrence_f32; // sru_recurrence has h in f32, not in `lower`
    // The class of call->op in this region, whose arguments are `in`; false after recording why it is refused.
    bool (*class_of)(const struct hst_region *region, const hst_call *call, hst_tensor *const *in,
                     hst_cast_class *class);
} hst_region;

// An argument's name in an error sentence, without the "?" of an optional one; for "%.*s".
#define HST_ARGUMENT(name) (int)strcspn((name), "?"), (name)

// A contiguous tensor that lives as long as the call: saved[slot].
hst_tensor *hst_call_save(hst_call *call, int slot, hst_dtype dtype, int rank, const int64_t *shape);

// A tensor as a kernel sees it. NULL tensors and HST_NULL requests become absent ones.
static inline hst_source hst_source_of(const hst_tensor *t) {
    return t ? (hst_source){hst_raw(t), t->dtype} : (hst_source){0};
}
static inline hst_target hst_target_of(hst_tensor *t) { return (hst_target){hst_raw(t), t->dtype, false}; }
static inline hst_target hst_gradient_target(hst_gradient g) {
    return g.request == HST_NULL ? (hst_target){0} : (hst_target){hst_raw(g.into), g.into->dtype, g.request == HST_ADD};
}

static inline bool hst_is_float(hst_dtype d) { return d == HST_F32 || d == HST_F16 || d == HST_BF16; }

// The dtype in which values of a and b both fit: fp32 unless they are equal.
static inline hst_dtype hst_promote(hst_dtype a, hst_dtype b) { return a == b ? a : HST_F32; }

static inline hst_type hst_type_of(const hst_tensor *t) {
    hst_type type = {.dtype = t->dtype, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) type.shape[i] = t->shape[i];
    return type;
}

// A tensor as rows of its last dimension: how many there are.
static inline int64_t hst_rows(const hst_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i < t->rank - 1; i++) rows *= t->shape[i];
    return rows;
}

// Checks for shape rules; each records one sentence that names the operation, the argument and what would be right.
bool hst_check_float(const hst_call *call, int input);
bool hst_check_index(const hst_call *call, int input);                                 // i32, i64 or u8
bool hst_check_shape(const hst_call *call, int input, int rank, const int64_t *shape); // absent inputs pass

#endif
