// config.c: settings as JSON in a file's metadata (config.h).
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/config.h"
#include "models/json.h"
#include "tensor/context.h"

// ---- writing ----

static size_t size_of(hst_field_kind kind) {
    static const size_t sizes[] = {
        [HST_FIELD_SIZE] = sizeof(int64_t),    [HST_FIELD_COUNT] = sizeof(int64_t), [HST_FIELD_PLACE] = sizeof(int64_t),
        [HST_FIELD_INT] = sizeof(int),         [HST_FIELD_SEED] = sizeof(uint64_t), [HST_FIELD_REAL] = sizeof(double),
        [HST_FIELD_FLOAT] = sizeof(float),     [HST_FIELD_FLAG] = sizeof(bool),     [HST_FIELD_NAME] = sizeof(unsigned),
        [HST_FIELD_TEXT] = HST_FIELD_TEXT_SIZE};
    return sizes[kind];
}

static void write_field(hst_json_writer *out, const hst_field *f, const void *at) {
    hst_json_put_key(out, f->key);
    switch (f->kind) {
    case HST_FIELD_SIZE:
    case HST_FIELD_COUNT:
    case HST_FIELD_PLACE:
        hst_json_put_integer(out, *(const int64_t *)at);
        break;
    case HST_FIELD_INT:
        hst_json_put_integer(out, *(const int *)at);
        break;
    case HST_FIELD_SEED:
        hst_json_put_unsigned(out, *(const uint64_t *)at);
        break;
    case HST_FIELD_REAL:
        hst_json_put_number(out, *(const double *)at);
        break;
    case HST_FIELD_FLOAT:
        hst_json_put_number(out, (double)*(const float *)at);
        break;
    case HST_FIELD_FLAG:
        hst_json_put_boolean(out, *(const bool *)at);
        break;
    case HST_FIELD_NAME:
        hst_json_put_string(out, f->name(*(const unsigned *)at));
        break;
    case HST_FIELD_TEXT:
        hst_json_put_string(out, at);
        break;
    }
}

void hst_config_write(const hst_field *fields, const void *config, const void *standard, char text[HST_MAX_CONFIG]) {
    hst_json_writer out = hst_json_into(text, HST_MAX_CONFIG);
    hst_json_put_open(&out, '{');
    for (const hst_field *f = fields; f->key; f++) {
        const char *at = (const char *)config + f->offset;
        bool differs = f->always || memcmp(at, (const char *)standard + f->offset, size_of(f->kind));
        if (differs && !(f->kind == HST_FIELD_REAL && isnan(*(const double *)(const void *)at)))
            write_field(&out, f, at);
    }
    hst_json_put_close(&out, '}');
}

// ---- reading ----

static uint64_t at_most(uint64_t most, uint64_t x) { return x < most ? x : most; }

// false for a name that is not known, which is then *unknown; a value that is not even of its kind is the reader's
// error.
static bool read_field(hst_json *in, const hst_field *f, void *at, const char **unknown) {
    const char *text;
    double number;
    switch (f->kind) {
    case HST_FIELD_SIZE:
        *(int64_t *)at = (int64_t)at_most(INT32_MAX, hst_json_unsigned(in));
        break;
    case HST_FIELD_COUNT:
        *(int64_t *)at = (int64_t)at_most(INT64_MAX, hst_json_unsigned(in));
        break;
    case HST_FIELD_PLACE:
        number = hst_json_number(in);
        *(int64_t *)at = number >= 0 && number <= 0x1p53 ? (int64_t)number : -1;
        break;
    case HST_FIELD_INT:
        *(int *)at = (int)at_most(INT32_MAX, hst_json_unsigned(in));
        break;
    case HST_FIELD_SEED:
        *(uint64_t *)at = hst_json_unsigned(in);
        break;
    case HST_FIELD_REAL:
        *(double *)at = hst_json_number(in);
        break;
    case HST_FIELD_FLOAT:
        *(float *)at = (float)hst_json_number(in);
        break;
    case HST_FIELD_FLAG:
        *(bool *)at = hst_json_boolean(in);
        break;
    case HST_FIELD_NAME:
        text = *unknown = hst_json_string(in);
        for (unsigned i = 0; text && f->name(i); i++)
            if (!strcmp(text, f->name(i))) return *(unsigned *)at = i, true;
        return !text;
    case HST_FIELD_TEXT:
        text = hst_json_string(in);
        snprintf(at, HST_FIELD_TEXT_SIZE, "%s", text ? text : "");
        break;
    }
    return true;
}

bool hst_config_read(hst_context *ctx, const char *path, const hst_safetensors *file, const char *key,
                     const hst_field *fields, void *config) {
    const char *metadata = hst_safetensors_metadata(file, key), *unknown;
    char text[HST_MAX_CONFIG], problem[HST_JSON_PROBLEM];
    if (strlen(metadata) >= sizeof text)
        return hst_fail(ctx, HST_ERROR_FORMAT, "%s: %s in its metadata is damaged, longer than %d bytes", path, key,
                        HST_MAX_CONFIG - 1),
               false;
    strcpy(text, metadata);
    hst_json in = hst_json_open(text, strlen(text));
    hst_json_enter(&in, '{');
    while (hst_json_next(&in)) {
        const hst_field *f = fields;
        while (f->key && strcmp(in.key, f->key) != 0) f++;
        if (!f->key)
            hst_json_skip(&in);
        else if (!read_field(&in, f, (char *)config + f->offset, &unknown))
            return hst_fail(ctx, HST_ERROR_FORMAT,
                            "%s: its %s is `%s`, which this version does not know; a newer one may", path, f->key,
                            unknown),
                   false;
    }
    if (hst_json_end(&in)) return true;
    hst_fail(ctx, HST_ERROR_FORMAT, "%s: %s in its metadata is damaged, %s", path, key, hst_json_problem(&in, problem));
    return false;
}

bool hst_config_read_own(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_field *fields,
                         void *config) {
    if (hst_safetensors_metadata(file, HST_CONFIG_KEY))
        return hst_config_read(ctx, path, file, HST_CONFIG_KEY, fields, config);
    hst_fail(ctx, HST_ERROR_FORMAT,
             "%s: its metadata has no " HST_CONFIG_KEY
             ", so halfstep did not save it; `halfstep convert` makes a file that has one",
             path);
    return false;
}

// ---- ranges ----

bool hst_check_ranges(hst_context *ctx, const char *who, const hst_range *ranges, size_t count) {
    for (const hst_range *r = ranges; r < ranges + count; r++)
        if (!(r->value >= r->low && r->value <= r->high)) {
            hst_fail(ctx, HST_ERROR_VALUE, "%s: %s is %g; it must be between %g and %g", who, r->name, r->value, r->low,
                     r->high);
            return false;
        }
    return true;
}
