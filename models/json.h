// json.h: reading and writing JSON (RFC 8259) without memory of its own and in any locale. A pull reader over a text in
// memory, for headers, configurations and hostile files; a writer into a buffer, for those and for log lines.
//
//     char text[] = "{\"hidden\":256,\"tied\":false}";
//     hst_json in = hst_json_open(text, strlen(text));
//     hst_json_enter(&in, '{');
//     while (hst_json_next(&in)) {
//         if (!strcmp(in.key, "hidden")) hidden = hst_json_unsigned(&in);
//         else if (!strcmp(in.key, "tied")) tied = hst_json_boolean(&in);
//         else hst_json_skip(&in);
//     }
//     if (!hst_json_end(&in)) puts(hst_json_problem(&in, message));
//
//     char line[64];
//     hst_json_writer out = hst_json_into(line, sizeof line);
//     hst_json_put_open(&out, '{');
//     hst_json_put_key(&out, "loss"), hst_json_put_number(&out, 1.25);
//     hst_json_put_close(&out, '}');                       // {"loss":1.25}
//     if (out.length >= sizeof line) puts("it did not fit");
#ifndef HST_JSON_H
#define HST_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- reading ----
// The first error stays, and from then on every function returns at once with 0, NULL or false: check once, at the end.

enum { HST_JSON_DEPTH = 64, HST_JSON_PROBLEM = 128 };

typedef struct hst_json {
    char *text, *at, *end;
    uint64_t objects; // bit d: the container at depth d is an object, not an array
    int depth;
    bool first;        // nothing of the container has been read yet
    const char *key;   // of the member that hst_json_next found
    const char *error; // NULL: none so far
    size_t where;      // the byte of the text that the error is about
} hst_json;

// Starts on a whole text of `size` bytes, which must be UTF-8. Strings are decoded in place: the text changes, and the
// strings and keys handed out are C strings inside it. A string with a NUL character (\u0000) is therefore an error.
hst_json hst_json_open(char *text, size_t size);

// Goes into an object ('{') or an array ('['); the value that is next must be one. Then hst_json_next finds a member,
// whose key is in->key, or an element, and exactly one of the functions below it takes the value, until it returns
// false.
bool hst_json_enter(hst_json *in, char kind);
bool hst_json_next(hst_json *in);

char *hst_json_string(hst_json *in);
uint64_t hst_json_unsigned(hst_json *in); // digits only: no sign, point or exponent, at most 2^64 - 1
double hst_json_number(hst_json *in);     // the nearest double; a number beyond its range is an error
bool hst_json_boolean(hst_json *in);
void hst_json_skip(hst_json *in); // any value, checked all the same

bool hst_json_end(hst_json *in); // true: the text was one value, all of it read, without an error

// "byte 17: a string is expected, '5' found" into message; returns it.
const char *hst_json_problem(const hst_json *in, char message[HST_JSON_PROBLEM]);

// How many bytes at the start of text are whole UTF-8 characters (RFC 3629: no surrogates, shortest forms); size: all.
size_t hst_utf8_prefix(const char *text, size_t size);

// ---- writing ----
// As snprintf: `length` is what the whole text takes, written or not; what fits is there, and terminated. So a writer
// of size 0 measures. Commas are put where they belong.

typedef struct hst_json_writer {
    char *text;
    size_t size, length;
    char last; // the last character put
} hst_json_writer;

hst_json_writer hst_json_into(char *text, size_t size);
void hst_json_put_open(hst_json_writer *out, char kind);  // '{' or '['
void hst_json_put_close(hst_json_writer *out, char kind); // '}' or ']'
void hst_json_put_key(hst_json_writer *out, const char *key);
void hst_json_put_string(hst_json_writer *out, const char *text); // bytes that are not UTF-8 become U+FFFD
void hst_json_put_integer(hst_json_writer *out, int64_t value);
void hst_json_put_unsigned(hst_json_writer *out, uint64_t value);
void hst_json_put_number(hst_json_writer *out, double value); // reads back as the same double; NaN and inf: null
void hst_json_put_boolean(hst_json_writer *out, bool value);

#endif
