// json.h: writes one flat JSON object on one line.
//
//     json_object json = json_begin(stdout);
//     json_text(&json, "event", "step");
//     json_real(&json, "loss", 1.5);      // NaN and infinities become null: JSON has none
//     json_end(&json);                    // newline and flush; false where a write failed
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_object {
    FILE *out;
    bool fields;
} json_object;

json_object json_begin(FILE *out);
void json_text(json_object *json, const char *key, const char *value); // NULL becomes null
void json_real(json_object *json, const char *key, double value);
void json_integer(json_object *json, const char *key, int64_t value);
void json_unsigned(json_object *json, const char *key, uint64_t value);
void json_bool(json_object *json, const char *key, bool value);
bool json_end(json_object *json);

#endif
