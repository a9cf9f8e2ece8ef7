// canvas.c: see canvas.h.
#include "train/cli/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int at_least(int a, int b) { return a > b ? a : b; }
static int at_most(int a, int b) { return a < b ? a : b; }

canvas *canvas_new(int width, int height) {
    size_t count = (size_t)width * (size_t)height;
    canvas *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (canvas){
        .width = width, .height = height, .pixels = malloc(3 * count), .cover = calloc(count, sizeof *c->cover)};
    if (!c->pixels || !c->cover) {
        canvas_free(c);
        return NULL;
    }
    memset(c->pixels, 255, 3 * count);
    c->laid = (canvas_box){width, height, 0, 0};
    canvas_clip_nothing(c);
    return c;
}

void canvas_free(canvas *c) {
    if (!c) return;
    free(c->pixels);
    free(c->cover);
    free(c);
}

static canvas_box common_part(canvas_box a, canvas_box b) {
    return (canvas_box){at_least(a.left, b.left), at_least(a.top, b.top), at_most(a.right, b.right),
                        at_most(a.bottom, b.bottom)};
}

void canvas_clip_nothing(canvas *c) { c->clip = (canvas_box){0, 0, c->width, c->height}; }

void canvas_clip(canvas *c, canvas_box box) { c->clip = common_part(box, (canvas_box){0, 0, c->width, c->height}); }

static void widen_laid(canvas *c, canvas_box b) {
    if (b.left >= b.right || b.top >= b.bottom) return;
    c->laid = (canvas_box){at_most(c->laid.left, b.left), at_most(c->laid.top, b.top), at_least(c->laid.right, b.right),
                           at_least(c->laid.bottom, b.bottom)};
}

// The distance of (x, y) from the segment that starts at (x0, y0) and goes along (dx, dy).
static double distance(double x, double y, double x0, double y0, double dx, double dy) {
    double length2 = dx * dx + dy * dy;
    double t = length2 > 0 ? ((x - x0) * dx + (y - y0) * dy) / length2 : 0;
    t = fmin(1, fmax(0, t));
    return hypot(x - x0 - t * dx, y - y0 - t * dy);
}

// A pixel is covered where its centre is inside, and less and less over the one pixel around the edge.
void canvas_lay_segment(canvas *c, double x0, double y0, double x1, double y1, double width) {
    const double far = 1e5; // past any picture; a loss of 1e300 has to become an int as well
    x0 = fmin(far, fmax(-far, x0)), y0 = fmin(far, fmax(-far, y0));
    x1 = fmin(far, fmax(-far, x1)), y1 = fmin(far, fmax(-far, y1));
    double reach = width / 2 + 0.5;
    canvas_box box = {(int)floor(fmin(x0, x1) - reach), (int)floor(fmin(y0, y1) - reach),
                      (int)ceil(fmax(x0, x1) + reach) + 1, (int)ceil(fmax(y0, y1) + reach) + 1};
    box = common_part(box, c->clip);
    for (int y = box.top; y < box.bottom; y++) {
        float *row = c->cover + (size_t)y * (size_t)c->width;
        for (int x = box.left; x < box.right; x++) {
            double covered = fmin(1, reach - distance(x, y, x0, y0, x1 - x0, y1 - y0));
            if (covered > row[x]) row[x] = (float)covered;
        }
    }
    widen_laid(c, box);
}

void canvas_lay_disc(canvas *c, double x, double y, double radius) { canvas_lay_segment(c, x, y, x, y, 2 * radius); }

void canvas_lay_box(canvas *c, canvas_box box) {
    box = common_part(box, c->clip);
    for (int y = box.top; y < box.bottom; y++)
        for (int x = box.left; x < box.right; x++) c->cover[(size_t)y * (size_t)c->width + (size_t)x] = 1;
    widen_laid(c, box);
}

void canvas_paint(canvas *c, uint32_t color, double opacity) {
    const double ink[3] = {color >> 16 & 255, color >> 8 & 255, color & 255};
    for (int y = c->laid.top; y < c->laid.bottom; y++)
        for (int x = c->laid.left; x < c->laid.right; x++) {
            size_t i = (size_t)y * (size_t)c->width + (size_t)x;
            double share = opacity * c->cover[i];
            for (int k = 0; k < 3; k++) {
                uint8_t *value = &c->pixels[3 * i + (size_t)k];
                *value = (uint8_t)lrint(*value + share * (ink[k] - *value));
            }
            c->cover[i] = 0;
        }
    c->laid = (canvas_box){c->width, c->height, 0, 0};
}
