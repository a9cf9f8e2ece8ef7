// json.h: writes one flat JSON object on one line, and reads one (json_read.c), or any JSON (json_walk.c).
//
//     json_object json = json_begin(stdout);
//     json_text(&json, "event", "step");
//     json_real(&json, "loss", 1.5);      // NaN and infinities become null: JSON has none
//     json_end(&json);                    // newline and flush; false where a write failed
//
//     json_reader reader = json_read(line);
//     while (json_next(&reader))
//         if (json_is(reader.key, "loss")) loss = json_number(reader.value);
//     if (reader.whole) ...               // else the line was torn, or is something else
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
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

typedef struct json_part {
    const char *text; // as it stands in the line: a string without its quotes, escapes as they are
    size_t length;
    bool quoted;
} json_part;

typedef struct json_reader {
    const char *at;
    json_part key, value;
    bool whole; // the object has ended, and nothing follows it
} json_reader;

json_reader json_read(const char *line);
bool json_next(json_reader *reader);              // to the next field; false at the end, or where there is no field
bool json_is(json_part string, const char *text); // whether it is that string
double json_number(json_part value);              // NaN for what is no finite number

// ---- json_walk.c: a configuration, with objects in objects ----

typedef struct json_value {
    const char *path; // "optimizer.params.betas.0", with \u002e for a dot in a key
    int depth;        // how many objects and arrays it is in; 0: it is the whole text's value
    char kind;        // '{', '[', '"', '0' (a number), 'b' (true or false), 'n' (null)
    json_part part;   // of all but '{' and '['
    int line;         // where it starts, from 1
} json_value;

typedef struct json_fault {
    int line;
    const char *what; // NULL: the text is JSON as far as it was read
} json_fault;

// A string with the characters that its escapes stand for, where those are printable ASCII other than " and \: the text
// that most keys and names have whoever wrote them. Other escapes stay as they are. As snprintf does.
size_t json_plain(json_part string, char *text, size_t size);

// Visits the values of a text in their order, objects and arrays before what is in them. false where `visit` was, or
// where the text is no JSON, which *fault explains.
bool json_walk(const char *text, bool (*visit)(const json_value *value, void *user), void *user, json_fault *fault);

#endif
