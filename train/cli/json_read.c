// json_read.c: see json.h. Objects in objects and lists are no flat object. Words are not compared with true, false and
// null: whatever is no number reads as NaN.
#include "train/cli/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *s) { return s + strspn(s, " \t\r\n"); }

// What follows the string that starts at s, or NULL.
static const char *take_string(const char *s, json_part *part) {
    if (*s++ != '"') return NULL;
    *part = (json_part){.text = s, .quoted = true};
    for (; *s && *s != '"'; s++)
        if (*s == '\\' && !*++s) return NULL;
    part->length = (size_t)(s - part->text);
    return *s ? s + 1 : NULL;
}

static const char *take_scalar(const char *s, json_part *part) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    if (*s == '"') return take_string(s, part);
    *part = (json_part){.text = s, .length = strspn(s, letters)};
    return part->length ? s + part->length : NULL;
}

json_reader json_read(const char *line) {
    const char *s = skip_blanks(line);
    return (json_reader){.at = *s == '{' ? s : ""};
}

// Before a field stands the brace that opens the object, or a comma.
bool json_next(json_reader *r) {
    const char *s = r->at;
    r->at = "";
    if (*s == '{' && *skip_blanks(s + 1) == '}') s = skip_blanks(s + 1);
    if (*s == '}') r->whole = !*skip_blanks(s + 1);
    if (*s != '{' && *s != ',') return false;
    s = take_string(skip_blanks(s + 1), &r->key);
    s = s ? skip_blanks(s) : "";
    s = *s == ':' ? take_scalar(skip_blanks(s + 1), &r->value) : NULL;
    if (s) r->at = skip_blanks(s);
    return s != NULL;
}

bool json_is(json_part string, const char *text) {
    return string.quoted && string.length == strlen(text) && memcmp(string.text, text, string.length) == 0;
}

double json_number(json_part value) {
    if (value.quoted || !value.length || !strchr("-0123456789", *value.text)) return NAN;
    char *end;
    double x = strtod(value.text, &end);
    return end == value.text + value.length && isfinite(x) ? x : NAN;
}
