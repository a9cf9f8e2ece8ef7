// context.c: opening and closing, the sticky error, scopes, and the doors to memory and threads.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "tensor/context.h"

const char *hst_version(void) { return HST_VERSION; }

static void open_parts(hst_context *ctx) {
    const hst_options *o = &ctx->options;
    ctx->backend = o->unsafe_accumulation ? &hst_backend_unsafe : hst_cpu_backend(o->isa);
    if (!ctx->backend) {
        hst_fail(ctx, HST_ERROR_UNSUPPORTED, "hst_open: isa \"%s\" is unknown or this CPU cannot run it; it runs %s",
                 o->isa, hst_isa_names());
        ctx->backend = hst_cpu_backend(NULL);
    }
    int threads = o->threads > 0 ? o->threads : hst_threads_default();
    ctx->threads = hst_threads_open(ctx->pool, threads);
    if (!ctx->threads) {
        hst_fail(ctx, HST_ERROR_MEMORY, "hst_open: %d threads could not be started; fewer may be possible", threads);
        ctx->threads = hst_threads_open(ctx->pool, 1);
    }
}

hst_context *hst_open(const hst_options *options) {
    hst_options o = {0};
    if (options) memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    bool half_allocator = !o.allocate != !o.deallocate;
    if (half_allocator) o.allocate = NULL;
    hst_pool *pool = hst_pool_open(&o);
    if (!pool) return NULL;
    hst_context *ctx = hst_pool_allocate(pool, sizeof *ctx, HST_WORKSPACE);
    if (ctx) {
        *ctx = (hst_context){.options = o, .pool = pool, .category = HST_ACTIVATIONS};
        hst_seed(ctx, o.seed);
        if (options && options->size == 0)
            hst_fail(ctx, HST_ERROR_VALUE, "hst_open: options.size is 0; it must be sizeof(hst_options)");
        if (half_allocator)
            hst_fail(ctx, HST_ERROR_VALUE,
                     "hst_open: options.allocate and options.deallocate go together; one is NULL");
        open_parts(ctx);
        if (ctx->threads) return ctx;
    }
    hst_pool_close(pool);
    return NULL;
}

void hst_close(hst_context *ctx) {
    if (!ctx) return;
    if (ctx->closing) ctx->closing(ctx);
    for (hst_tensor *t = ctx->tensors; t; t = t->next) // only an adopted tensor's owner has to hear of the end
        if (t->storage->adopted && t->storage->done) {
            t->storage->done(t->storage->data, t->storage->user);
            t->storage->done = NULL;
        }
    hst_threads_close(ctx->threads);
    hst_pool_close(ctx->pool); // the context itself lives in it
}

// ---- errors ----

hst_status hst_get_status(const hst_context *ctx) { return ctx ? ctx->status : HST_ERROR_MEMORY; }
const char *hst_error(const hst_context *ctx) { return ctx ? ctx->error : "no context: memory is out"; }

void hst_clear_error(hst_context *ctx) {
    if (!ctx) return;
    ctx->status = HST_OK;
    ctx->error[0] = 0;
}

hst_status hst_fail(hst_context *ctx, hst_status status, const char *format, ...) {
    if (!ctx || ctx->status != HST_OK) return status;
    ctx->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ctx->error, sizeof ctx->error, format, arguments);
    va_end(arguments);
    return status;
}

// ---- scopes ----

hst_status hst_scope_begin(hst_context *ctx) {
    if (!ctx) return HST_ERROR_MEMORY;
    if (ctx->depth + 1 < HST_MAX_DEPTH) {
        ctx->scopes[++ctx->depth] = (hst_scope){0};
        return HST_OK;
    }
    ctx->too_deep++; // so that its end is recognised
    return hst_fail(ctx, HST_ERROR_STATE, "hst_scope_begin: more than %d scopes inside each other", HST_MAX_DEPTH - 1);
}

// Takes t out of the innermost scope; false where an outer one owns it.
static bool leave_scope(hst_tensor *t) {
    hst_tensor **link = &t->ctx->scopes[t->ctx->depth].tensors;
    while (*link && *link != t) link = &(*link)->scope_next;
    if (!*link) return false;
    *link = t->scope_next;
    t->scope_next = NULL;
    return true;
}

hst_tensor *hst_own(hst_tensor *t) {
    if (t) leave_scope(t);
    return t;
}

static void move_out(hst_context *ctx, hst_tensor *result) {
    if (!leave_scope(result)) return;
    hst_scope *outer = &ctx->scopes[ctx->depth - 1];
    result->scope_next = outer->tensors;
    outer->tensors = result;
}

hst_tensor *hst_scope_end(hst_context *ctx, hst_tensor *result) {
    if (!ctx) return NULL;
    if (ctx->too_deep > 0) {
        ctx->too_deep--;
        return result;
    }
    if (ctx->depth == ctx->floor) {
        hst_fail(ctx, HST_ERROR_STATE, "hst_scope_end: no scope is open; each end needs its hst_scope_begin");
        return NULL;
    }
    if (result && result->ctx != ctx) {
        hst_fail(ctx, HST_ERROR_STATE, "hst_scope_end: the result belongs to another context");
        hst_fail(result->ctx, HST_ERROR_STATE,
                 "hst_scope_end: a tensor was given as the result of another context's scope");
        result = NULL;
    }
    if (ctx->scope_ended) ctx->scope_ended(ctx, result);
    if (result) move_out(ctx, result);
    hst_scope *scope = &ctx->scopes[ctx->depth--];
    for (hst_tensor *t = scope->tensors, *next; t; t = next) {
        next = t->scope_next;
        t->scope_next = NULL;
        hst_unretain(t);
    }
    return ctx->status == HST_OK ? result : NULL;
}

// ---- memory and threads ----

void *hst_allocate(hst_context *ctx, size_t bytes, hst_category category) {
    void *memory = hst_pool_allocate(ctx->pool, bytes, category);
    if (!memory) hst_fail(ctx, HST_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
    return memory;
}

void hst_free(hst_context *ctx, void *memory) { hst_pool_free(ctx->pool, memory); }
void *hst_workspace(hst_context *ctx, size_t bytes) { return hst_allocate(ctx, bytes, HST_WORKSPACE); }
void hst_workspace_free(hst_context *ctx, void *memory) { hst_pool_free(ctx->pool, memory); }
void hst_memory_stats(const hst_context *ctx, hst_memory *stats) {
    *stats = (hst_memory){0};
    if (ctx) hst_pool_stats(ctx->pool, stats);
}

void hst_parallel(hst_context *ctx, int64_t tasks, void (*body)(void *arg, int64_t task), void *arg) {
    hst_threads_run(ctx->threads, tasks, body, arg);
}

int hst_thread_count(const hst_context *ctx) { return ctx ? hst_threads_count(ctx->threads) : 0; }
const char *hst_isa(const hst_context *ctx) { return ctx ? ctx->backend->name : ""; }

void hst_log_message(hst_context *ctx, int level, const char *format, ...) {
    if (!ctx->options.log) return;
    char message[HST_MAX_ERROR];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ctx->options.log(level, message, ctx->options.user);
}
