// tokenizer.c: symbols to text and back. Bytes need no table; characters are a sorted one of code points.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/corpus.h"
#include "models/json.h"
#include "tensor/context.h"

enum { CODE_POINTS = 0x110000, MAX_CHARACTERS = 65536, SHOWN = 5 };

typedef struct spelling {
    char bytes[4];
    uint8_t count;
} spelling;

struct hst_tokenizer {
    hst_context *ctx;
    int64_t size;
    spelling *spellings;  // of each symbol
    int32_t *code_points; // ascending; NULL: symbols are bytes
    char *text;           // as hst_tokenizer_read takes it; NULL: symbols are bytes
};

// ---- UTF-8 ----

// The character that starts at `at`, of which `left` >= 1 bytes are there; -1 where none does.
static int32_t code_point_at(const uint8_t *at, size_t left, int *length) {
    static const uint8_t first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if ((size_t)*length > left || hst_utf8_prefix((const char *)at, (size_t)*length) != (size_t)*length) return -1;
    int32_t c = at[0] & first_bits[*length];
    for (int i = 1; i < *length; i++) c = c << 6 | (at[i] & 0x3f);
    return c;
}

static spelling spell(int32_t c) {
    static const uint8_t first_byte[] = {0, 0, 0xc0, 0xe0, 0xf0};
    spelling s = {.count = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4};
    for (int i = s.count - 1; i > 0; i--, c >>= 6) s.bytes[i] = (char)(0x80 | (c & 0x3f));
    s.bytes[0] = (char)(first_byte[s.count] | c);
    return s;
}

// ---- making ----

void hst_tokenizer_free(hst_tokenizer *t) {
    if (!t) return;
    hst_context *ctx = t->ctx;
    hst_workspace_free(ctx, t->text);
    hst_workspace_free(ctx, t->spellings);
    hst_workspace_free(ctx, t->code_points);
    hst_workspace_free(ctx, t);
}

static hst_tokenizer *make(hst_context *ctx, int64_t size) {
    hst_tokenizer *t = hst_get_status(ctx) == HST_OK ? hst_workspace(ctx, sizeof *t) : NULL;
    if (!t) return NULL;
    *t = (hst_tokenizer){.ctx = ctx, .size = size};
    t->spellings = hst_workspace(ctx, (size_t)size * sizeof *t->spellings);
    if (t->spellings) return t;
    hst_tokenizer_free(t);
    return NULL;
}

hst_tokenizer *hst_tokenizer_bytes(hst_context *ctx) {
    hst_tokenizer *t = make(ctx, 256);
    for (int i = 0; t && i < 256; i++) t->spellings[i] = (spelling){{(char)i}, 1};
    return t;
}

static size_t write_text(const hst_tokenizer *t, char *text, size_t size) {
    hst_json_writer out = hst_json_into(text, size);
    hst_json_put_open(&out, '{');
    hst_json_put_key(&out, "characters");
    hst_json_put_open(&out, '[');
    for (int64_t i = 0; i < t->size; i++) hst_json_put_integer(&out, t->code_points[i]);
    hst_json_put_close(&out, ']');
    hst_json_put_close(&out, '}');
    return out.length + 1;
}

// A tokenizer of these code points, ascending; NULL after an error.
static hst_tokenizer *of_code_points(hst_context *ctx, const int32_t *code_points, int64_t count) {
    hst_tokenizer *t = make(ctx, count);
    if (!t) return NULL;
    size_t bytes = (size_t)count * sizeof *code_points;
    if ((t->code_points = hst_workspace(ctx, bytes))) {
        memcpy(t->code_points, code_points, bytes);
        for (int64_t i = 0; i < count; i++) t->spellings[i] = spell(code_points[i]);
        size_t size = write_text(t, NULL, 0);
        if ((t->text = hst_workspace(ctx, size))) write_text(t, t->text, size);
    }
    if (t->text) return t;
    hst_tokenizer_free(t);
    return NULL;
}

static bool not_text(hst_context *ctx, size_t at, const char *what) {
    hst_fail(ctx, HST_ERROR_FORMAT, "the text %s at byte %zu, so it has no characters; bytes read any text", what, at);
    return false;
}

// Marks each code point of the text; *count of them are different.
static bool mark(const hst_corpus *corpus, bool *seen, int64_t *count) {
    const uint8_t *bytes = corpus->bytes;
    for (size_t at = 0, step; at < corpus->size; at += step) {
        int length;
        int32_t c = code_point_at(bytes + at, corpus->size - at, &length);
        if (c <= 0) return not_text(corpus->ctx, at, c ? "is not UTF-8" : "has a NUL");
        if (!seen[c] && ++*count > MAX_CHARACTERS)
            return hst_fail(corpus->ctx, HST_ERROR_FORMAT,
                            "the text has more than %d different characters; bytes read any text", MAX_CHARACTERS),
                   false;
        seen[c] = true;
        step = (size_t)length;
    }
    return true;
}

hst_tokenizer *hst_tokenizer_characters(const hst_corpus *corpus) {
    hst_context *ctx = hst_corpus_context(corpus);
    if (hst_get_status(ctx) != HST_OK) return NULL;
    bool *seen = hst_workspace(ctx, CODE_POINTS * sizeof *seen);
    int32_t *found = hst_workspace(ctx, MAX_CHARACTERS * sizeof *found);
    int64_t count = 0;
    hst_tokenizer *t = NULL;
    if (seen) memset(seen, 0, CODE_POINTS * sizeof *seen);
    if (seen && found && mark(corpus, seen, &count)) {
        count = 0;
        for (int32_t c = 0; c < CODE_POINTS; c++)
            if (seen[c]) found[count++] = c;
        t = of_code_points(ctx, found, count);
    }
    hst_workspace_free(ctx, found);
    hst_workspace_free(ctx, seen);
    return t;
}

// ---- as text ----

// The code points of {"characters":[...]}, ascending; how many, or -1.
static int64_t read_code_points(hst_json *in, int32_t *code_points) {
    int64_t count = 0;
    hst_json_enter(in, '{');
    while (hst_json_next(in)) {
        if (strcmp(in->key, "characters")) {
            hst_json_skip(in);
            continue;
        }
        hst_json_enter(in, '[');
        while (hst_json_next(in)) {
            uint64_t c = hst_json_unsigned(in);
            bool ascends = count == 0 || c > (uint64_t)code_points[count - 1];
            if (c == 0 || c >= CODE_POINTS || (c >= 0xd800 && c < 0xe000) || !ascends || count == MAX_CHARACTERS)
                return -1;
            code_points[count++] = (int32_t)c;
        }
    }
    return hst_json_end(in) && count > 0 ? count : -1;
}

hst_tokenizer *hst_tokenizer_read(hst_context *ctx, const char *text) {
    if (!text) return hst_tokenizer_bytes(ctx);
    if (hst_get_status(ctx) != HST_OK) return NULL;
    size_t length = strlen(text);
    char *copy = hst_workspace(ctx, length + 1);
    int32_t *code_points = hst_workspace(ctx, MAX_CHARACTERS * sizeof *code_points);
    hst_tokenizer *t = NULL;
    if (copy && code_points) {
        memcpy(copy, text, length + 1);
        hst_json in = hst_json_open(copy, length);
        int64_t count = read_code_points(&in, code_points);
        if (count > 0)
            t = of_code_points(ctx, code_points, count);
        else
            hst_fail(ctx, HST_ERROR_FORMAT,
                     "hst_tokenizer_read: {\"characters\":[...]} with ascending code points is expected");
    }
    hst_workspace_free(ctx, code_points);
    hst_workspace_free(ctx, copy);
    return t;
}

const char *hst_tokenizer_text(const hst_tokenizer *t) {
    if (!t) return NULL;
    return t->text;
}
int64_t hst_tokenizer_size(const hst_tokenizer *t) {
    if (!t) return 0;
    return t->size;
}
const char *hst_tokenizer_unit(const hst_tokenizer *t) { return t && t->code_points ? "character" : "byte"; }

bool hst_tokenizer_equal(const hst_tokenizer *a, const hst_tokenizer *b) {
    const char *x = hst_tokenizer_text(a), *y = hst_tokenizer_text(b);
    return x && y ? !strcmp(x, y) : x == y;
}

bool hst_tokenizer_fits(const hst_tokenizer *t, const char *path, int64_t vocabulary) {
    if (!t) return false;
    if (t->size == vocabulary) return true;
    hst_fail(t->ctx, HST_ERROR_FORMAT, "%s: its vocabulary has %lld symbols, but its tokenizer, of %ss, has %lld", path,
             (long long)vocabulary, hst_tokenizer_unit(t), (long long)t->size);
    return false;
}

const char *hst_tokenizer_decode(const hst_tokenizer *t, int64_t symbol, size_t *count) {
    bool known = t && symbol >= 0 && symbol < t->size;
    *count = known ? t->spellings[symbol].count : 0;
    return known ? t->spellings[symbol].bytes : "";
}

static int by_value(const void *a, const void *b) {
    return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b);
}

static int32_t symbol_of(const hst_tokenizer *t, int32_t code_point) {
    const int32_t *found = bsearch(&code_point, t->code_points, (size_t)t->size, sizeof code_point, by_value);
    return found ? (int32_t)(found - t->code_points) : -1;
}

int64_t hst_tokenizer_start(const hst_tokenizer *t) {
    int32_t newline = t && t->code_points ? symbol_of(t, '\n') : '\n';
    return newline >= 0 ? newline : 0;
}

// ---- a corpus as symbols ----

// What was not in the table: the first few different characters, and how many there were in all.
typedef struct strangers {
    int32_t shown[SHOWN];
    int different; // of shown
    int64_t count;
    size_t first; // byte
} strangers;

static void meet(strangers *s, int32_t c, size_t at) {
    if (s->count++ == 0) s->first = at;
    for (int i = 0; i < s->different; i++)
        if (s->shown[i] == c) return;
    if (s->different < SHOWN) s->shown[s->different++] = c;
}

static void describe(const strangers *s, char *text, size_t size) {
    int length = snprintf(text, size, "%lld of the text's characters are not in the vocabulary, the first at byte %zu:",
                          (long long)s->count, s->first);
    for (int i = 0; i < s->different && length < (int)size; i++) {
        spelling c = spell(s->shown[i]);
        length +=
            snprintf(text + length, size - (size_t)length, " '%.*s' (U+%04X)", c.count, c.bytes, (unsigned)s->shown[i]);
    }
}

// The symbols; those without one are skipped, and so are their bytes if that is wanted. false after an error.
static bool encode(hst_corpus *corpus, const hst_tokenizer *t, bool skip_unknown, strangers *s) {
    size_t kept = 0;
    int32_t ascii[128];
    for (int32_t c = 0; c < 128; c++) ascii[c] = symbol_of(t, c);
    for (size_t at = 0, step; at < corpus->size; at += step) {
        int length;
        int32_t c = code_point_at(corpus->bytes + at, corpus->size - at, &length);
        if (c < 0) return not_text(corpus->ctx, at, "is not UTF-8");
        step = (size_t)length;
        int32_t symbol = c < 128 ? ascii[c] : symbol_of(t, c);
        if (symbol < 0) {
            meet(s, c, at);
            continue;
        }
        if (kept < at && skip_unknown) memmove(corpus->bytes + kept, corpus->bytes + at, step);
        kept += step;
        corpus->symbols[corpus->symbol_count++] = symbol;
    }
    if (skip_unknown) corpus->size = kept;
    return true;
}

// After an error the text is what it was.
static hst_status forget(hst_corpus *corpus) {
    hst_workspace_free(corpus->ctx, corpus->symbols);
    corpus->symbols = NULL;
    corpus->symbol_count = 0;
    return corpus->ctx->status;
}

hst_status hst_corpus_encode(hst_corpus *corpus, const hst_tokenizer *t, bool skip_unknown) {
    if (!corpus || !t) return HST_ERROR_STATE;
    hst_context *ctx = corpus->ctx;
    if (ctx->status != HST_OK) return ctx->status;
    if (corpus->tokenizer)
        return hst_fail(ctx, HST_ERROR_STATE, "hst_corpus_encode: the text has been encoded already");
    if (t->code_points) {
        strangers s = {.count = 0};
        char text[256];
        corpus->symbols = hst_workspace(ctx, corpus->size * sizeof *corpus->symbols + 1);
        if (!corpus->symbols || !encode(corpus, t, skip_unknown, &s)) return forget(corpus);
        describe(&s, text, sizeof text);
        if (s.count > 0 && !skip_unknown) return hst_fail(ctx, HST_ERROR_FORMAT, "%s", text), forget(corpus);
        if (s.count > 0) hst_log_message(ctx, HST_LOG_WARNING, "%s; they are skipped", text);
    }
    corpus->tokenizer = t;
    return HST_OK;
}

const hst_tokenizer *hst_corpus_tokenizer(const hst_corpus *corpus) {
    if (!corpus) return NULL;
    return corpus->tokenizer;
}

hst_symbols hst_corpus_symbols(const hst_corpus *corpus) {
    if (!corpus) return (hst_symbols){0};
    if (corpus->symbols) return (hst_symbols){corpus->symbols, HST_I32, corpus->symbol_count};
    return (hst_symbols){corpus->bytes, HST_U8, (int64_t)corpus->size};
}
