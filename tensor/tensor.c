// tensor.c: making, reading and writing tensors, views, references.
#include <stdio.h>
#include <string.h>
#include "tensor/context.h"

char *hst_describe(const hst_tensor *t, char text[64]) {
    int n = snprintf(text, 64, "%s (", hst_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && n < 60; i++)
        n += snprintf(text + n, (size_t)(64 - n), i ? ", %lld" : "%lld", (long long)t->shape[i]);
    if (n < 62) snprintf(text + n, (size_t)(64 - n), ")");
    return text;
}

// ---- references ----

hst_tensor *hst_retain(hst_tensor *t) {
    t->references++;
    return t;
}

static void release_storage(hst_context *ctx, hst_storage *s) {
    if (--s->references > 0) return;
    if (!s->adopted)
        hst_free(ctx, s->data);
    else if (s->done)
        s->done(s->data, s->user);
    hst_free(ctx, s);
}

void hst_unretain(hst_tensor *t) {
    if (!t || --t->references > 0) return;
    hst_context *ctx = t->ctx;
    hst_unretain(t->grad);
    hst_unretain(t->row_ids);
    hst_unretain(t->row_values);
    for (int i = 0; i < 2; i++) hst_unretain(t->shadows[i]);
    release_storage(ctx, t->storage);
    if (t->previous)
        t->previous->next = t->next;
    else
        ctx->tensors = t->next;
    if (t->next) t->next->previous = t->previous;
    hst_free(ctx, t);
}

hst_tensor *hst_keep(hst_tensor *t) {
    if (!t) return NULL;
    t->keeps++;
    return hst_retain(t);
}

void hst_release(hst_tensor *t) {
    if (!t) return;
    if (t->keeps == 0) {
        hst_fail(t->ctx, HST_ERROR_STATE,
                 "hst_release: this tensor belongs to a scope; only what was kept with hst_keep is released");
        return;
    }
    t->keeps--;
    hst_unretain(t);
}

// ---- making ----

// A tensor without storage, in the innermost scope.
static hst_tensor *new_header(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape) {
    hst_tensor *t = hst_allocate(ctx, sizeof *t, ctx->category);
    if (!t) return NULL;
    hst_scope *scope = &ctx->scopes[ctx->depth];
    *t = (hst_tensor){
        .ctx = ctx, .dtype = dtype, .rank = rank, .references = 1, .next = ctx->tensors, .scope_next = scope->tensors};
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    scope->tensors = t;
    if (t->next) t->next->previous = t;
    ctx->tensors = t;
    return t;
}

// How many bytes such a tensor has, or would have if it did not repeat elements.
static bool check_extents(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    size_t total = hst_dtype_size(dtype); // of the extents that are not 0: the strides have to fit too
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        if (shape[i] < 0 || __builtin_mul_overflow(total, shape[i] ? (size_t)shape[i] : 1, &total) ||
            total > (size_t)1 << 52) {
            hst_fail(ctx, HST_ERROR_SHAPE, "a tensor with extent %lld at axis %d: negative, or too large together",
                     (long long)shape[i], i);
            return false;
        }
    }
    *bytes = empty ? 0 : total;
    return true;
}

static bool check_new(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    if (!ctx || ctx->status != HST_OK) return false;
    if ((unsigned)dtype < HST_DTYPES && rank >= 0 && rank <= HST_MAX_RANK && (shape || rank == 0))
        return check_extents(ctx, dtype, rank, shape, bytes);
    hst_fail(ctx, HST_ERROR_VALUE, "a tensor of dtype %d and rank %d%s: dtypes are 0 to %d, ranks 0 to %d", (int)dtype,
             rank, shape || rank == 0 ? "" : " without extents", HST_DTYPES - 1, HST_MAX_RANK);
    return false;
}

static hst_tensor *new_tensor(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, hst_storage storage) {
    size_t bytes;
    if (!check_new(ctx, dtype, rank, shape, &bytes)) return NULL;
    hst_storage *s = hst_allocate(ctx, sizeof *s, ctx->category);
    void *data = storage.adopted ? storage.data : s ? hst_allocate(ctx, bytes, ctx->category) : NULL;
    hst_tensor *t = s && (data || storage.adopted) ? new_header(ctx, dtype, rank, shape) : NULL;
    if (!t) {
        if (!storage.adopted) hst_free(ctx, data);
        hst_free(ctx, s);
        return NULL;
    }
    *s = storage;
    s->data = data;
    s->references = 1;
    t->storage = s;
    hst_row_major(rank, shape, t->stride);
    return t;
}

hst_tensor *hst_new(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape) {
    return new_tensor(ctx, dtype, rank, shape, (hst_storage){0});
}

hst_tensor *hst_view(hst_tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset) {
    size_t bytes;
    hst_tensor *view =
        check_extents(t->ctx, t->dtype, rank, shape, &bytes) ? new_header(t->ctx, t->dtype, rank, shape) : NULL;
    if (!view) return NULL;
    view->storage = t->storage;
    view->storage->references++;
    view->offset = offset;
    for (int i = 0; i < rank; i++) view->stride[i] = stride[i];
    return view;
}

hst_tensor *hst_empty(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape) {
    return hst_new(ctx, dtype, rank, shape);
}

hst_tensor *hst_zeros(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape) {
    hst_tensor *t = hst_new(ctx, dtype, rank, shape);
    if (t) memset(hst_raw(t), 0, (size_t)hst_count(t) * hst_dtype_size(dtype)); // zero is all bits zero in every dtype
    return t;
}

hst_tensor *hst_full(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, double value) {
    hst_tensor *t = hst_new(ctx, dtype, rank, shape);
    if (!t) return NULL;
    hst_target to = {hst_raw(t), dtype, false};
    for (int64_t i = 0, n = hst_count(t); i < n; i++) hst_store(to, i, value);
    return t;
}

hst_tensor *hst_from_array(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, hst_dtype from,
                           const void *data) {
    hst_tensor *t = hst_new(ctx, dtype, rank, shape);
    return t && hst_copy_in(t, from, data) == HST_OK ? t : NULL;
}

hst_tensor *hst_adopt(hst_context *ctx, hst_dtype dtype, int rank, const int64_t *shape, void *data,
                      void (*done)(void *data, void *user), void *user) {
    return new_tensor(ctx, dtype, rank, shape,
                      (hst_storage){.data = data, .done = done, .user = user, .adopted = true});
}

// ---- looking ----

hst_context *hst_context_of(const hst_tensor *t) {
    if (!t) return NULL;
    return t->ctx;
}
hst_dtype hst_dtype_of(const hst_tensor *t) {
    if (!t) return HST_F32;
    return t->dtype;
}
int hst_rank(const hst_tensor *t) {
    if (!t) return 0;
    return t->rank;
}

const int64_t *hst_shape(const hst_tensor *t) {
    if (!t) return NULL;
    return t->shape;
}

int64_t hst_dim(const hst_tensor *t, int axis) {
    if (!t) return 0;
    int i = axis < 0 ? axis + t->rank : axis;
    if (i >= 0 && i < t->rank) return t->shape[i];
    hst_fail(t->ctx, HST_ERROR_VALUE, "hst_dim: axis %d of a tensor of rank %d", axis, t->rank);
    return 0;
}

int64_t hst_count(const hst_tensor *t) {
    if (!t) return 0;
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    return count;
}

bool hst_is_contiguous(const hst_tensor *t) {
    if (!t) return false;
    bool contiguous = true;
    int64_t stride[HST_MAX_RANK];
    hst_row_major(t->rank, t->shape, stride);
    for (int i = 0; i < t->rank; i++) contiguous &= t->shape[i] <= 1 || t->stride[i] == stride[i];
    return contiguous || hst_count(t) == 0;
}

const void *hst_data(const hst_tensor *t) {
    if (!t) return NULL;
    if (hst_is_contiguous(t)) return hst_raw(t);
    hst_fail(t->ctx, HST_ERROR_SHAPE,
             "hst_data: the elements of this view do not lie side by side; hst_copy_out copies them");
    return NULL;
}

void *hst_mutable_data(hst_tensor *t) {
    if (!hst_data(t)) return NULL;
    hst_bump(t);
    return hst_raw(t);
}

double hst_item(const hst_tensor *t, const int64_t *index) {
    int64_t position = 0;
    for (int i = 0; t && i < t->rank; i++) {
        int64_t at = index ? index[i] : 0;
        if (at < 0 || at >= t->shape[i]) {
            hst_fail(t->ctx, HST_ERROR_VALUE, "hst_item: index %lld at axis %d, whose extent is %lld", (long long)at, i,
                     (long long)t->shape[i]);
            return 0;
        }
        position += at * t->stride[i];
    }
    return t ? hst_load((hst_source){hst_raw(t), t->dtype}, position) : 0;
}

// ---- copying ----

bool hst_copy_tensor(hst_tensor *to, const hst_tensor *from, bool add) {
    if (!to || !from) return false; // whoever failed to make them has said why
    hst_copy_args c = {.rank = to->rank, .from = {hst_raw(from), from->dtype}, .to = {hst_raw(to), to->dtype, add}};
    for (int i = 0; i < to->rank; i++) {
        c.shape[i] = to->shape[i];
        c.from_stride[i] = from->stride[i];
        c.to_stride[i] = to->stride[i];
    }
    return to->ctx->backend->copy(to->ctx, &c);
}

hst_tensor *hst_contiguous(hst_tensor *t) {
    if (hst_is_contiguous(t)) return t;
    hst_tensor *copy = hst_new(t->ctx, t->dtype, t->rank, t->shape);
    return copy && hst_copy_tensor(copy, t, false) ? copy : NULL;
}

hst_tensor *hst_in_dtype(hst_tensor *t, hst_dtype dtype) {
    if (!t || t->dtype == dtype) return t;
    hst_tensor *copy = hst_new(t->ctx, dtype, t->rank, t->shape);
    return copy && hst_copy_tensor(copy, t, false) ? copy : NULL;
}

// A header over a plain array, on the stack: enough for hst_copy_tensor.
static void array_header(hst_tensor *header, hst_storage *storage, const hst_tensor *like, hst_dtype dtype,
                         void *array) {
    *storage = (hst_storage){.data = array};
    *header = (hst_tensor){.ctx = like->ctx, .storage = storage, .dtype = dtype, .rank = like->rank};
    memcpy(header->shape, like->shape, sizeof like->shape);
    hst_row_major(like->rank, like->shape, header->stride);
}

static bool check_array(const hst_tensor *t, hst_dtype dtype, const void *array) {
    if (!array && hst_count(t) > 0) {
        hst_fail(t->ctx, HST_ERROR_VALUE, "a plain array of %lld elements is NULL", (long long)hst_count(t));
        return false;
    }
    if (hst_dtype_size(dtype) > 0) return true;
    hst_fail(t->ctx, HST_ERROR_DTYPE, "a plain array of dtype %d; dtypes are 0 to %d", (int)dtype, HST_DTYPES - 1);
    return false;
}

hst_status hst_copy_out(const hst_tensor *t, hst_dtype dtype, void *array) {
    if (!t) return HST_ERROR_STATE;
    if (t->ctx->status != HST_OK || !check_array(t, dtype, array)) return t->ctx->status;
    hst_tensor header;
    hst_storage storage;
    array_header(&header, &storage, t, dtype, array);
    hst_copy_tensor(&header, t, false);
    return t->ctx->status;
}

hst_status hst_copy_in(hst_tensor *t, hst_dtype dtype, const void *array) {
    if (!t) return HST_ERROR_STATE;
    if (t->ctx->status != HST_OK || !check_array(t, dtype, array)) return t->ctx->status;
    for (int i = 0; i < t->rank && hst_count(t) > 0; i++)
        if (t->stride[i] == 0 && t->shape[i] > 1)
            return hst_fail(t->ctx, HST_ERROR_STATE,
                            "hst_copy_in: this view repeats its elements along axis %d; write into the tensor that it "
                            "is a view of",
                            i);
    hst_tensor header;
    hst_storage storage;
    array_header(&header, &storage, t, dtype, (void *)array); // only read
    hst_copy_tensor(t, &header, false);
    hst_bump(t);
    return t->ctx->status;
}
