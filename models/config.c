// config.c: a configuration as JSON in a file's metadata (config.h).
#include <stdio.h>
#include <string.h>
#include "models/config.h"
#include "models/json.h"
#include "tensor/context.h"

static size_t size_of(hst_field_kind kind) {
    static const size_t sizes[] = {sizeof(int64_t), sizeof(int), sizeof(double), sizeof(bool)};
    return sizes[kind];
}

void hst_config_write(const hst_field *fields, const void *config, const void *standard, char text[HST_MAX_CONFIG]) {
    hst_json_writer out = hst_json_into(text, HST_MAX_CONFIG);
    hst_json_put_open(&out, '{');
    for (const hst_field *f = fields; f->key; f++) {
        const char *at = (const char *)config + f->offset;
        if (!f->always && !memcmp(at, (const char *)standard + f->offset, size_of(f->kind))) continue;
        hst_json_put_key(&out, f->key);
        switch (f->kind) {
        case HST_FIELD_SIZE:
            hst_json_put_integer(&out, *(const int64_t *)at);
            break;
        case HST_FIELD_INT:
            hst_json_put_integer(&out, *(const int *)at);
            break;
        case HST_FIELD_REAL:
            hst_json_put_number(&out, *(const double *)at);
            break;
        case HST_FIELD_FLAG:
            hst_json_put_boolean(&out, *(const bool *)at);
            break;
        }
    }
    hst_json_put_close(&out, '}');
}

static void read_field(hst_json *in, const hst_field *f, void *config) {
    char *at = (char *)config + f->offset;
    uint64_t whole;
    switch (f->kind) {
    case HST_FIELD_SIZE:
        whole = hst_json_unsigned(in);
        *(int64_t *)at = whole < INT32_MAX ? (int64_t)whole : INT32_MAX;
        break;
    case HST_FIELD_INT:
        whole = hst_json_unsigned(in);
        *(int *)at = whole < INT32_MAX ? (int)whole : INT32_MAX;
        break;
    case HST_FIELD_REAL:
        *(double *)at = hst_json_number(in);
        break;
    case HST_FIELD_FLAG:
        *(bool *)at = hst_json_boolean(in);
        break;
    }
}

bool hst_config_read(hst_context *ctx, const char *path, const hst_safetensors *file, const hst_field *fields,
                     void *config) {
    const char *metadata = hst_safetensors_metadata(file, HST_CONFIG_KEY);
    char text[HST_MAX_CONFIG], problem[HST_JSON_PROBLEM];
    if (!metadata || strlen(metadata) >= sizeof text) {
        hst_fail(ctx, HST_ERROR_FORMAT,
                 "%s: its metadata has no " HST_CONFIG_KEY
                 ", so halfstep did not save it; `halfstep convert` makes a file that has one",
                 path);
        return false;
    }
    strcpy(text, metadata);
    hst_json in = hst_json_open(text, strlen(text));
    hst_json_enter(&in, '{');
    while (hst_json_next(&in)) {
        const hst_field *f = fields;
        while (f->key && strcmp(in.key, f->key) != 0) f++;
        if (f->key)
            read_field(&in, f, config);
        else
            hst_json_skip(&in);
    }
    if (hst_json_end(&in)) return true;
    hst_fail(ctx, HST_ERROR_FORMAT, "%s: " HST_CONFIG_KEY " in its metadata is damaged, %s", path,
             hst_json_problem(&in, problem));
    return false;
}
