// chart.c: see chart.h. The x axis goes from 0 to the last point; the y axis to the ticks around the points, or as far
// as it is told.
#include "train/cli/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The colours differ in hue and in lightness, which printers and most kinds of colour blindness leave.
static const uint32_t colors[CHART_COLORS] = {0x2060b0, 0xd04040, 0x209060, 0x8050b0,
                                              0xe08810, 0x10a0b8, 0x704828, 0x606870};
static const uint32_t INK = 0x303030, GREY = 0x707070, AXIS = 0x404040, GRID = 0xe4e4e4, PAPER = 0xffffff;

typedef struct axis {
    double low, high, tick; // in the data's unit
    int from, to;           // pixels of low and high
} axis;

typedef struct drawing {
    const chart *chart;
    canvas *canvas;
    double unit; // of text; everything else grows with it
    axis x, y;
} drawing;

// ---- axes ----

// 1, 2 or 5 times a power of ten, so that a span has at most `most` of them.
static double round_tick(double span, double most) {
    double power = pow(10, floor(log10(span / most)));
    double times = span / most / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static double to_pixel(const axis *a, double value) {
    return a->from + (a->to - a->from) * (value - a->low) / (a->high - a->low);
}

typedef struct range {
    double low, high;
} range;

static void include_curve(range *x, range *y, const chart_curve *curve) {
    for (size_t i = 0; i < curve->count; i++) {
        if (isnan(curve->points[i].y)) continue;
        x->high = fmax(x->high, curve->points[i].x);
        y->low = fmin(y->low, curve->points[i].y);
        y->high = fmax(y->high, curve->points[i].y);
    }
}

// Both axes' values; their pixels must be known.
static void scale_axes(drawing *d) {
    const chart *c = d->chart;
    range x = {0, 0}, y = {INFINITY, -INFINITY};
    for (int i = 0; i < c->count; i++) {
        include_curve(&x, &y, &c->entries[i].thin);
        include_curve(&x, &y, &c->entries[i].dotted);
    }
    d->x.low = 0;
    d->x.high = x.high > 0 ? x.high : 1;
    d->x.tick = round_tick(d->x.high, fmax(2, (d->x.to - d->x.from) / (60 * d->unit)));
    if (!isnan(c->low)) y.low = c->low;
    if (!isnan(c->high)) y.high = c->high;
    if (!(y.high - y.low > 1e-9 * fmax(1, fabs(y.high)))) { // all the same, or all past a given end
        double middle = isfinite(y.low) && isnan(c->high) ? y.low : y.high;
        double half = 0.05 * fmax(1, fabs(middle));
        y.low = isnan(c->low) ? middle - half : c->low;
        y.high = isnan(c->high) ? y.low + 2 * half : c->high;
    }
    d->y.tick = round_tick(y.high - y.low, fmax(2, (d->y.from - d->y.to) / (32 * d->unit)));
    d->y.low = isnan(c->low) ? d->y.tick * floor(y.low / d->y.tick + 1e-9) : y.low;
    d->y.high = isnan(c->high) ? d->y.tick * ceil(y.high / d->y.tick - 1e-9) : y.high;
}

// A tick's value, with as many decimals as the step between ticks needs; large ones in thousands or millions.
static const char *format_tick(const axis *a, double value, char *buffer, size_t size) {
    static const struct {
        double above, unit;
        const char *suffix;
    } units[] = {{1e10, 1e9, "G"}, {1e7, 1e6, "M"}, {1e4, 1e3, "k"}, {0, 1, ""}};
    int u = 0;
    if (a->high >= 1e14) return snprintf(buffer, size, "%g", value), buffer;
    while (a->high < units[u].above) u++;
    double step = a->tick / units[u].unit;
    int decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    snprintf(buffer, size, "%.*f%s", decimals, value / units[u].unit, value != 0 ? units[u].suffix : "");
    return buffer;
}

// The number of the first tick on an axis, and whether the n-th is still on it.
static long first_tick(const axis *a) { return lrint(ceil(a->low / a->tick - 1e-9)); }
static bool is_on(const axis *a, long n) { return (double)n * a->tick <= a->high + 1e-9 * a->tick; }

// ---- layout ----

static double text_width(const drawing *d, const char *text) { return canvas_text_width(d->unit, text); }

// The text's left end is at x, or its middle (align 0.5), or its right end (1).
static void draw_text(const drawing *d, double x, double baseline, double align, uint32_t color, const char *text) {
    double left = floor(x - align * text_width(d, text) + 0.5);
    canvas_lay_text(d->canvas, left, baseline, d->unit, text);
    canvas_paint(d->canvas, color, 1);
}

// Pixels of the axes. The margin at the left has room for the widest label, which depends on how many ticks there are.
static void lay_out(drawing *d) {
    const chart *c = d->chart;
    double u = d->unit, widest = 0;
    char label[32];
    d->x.from = (int)(60 * u), d->x.to = c->width - 1 - (int)(20 * u);
    d->y.from = c->height - 1 - (int)(34 * u), d->y.to = (int)(26 * u);
    scale_axes(d);
    for (long n = first_tick(&d->y); is_on(&d->y, n); n++)
        widest = fmax(widest, text_width(d, format_tick(&d->y, (double)n * d->y.tick, label, sizeof label)));
    d->x.from = (int)(fmin(widest, 90 * u) + 20 * u);
}

static void draw_grid(const drawing *d) {
    char label[32];
    double u = d->unit;
    for (long n = first_tick(&d->y); is_on(&d->y, n); n++) {
        double value = (double)n * d->y.tick;
        int at = (int)lrint(to_pixel(&d->y, value));
        canvas_lay_box(d->canvas, (canvas_box){d->x.from, at, d->x.to + 1, at + 1});
        canvas_paint(d->canvas, GRID, 1);
        draw_text(d, d->x.from - 6 * u, floor(at + 3.5 * u), 1, INK, format_tick(&d->y, value, label, sizeof label));
    }
    for (long n = 0; is_on(&d->x, n); n++) {
        double value = (double)n * d->x.tick;
        int at = (int)lrint(to_pixel(&d->x, value));
        canvas_lay_box(d->canvas, (canvas_box){at, d->y.from + 1, at + 1, d->y.from + 1 + (int)(4 * u)});
        canvas_paint(d->canvas, AXIS, 1);
        draw_text(d, at, floor(d->y.from + 14 * u), 0.5, INK, format_tick(&d->x, value, label, sizeof label));
    }
    canvas_lay_box(d->canvas, (canvas_box){d->x.from, d->y.from, d->x.to + 1, d->y.from + 1});
    canvas_paint(d->canvas, AXIS, 1);
    draw_text(d, (d->x.from + d->x.to) / 2.0, floor(d->y.from + 28 * u), 0.5, GREY, d->chart->x_label);
    draw_text(d, d->x.from, floor(d->y.to - 10 * u), 0, GREY, d->chart->y_label);
}

// ---- curves ----

static uint32_t tint(uint32_t color) { // half-way to white
    return ((color & 0xfefefe) >> 1) + 0x7f7f7f;
}

static double thin_width(const drawing *d) { return 1.1 * d->unit; }
static double dot_radius(const drawing *d) { return 2.0 * d->unit; }

static void draw_ring(const drawing *d, double x, double y, uint32_t color) {
    canvas_lay_disc(d->canvas, x, y, 1.9 * dot_radius(d));
    canvas_paint(d->canvas, color, 1);
    canvas_lay_disc(d->canvas, x, y, 1.9 * dot_radius(d) - 1.1 * d->unit);
    canvas_paint(d->canvas, PAPER, 1);
}

// A point between two gaps would be invisible as a line: its round ends make it a dot.
static void draw_line(const drawing *d, const chart_curve *curve, uint32_t color) {
    double x = 0, y = NAN;
    canvas_clip(d->canvas, (canvas_box){d->x.from - 1, d->y.to - 1, d->x.to + 2, d->y.from + 2});
    for (size_t i = 0; i < curve->count; i++) {
        double next_x = to_pixel(&d->x, curve->points[i].x), next_y = to_pixel(&d->y, curve->points[i].y);
        if (!isnan(next_y))
            canvas_lay_segment(d->canvas, isnan(y) ? next_x : x, isnan(y) ? next_y : y, next_x, next_y, thin_width(d));
        x = next_x, y = next_y;
    }
    canvas_paint(d->canvas, color, 1);
    canvas_clip_nothing(d->canvas);
}

// Where it is, and whether that is on the axes.
static bool place(const drawing *d, const chart_point *point, double *x, double *y) {
    *x = to_pixel(&d->x, point->x);
    *y = to_pixel(&d->y, point->y);
    return *y >= d->y.to - 0.5 && *y <= d->y.from + 0.5; // not NaN
}

// Dots that would touch are left out; the line is there.
static void draw_dots(const drawing *d, const chart_curve *curve, uint32_t color) {
    double x, y, apart = 4 * dot_radius(d), last = -INFINITY;
    draw_line(d, curve, color);
    if (curve->mark >= 0 && place(d, &curve->points[curve->mark], &x, &y)) draw_ring(d, x, y, color);
    for (size_t i = 0; i < curve->count; i++) {
        bool marked = (long)i == curve->mark;
        if (!place(d, &curve->points[i], &x, &y) || (x < last + apart && !marked)) continue;
        canvas_lay_disc(d->canvas, x, y, dot_radius(d));
        last = x;
    }
    canvas_paint(d->canvas, color, 1);
}

// ---- legends ----

// What is in a row's name, cut at the front where it is too long: paths differ at their ends.
static const char *fit_name(const drawing *d, const char *name, double width, char *buffer, size_t size) {
    const char *rest = name;
    snprintf(buffer, size, "%s", name);
    while (text_width(d, buffer) > width && *rest) {
        do rest++;
        while ((*rest & 0xC0) == 0x80);
        snprintf(buffer, size, "..%s", rest);
    }
    return buffer;
}

// The keys of the two kinds of curve and of the mark, at the right above the curves.
static void draw_keys(const drawing *d) {
    const chart *c = d->chart;
    bool thin = false, dotted = false, marked = false;
    for (int i = 0; i < c->count; i++) {
        thin = thin || c->entries[i].thin.count;
        dotted = dotted || c->entries[i].dotted.count;
        marked = marked || c->entries[i].dotted.mark >= 0;
    }
    double u = d->unit, right = d->x.to, baseline = floor(d->y.to - 10 * u), middle = baseline - 3 * u;
    const struct {
        bool shown, line, dot, ring;
        uint32_t color;
        const char *label;
    } keys[] = {{marked, false, true, true, GREY, c->mark_label},
                {dotted, true, true, false, GREY, c->dotted_label},
                {thin, true, false, false, tint(GREY), c->thin_label}};
    for (int i = 0; i < 3; i++) {
        if (!keys[i].shown) continue;
        draw_text(d, right, baseline, 1, GREY, keys[i].label);
        right -= floor(text_width(d, keys[i].label) + 5 * u);
        double left = right - (keys[i].line ? 16 : 8) * u, x = (left + right) / 2;
        if (keys[i].line) canvas_lay_segment(d->canvas, left, middle, right, middle, thin_width(d));
        canvas_paint(d->canvas, keys[i].color, 1);
        if (keys[i].ring) draw_ring(d, x, middle, keys[i].color);
        if (keys[i].dot) canvas_lay_disc(d->canvas, x, middle, dot_radius(d));
        canvas_paint(d->canvas, keys[i].color, 1);
        right = left - 10 * u;
    }
}

// A row an entry, at the right end of the top, where losses that fall leave room.
static void draw_legend(const drawing *d) {
    const chart *c = d->chart;
    double u = d->unit, row = 13 * u, names = 0, notes = 0, most = 0.3 * (d->x.to - d->x.from);
    char name[512];
    for (int i = 0; i < c->count; i++) {
        names = fmax(names, text_width(d, fit_name(d, c->entries[i].name, most, name, sizeof name)));
        notes = fmax(notes, text_width(d, c->entries[i].note));
    }
    double width = 22 * u + names + (notes > 0 ? 10 * u + notes : 0);
    double left = d->x.to - width - 8 * u, top = d->y.to + 7 * u;
    canvas_lay_box(d->canvas, (canvas_box){(int)(left - 6 * u), (int)top, d->x.to - (int)(2 * u),
                                           (int)(top + c->count * row + 4 * u)});
    canvas_paint(d->canvas, PAPER, 0.85);
    for (int i = 0; i < c->count; i++) {
        double baseline = floor(top + i * row + 11 * u), middle = baseline - 3 * u;
        canvas_lay_segment(d->canvas, left, middle, left + 15 * u, middle, 2 * thin_width(d));
        canvas_paint(d->canvas, colors[i], 1);
        draw_text(d, left + 22 * u, baseline, 0, INK, fit_name(d, c->entries[i].name, most, name, sizeof name));
        draw_text(d, d->x.to - 8 * u, baseline, 1, GREY, c->entries[i].note);
    }
}

canvas *chart_draw(const chart *c) {
    drawing d = {.chart = c, .canvas = canvas_new(c->width, c->height)};
    if (!d.canvas) return NULL;
    d.unit = fmax(1, 1.5 * fmin(c->width / 960.0, c->height / 540.0));
    lay_out(&d);
    draw_grid(&d);
    for (int i = 0; i < c->count; i++) draw_line(&d, &c->entries[i].thin, tint(colors[i]));
    for (int i = 0; i < c->count; i++) draw_dots(&d, &c->entries[i].dotted, colors[i]);
    draw_keys(&d);
    draw_legend(&d);
    return d.canvas;
}
