// json.c: see json.h.
#include "train/cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// The length of the well-formed UTF-8 sequence at s (Unicode's table 3-7), or 0.
static int sequence_length(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    int length = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F); // surrogates; past U+10FFFF
    return overlong || beyond ? 0 : length;
}

// File names may hold any bytes; those that are not UTF-8 become U+FFFD, so that the line stays JSON.
static void write_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int length = sequence_length(s);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)length, out);
        s += length ? length : 1;
    }
    fputc('"', out);
}

static void write_key(json_object *json, const char *key) {
    fputc(json->fields ? ',' : '{', json->out);
    json->fields = true;
    write_string(json->out, key);
    fputc(':', json->out);
}

json_object json_begin(FILE *out) { return (json_object){.out = out}; }

void json_text(json_object *json, const char *key, const char *value) {
    write_key(json, key);
    if (value)
        write_string(json->out, value);
    else
        fputs("null", json->out);
}

void json_real(json_object *json, const char *key, double value) {
    write_key(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.9g", value);
    else
        fputs("null", json->out);
}

void json_integer(json_object *json, const char *key, int64_t value) {
    write_key(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_unsigned(json_object *json, const char *key, uint64_t value) {
    write_key(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_bool(json_object *json, const char *key, bool value) {
    write_key(json, key);
    fputs(value ? "true" : "false", json->out);
}

bool json_end(json_object *json) {
    fputs(json->fields ? "}\n" : "{}\n", json->out);
    return fflush(json->out) == 0 && !ferror(json->out);
}
