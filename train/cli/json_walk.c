// json_walk.c: see json.h: a whole JSON text with objects in objects (RFC 8259), a value at a time.
#include "train/cli/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_PATH_LENGTH = 256 };

typedef struct walker {
    const char *at, *counted; // the lines up to the latter are counted
    int line;
    char path[MAX_PATH_LENGTH];
    int depth;
    bool (*visit)(const json_value *value, void *user);
    void *user;
    const char *fault; // NULL: none
} walker;

static int line_at(walker *w) {
    for (; w->counted < w->at; w->counted++) w->line += *w->counted == '\n';
    return w->line;
}

static bool fail(walker *w, const char *fault) {
    w->fault = fault;
    return false;
}

static void skip_blanks(walker *w) { w->at += strspn(w->at, " \t\r\n"); }

static const char *skip_digits(const char *s) {
    while (isdigit((unsigned char)*s)) s++;
    return s;
}

// ---- strings ----

// The character that an escape stands for, \uXXXX or \/, if it is one that json_plain writes; else 0.
static char escaped(const char *s, size_t left) {
    char digits[5] = "";
    if (left >= 6 && s[1] == 'u') memcpy(digits, s + 2, 4);
    unsigned long code = left >= 2 && s[1] == '/' ? '/' : strtoul(digits, NULL, 16);
    return code >= ' ' && code < 0x7f && code != '"' && code != '\\' ? (char)code : 0;
}

size_t json_plain(json_part string, char *text, size_t size) {
    size_t length = 0;
    for (size_t i = 0, taken; i < string.length; i += taken) {
        const char *s = string.text + i;
        char plain = *s == '\\' ? escaped(s, string.length - i) : 0;
        taken = plain && s[1] == 'u' ? 6 : *s == '\\' ? 2 : 1;
        for (size_t k = 0; k < (plain ? 1 : taken); k++, length++)
            if (length + 1 < size) text[length] = plain ? plain : s[k];
    }
    if (size > 0) text[length < size ? length : size - 1] = '\0';
    return length;
}

// ---- scalars ----

static bool take_string(walker *w, json_part *part) {
    if (*w->at != '"') return fail(w, "a string is expected");
    const char *s = w->at + 1;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20) return fail(w, "this string has no end");
        if (*s != '\\') continue;
        if (!*++s || !strchr("\"\\/bfnrtu", *s)) return fail(w, "a string has an unknown escape");
        for (int i = 0; *s == 'u' && i < 4; i++)
            if (!isxdigit((unsigned char)s[i + 1])) return fail(w, "\\u needs four hexadecimal digits");
    }
    *part = (json_part){.text = w->at + 1, .length = (size_t)(s - w->at - 1), .quoted = true};
    w->at = s + 1;
    return true;
}

static bool take_number(walker *w, json_part *part) {
    const char *s = w->at + (*w->at == '-'), *digits = s;
    s = *s == '0' ? s + 1 : skip_digits(s);
    bool whole = s > digits;
    if (*s == '.') {
        digits = ++s;
        s = skip_digits(s);
        whole = whole && s > digits;
    }
    if (*s == 'e' || *s == 'E') {
        s += s[1] == '+' || s[1] == '-' ? 2 : 1;
        digits = s;
        s = skip_digits(s);
        whole = whole && s > digits;
    }
    if (!whole) return fail(w, "this is no JSON value");
    *part = (json_part){.text = w->at, .length = (size_t)(s - w->at)};
    w->at = s;
    return true;
}

static bool take_word(walker *w, json_part *part) {
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(w->at, words[i], length) != 0) continue;
        *part = (json_part){.text = w->at, .length = length};
        w->at += length;
        return true;
    }
    return fail(w, "this is no JSON value");
}

// ---- objects and arrays ----

static bool take_value(walker *w);

// Appends a key to the path. A dot in it is written as JSON's \u002e, so that those of the path are between keys.
static bool append(walker *w, size_t length, json_part key) {
    static const char dot[] = "\\u002e";
    char plain[MAX_PATH_LENGTH];
    if (json_plain(key, plain, sizeof plain) >= sizeof plain) return fail(w, "this key is too long");
    for (const char *c = plain; *c; c++) {
        size_t taken = *c == '.' ? sizeof dot - 1 : 1;
        if (length + taken >= sizeof w->path) return fail(w, "this key is too long");
        memcpy(w->path + length, *c == '.' ? dot : c, taken);
        length += taken;
    }
    w->path[length] = '\0';
    return true;
}

// The path grows by a member's key or an element's number.
static bool take_name(walker *w, char open, size_t length, int number) {
    char digits[16];
    json_part key = {.text = digits, .length = (size_t)snprintf(digits, sizeof digits, "%d", number)};
    if (open == '{' && !take_string(w, &key)) return false;
    if (w->depth > 1 && length + 1 < sizeof w->path) w->path[length++] = '.';
    if (!append(w, length, key)) return false;
    skip_blanks(w);
    if (open == '[') return true;
    if (*w->at != ':') return fail(w, "a colon is expected after a key");
    w->at++;
    return true;
}

static bool take_members(walker *w, char open) {
    char close = open == '{' ? '}' : ']';
    size_t length = strlen(w->path);
    if (++w->depth > MAX_DEPTH) return fail(w, "too many objects are inside each other");
    w->at++;
    skip_blanks(w);
    for (int number = 0; *w->at != close; number++) {
        if (number > 0 && *w->at != ',')
            return fail(w, open == '{' ? "a comma or } is expected" : "a comma or ] is expected");
        w->at += number > 0;
        skip_blanks(w);
        if (!take_name(w, open, length, number) || !take_value(w)) return false;
        w->path[length] = '\0';
        skip_blanks(w);
    }
    w->at++;
    w->depth--;
    return true;
}

static bool take_value(walker *w) {
    skip_blanks(w);
    json_value value = {.path = w->path, .depth = w->depth, .kind = *w->at, .line = line_at(w)};
    if (value.kind == '{' || value.kind == '[') return w->visit(&value, w->user) && take_members(w, value.kind);
    bool word = isalpha((unsigned char)value.kind);
    if (!(value.kind == '"' ? take_string(w, &value.part)
          : word            ? take_word(w, &value.part)
                            : take_number(w, &value.part)))
        return false;
    if (value.kind != '"') value.kind = !word ? '0' : value.kind == 'n' ? 'n' : 'b';
    return w->visit(&value, w->user);
}

bool json_walk(const char *text, bool (*visit)(const json_value *value, void *user), void *user, json_fault *fault) {
    walker w = {.at = text, .counted = text, .line = 1, .visit = visit, .user = user};
    bool marked = !strncmp(text, "\xEF\xBB\xBF", 3); // as some editors begin a file in UTF-8
    bool whole = marked ? fail(&w, "a byte order mark is no JSON; save the text without it") : take_value(&w);
    skip_blanks(&w);
    if (whole && *w.at) whole = fail(&w, "nothing may follow the value");
    *fault = (json_fault){.line = line_at(&w), .what = w.fault};
    return whole;
}
