// format.c: numbers and tensors as text, the same in every locale.
#include <stdio.h>
#include <string.h>
#include "tensor/context.h"

int hst_format_number(char text[32], double x, int digits) {
    int length = snprintf(text, 32, "%.*g", digits, x);
    for (char *p = text; *p; p++)
        if (!strchr("0123456789+-einfa", *p)) { // the locale's decimal point, possibly of several bytes
            size_t width = strcspn(p, "0123456789+-e");
            *p = '.';
            memmove(p + 1, p + width, strlen(p + width) + 1);
            length -= (int)width - 1;
            break;
        }
    return length;
}

// Collects text as snprintf does: counts everything, keeps what fits.
typedef struct writer {
    char *text;
    size_t size, length;
} writer;

static void put(writer *w, const char *s) {
    for (; *s; s++, w->length++)
        if (w->length + 1 < w->size) w->text[w->length] = *s;
}

enum { EDGE = 3 }; // elements shown at each end of an axis that is longer than twice that

static void put_axis(writer *w, const hst_tensor *t, int axis, int64_t position) {
    if (axis == t->rank) {
        char number[32];
        int digits = t->dtype == HST_I32 || t->dtype == HST_I64 ? 19 : 6; // integers in full
        hst_format_number(number, hst_load((hst_source){hst_raw(t), t->dtype}, position), digits);
        put(w, number);
        return;
    }
    put(w, "[");
    for (int64_t i = 0; i < t->shape[axis]; i++) {
        if (i > 0) put(w, axis == t->rank - 1 ? ", " : ",\n ");
        if (t->shape[axis] > 2 * EDGE + 1 && i == EDGE) {
            put(w, axis == t->rank - 1 ? "..., " : "...,\n ");
            i = t->shape[axis] - EDGE;
        }
        put_axis(w, t, axis + 1, position + i * t->stride[axis]);
    }
    put(w, "]");
}

size_t hst_format(const hst_tensor *t, char *text, size_t size) {
    writer w = {text, size, 0};
    char head[64];
    if (size > 0) *text = 0;
    if (!t) return 0;
    put(&w, hst_describe(t, head));
    put(&w, "\n");
    put_axis(&w, t, 0, 0);
    if (size > 0) text[w.length < size ? w.length : size - 1] = 0;
    return w.length;
}
