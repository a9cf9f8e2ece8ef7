// config.h: a configuration as JSON in a file's metadata, by a table of its fields.
#ifndef HST_CONFIG_H
#define HST_CONFIG_H

#include "models/safetensors.h"

#define HST_CONFIG_KEY "halfstep.config"

enum { HST_MAX_CONFIG = 1024 };

typedef enum hst_field_kind { HST_FIELD_SIZE, HST_FIELD_INT, HST_FIELD_REAL, HST_FIELD_FLAG } hst_field_kind;

typedef struct hst_field {
    const char *key;     // NULL: the table ends
    hst_field_kind kind; // int64_t, int, double, bool
    size_t offset;       // in the struct
    bool always;         // written even where it is the standard
} hst_field;

// The fields that are written always, and those that differ from `standard`, in the table's order.
void hst_config_write(const hst_field *fields, const void *config, const void *standard, char text[HST_MAX_CONFIG]);

// Fills in what a file's halfstep.config has; the rest stays. Keys that the table does not know are left alone: a later
// version may write more. A size that is far too large stays so, for the caller's checks.
bool hst_config_read(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_field *fields,
                     void *config);

#endif
