// entry.h: tensors to entries of a safetensors file and back.
#ifndef HST_ENTRY_H
#define HST_ENTRY_H

#include "models/safetensors.h"

enum { HST_MAX_NAME = 192, HST_MAX_PREFIX = 96 }; // bytes of a tensor's name in a model file, of a prefix; one more

// A list of entries with names and data of its own.
typedef struct hst_entries {
    hst_context *ctx;
    hst_dtype dtype; // f32, f16 or bf16: of those added
    hst_entry *items;
    char (*names)[HST_MAX_NAME];
    int count, capacity;
} hst_entries;

bool hst_entries_begin(hst_entries *entries, hst_context *ctx, hst_dtype dtype, int capacity);
void hst_entries_end(hst_entries *entries);

// Adds the elements of `view`, a tensor or view, under another shape with as many. An f16 that cannot hold one of them
// is an error. f32 tensors go into files as they are in memory: F64 in the double build.
bool hst_entries_add(hst_entries *entries, const char *name, int rank, const int64_t *shape, hst_tensor *view);

// The entry whose name printf would write; NULL: not there.
const hst_entry *hst_entry_find(const hst_safetensors *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// How many tensors of this name a file has behind a prefix, `given` or any that ends with a dot or is empty, and the
// prefixes of the first two. One with more than HST_MAX_PREFIX - 1 - `more` bytes is none.
int hst_entry_prefixes(const hst_safetensors *file, const char *name, const char *given, int more,
                       char prefixes[2][HST_MAX_PREFIX]);

bool hst_entry_is_float(const hst_entry *entry);
bool hst_entry_has_shape(const hst_entry *entry, int rank, const int64_t *shape); // false for NULL

// An entry of a floating-point type into a tensor or view with as many elements.
bool hst_entry_copy(const hst_entry *entry, hst_tensor *to);

// The entry `name`, which must have this shape, into `view`.
bool hst_entry_read(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name, int rank,
                    const int64_t *shape, hst_tensor *view);

// The same for a tensor or view of value's elements in the order of files; the entry must have value's shape.
bool hst_entry_load(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name,
                    hst_tensor *value, hst_tensor *view);

#endif
