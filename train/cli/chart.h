// chart.h: curves over two axes, as a picture. It knows nothing of runs.
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include "train/cli/canvas.h"

#include <stddef.h>

typedef struct chart_point {
    double x, y; // y NaN: a gap in the curve
} chart_point;

typedef struct chart_curve {
    const chart_point *points; // x never falls
    size_t count;
    long mark; // a point with a ring around it, or -1
} chart_curve;

// One row of the legend, in one colour: a thin curve, and on it a curve with dots. Either may have no points.
typedef struct chart_entry {
    chart_curve thin, dotted;
    const char *name, *note; // the note may be ""
} chart_entry;

typedef struct chart {
    int width, height;
    const char *x_label, *y_label;
    const char *thin_label, *dotted_label, *mark_label; // what they stand for
    double low, high;                                   // of the y axis; NaN: where the points end, or the next tick
    const chart_entry *entries;
    int count; // at most CHART_COLORS
} chart;

enum { CHART_COLORS = 8, CHART_MIN_WIDTH = 480, CHART_MIN_HEIGHT = 270, CHART_MAX_SIDE = 4096 };

canvas *chart_draw(const chart *c); // NULL: no memory

#endif
