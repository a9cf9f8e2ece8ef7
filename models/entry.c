// entry.c: tensors to entries of a safetensors file and back (entry.h).
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "autograd/op.h"
#include "models/entry.h"

// ---- writing ----

bool hst_entries_begin(hst_entries *entries, hst_context *ctx, hst_dtype dtype, int capacity) {
    *entries = (hst_entries){.ctx = ctx, .dtype = dtype, .capacity = capacity};
    entries->items = hst_workspace(ctx, (size_t)(capacity + 1) * sizeof *entries->items);
    entries->names = hst_workspace(ctx, (size_t)(capacity + 1) * sizeof *entries->names);
    return entries->items && entries->names;
}

void hst_entries_end(hst_entries *entries) {
    for (int i = 0; i < entries->count; i++) hst_workspace_free(entries->ctx, (void *)entries->items[i].data);
    hst_workspace_free(entries->ctx, entries->names);
    hst_workspace_free(entries->ctx, entries->items);
}

// 65520 is the first number that rounds to infinity.
static bool fits_f16(const hst_entries *entries, const char *name, hst_tensor *view, int64_t count) {
    double *values = hst_workspace(entries->ctx, (size_t)count * sizeof *values), beyond = 0;
    bool read = values && hst_copy_out(view, HST_F64, values) == HST_OK;
    for (int64_t i = 0; read && i < count && beyond == 0; i++)
        if (isfinite(values[i]) && fabs(values[i]) >= 65520) beyond = values[i];
    hst_workspace_free(entries->ctx, values);
    if (read && beyond != 0)
        hst_fail(entries->ctx, HST_ERROR_VALUE, "%s: holds %g, and f16 ends at 65504; bf16 has room for it", name,
                 beyond);
    return read && beyond == 0;
}

bool hst_entries_add(hst_entries *entries, const char *name, int rank, const int64_t *shape, hst_tensor *view) {
    if (!view) return false;
    int64_t count = hst_count(view);
    bool f32 = entries->dtype == HST_F32;
    size_t width = f32 ? sizeof(hst_real) : hst_dtype_size(entries->dtype);
    if (entries->dtype == HST_F16 && !fits_f16(entries, name, view, count)) return false;
    void *data = hst_workspace(entries->ctx, (size_t)count * width);
    if (!data) return false;
    hst_entry *e = &entries->items[entries->count];
    snprintf(entries->names[entries->count], HST_MAX_NAME, "%s", name);
    *e = (hst_entry){.name = entries->names[entries->count++],
                     .dtype = f32 && sizeof(hst_real) == 8 ? HST_F64 : entries->dtype,
                     .rank = rank,
                     .data = data,
                     .bytes = (size_t)count * width};
    memcpy(e->shape, shape, (size_t)rank * sizeof *shape);
    return hst_copy_out(view, entries->dtype, data) == HST_OK;
}

// ---- reading ----

const hst_entry *hst_entry_find(const hst_safetensors *file, const char *format, ...) {
    char name[HST_MAX_NAME];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return hst_safetensors_find(file, name);
}

int hst_entry_prefixes(const hst_safetensors *file, const char *name, const char *given, int more,
                       char prefixes[2][HST_MAX_PREFIX]) {
    int found = 0;
    size_t tail = strlen(name), most = HST_MAX_PREFIX - 1 - (size_t)more;
    for (int i = 0; i < hst_safetensors_count(file); i++) {
        const char *full = hst_safetensors_entry(file, i)->name;
        size_t length = strlen(full);
        if (length < tail || length - tail > most || strcmp(full + length - tail, name)) continue;
        length -= tail;
        bool is_one =
            given ? strlen(given) == length && !strncmp(full, given, length) : length == 0 || full[length - 1] == '.';
        if (is_one && found++ < 2) snprintf(prefixes[found - 1], HST_MAX_PREFIX, "%.*s", (int)length, full);
    }
    return found;
}

bool hst_entry_is_float(const hst_entry *e) {
    return e->dtype == HST_F32 || e->dtype == HST_F64 || e->dtype == HST_F16 || e->dtype == HST_BF16;
}

bool hst_entry_has_shape(const hst_entry *e, int rank, const int64_t *shape) {
    return e && e->rank == rank && !memcmp(e->shape, shape, (size_t)rank * sizeof *shape);
}

// A file's data is not aligned, and its F32 is 4 bytes in every build, so the values go through an array of doubles.
bool hst_entry_copy(const hst_entry *entry, hst_tensor *to) {
    hst_context *ctx = to->ctx;
    int64_t count = hst_count(to);
    double *values = hst_workspace(ctx, (size_t)count * sizeof *values);
    size_t width = count ? entry->bytes / (size_t)count : 0;
    for (int64_t i = 0; values && i < count; i++) {
        union {
            float f;
            uint16_t h;
            double d;
        } element;
        memcpy(&element, (const char *)entry->data + (size_t)i * width, width);
        values[i] = entry->dtype == HST_F32   ? (double)element.f
                    : entry->dtype == HST_F64 ? element.d
                    : entry->dtype == HST_F16 ? (double)hst_from_f16(element.h)
                                              : (double)hst_from_bf16(element.h);
    }
    if (values) hst_copy_in(to, HST_F64, values);
    hst_workspace_free(ctx, values);
    return ctx->status == HST_OK;
}

bool hst_entry_read(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name, int rank,
                    const int64_t *shape, hst_tensor *view) {
    const hst_entry *entry = hst_safetensors_find(file, name);
    if (!entry) return hst_fail(ctx, HST_ERROR_FORMAT, "%s: the tensor %s is missing", path, name), false;
    if (!hst_entry_is_float(entry))
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: the tensor %s is %s; a floating-point type is needed", path, name,
                        hst_dtype_name(entry->dtype)),
               false;
    if (!hst_entry_has_shape(entry, rank, shape)) {
        char wanted[96] = "";
        for (int i = 0, n = 0; i < rank && n < (int)sizeof wanted; i++)
            n += snprintf(wanted + n, sizeof wanted - (size_t)n, "%s%lld", i ? ", " : "", (long long)shape[i]);
        hst_fail(ctx, HST_ERROR_FORMAT, "%s: the tensor %s has another shape than the configuration asks for, (%s)",
                 path, name, wanted);
        return false;
    }
    return view && hst_entry_copy(entry, view);
}

bool hst_entry_load(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name,
                    hst_tensor *value, hst_tensor *view) {
    return hst_entry_read(ctx, path, file, name, value->rank, value->shape, view);
}
