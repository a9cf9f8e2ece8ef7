// context.h: the insides of contexts and tensors, for the folders of the library itself.
#ifndef HST_CONTEXT_H
#define HST_CONTEXT_H

#include "tensor/backend.h"

typedef struct hst_pool hst_pool;       // pool.c
typedef struct hst_threads hst_threads; // threads.c
struct hst_tape;                        // autograd/tape.h
struct hst_region;                      // autograd/op.h
struct hst_regions;                     // amp/autocast.c
struct hst_node;                        //
struct hst_call;                        // autograd/op.h
struct hst_gradient;                    //

// A block of elements, shared by a tensor and its views.
typedef struct hst_storage {
    void *data;
    int references;
    uint32_t version;                     // bumped by each write in place
    void (*done)(void *data, void *user); // adopted memory: tells the owner
    void *user;
    bool adopted;
} hst_storage;

struct hst_tensor {
    hst_context *ctx;
    hst_storage *storage;
    hst_dtype dtype;
    int rank;
    int64_t shape[HST_MAX_RANK], stride[HST_MAX_RANK], offset; // in elements
    int references;              // one by its scope, one by each hst_keep, one by each node that needs it
    int keeps;                   // how many of them are the program's
    hst_tensor *previous, *next; // all tensors of the context
    hst_tensor *scope_next;      // in the scope that owns it

    // Slots of autograd/: the node that made it (an id, so that an ended tape leaves no dangling pointer), or, for a
    // leaf, where its gradient goes (an hst_request).
    uint64_t node;
    int node_output;
    int request;
    uint64_t pass; // the last backward that wrote grad
    hst_tensor *grad;
    hst_tensor *row_ids, *row_values; // instead of grad, if it is row-sparse: i64 (n), ascending; (n, ...)
    hst_tensor *shadows[2];           // its values in f16 and bf16, as of shadow_version (autograd/casts.h)
    uint32_t shadow_version[2];
    hst_dtype shown; // f16, bf16: operations are given this shadow in its place; HST_F32: the tensor itself
};

typedef struct hst_scope {
    hst_tensor *tensors;
} hst_scope;

enum { HST_MAX_DEPTH = 64, HST_MAX_ERROR = 512 };

struct hst_context {
    hst_options options;
    const hst_backend *backend;
    hst_pool *pool;
    hst_threads *threads;
    hst_status status;
    char error[HST_MAX_ERROR];
    hst_category category; // of the memory that tensors are given now
    hst_scope scopes[HST_MAX_DEPTH];
    int depth;    // 0: no scope open; tensors then live until hst_close
    int too_deep; // scopes that were refused and have not ended yet
    int floor;    // scopes up to this depth cannot end now: they are the caller's, while a callback runs
    hst_tensor *tensors;
    hst_random_key random;

    // Slots of upper floors.
    struct hst_tape *tape;
    void (*scope_ended)(hst_context *ctx, hst_tensor *result); // called before the tensors of scope `depth` die
    void (*closing)(hst_context *ctx);
    int no_grad;
    bool anomaly;
    const struct hst_region *region; // the innermost autocast region; NULL: none
    struct hst_regions *regions;
    int region_depth, region_floor; // regions up to the floor cannot end now, as scopes
    // Told of each call after its forward, then with dy and dx NULL and node NULL, and after its backward; or NULL.
    void (*observe)(hst_context *ctx, const struct hst_call *call, const struct hst_node *node, hst_tensor *const *dy,
                    const struct hst_gradient *dx);
    void *observer; // whose slot it is
};

// ---- pool.c: size classes, free lists, statistics ----
hst_pool *hst_pool_open(const hst_options *options);
void hst_pool_close(hst_pool *pool);
void *hst_pool_allocate(hst_pool *pool, size_t bytes, hst_category category); // 64-byte aligned, or NULL
void hst_pool_free(hst_pool *pool, void *memory);                             // NULL is accepted
void hst_pool_stats(const hst_pool *pool, hst_memory *stats);

// The one door to the pool for everything that belongs to a context; records HST_ERROR_MEMORY.
void *hst_allocate(hst_context *ctx, size_t bytes, hst_category category);
void hst_free(hst_context *ctx, void *memory);

// A message to the program's log callback, if it has one. printf-like.
void hst_log_message(hst_context *ctx, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

// ---- threads.c ----
hst_threads *hst_threads_open(hst_pool *pool, int count); // NULL: could not be started
void hst_threads_close(hst_threads *team);
int hst_threads_count(const hst_threads *team);
int hst_threads_default(void); // CPU affinity and the cgroup's quota
void hst_threads_run(hst_threads *team, int64_t tasks, void (*body)(void *arg, int64_t task), void *arg);

// ---- tensor.c ----
// shape[rank] may be NULL for rank 0. NULL after recording an error.
hst_tensor *hst_new(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape);
// A tensor over t's storage; it belongs to the innermost scope.
hst_tensor *hst_view(hst_tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset);
hst_tensor *hst_contiguous(hst_tensor *t);                // t itself, or a copy in the innermost scope
hst_tensor *hst_in_dtype(hst_tensor *t, hst_dtype dtype); // t itself, or a contiguous copy; NULL for NULL
hst_tensor *hst_own(hst_tensor *t); // a tensor just made leaves its scope; the caller has its one reference
bool hst_copy_tensor(hst_tensor *to, const hst_tensor *from, bool add); // same shape, any dtypes and strides
hst_tensor *hst_retain(hst_tensor *t); // the library's own references, beside hst_keep's
void hst_unretain(hst_tensor *t);      // NULL is accepted

static inline char *hst_raw(const hst_tensor *t) {
    return (char *)t->storage->data + (size_t)t->offset * hst_dtype_size(t->dtype);
}
static inline void hst_bump(hst_tensor *t) { t->storage->version++; }

// "f32 (2, 3)" into text; returns text.
char *hst_describe(const hst_tensor *t, char text[64]);

// ---- random.c: the key for the next random operation of this step ----
hst_random_key hst_next_key(hst_context *ctx);

// ---- dtype.c: any element as a number and back, for copies and printing ----
double hst_load(hst_source from, int64_t i);
void hst_store(hst_target to, int64_t i, double value);

// ---- format.c: x with so many significant digits, "." in every locale; returns the length ----
int hst_format_number(char text[32], double x, int digits);

#endif
