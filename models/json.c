// json.c: the reader and the writer of json.h. The reader never recurses: whether an open container is an object is one
// bit, and every function moves forward through the text, so that time is bounded by its size whatever it holds.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/json.h"
#include "tensor/context.h"

// ---- UTF-8 ----

// The length of the character at p, or 0. The first byte gives length and the range of the second one, which rules out
// overlong forms (E0, F0), surrogates (ED) and code points above 10FFFF (F4); all others continue with 80..BF.
static size_t utf8_length(const unsigned char *p, size_t left) {
    unsigned char lead = p[0], low = 0x80, high = 0xBF;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF4) high = 0x8F;
    if (left < length || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

size_t hst_utf8_prefix(const char *text, size_t size) {
    size_t at = 0, length;
    while (at < size && (length = utf8_length((const unsigned char *)text + at, size - at)) != 0) at += length;
    return at;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; // bytes of 6 bits after the first one
    *to++ = (char)((tail == 1 ? 0xC0 : tail == 2 ? 0xE0 : 0xF0) | c >> 6 * tail);
    while (tail--) *to++ = (char)(0x80 | (c >> 6 * tail & 0x3F));
    return to;
}

// ---- reading: the text ----

static bool fail(hst_json *in, const char *what) {
    if (!in->error) {
        in->error = what;
        in->where = (size_t)(in->at - in->text);
    }
    return false;
}

// The next character that is not white space; -1 at the end, and after an error, so that everything stops.
static int peek(hst_json *in) {
    if (in->error) return -1;
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t')) in->at++;
    return in->at < in->end ? (unsigned char)*in->at : -1;
}

hst_json hst_json_open(char *text, size_t size) {
    hst_json in = {.text = text, .at = text, .end = text + size};
    size_t valid = hst_utf8_prefix(text, size);
    if (valid < size) {
        in.at += valid;
        fail(&in, "UTF-8 is expected");
    }
    return in;
}

bool hst_json_enter(hst_json *in, char kind) {
    if (peek(in) != kind) return fail(in, kind == '{' ? "an object is expected" : "an array is expected");
    if (in->depth == HST_JSON_DEPTH) return fail(in, "at most 64 levels are expected");
    uint64_t bit = (uint64_t)1 << in->depth++;
    in->objects = kind == '{' ? in->objects | bit : in->objects & ~bit;
    in->first = true;
    in->at++;
    return true;
}

bool hst_json_next(hst_json *in) {
    if (in->error || in->depth == 0) return fail(in, "the end is expected");
    bool object = in->objects >> (in->depth - 1) & 1, first = in->first;
    int c = peek(in);
    in->first = false;
    if (c == (object ? '}' : ']')) {
        in->at++;
        in->depth--;
        return false;
    }
    if (!first) {
        if (c != ',') return fail(in, object ? "',' or '}' is expected" : "',' or ']' is expected");
        in->at++;
    }
    if (!object) return true;
    in->key = hst_json_string(in);
    if (peek(in) != ':') return fail(in, "':' is expected");
    in->at++;
    return true;
}

bool hst_json_end(hst_json *in) {
    if (in->depth > 0 || peek(in) >= 0) fail(in, "the end is expected");
    return !in->error;
}

const char *hst_json_problem(const hst_json *in, char message[HST_JSON_PROBLEM]) {
    char found[16];
    bool end = in->text + in->where >= in->end;
    unsigned char c = end ? 0 : (unsigned char)in->text[in->where];
    if (end)
        snprintf(found, sizeof found, "the end");
    else if (c > ' ' && c < 0x7F)
        snprintf(found, sizeof found, "'%c'", c);
    else
        snprintf(found, sizeof found, "byte 0x%02X", c);
    snprintf(message, HST_JSON_PROBLEM, "byte %zu: %s, %s found", in->where, in->error ? in->error : "no error", found);
    return message;
}

// ---- reading: strings ----

// The number that four hexadecimal digits at p give, or -1.
static long hex4(const char *p, const char *end) {
    static const char all[] = "0123456789abcdef0123456789ABCDEF";
    long value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = p + i < end && p[i] ? strchr(all, p[i]) : NULL;
        if (!digit) return -1;
        value = value * 16 + (digit - all) % 16;
    }
    return value;
}

// \uXXXX, in->at on its 'u'. Characters beyond FFFF come as a pair of surrogates (D800..DBFF, then DC00..DFFF).
static char *unicode_escape(hst_json *in, char *to) {
    long c = hex4(in->at + 1, in->end);
    size_t used = 5;
    if (c >= 0xD800 && c < 0xDC00 && in->end - in->at > 7 && in->at[5] == '\\' && in->at[6] == 'u') {
        long low = hex4(in->at + 7, in->end);
        if (low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            used = 11;
        }
    }
    if (c < 0)
        fail(in, "four hexadecimal digits after \\u are expected");
    else if (c == 0)
        fail(in, "a string without the NUL character \\u0000 is expected");
    else if (c >= 0xD800 && c < 0xE000)
        fail(in, "a pair of \\u surrogates is expected");
    else
        in->at += used, to = put_utf8(to, (uint32_t)c);
    return to;
}

// A backslash and what follows; decoded text is never longer than its source, so that it fits in front of it.
static char *escape(hst_json *in, char *to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    in->at++;
    char c = in->at < in->end ? *in->at : 0;
    if (c == 'u') return unicode_escape(in, to);
    const char *found = c ? strchr(names, c) : NULL;
    if (found)
        in->at++, *to++ = values[found - names];
    else
        fail(in, "one of \"\\/bfnrtu after a backslash is expected");
    return to;
}

char *hst_json_string(hst_json *in) {
    if (peek(in) != '"') {
        fail(in, "a string is expected");
        return NULL;
    }
    char *start = ++in->at, *to = start;
    while (!in->error) {
        if (in->at == in->end) {
            fail(in, "'\"' is expected");
        } else if (*in->at == '"') {
            in->at++;
            *to = 0;
            return start;
        } else if (*in->at == '\\') {
            to = escape(in, to);
        } else if ((unsigned char)*in->at < 0x20) {
            fail(in, "an escape for the control character is expected");
        } else {
            *to++ = *in->at++;
        }
    }
    return NULL;
}

// ---- reading: numbers and words ----

static bool is_digit(const hst_json *in) { return in->at < in->end && *in->at >= '0' && *in->at <= '9'; }

static bool digits(hst_json *in) {
    if (!is_digit(in)) return fail(in, "a digit is expected");
    while (is_digit(in)) in->at++;
    return true;
}

static bool accept(hst_json *in, const char *any) {
    if (in->at == in->end || !*in->at || !strchr(any, *in->at)) return false;
    in->at++;
    return true;
}

// Moves over -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?; returns its start, or NULL.
static const char *number(hst_json *in) {
    int c = peek(in);
    if (c != '-' && (c < '0' || c > '9')) {
        fail(in, "a number is expected");
        return NULL;
    }
    const char *start = in->at;
    accept(in, "-");
    if (accept(in, "0")) {
        if (is_digit(in)) fail(in, "a number without leading zeros is expected");
    } else {
        digits(in);
    }
    if (!in->error && accept(in, ".")) digits(in);
    if (!in->error && accept(in, "eE")) {
        accept(in, "+-");
        digits(in);
    }
    return in->error ? NULL : start;
}

uint64_t hst_json_unsigned(hst_json *in) {
    const char *p = number(in);
    uint64_t value = 0;
    for (; p && p < in->at; p++) {
        bool digit = *p >= '0' && *p <= '9';
        if (!digit || __builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, *p - '0', &value)) {
            in->at = in->text + (p - in->text);
            fail(in, "a whole number from 0 to 18446744073709551615 is expected");
            return 0;
        }
    }
    return value;
}

// strtod knows only the locale's decimal point, so it gets none: 1.25e3 is handed over as 125e1.
double hst_json_number(hst_json *in) {
    char token[64], whole[96];
    const char *start = number(in);
    size_t size = start ? (size_t)(in->at - start) : 0, count = 0, i = 0;
    if (size == 0) return 0;
    if (size >= sizeof token) {
        fail(in, "a number of at most 63 characters is expected");
        return 0;
    }
    memcpy(token, start, size);
    token[size] = 0;
    long exponent = 0, places = 0;
    for (bool fraction = false; token[i] && token[i] != 'e' && token[i] != 'E'; i++) {
        if (token[i] == '.')
            fraction = true;
        else
            whole[count++] = token[i], places += fraction;
    }
    if (token[i]) exponent = strtol(token + i + 1, NULL, 10);
    if (exponent > 9999) exponent = 9999;
    if (exponent < -9999) exponent = -9999;
    snprintf(whole + count, sizeof whole - count, "e%ld", exponent - places);
    double value = strtod(whole, NULL);
    if (isinf(value)) fail(in, "a number in the range of a double is expected");
    return isinf(value) ? 0 : value;
}

static bool word(hst_json *in, const char *text) {
    size_t length = strlen(text);
    if (peek(in) != *text || (size_t)(in->end - in->at) < length || memcmp(in->at, text, length) != 0) return false;
    in->at += length;
    return true;
}

bool hst_json_boolean(hst_json *in) {
    if (word(in, "true")) return true;
    if (!word(in, "false")) fail(in, "true or false is expected");
    return false;
}

void hst_json_skip(hst_json *in) {
    int depth = in->depth;
    do {
        int c = peek(in);
        if (c == '{' || c == '[')
            hst_json_enter(in, (char)c);
        else if (c == '"')
            hst_json_string(in);
        else if (c == '-' || (c >= '0' && c <= '9'))
            number(in);
        else if (!word(in, "true") && !word(in, "false") && !word(in, "null"))
            fail(in, "a value is expected");
        while (in->depth > depth && !in->error && !hst_json_next(in)) continue; // containers that end here
    } while (in->depth > depth && !in->error);
}

// ---- writing ----

hst_json_writer hst_json_into(char *text, size_t size) {
    hst_json_writer out = {text, size, 0, 0};
    if (size > 0) text[0] = 0;
    return out;
}

static void put(hst_json_writer *out, const char *bytes, size_t count) {
    size_t room = out->length < out->size ? out->size - out->length - 1 : 0, fits = count < room ? count : room;
    if (out->length < out->size) {
        memcpy(out->text + out->length, bytes, fits);
        out->text[out->length + fits] = 0;
    }
    out->length += count;
    out->last = bytes[count - 1];
}

// A value or key follows another one unless it is the first in its container or comes after a key.
static void separate(hst_json_writer *out) {
    if (out->last && !strchr("{[:", out->last)) put(out, ",", 1);
}

static void put_value(hst_json_writer *out, const char *text) {
    separate(out);
    put(out, text, strlen(text));
}

void hst_json_put_open(hst_json_writer *out, char kind) {
    separate(out);
    put(out, &kind, 1);
}

void hst_json_put_close(hst_json_writer *out, char kind) { put(out, &kind, 1); }

void hst_json_put_key(hst_json_writer *out, const char *key) {
    hst_json_put_string(out, key);
    put(out, ":", 1);
}

// The first character of a text: itself, its escape, or U+FFFD. Returns how many bytes of the text that was.
static size_t put_character(hst_json_writer *out, const char *text, size_t left) {
    static const char values[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    unsigned char c = (unsigned char)*text;
    const char *found = strchr(values, c);
    char code[8];
    if (found)
        snprintf(code, sizeof code, "\\%c", names[found - values]);
    else if (c < 0x20)
        snprintf(code, sizeof code, "\\u%04x", c);
    else {
        size_t length = utf8_length((const unsigned char *)text, left);
        put(out, length ? text : "\xEF\xBF\xBD", length ? length : 3);
        return length ? length : 1;
    }
    put(out, code, strlen(code));
    return 1;
}

void hst_json_put_string(hst_json_writer *out, const char *text) {
    put_value(out, "\"");
    for (size_t left = strlen(text), used; left > 0; text += used, left -= used) used = put_character(out, text, left);
    put(out, "\"", 1);
}

void hst_json_put_unsigned(hst_json_writer *out, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_value(out, text);
}

void hst_json_put_integer(hst_json_writer *out, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_value(out, text);
}

// The fewest digits that read back as the same double.
void hst_json_put_number(hst_json_writer *out, double value) {
    char text[32];
    int digits = 15;
    for (; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value); // in the locale's form, as strtod reads it
        if (strtod(text, NULL) == value) break;
    }
    if (isfinite(value)) hst_format_number(text, value, digits);
    put_value(out, isfinite(value) ? text : "null");
}

void hst_json_put_boolean(hst_json_writer *out, bool value) { put_value(out, value ? "true" : "false"); }
