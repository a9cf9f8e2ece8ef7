// safetensors_header.c: the header of a safetensors file: JSON to records and back, and the rules that they keep.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/file.h"
#include "models/safetensors_header.h"
#include "tensor/context.h"

enum { MAX_NAME = 1024 };

// In the order of the reference's enum, by which its writer sorts. Sizes are the file's: F32 is 4 bytes in every build.
static const struct {
    const char *name;
    hst_dtype dtype;
    uint64_t size;
} dtypes[] = {
    {"U8", HST_U8, 1},   {"F16", HST_F16, 2}, {"BF16", HST_BF16, 2}, {"I32", HST_I32, 4},
    {"F32", HST_F32, 4}, {"F64", HST_F64, 8}, {"I64", HST_I64, 8},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

int hst_header_order(hst_dtype dtype) {
    int row = 0;
    while (dtypes[row].dtype != dtype) row++;
    return row;
}

bool hst_defect(const hst_safetensors *file, const char *tensor, const char *format, ...) {
    char what[300], shown[HST_SHOWN_PATH];
    int length = tensor ? snprintf(what, sizeof what, "tensor '%.64s' ", tensor) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what + length, sizeof what - (size_t)length, format, arguments);
    va_end(arguments);
    for (char *p = what; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) *p = '?';
    hst_fail(file->ctx, HST_ERROR_FORMAT, "%s: %s", hst_shown_path(file->path, shown), what);
    return false;
}

// ---- the header: JSON to records and pairs ----

// Room for one element more. An array doubles when its count reaches a power of two from 16 on. NULL: no memory, and
// the old array is still the caller's.
static void *room(hst_context *ctx, void *array, int count, size_t width) {
    if (count > 0 && (count < 16 || (count & (count - 1)) != 0)) return array;
    void *larger = hst_workspace(ctx, (size_t)(count < 16 ? 16 : 2 * count) * width);
    if (larger && count > 0) memcpy(larger, array, (size_t)count * width);
    if (larger) hst_workspace_free(ctx, array);
    return larger;
}

static bool read_dtype(hst_safetensors *file, hst_json *in, hst_record *r) {
    const char *name = hst_json_string(in);
    if (!name) return false;
    for (int row = 0; row < DTYPES; row++)
        if (!strcmp(name, dtypes[row].name)) {
            r->entry.dtype = dtypes[row].dtype;
            return true;
        }
    return hst_defect(file, r->entry.name, "has dtype '%.32s'; F32, F16, BF16, F64, I32, I64 and U8 can be read", name);
}

static bool read_shape(hst_safetensors *file, hst_json *in, hst_record *r) {
    hst_json_enter(in, '[');
    while (hst_json_next(in)) {
        uint64_t dim = hst_json_unsigned(in);
        if (r->entry.rank == HST_MAX_RANK)
            return hst_defect(file, r->entry.name, "has more than %d dimensions", HST_MAX_RANK);
        if (dim > INT64_MAX)
            return hst_defect(file, r->entry.name, "has a dimension of %" PRIu64 "; it must be below 2^63", dim);
        r->entry.shape[r->entry.rank++] = (int64_t)dim;
    }
    return !in->error;
}

static bool read_offsets(hst_safetensors *file, hst_json *in, hst_record *r) {
    uint64_t offsets[2] = {0, 0};
    int count = 0;
    for (hst_json_enter(in, '['); hst_json_next(in); count++) {
        uint64_t offset = hst_json_unsigned(in);
        if (count < 2) offsets[count] = offset;
    }
    r->begin = offsets[0];
    r->end = offsets[1];
    if (!in->error && count != 2)
        return hst_defect(file, r->entry.name, "has %d data_offsets; they must be two, begin and end", count);
    return !in->error;
}

static bool read_tensor(hst_safetensors *file, hst_json *in, const char *name) {
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    static bool (*const read[])(hst_safetensors *, hst_json *, hst_record *) = {read_dtype, read_shape, read_offsets};
    hst_record r = {.entry = {.name = name}};
    bool seen[3] = {false, false, false};
    hst_json_enter(in, '{');
    while (hst_json_next(in)) {
        int f = 0;
        while (f < 3 && strcmp(in->key, fields[f]) != 0) f++;
        if (f == 3) { // the reference reader skips what it does not know
            hst_json_skip(in);
            continue;
        }
        if (seen[f]) return hst_defect(file, name, "has the field '%s' twice", fields[f]);
        seen[f] = true;
        if (!read[f](file, in, &r)) return false;
    }
    for (int f = 0; f < 3 && !in->error; f++)
        if (!seen[f]) return hst_defect(file, name, "has no field '%s'", fields[f]);
    size_t length = strlen(name);
    if (length > MAX_NAME)
        return hst_defect(file, name, "has a name of %zu bytes; at most %d are read", length, MAX_NAME);
    hst_record *records = in->error ? NULL : room(file->ctx, file->records, file->count, sizeof r);
    if (!records) return false;
    file->records = records;
    file->records[file->count++] = r;
    return true;
}

static bool read_metadata(hst_safetensors *file, hst_json *in) {
    hst_json_enter(in, '{');
    while (hst_json_next(in)) {
        hst_pair p = {.key = in->key, .value = hst_json_string(in)};
        hst_pair *metadata = p.value ? room(file->ctx, file->metadata, file->pairs, sizeof p) : NULL;
        if (!metadata) return false;
        file->metadata = metadata;
        file->metadata[file->pairs++] = p;
    }
    return !in->error;
}

bool hst_header_parse(hst_safetensors *file, size_t size) {
    hst_json in = hst_json_open(file->header, size);
    bool ok = hst_json_enter(&in, '{'), metadata = false;
    while (ok && hst_json_next(&in)) {
        if (strcmp(in.key, "__metadata__") != 0) {
            ok = read_tensor(file, &in, in.key);
        } else {
            if (metadata) return hst_defect(file, NULL, "the header has '__metadata__' twice");
            metadata = true;
            ok = read_metadata(file, &in);
        }
    }
    if (ok) hst_json_end(&in);
    char problem[HST_JSON_PROBLEM];
    return in.error ? hst_defect(file, NULL, "header, %s", hst_json_problem(&in, problem)) : ok;
}

// ---- the layout: names are new, and the data is covered once and to its end ----

static int by_name(const void *a, const void *b) {
    const hst_record *const *x = a, *const *y = b;
    return strcmp((*x)->entry.name, (*y)->entry.name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const hst_pair *)a)->key, ((const hst_pair *)b)->key);
}

static int by_offset(const void *a, const void *b) {
    const hst_record *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return by_name(&x, &y);
}

static void sort(void *array, int count, size_t width, int (*compare)(const void *, const void *)) {
    if (count > 1) qsort(array, (size_t)count, width, compare);
}

static bool check_names(hst_safetensors *file) {
    file->by_name = hst_workspace(file->ctx, (size_t)file->count * sizeof *file->by_name + 1);
    if (!file->by_name) return false;
    for (int i = 0; i < file->count; i++) file->by_name[i] = &file->records[i];
    sort(file->by_name, file->count, sizeof *file->by_name, by_name);
    sort(file->metadata, file->pairs, sizeof *file->metadata, by_key);
    for (int i = 1; i < file->count; i++)
        if (by_name(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return hst_defect(file, file->by_name[i]->entry.name, "is there twice");
    for (int i = 1; i < file->pairs; i++)
        if (by_key(&file->metadata[i - 1], &file->metadata[i]) == 0)
            return hst_defect(file, NULL, "the metadata has '%.64s' twice", file->metadata[i].key);
    return true;
}

bool hst_header_check(hst_safetensors *file, uint64_t data_bytes) {
    uint64_t at = 0;
    sort(file->records, file->count, sizeof *file->records, by_offset);
    if (!check_names(file)) return false;
    for (int i = 0; i < file->count; i++) {
        hst_record *r = &file->records[i];
        uint64_t bytes = 1;
        bool overflow = false;
        if (r->begin != at || r->end < r->begin)
            return hst_defect(file, r->entry.name,
                              "has data_offsets [%" PRIu64 ",%" PRIu64 "]; they must begin at %" PRIu64
                              ", where the data before ends, and not end before that",
                              r->begin, r->end, at);
        for (int d = 0; d < r->entry.rank; d++)
            overflow |= __builtin_mul_overflow(bytes, (uint64_t)r->entry.shape[d], &bytes);
        overflow |= __builtin_mul_overflow(bytes, dtypes[hst_header_order(r->entry.dtype)].size, &bytes);
        if (overflow) return hst_defect(file, r->entry.name, "has a shape of 2^64 bytes or more");
        if (r->end - r->begin != bytes)
            return hst_defect(file, r->entry.name, "has %" PRIu64 " bytes of data; its shape and dtype need %" PRIu64,
                              r->end - r->begin, bytes);
        r->entry.bytes = bytes;
        at = r->end;
    }
    if (at != data_bytes)
        return hst_defect(file, NULL, "its header describes %" PRIu64 " bytes of data, it has %" PRIu64, at,
                          data_bytes);
    return true;
}

// ---- the sum ----

const char *hst_header_sum(const hst_safetensors *file, hst_sha256 *hash, char text[HST_SHA256_TEXT]) {
    for (int i = 0; i < file->pairs; i++) {
        const hst_pair *p = &file->metadata[i];
        if (!strcmp(p->key, HST_SUM_KEY)) continue;
        hst_sha256_add(hash, p->key, strlen(p->key) + 1);
        hst_sha256_add(hash, p->value, strlen(p->value) + 1);
    }
    return hst_sha256_end(hash, text);
}

// ---- writing ----

static void put_tensor(hst_json_writer *out, const hst_entry *e, uint64_t begin) {
    hst_json_put_key(out, e->name);
    hst_json_put_open(out, '{');
    hst_json_put_key(out, "dtype");
    hst_json_put_string(out, dtypes[hst_header_order(e->dtype)].name);
    hst_json_put_key(out, "shape");
    hst_json_put_open(out, '[');
    for (int d = 0; d < e->rank; d++) hst_json_put_integer(out, e->shape[d]);
    hst_json_put_close(out, ']');
    hst_json_put_key(out, "data_offsets");
    hst_json_put_open(out, '[');
    hst_json_put_unsigned(out, begin);
    hst_json_put_unsigned(out, begin + e->bytes);
    hst_json_put_close(out, ']');
    hst_json_put_close(out, '}');
}

uint64_t hst_header_put(hst_json_writer *out, const hst_entry *entries, int count, const char *const *metadata,
                        int pairs) {
    uint64_t at = 0;
    hst_json_put_open(out, '{');
    hst_json_put_key(out, "__metadata__");
    hst_json_put_open(out, '{');
    hst_json_put_key(out, "format");
    hst_json_put_string(out, "pt");
    for (int i = 0; i < pairs; i++) {
        hst_json_put_key(out, metadata[2 * i]);
        hst_json_put_string(out, metadata[2 * i + 1]);
    }
    hst_json_put_key(out, HST_SUM_KEY);
    hst_json_put_string(out, HST_NO_SUM);
    hst_json_put_close(out, '}');
    for (int i = 0; i < count; at += entries[i++].bytes) put_tensor(out, &entries[i], at);
    hst_json_put_close(out, '}');
    return at;
}
