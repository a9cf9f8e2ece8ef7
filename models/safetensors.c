// safetensors.c: the file format of safetensors.h.
//
//     0      u64, little-endian: N, the header's size, at most 100,000,000
//     8      N bytes of JSON: {"__metadata__":{"key":"value"},
//                              "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//     8 + N  the data of all tensors, little-endian, without holes or overlaps, to the end of the file
//
// A file is hostile until every rule has been checked: sizes are multiplied and added with overflow checks, and memory
// is bounded by what the file really holds. The writer checks its own header with the same code before it writes.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/file.h"
#include "models/json.h"
#include "models/safetensors.h"
#include "tensor/context.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the data is little-endian and is copied as it is"
#endif

enum { PREFIX = 8, MAX_HEADER = 100000000, MAX_NAME = 1024 };

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

static int row_of(hst_dtype dtype) {
    int row = 0;
    while (dtypes[row].dtype != dtype) row++;
    return row;
}

typedef struct record {
    hst_entry entry;
    uint64_t begin, end;
} record; // offsets into the data
typedef struct pair {
    const char *key, *value;
} pair;

struct hst_safetensors {
    hst_context *ctx;
    const char *path; // for messages while opening
    char *header;     // decoded in place: names and metadata are strings in it
    char *data;
    record *records;
    pair *metadata;
    int count, pairs;
};

// Records "path: tensor 'name' what", or "path: what" (tensor NULL): one line, whatever the names hold. Returns false.
static bool __attribute__((format(printf, 3, 4)))
defect(const hst_safetensors *file, const char *tensor, const char *format, ...) {
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

static hst_safetensors *new_file(hst_context *ctx, const char *path) {
    hst_safetensors *file = hst_workspace(ctx, sizeof *file);
    if (file) *file = (hst_safetensors){.ctx = ctx, .path = path};
    return file;
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

static bool read_dtype(hst_safetensors *file, hst_json *in, record *r) {
    const char *name = hst_json_string(in);
    if (!name) return false;
    for (int row = 0; row < DTYPES; row++)
        if (!strcmp(name, dtypes[row].name)) {
            r->entry.dtype = dtypes[row].dtype;
            return true;
        }
    return defect(file, r->entry.name, "has dtype '%.32s'; F32, F16, BF16, F64, I32, I64 and U8 can be read", name);
}

static bool read_shape(hst_safetensors *file, hst_json *in, record *r) {
    hst_json_enter(in, '[');
    while (hst_json_next(in)) {
        uint64_t dim = hst_json_unsigned(in);
        if (r->entry.rank == HST_MAX_RANK)
            return defect(file, r->entry.name, "has more than %d dimensions", HST_MAX_RANK);
        if (dim > INT64_MAX)
            return defect(file, r->entry.name, "has a dimension of %" PRIu64 "; it must be below 2^63", dim);
        r->entry.shape[r->entry.rank++] = (int64_t)dim;
    }
    return !in->error;
}

static bool read_offsets(hst_safetensors *file, hst_json *in, record *r) {
    uint64_t offsets[2] = {0, 0};
    int count = 0;
    for (hst_json_enter(in, '['); hst_json_next(in); count++) {
        uint64_t offset = hst_json_unsigned(in);
        if (count < 2) offsets[count] = offset;
    }
    r->begin = offsets[0];
    r->end = offsets[1];
    if (!in->error && count != 2)
        return defect(file, r->entry.name, "has %d data_offsets; they must be two, begin and end", count);
    return !in->error;
}

static bool read_tensor(hst_safetensors *file, hst_json *in, const char *name) {
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    static bool (*const read[])(hst_safetensors *, hst_json *, record *) = {read_dtype, read_shape, read_offsets};
    record r = {.entry = {.name = name}};
    bool seen[3] = {false, false, false};
    hst_json_enter(in, '{');
    while (hst_json_next(in)) {
        int f = 0;
        while (f < 3 && strcmp(in->key, fields[f]) != 0) f++;
        if (f == 3) { // the reference reader skips what it does not know
            hst_json_skip(in);
            continue;
        }
        if (seen[f]) return defect(file, name, "has the field '%s' twice", fields[f]);
        seen[f] = true;
        if (!read[f](file, in, &r)) return false;
    }
    for (int f = 0; f < 3 && !in->error; f++)
        if (!seen[f]) return defect(file, name, "has no field '%s'", fields[f]);
    size_t length = strlen(name);
    if (length > MAX_NAME) return defect(file, name, "has a name of %zu bytes; at most %d are read", length, MAX_NAME);
    record *records = in->error ? NULL : room(file->ctx, file->records, file->count, sizeof r);
    if (!records) return false;
    file->records = records;
    file->records[file->count++] = r;
    return true;
}

static bool read_metadata(hst_safetensors *file, hst_json *in) {
    hst_json_enter(in, '{');
    while (hst_json_next(in)) {
        pair p = {.key = in->key, .value = hst_json_string(in)};
        pair *metadata = p.value ? room(file->ctx, file->metadata, file->pairs, sizeof p) : NULL;
        if (!metadata) return false;
        file->metadata = metadata;
        file->metadata[file->pairs++] = p;
    }
    return !in->error;
}

static bool read_header(hst_safetensors *file, size_t size) {
    hst_json in = hst_json_open(file->header, size);
    bool ok = hst_json_enter(&in, '{'), metadata = false;
    while (ok && hst_json_next(&in)) {
        if (strcmp(in.key, "__metadata__") != 0) {
            ok = read_tensor(file, &in, in.key);
        } else {
            if (metadata) return defect(file, NULL, "the header has '__metadata__' twice");
            metadata = true;
            ok = read_metadata(file, &in);
        }
    }
    if (ok) hst_json_end(&in);
    char problem[HST_JSON_PROBLEM];
    return in.error ? defect(file, NULL, "header, %s", hst_json_problem(&in, problem)) : ok;
}

// ---- the layout: names are new, and the data is covered once and to its end ----

static int by_name(const void *a, const void *b) {
    return strcmp(((const record *)a)->entry.name, ((const record *)b)->entry.name);
}

static int by_key(const void *a, const void *b) { return strcmp(((const pair *)a)->key, ((const pair *)b)->key); }

static int by_offset(const void *a, const void *b) {
    const record *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return by_name(a, b);
}

static void sort(void *array, int count, size_t width, int (*compare)(const void *, const void *)) {
    if (count > 1) qsort(array, (size_t)count, width, compare);
}

static bool check_names(hst_safetensors *file) {
    sort(file->records, file->count, sizeof *file->records, by_name);
    sort(file->metadata, file->pairs, sizeof *file->metadata, by_key);
    for (int i = 1; i < file->count; i++)
        if (by_name(&file->records[i - 1], &file->records[i]) == 0)
            return defect(file, file->records[i].entry.name, "is there twice");
    for (int i = 1; i < file->pairs; i++)
        if (by_key(&file->metadata[i - 1], &file->metadata[i]) == 0)
            return defect(file, NULL, "the metadata has '%.64s' twice", file->metadata[i].key);
    return true;
}

static bool check_layout(hst_safetensors *file, uint64_t data_bytes) {
    uint64_t at = 0;
    if (!check_names(file)) return false;
    sort(file->records, file->count, sizeof *file->records, by_offset);
    for (int i = 0; i < file->count; i++) {
        record *r = &file->records[i];
        uint64_t bytes = 1;
        bool overflow = false;
        if (r->begin != at || r->end < r->begin)
            return defect(file, r->entry.name,
                          "has data_offsets [%" PRIu64 ",%" PRIu64 "]; they must begin at %" PRIu64
                          ", where the data before ends, and not end before that",
                          r->begin, r->end, at);
        for (int d = 0; d < r->entry.rank; d++)
            overflow |= __builtin_mul_overflow(bytes, (uint64_t)r->entry.shape[d], &bytes);
        overflow |= __builtin_mul_overflow(bytes, dtypes[row_of(r->entry.dtype)].size, &bytes);
        if (overflow) return defect(file, r->entry.name, "has a shape of 2^64 bytes or more");
        if (r->end - r->begin != bytes)
            return defect(file, r->entry.name, "has %" PRIu64 " bytes of data; its shape and dtype need %" PRIu64,
                          r->end - r->begin, bytes);
        r->entry.bytes = bytes;
        at = r->end;
    }
    if (at != data_bytes)
        return defect(file, NULL, "its header describes %" PRIu64 " bytes of data, it has %" PRIu64, at, data_bytes);
    return true;
}

// ---- opening ----

static bool read_file(hst_safetensors *file, int fd, uint64_t size) {
    unsigned char prefix[PREFIX];
    uint64_t n = 0;
    if (size < PREFIX)
        return defect(file, NULL, "only %" PRIu64 " bytes; the first 8 of a safetensors file give its header's size",
                      size);
    if (!hst_read_file(file->ctx, file->path, fd, prefix, PREFIX)) return false;
    for (int i = PREFIX; i-- > 0;) n = n << 8 | prefix[i];
    if (n > MAX_HEADER)
        return defect(file, NULL,
                      "not a safetensors file: its first 8 bytes announce a header of %" PRIu64
                      " bytes; at most %d are allowed",
                      n, MAX_HEADER);
    uint64_t rest = size - PREFIX, bytes = rest - n;
    if (n > rest)
        return defect(file, NULL,
                      "not a safetensors file, or cut short: a header of %" PRIu64
                      " bytes is announced, but only %" PRIu64 " follow",
                      n, rest);
    file->header = hst_workspace(file->ctx, n + 1);
    if (!file->header || !hst_read_file(file->ctx, file->path, fd, file->header, n)) return false;
    if (!read_header(file, n) || !check_layout(file, bytes)) return false;
    file->data = hst_workspace(file->ctx, bytes + 1);
    if (!file->data || !hst_read_file(file->ctx, file->path, fd, file->data, bytes)) return false;
    for (int i = 0; i < file->count; i++) file->records[i].entry.data = file->data + file->records[i].begin;
    return true;
}

hst_safetensors *hst_safetensors_open(hst_context *ctx, const char *path) {
    if (hst_get_status(ctx) != HST_OK) return NULL;
    hst_safetensors *file = new_file(ctx, path);
    if (!file) return NULL;
    uint64_t size = 0;
    int fd = hst_open_file(ctx, path, &size);
    bool ok = fd >= 0 && read_file(file, fd, size);
    if (fd >= 0) close(fd);
    if (ok) return file;
    hst_safetensors_close(file);
    return NULL;
}

void hst_safetensors_close(hst_safetensors *file) {
    if (!file) return;
    hst_context *ctx = file->ctx;
    hst_workspace_free(ctx, file->header);
    hst_workspace_free(ctx, file->data);
    hst_workspace_free(ctx, file->records);
    hst_workspace_free(ctx, file->metadata);
    hst_workspace_free(ctx, file);
}

int hst_safetensors_count(const hst_safetensors *file) { return file->count; }
const hst_entry *hst_safetensors_entry(const hst_safetensors *file, int i) { return &file->records[i].entry; }

const hst_entry *hst_safetensors_find(const hst_safetensors *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (!strcmp(file->records[i].entry.name, name)) return &file->records[i].entry;
    return NULL;
}

const char *hst_safetensors_metadata(const hst_safetensors *file, const char *key) {
    for (int i = 0; i < file->pairs; i++)
        if (!strcmp(file->metadata[i].key, key)) return file->metadata[i].value;
    return NULL;
}

// ---- writing ----

// The reference writer's order: types from the end of its enum, then names.
static int by_dtype(const void *a, const void *b) {
    const hst_entry *x = a, *y = b;
    int rows = row_of(y->dtype) - row_of(x->dtype);
    return rows ? rows : strcmp(x->name, y->name);
}

static void put_tensor(hst_json_writer *out, const hst_entry *e, uint64_t begin) {
    hst_json_put_key(out, e->name);
    hst_json_put_open(out, '{');
    hst_json_put_key(out, "dtype");
    hst_json_put_string(out, dtypes[row_of(e->dtype)].name);
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

// The JSON into `out`; the number of data bytes that it describes. Loaders of other projects want a "format" they know.
static uint64_t put_header(hst_json_writer *out, const hst_entry *entries, int count, const char *const *metadata,
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
    hst_json_put_close(out, '}');
    for (int i = 0; i < count; at += entries[i++].bytes) put_tensor(out, &entries[i], at);
    hst_json_put_close(out, '}');
    return at;
}

// Prefix and header, padded to a multiple of 8, in new memory; without data after an error.
static hst_span make_header(hst_context *ctx, const hst_entry *entries, int count, const char *const *metadata,
                            int pairs, uint64_t *data_bytes) {
    hst_json_writer out = hst_json_into(NULL, 0);
    *data_bytes = put_header(&out, entries, count, metadata, pairs);
    size_t length = out.length, n = (length + 7) / 8 * 8;
    char *text = hst_workspace(ctx, PREFIX + n + 1);
    if (!text) return (hst_span){NULL, 0};
    for (int i = 0; i < PREFIX; i++) text[i] = (char)((uint64_t)n >> 8 * i);
    out = hst_json_into(text + PREFIX, n + 1);
    put_header(&out, entries, count, metadata, pairs);
    memset(text + PREFIX + length, ' ', n - length);
    return (hst_span){text, PREFIX + n};
}

static bool is_utf8(const char *text) { return hst_utf8_prefix(text, strlen(text)) == strlen(text); }

// What could not be read back is not written: two tensors of one name, a size that is not its shape's.
static bool check_header(hst_safetensors *file, hst_span header, uint64_t data_bytes) {
    size_t n = header.bytes - PREFIX;
    if (n > MAX_HEADER) return defect(file, NULL, "a header of %zu bytes; at most %d are allowed", n, MAX_HEADER);
    file->header = hst_workspace(file->ctx, n);
    if (!file->header) return false;
    memcpy(file->header, (const char *)header.data + PREFIX, n);
    return read_header(file, n) && check_layout(file, data_bytes);
}

hst_status hst_safetensors_write(hst_context *ctx, const char *path, const hst_entry *entries, int count,
                                 const char *const *metadata, int pairs) {
    if (hst_get_status(ctx) != HST_OK) return hst_get_status(ctx);
    hst_safetensors *check = new_file(ctx, path);
    hst_entry *sorted = hst_workspace(ctx, ((size_t)count + 1) * sizeof *sorted);
    hst_span *spans = hst_workspace(ctx, ((size_t)count + 1) * sizeof *spans), header = {NULL, 0};
    bool ok = check && sorted && spans;
    for (int i = 0; i < count && ok; i++)
        if (!is_utf8(entries[i].name)) ok = defect(check, entries[i].name, "has a name that is not UTF-8");
    for (int i = 0; i < 2 * pairs && ok; i++)
        if (!is_utf8(metadata[i])) ok = defect(check, NULL, "the metadata '%.64s' is not UTF-8", metadata[i]);
    if (ok) {
        uint64_t data_bytes;
        for (int i = 0; i < count; i++) sorted[i] = entries[i];
        sort(sorted, count, sizeof *sorted, by_dtype);
        header = spans[0] = make_header(ctx, sorted, count, metadata, pairs, &data_bytes);
        for (int i = 0; i < count; i++) spans[i + 1] = (hst_span){sorted[i].data, sorted[i].bytes};
        if (header.data && check_header(check, header, data_bytes)) hst_replace_file(ctx, path, spans, count + 1);
    }
    hst_workspace_free(ctx, (void *)header.data);
    hst_workspace_free(ctx, spans);
    hst_workspace_free(ctx, sorted);
    hst_safetensors_close(check);
    return hst_get_status(ctx);
}
