// safetensors.h: reading and writing safetensors files (https://github.com/huggingface/safetensors, format text in its
// README). Nothing here knows about models.
#ifndef HST_SAFETENSORS_H
#define HST_SAFETENSORS_H

#include "tensor/tensor.h"

typedef struct hst_entry {
    const char *name;
    hst_dtype dtype;
    int rank;
    int64_t shape[HST_MAX_RANK];
    const void *data; // little-endian, row-major; in an opened file not aligned: copy out, never cast
    size_t bytes;
} hst_entry;

typedef struct hst_safetensors hst_safetensors;

// Opens and checks a whole file: every rule of the reference reader, and duplicate names. NULL after recording one
// sentence with the path. Entries and metadata live until hst_safetensors_close (NULL accepted).
hst_safetensors *hst_safetensors_open(hst_context *ctx, const char *path);
void hst_safetensors_close(hst_safetensors *file);

int hst_safetensors_count(const hst_safetensors *file);
const hst_entry *hst_safetensors_entry(const hst_safetensors *file, int i);           // in the order of their data
const hst_entry *hst_safetensors_find(const hst_safetensors *file, const char *name); // NULL: not there
const char *hst_safetensors_metadata(const hst_safetensors *file, const char *key);   // NULL: not there

// Writes atomically: a temporary file in the same folder, every write checked, fsync, rename, fsync of the folder. On
// an error the old file is intact and the temporary one gone. metadata: `pairs` keys and values in turn. Entries are
// sorted as the reference writer does (dtype, then name).
hst_status hst_safetensors_write(hst_context *ctx, const char *path, const hst_entry *entries, int count,
                                 const char *const *metadata, int pairs);

#endif
