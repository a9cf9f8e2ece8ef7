// strips.h: reductions over the rows of (outer, rows, width), vector by vector. A strip is what one vector passes over:
// with width 1 the elements of a row, side by side, whose lanes are put together at the end; otherwise VL columns, down
// all rows, each in a lane of its own.
#ifndef HST_STRIPS_H
#define HST_STRIPS_H

#include "ops/cpu/blocks.h"

typedef struct strip {
    int64_t first, step, count; // offset of the first vector, distance of two, how many
    int64_t result;             // where its results lie in (outer, width)
    int64_t lanes, last;        // in a vector, in the last one
    bool across;                // width 1: one result from all lanes
} strip;

INLINE int64_t strips_in(int64_t outer, int64_t width) { return outer * vectors(width); }
INLINE int64_t strips_in_task(int64_t rows, int64_t width) { return task_rows(width == 1 ? rows : rows * VL); }

INLINE strip strip_of(int64_t index, int64_t rows, int64_t width) {
    if (width == 1) {
        int64_t count = vectors(rows);
        return (strip){index * rows, VL, count, index, VL, rows - (count - 1) * VL, true};
    }
    int64_t outer = index / vectors(width), column = index % vectors(width) * VL;
    int64_t lanes = width - column < VL ? width - column : VL;
    return (strip){outer * rows * width + column, width, rows, outer * width + column, lanes, lanes, false};
}

INLINE int64_t lanes_of(const strip *s, int64_t i) { return i == s->count - 1 ? s->last : s->lanes; }
INLINE int64_t results_of(const strip *s) { return s->across ? 1 : s->lanes; }

// Sums and maxima of a strip's lanes, in all lanes, where they belong together.
INLINE wide gathered(const strip *s, wide sum) {
    if (!s->across) return sum;
    double all = total(sum);
    return (wide){all - (vd){0}, all - (vd){0}};
}

// The greater; NaN if x or most is.
INLINE vf greater_or_nan(vf x, vf most) { return pick((x > most) | (x != x), x, most); }

INLINE vf maximum_of(hst_source x, const strip *s) {
    vf most = splat(-INFINITY);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t n = lanes_of(s, i);
        most = greater_or_nan(first_lanes(get(x, s->first + i * s->step, n), n, -INFINITY), most);
    }
    float all = most[0];
    for (int l = 1; s->across && l < VL; l++)
        if (most[l] > all || most[l] != most[l]) all = most[l];
    return s->across ? splat(all) : most;
}

// The result of a strip, from an array that has one for each row or column.
INLINE vf result_at(hst_source y, const strip *s) {
    vf r = get(y, s->result, results_of(s));
    return s->across ? splat(r[0]) : r;
}

#endif
