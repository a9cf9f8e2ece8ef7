// language_model_file.h: model files for the trainer, which adds what a checkpoint needs.
#ifndef HST_LANGUAGE_MODEL_FILE_H
#define HST_LANGUAGE_MODEL_FILE_H

#include "models/models.h"
#include "models/safetensors.h"

// hst_lm_save with further tensors and metadata (`pairs` keys and values in turn) in the same file.
hst_status hst_lm_save_with(const hst_lm *model, const char *path, const hst_entry *more, int more_count,
                            const char *const *metadata, int pairs);

// A file's configuration, checked against the shapes of its tensors.
bool hst_lm_read_config(hst_context *ctx, const char *path, const hst_safetensors *file, hst_lm_config *config);

// The model's parameters from an open file of the same configuration.
bool hst_lm_read(hst_lm *model, const char *path, const hst_safetensors *file);

// The entry `name` into `view`, a tensor or view of value's elements in the order of files; it must have value's shape.
bool hst_entry_load(hst_context *ctx, const char *path, const hst_safetensors *file, const char *name,
                    hst_tensor *value, hst_tensor *view);

// An entry of a floating-point type into a tensor or view with as many elements.
bool hst_entry_copy(const hst_entry *entry, hst_tensor *to);

#endif
