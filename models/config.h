// config.h: settings as JSON in a file's metadata, by a table of their fields, and the ranges that they must be in.
#ifndef HST_CONFIG_H
#define HST_CONFIG_H

#include "models/safetensors.h"

#define HST_CONFIG_KEY "halfstep.config"

enum { HST_MAX_CONFIG = 4096, HST_FIELD_TEXT_SIZE = 65 };

typedef enum hst_field_kind {
    HST_FIELD_SIZE,  // int64_t, of a tensor: from INT32_MAX on the same, for the caller's checks
    HST_FIELD_COUNT, // int64_t
    HST_FIELD_PLACE, // int64_t, -1 for none
    HST_FIELD_INT,   // int
    HST_FIELD_SEED,  // uint64_t
    HST_FIELD_REAL,  // double; NaN, nothing yet, is not written
    HST_FIELD_FLOAT, // float
    HST_FIELD_FLAG,  // bool
    HST_FIELD_NAME,  // unsigned, an enum from 0 on: the field's `name` of it
    HST_FIELD_TEXT   // char[HST_FIELD_TEXT_SIZE]
} hst_field_kind;

typedef struct hst_field {
    const char *key; // NULL: the table ends
    hst_field_kind kind;
    size_t offset;                        // in the struct
    bool always;                          // written even where it is the standard
    const char *(*name)(unsigned number); // NULL from the first number on that has no name
} hst_field;

// The fields that are written always, and those that differ from `standard`, in the table's order.
void hst_config_write(const hst_field *fields, const void *config, const void *standard, char text[HST_MAX_CONFIG]);

// Fills in what a file's metadata have under `key`, which must be there; the rest stays. Keys that the table does not
// know are left alone: a later version may write more. A name that is not known is an error.
bool hst_config_read(hst_context *ctx, const char *path, const hst_safetensors *file, const char *key,
                     const hst_field *fields, void *config);

// The same under HST_CONFIG_KEY, of a file that may be none of halfstep's.
bool hst_config_read_own(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_field *fields,
                         void *config);

typedef struct hst_range {
    const char *name;
    double value, low, high;
} hst_range;

// false after an error that names the first value outside its range (NaN is outside any). `who`: the function.
bool hst_check_ranges(hst_context *ctx, const char *who, const hst_range *ranges, size_t count);

#endif
