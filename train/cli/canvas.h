// canvas.h: a picture in memory. A shape is laid down as coverage, a share of each pixel from 0 to 1, and then painted
// in one go: where segments of one curve meet, no pixel is painted twice.
//
//     canvas *c = canvas_new(960, 540);               // white
//     canvas_lay_segment(c, 10, 10, 90, 50, 1.5);     // centres of pixels have whole coordinates; y points down
//     canvas_lay_segment(c, 90, 50, 200, 20, 1.5);
//     canvas_paint(c, 0x2563b0, 1);
//     canvas_free(c);
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct canvas_box {
    int left, top, right, bottom; // the last two are outside
} canvas_box;

typedef struct canvas {
    int width, height;
    uint8_t *pixels;       // RGB, row by row
    float *cover;          // of what has been laid down and not been painted
    canvas_box clip, laid; // where shapes may be; where there are some
} canvas;

canvas *canvas_new(int width, int height); // NULL: no memory
void canvas_free(canvas *c);               // NULL is accepted
void canvas_clip(canvas *c, canvas_box box);
void canvas_clip_nothing(canvas *c);

void canvas_lay_segment(canvas *c, double x0, double y0, double x1, double y1, double width); // with round ends
void canvas_lay_disc(canvas *c, double x, double y, double radius);
void canvas_lay_box(canvas *c, canvas_box box);
void canvas_paint(canvas *c, uint32_t color, double opacity); // 0xRRGGBB

// ---- font.c: printable ASCII; any other character is an empty box ----

// Text on a baseline, `unit` pixels a unit of the font: capitals are 7 units high, g reaches 2 below.
void canvas_lay_text(canvas *c, double x, double baseline, double unit, const char *text);
double canvas_text_width(double unit, const char *text);

#endif
