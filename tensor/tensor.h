// tensor.h: contexts, dtypes, tensors, views, scopes.
//
//     hst_context *ctx = hst_open(NULL);
//     hst_scope_begin(ctx);
//     hst_tensor *x = hst_full(ctx, HST_F32, HST_SHAPE(2, 3), 0.5);
//     ...                                       // operations: ops/ops.h
//     if (hst_get_status(ctx)) puts(hst_error(ctx));
//     hst_scope_end(ctx, NULL);                 // x and everything computed since hst_scope_begin is gone
//     hst_close(ctx);
//
// Letters used everywhere: L length (time), B batch, D hidden size, V vocabulary, N layers, k matrices per SRU layer.
// Tensors are row-major, last dimension fastest; sequences are time-major, (L, B, D).
#ifndef HST_TENSOR_H
#define HST_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#define HST_API __attribute__((visibility("default")))

// The version of this header; hst_version() is that of the library. Until 1.0 a new minor version may change the API.
#define HST_VERSION "0.1.0"
#define HST_VERSION_NUMBER 100 // major * 10000 + minor * 100 + patch

// ---- status ----

typedef enum hst_status {
    HST_OK = 0,
    HST_ERROR_MEMORY,      // the allocator said no
    HST_ERROR_SHAPE,       // shapes that do not fit together
    HST_ERROR_DTYPE,       // a dtype that the operation does not take
    HST_ERROR_VALUE,       // a number out of its range: an index, an option
    HST_ERROR_STATE,       // a call at the wrong time: an ended tape, a scope closed twice, two contexts in one call
    HST_ERROR_IO,          // the operating system said no; the sentence holds its words
    HST_ERROR_FORMAT,      // a file that is not what it should be
    HST_ERROR_UNSUPPORTED, // not in this build or on this machine
    HST_ERROR_DIVERGED,    // the loss or a weight is no longer finite
    HST_CANCELLED          // the program's cancel callback said so
} hst_status;

// ---- contexts ----

typedef struct hst_context hst_context; // one per thread of use; two contexts share nothing
typedef struct hst_tensor hst_tensor;

enum { HST_LOG_INFO, HST_LOG_WARNING };

// All fields but `size` may be zero, which means the default.
typedef struct hst_options {
    size_t size;     // sizeof(hst_options), so that fields can be added
    int threads;     // 0: as many as CPU affinity and the cgroup's quota allow
    const char *isa; // which kernels: "auto" (NULL), or one of hst_isa_names, as "naive", "portable", "avx2", "avx512"
    uint64_t seed;   // of the context's random stream
    void *(*allocate)(size_t bytes, void *user); // NULL: malloc; give both or none
    void (*deallocate)(void *memory, size_t bytes, void *user);
    void (*log)(int level, const char *message, void *user); // NULL: silence
    bool (*cancel)(void *user); // asked before each operation; true stops with HST_CANCELLED
    void *user;                 // handed to the four callbacks
    bool unsafe_accumulation;   // for teaching and tests: the naive kernels, whatever `isa` says, with each addition
                                // rounded to the dtype of the result; hst_isa is then "unsafe" (ops/README.md)
} hst_options;

// Opens a context. NULL options mean all defaults. Returns NULL only when memory is out; every other failure (an
// unknown ISA, say) is the new context's first error. Close it with hst_close. Its threads do not survive a fork: the
// child may use contexts that it opens itself, not this one.
HST_API hst_context *hst_open(const hst_options *options);

// Ends the threads and frees every tensor of the context, kept ones too. NULL is accepted.
HST_API void hst_close(hst_context *ctx);

// The first error since the last hst_clear_error, as a code and as one sentence ("" when there is none). While it
// stands every operation on the context does nothing and returns NULL; releasing and closing still work.
HST_API hst_status hst_get_status(const hst_context *ctx);
HST_API const char *hst_error(const hst_context *ctx);
HST_API void hst_clear_error(hst_context *ctx);

// Records an application's own error under the same rule: the first one stays. Returns `status`. printf-like.
HST_API hst_status hst_fail(hst_context *ctx, hst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

HST_API int hst_thread_count(const hst_context *ctx);
HST_API const char *hst_isa(const hst_context *ctx); // the name of the kernels in use, "avx2"
HST_API const char *hst_isa_names(void);             // what this CPU can run, best first: "avx2 portable naive"
HST_API const char *hst_version(void);               // HST_VERSION of the library at run time

// ---- memory ----

typedef enum hst_category {
    HST_WEIGHTS,
    HST_GRADIENTS,
    HST_OPTIMIZER,
    HST_ACTIVATIONS,
    HST_WORKSPACE,
    HST_CATEGORIES // how many there are
} hst_category;

typedef struct hst_memory {
    int64_t current[HST_CATEGORIES]; // bytes in use now
    int64_t peak[HST_CATEGORIES];    // the most at any time
    int64_t current_total, peak_total;
    int64_t system_bytes;       // what the pool holds of the system's memory
    int64_t system_allocations; // how often it had to ask for more
} hst_memory;

HST_API void hst_memory_stats(const hst_context *ctx, hst_memory *stats);

// ---- dtypes ----

typedef enum hst_dtype { HST_F32, HST_F16, HST_BF16, HST_F64, HST_I32, HST_I64, HST_U8, HST_DTYPES } hst_dtype;

HST_API size_t hst_dtype_size(hst_dtype dtype);      // bytes an element
HST_API const char *hst_dtype_name(hst_dtype dtype); // "f32", "f16", "bf16", "f64", "i32", "i64", "u8"

// A row of symbols, each a number that stands for a byte or a character; not owned. u8, i32 or i64.
typedef struct hst_symbols {
    const void *data;
    hst_dtype dtype;
    int64_t count;
} hst_symbols;
static inline hst_symbols hst_byte_symbols(const void *bytes, int64_t count) {
    hst_symbols symbols = {bytes, HST_U8, count};
    return symbols;
}

// Which of the n entries of an axis an index names.
typedef enum hst_index_mode {
    HST_INDEX_RAISE,    // 0 .. n-1; any other is an error
    HST_INDEX_FROM_END, // the same, and -n .. -1 count from the end, as in Python
    HST_INDEX_CLIP,     // the nearest entry: the first below 0, the last from n on
    HST_INDEX_WRAP      // the index modulo n, which is never negative
} hst_index_mode;

// One number to 16 bits, to nearest, ties to even, subnormals, infinities and NaN (quietened) kept; and back, exactly.
HST_API uint16_t hst_to_f16(double x);
HST_API uint16_t hst_to_bf16(double x);
HST_API float hst_from_f16(uint16_t bits);
HST_API float hst_from_bf16(uint16_t bits);

// ---- making tensors ----
// Every tensor that a function returns belongs to the innermost scope and dies with it, unless you hst_keep it.

enum { HST_MAX_RANK = 8 };

// Rank and extents in one: hst_zeros(ctx, HST_F32, HST_SHAPE(2, 3)).
#ifdef __cplusplus
#define HST_SHAPE(...)                                                                                                 \
    ((int)std::initializer_list<int64_t>{__VA_ARGS__}.size()), (std::initializer_list<int64_t>{__VA_ARGS__}.begin())
#else
#define HST_SHAPE(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))), ((const int64_t[]){__VA_ARGS__})
#endif
#define HST_SCALAR 0, NULL

HST_API hst_tensor *hst_empty(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape); // uninitialised
HST_API hst_tensor *hst_zeros(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape);
HST_API hst_tensor *hst_full(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, double value);
HST_API hst_tensor *hst_uniform(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, double low,
                                double high); // from the context's random stream

// A copy of a plain row-major array whose elements have dtype `from`, converted to `dtype`.
HST_API hst_tensor *hst_from_array(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, hst_dtype from,
                                   const void *data);

// A tensor over the caller's memory, without a copy. The memory must outlive the tensor and all its views; `done` (or
// NULL) is called when the last of them is gone.
HST_API hst_tensor *hst_adopt(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, void *data,
                              void (*done)(void *data, void *user), void *user);

// ---- looking at tensors ----

HST_API hst_context *hst_context_of(const hst_tensor *t);
HST_API hst_dtype hst_dtype_of(const hst_tensor *t);
HST_API int hst_rank(const hst_tensor *t);
HST_API int64_t hst_dim(const hst_tensor *t, int axis); // negative axes count from the end
HST_API const int64_t *hst_shape(const hst_tensor *t);  // hst_rank(t) extents, as long as t lives
HST_API int64_t hst_count(const hst_tensor *t);         // elements
HST_API bool hst_is_contiguous(const hst_tensor *t);

// Reading and writing elements. All take NULL, the tensor of an operation that failed: then they do nothing and return
// HST_ERROR_STATE, 0 or NULL.

// Copies all elements to or from a plain row-major array of dtype `dtype`, converting. Writing bumps the version; a
// view that repeats elements (hst_broadcast_to) cannot be written.
HST_API hst_status hst_copy_out(const hst_tensor *t, hst_dtype dtype, void *array);
HST_API hst_status hst_copy_in(hst_tensor *t, hst_dtype dtype, const void *array);

// One element as a double (an i64 beyond 2^53 rounds); `index` has hst_rank(t) entries, NULL for the first element.
HST_API double hst_item(const hst_tensor *t, const int64_t *index);

// The elements themselves, for a contiguous tensor; NULL and an error for a strided view. hst_mutable_data bumps the
// version, so that backward refuses a graph that saved the old values.
HST_API const void *hst_data(const hst_tensor *t);
HST_API void *hst_mutable_data(hst_tensor *t);

// Writes a readable form, "f32 (2, 3)\n[[0.5, ...", long axes shortened, into text[size], as snprintf does: returns the
// length it would have, and always terminates when size > 0.
HST_API size_t hst_format(const hst_tensor *t, char *text, size_t size);

// ---- lifetime ----

// Opens a scope inside the current one; a training step is usually one.
HST_API hst_status hst_scope_begin(hst_context *ctx);

// Closes the innermost scope: its tensors die, and its part of the tape with them. `result` (or NULL) moves one scope
// out and is returned; if it was recorded here, this part of the tape moves out with it, so that a function may compute
// in a scope of its own. Outside all scopes, a tape lives until hst_backward has used it up.
HST_API hst_tensor *hst_scope_end(hst_context *ctx, hst_tensor *result);

// Takes a tensor into your hands: it outlives its scope until hst_release. Returns t. A view keeps its storage alive.
HST_API hst_tensor *hst_keep(hst_tensor *t);
HST_API void hst_release(hst_tensor *t); // NULL is accepted

// ---- randomness ----
// Philox4x32-10 (Salmon et al. 2011), keyed by (seed, step, operation, element): nothing depends on threads or history.

HST_API void hst_seed(hst_context *ctx, uint64_t seed);        // also restarts at step 0
HST_API void hst_random_step(hst_context *ctx, uint64_t step); // operations are numbered from 0 again

#ifdef __cplusplus
}
#endif
#endif
