// sru_file.h: an SRU stack's tensors in a file, with the names and orientation of SRU 2.x or 3.x.
#ifndef HST_SRU_FILE_H
#define HST_SRU_FILE_H

#include "models/config.h"
#include "models/sru.h"

extern const hst_field hst_sru_fields[]; // of a stack's halfstep.config

// The prefix of the only stack in a file, or `given` after checking that there is one; false after hst_fail.
bool hst_sru_find_prefix(hst_context *ctx, const char *path, const hst_safetensors *file, const char *given,
                         char prefix[HST_MAX_PREFIX]);

// 2 or 3; 0 after hst_fail.
int hst_sru_version_of(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix);

// A configuration from names and shapes, and from `assumed` what they do not tell (sru_import.c).
bool hst_sru_infer(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix, int version,
                   const hst_sru_config *assumed, hst_sru_config *config);

// Whether the file's matrices are those of the configuration: to be asked before memory is taken for it.
bool hst_sru_fits(const hst_safetensors *file, const char *prefix, int version, const hst_sru_config *config);

// Whether a tensor's name is one of a stack's, and whether this stack has a tensor of this name.
bool hst_sru_is_name(const char *prefix, const char *name);
bool hst_sru_has_name(const hst_sru_config *config, const char *prefix, int version, const char *name);

int hst_sru_entry_count(const hst_sru *sru); // at most
bool hst_sru_collect(const hst_sru *sru, const char *prefix, int version, hst_entries *entries);

// All numbers of the stack; a tensor of a stack's name that it has no place for is an error.
bool hst_sru_read_entries(hst_sru *sru, const char *path, const hst_safetensors *file, const char *prefix, int version);

// ---- sru_save.c ----

bool hst_sru_check_form(hst_context *ctx, const char *who, int version, hst_dtype dtype); // of a file to be written

// A file's halfstep.config, checked against its shapes; without one hst_sru_infer, if `assumed` is not NULL.
bool hst_sru_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix,
                         int version, const hst_sru_config *assumed, hst_sru_config *config);

hst_sru *hst_sru_load_file(hst_parameters *list, const char *path, const hst_safetensors *file, const char *prefix,
                           const hst_sru_config *assumed); // hst_sru_load from an open file

#endif
