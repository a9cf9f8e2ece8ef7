// language_model_file.h: model files for the trainer, which adds what a checkpoint needs, and for conversions.
#ifndef HST_LANGUAGE_MODEL_FILE_H
#define HST_LANGUAGE_MODEL_FILE_H

#include "models/entry.h"
#include "models/models.h"

// hst_lm_save with further tensors and metadata (`pairs` keys and values in turn) in the same file.
hst_status hst_lm_save_with(const hst_lm *model, const char *path, const hst_entry *more, int more_count,
                            const char *const *metadata, int pairs);

// A file's configuration, checked against the shapes of its tensors.
bool hst_lm_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, hst_lm_config *config);

// The model's parameters from an open file of the same configuration.
bool hst_lm_read(hst_lm *model, const char *path, const hst_safetensors *file);

// ---- a model's names may stand behind a prefix ----

// Whether a file has a language model, *models 1 or 0, behind any prefix or `given`, and the prefix. false after
// hst_fail where it has several, or where halfstep wrote it, without a prefix, and one is given.
bool hst_lm_find_prefix(hst_context *ctx, const char *path, const hst_safetensors *file, const char *given,
                        char prefix[HST_MAX_PREFIX], int *models);

bool hst_lm_has_name(const hst_lm *model, const char *prefix, int version, const char *name);

hst_lm *hst_lm_import_file(hst_context *ctx, const char *path, const hst_safetensors *file, const char *prefix,
                           const hst_sru_config *assumed);

#endif
