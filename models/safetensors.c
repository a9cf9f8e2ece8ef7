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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/file.h"
#include "models/safetensors_header.h"
#include "tensor/context.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the data is little-endian and is copied as it is"
#endif

// ---- opening ----

static hst_safetensors *new_file(hst_context *ctx, const char *path) {
    hst_safetensors *file = hst_workspace(ctx, sizeof *file);
    if (file) *file = (hst_safetensors){.ctx = ctx, .path = path};
    return file;
}

static bool check_sum(const hst_safetensors *file, uint64_t data_bytes) {
    const char *wanted = hst_safetensors_metadata(file, HST_SUM_KEY);
    char sum[HST_SHA256_TEXT];
    if (!wanted) return true;
    hst_sha256 hash = hst_sha256_begin();
    hst_sha256_add(&hash, file->data, data_bytes);
    if (!strcmp(hst_header_sum(file, &hash, sum), wanted)) return true;
    return hst_defect(file, NULL, "it is damaged: it does not have the sum that its metadata gives (%s)", HST_SUM_KEY);
}

static bool read_file(hst_safetensors *file, int fd, uint64_t size) {
    unsigned char prefix[HST_HEADER_PREFIX];
    uint64_t n = 0;
    if (size < HST_HEADER_PREFIX)
        return hst_defect(file, NULL,
                          "only %" PRIu64 " bytes; the first 8 of a safetensors file give its header's size", size);
    if (!hst_read_file(file->ctx, file->path, fd, prefix, HST_HEADER_PREFIX)) return false;
    for (int i = HST_HEADER_PREFIX; i-- > 0;) n = n << 8 | prefix[i];
    if (n > HST_HEADER_MOST)
        return hst_defect(file, NULL,
                          "not a safetensors file: its first 8 bytes announce a header of %" PRIu64
                          " bytes; at most %d are allowed",
                          n, HST_HEADER_MOST);
    uint64_t rest = size - HST_HEADER_PREFIX, bytes = rest - n;
    if (n > rest)
        return hst_defect(file, NULL,
                          "not a safetensors file, or cut short: a header of %" PRIu64
                          " bytes is announced, but only %" PRIu64 " follow",
                          n, rest);
    file->header = hst_workspace(file->ctx, n + 1);
    if (!file->header || !hst_read_file(file->ctx, file->path, fd, file->header, n)) return false;
    if (!hst_header_parse(file, n) || !hst_header_check(file, bytes)) return false;
    file->data = hst_workspace(file->ctx, bytes + 1);
    if (!file->data || !hst_read_file(file->ctx, file->path, fd, file->data, bytes)) return false;
    for (int i = 0; i < file->count; i++) file->records[i].entry.data = file->data + file->records[i].begin;
    return check_sum(file, bytes);
}

hst_safetensors *hst_safetensors_open(hst_context *ctx, const char *path) {
    if (hst_get_status(ctx) != HST_OK) return NULL;
    if (!path) return hst_fail(ctx, HST_ERROR_VALUE, "a model's file is to be read, but its path is NULL"), NULL;
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
    hst_workspace_free(ctx, file->by_name);
    hst_workspace_free(ctx, file->records);
    hst_workspace_free(ctx, file->metadata);
    hst_workspace_free(ctx, file);
}

int hst_safetensors_count(const hst_safetensors *file) { return file->count; }
const hst_entry *hst_safetensors_entry(const hst_safetensors *file, int i) { return &file->records[i].entry; }

static int is_named(const void *name, const void *record) {
    return strcmp(name, (*(const hst_record *const *)record)->entry.name);
}

const hst_entry *hst_safetensors_find(const hst_safetensors *file, const char *name) {
    const hst_record *const *found = bsearch(name, file->by_name, (size_t)file->count, sizeof *file->by_name, is_named);
    return found ? &(*found)->entry : NULL;
}

static int has_key(const void *key, const void *pair) { return strcmp(key, ((const hst_pair *)pair)->key); }

const char *hst_safetensors_metadata(const hst_safetensors *file, const char *key) {
    const hst_pair *found =
        file->pairs ? bsearch(key, file->metadata, (size_t)file->pairs, sizeof *file->metadata, has_key) : NULL;
    return found ? found->value : NULL;
}

// ---- writing ----

// The reference writer's order: types from the end of its enum, then names.
static int by_dtype(const void *a, const void *b) {
    const hst_entry *x = a, *y = b;
    int rows = hst_header_order(y->dtype) - hst_header_order(x->dtype);
    return rows ? rows : strcmp(x->name, y->name);
}

// Prefix and header, padded to a multiple of 8, in new memory; without data after an error.
static hst_span make_header(hst_context *ctx, const hst_entry *entries, int count, const char *const *metadata,
                            int pairs, uint64_t *data_bytes) {
    hst_json_writer out = hst_json_into(NULL, 0);
    *data_bytes = hst_header_put(&out, entries, count, metadata, pairs);
    size_t length = out.length, n = (length + 7) / 8 * 8;
    char *text = hst_workspace(ctx, HST_HEADER_PREFIX + n + 1);
    if (!text) return (hst_span){NULL, 0};
    for (int i = 0; i < HST_HEADER_PREFIX; i++) text[i] = (char)((uint64_t)n >> 8 * i);
    out = hst_json_into(text + HST_HEADER_PREFIX, n + 1);
    hst_header_put(&out, entries, count, metadata, pairs);
    memset(text + HST_HEADER_PREFIX + length, ' ', n - length);
    return (hst_span){text, HST_HEADER_PREFIX + n};
}

static bool is_utf8(const char *text) { return hst_utf8_prefix(text, strlen(text)) == strlen(text); }

// What could not be read back is not written: two tensors of one name, a size that is not its shape's.
static bool check_header(hst_safetensors *file, hst_span header, uint64_t data_bytes) {
    size_t n = header.bytes - HST_HEADER_PREFIX;
    if (n > HST_HEADER_MOST)
        return hst_defect(file, NULL, "a header of %zu bytes; at most %d are allowed", n, HST_HEADER_MOST);
    file->header = hst_workspace(file->ctx, n);
    if (!file->header) return false;
    memcpy(file->header, (const char *)header.data + HST_HEADER_PREFIX, n);
    return hst_header_parse(file, n) && hst_header_check(file, data_bytes);
}

// The metadata come first, and quotes in strings have a backslash, so that the first place found is the sum's.
static void write_sum(const hst_safetensors *file, const hst_span *spans, int count) {
    hst_sha256 hash = hst_sha256_begin();
    char sum[HST_SHA256_TEXT], *header = (char *)spans[0].data + HST_HEADER_PREFIX;
    for (int i = 1; i < count; i++) hst_sha256_add(&hash, spans[i].data, spans[i].bytes);
    memcpy(strstr(header, "\"" HST_SUM_KEY "\":\"") + sizeof HST_SUM_KEY + 3, hst_header_sum(file, &hash, sum), 64);
}

hst_status hst_safetensors_write(hst_context *ctx, const char *path, const hst_entry *entries, int count,
                                 const char *const *metadata, int pairs) {
    if (hst_get_status(ctx) != HST_OK) return hst_get_status(ctx);
    if (!path) return hst_fail(ctx, HST_ERROR_VALUE, "a model's file is to be written, but its path is NULL");
    hst_safetensors *check = new_file(ctx, path);
    hst_entry *sorted = hst_workspace(ctx, ((size_t)count + 1) * sizeof *sorted);
    hst_span *spans = hst_workspace(ctx, ((size_t)count + 1) * sizeof *spans), header = {NULL, 0};
    bool ok = check && sorted && spans;
    for (int i = 0; i < count && ok; i++)
        if (!is_utf8(entries[i].name)) ok = hst_defect(check, entries[i].name, "has a name that is not UTF-8");
    for (int i = 0; i < 2 * pairs && ok; i++)
        if (!is_utf8(metadata[i])) ok = hst_defect(check, NULL, "the metadata '%.64s' is not UTF-8", metadata[i]);
    if (ok) {
        uint64_t data_bytes;
        for (int i = 0; i < count; i++) sorted[i] = entries[i];
        if (count > 1) qsort(sorted, (size_t)count, sizeof *sorted, by_dtype);
        header = spans[0] = make_header(ctx, sorted, count, metadata, pairs, &data_bytes);
        for (int i = 0; i < count; i++) spans[i + 1] = (hst_span){sorted[i].data, sorted[i].bytes};
        if (header.data && check_header(check, header, data_bytes)) {
            write_sum(check, spans, count + 1);
            hst_replace_file(ctx, path, spans, count + 1);
        }
    }
    hst_workspace_free(ctx, (void *)header.data);
    hst_workspace_free(ctx, spans);
    hst_workspace_free(ctx, sorted);
    hst_safetensors_close(check);
    return hst_get_status(ctx);
}
