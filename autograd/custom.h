// custom.h: operations that an application adds, with their gradients. They are recorded, checked, named in errors and
// searched for NaN like the library's own. For y = x^3:
//
//     static bool shape(hst_custom_call *call) {
//         hst_tensor *x = hst_custom_input(call, 0);
//         return hst_custom_set_output(call, 0, hst_dtype_of(x), hst_rank(x), hst_shape(x));
//     }
//     static bool forward(hst_custom_call *call) {
//         const float *x = hst_data(hst_custom_input(call, 0));
//         float *y = hst_mutable_data(hst_custom_output(call, 0));
//         for (int64_t i = 0; i < hst_count(hst_custom_input(call, 0)); i++) y[i] = x[i] * x[i] * x[i];
//         return true;
//     }
//     static bool backward(hst_custom_call *call) { ... }            // dx = 3 x^2 dy
//
//     const hst_operation *cube = hst_register(ctx, &(hst_custom_op){.size = sizeof(hst_custom_op), .name = "cube",
//         .inputs = {"x"}, .outputs = {"y"}, .reads_inputs = 1, .shape = shape, .forward = forward,
//         .backward = backward});
//     hst_tensor *y = hst_custom(cube, &x, NULL, NULL);
//
// Lifetimes: hst_register copies the record and its names, which may be on the stack; the operation lives until
// hst_close. Attributes are copied at each call. A hst_custom_call is valid inside the callback that got it, and the
// tensors that it hands out belong to the library.
//
// A callback that fails records why with hst_fail(hst_custom_context(call), ...) and returns false. It may call
// operations; they are not recorded, and what they return dies when the callback returns. It ends the scopes and
// the regions that it begins, and no others; it begins in none.
#ifndef HST_CUSTOM_H
#define HST_CUSTOM_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// What mixed precision does with an operation, and with an argument or a result of an application's own.
typedef enum hst_cast_class {
    HST_CAST_NONE,   // it stays in the dtype that it has
    HST_CAST_LOWER,  // the 16-bit type of the region; outside a region it stays as it is
    HST_CAST_F32,    // fp32
    HST_CAST_WIDEST, // the widest dtype among the arguments; f16 and bf16 make f32
    HST_CAST_BANNED  // refused where an argument has 16 bits: the sentence says what to use instead
} hst_cast_class;

enum { HST_CUSTOM_INPUTS = 8, HST_CUSTOM_OUTPUTS = 2, HST_CUSTOM_SAVED = 2, HST_CUSTOM_ATTRIBUTES = 80 };

typedef struct hst_custom_call hst_custom_call; // one application of an operation
typedef struct hst_operation hst_operation;     // a registered one

typedef struct hst_custom_op {
    size_t size;                           // sizeof(hst_custom_op), so that fields can be added
    const char *name;                      // in error sentences
    const char *inputs[HST_CUSTOM_INPUTS]; // the arguments' names; "bias?" may be NULL in a call
    const char *outputs[HST_CUSTOM_OUTPUTS];
    size_t attributes_size; // of the options that are copied with each call; at most HST_CUSTOM_ATTRIBUTES
    unsigned reads_inputs;  // bit i: backward reads input i; others are let go
    unsigned reads_outputs; // bit i: backward reads output i
    unsigned constants;     // bit i: input i never has a gradient; integers have none anyway
    void *user;             // hst_custom_user; must outlive the context

    // Mixed precision. The callbacks see an argument in the dtype that its rule says, inside regions and outside:
    // HST_CAST_NONE, _LOWER, _F32, or HST_WIDEST_GROUP(n), the widest dtype among all arguments of group n. Its
    // gradient goes to what was given, in the dtype of that. A result with a rule is stored as the rule says, and the
    // callbacks see it and its gradient in f32: HST_CAST_LOWER (outside regions f32), HST_CAST_F32, HST_WIDEST_GROUP(n)
    // or HST_AS_ARGUMENT(i), the dtype in which argument i was given. One with HST_CAST_NONE has the dtype that shape
    // gave it.
    int casts[HST_CUSTOM_INPUTS], results[HST_CUSTOM_OUTPUTS];
    hst_dtype accumulator; // of the gradients that backward fills: HST_F32 or, for long sums, HST_F64

    bool (*shape)(hst_custom_call *call);    // checks the arguments and calls hst_custom_set_output for each output
    bool (*forward)(hst_custom_call *call);  // fills the outputs
    bool (*backward)(hst_custom_call *call); // fills the wanted input gradients; NULL: refused if one is wanted
} hst_custom_op;

#define HST_WIDEST_GROUP(n) (16 + (n)) // n from 0 to 7
#define HST_AS_ARGUMENT(i) (32 + (i))

// Registers an operation with a context. NULL after recording an error: HST_ERROR_VALUE for a record that lacks
// something or has too much.
HST_API const hst_operation *hst_register(hst_context *ctx, const hst_custom_op *op);

// Applies it: `inputs` has an entry for each argument, `attributes` attributes_size bytes (NULL: zeros), `outputs`, if
// not NULL, gets all results. Returns the first, of the innermost scope; NULL after an error, and if op is NULL.
HST_API hst_tensor *hst_custom(const hst_operation *op, hst_tensor *const *inputs, const void *attributes,
                               hst_tensor **outputs);

// ---- in every callback ----

HST_API hst_context *hst_custom_context(const hst_custom_call *call);
HST_API void *hst_custom_user(const hst_custom_call *call);
HST_API const void *hst_custom_attributes(const hst_custom_call *call); // aligned to 8 bytes

// Argument i, contiguous, in the dtype of its rule; NULL for an optional one that was not given. In backward it is
// there if reads_inputs says so, and otherwise an error.
HST_API hst_tensor *hst_custom_input(hst_custom_call *call, int i);

// Result i: in forward to be filled, in backward what it was, if reads_outputs says so (otherwise an error).
HST_API hst_tensor *hst_custom_output(hst_custom_call *call, int i);

// ---- in shape ----

// Returns true, or false after recording an error.
HST_API bool hst_custom_set_output(hst_custom_call *call, int i, hst_dtype dtype, int rank, const int64_t *shape);

// ---- in forward ----

// A tensor to be filled with what backward will need, for `slot` < HST_CUSTOM_SAVED; NULL if there will be no backward,
// or after an error.
HST_API hst_tensor *hst_custom_save(hst_custom_call *call, int slot, hst_dtype dtype, int rank, const int64_t *shape);

// ---- in backward ----

HST_API hst_tensor *hst_custom_saved(hst_custom_call *call, int slot); // what forward saved there, or NULL

// dy of result i, complete, in the dtype in which the result is seen; NULL, which means zero, if the loss does not
// depend on it.
HST_API hst_tensor *hst_custom_output_gradient(hst_custom_call *call, int i);

// Where to put dx of argument i: in the accumulator's dtype, contiguous, of its shape, holding zeros; NULL if nobody
// wants it. The library adds it to what there is and rounds it to where it goes.
HST_API hst_tensor *hst_custom_input_gradient(hst_custom_call *call, int i);

#ifdef __cplusplus
}
#endif
#endif
