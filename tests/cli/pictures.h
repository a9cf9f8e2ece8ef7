// pictures.h: looks at the pictures of losses that the command has drawn, where the tests and the command have stb.
#ifndef PICTURES_H
#define PICTURES_H

#if !defined(CLI_WITHOUT_STB) && __has_include(<stb/stb_image.h>)
#define CAN_LOOK_AT_PICTURES

typedef struct picture {
    int width, height;
    unsigned char *rgb;
    int left, right, low, high; // pixels of the axes' ends
} picture;

picture read_picture(const char *path);
void free_picture(picture p);
void expect_same_picture(const char *a, const char *b); // of two files

// The pixel of a point of a curve, where the axes are 0 to `last` and 0 to `top`.
double x_at(const picture *p, double x, double last);
double y_at(const picture *p, double y, double top);

unsigned pixel(const picture *p, int x, int y); // 0xrrggbb
int colorfulness(unsigned color);               // 0: a grey

// The middle of what has a colour in a column, below the legend; NAN: there is nothing. A colour on grey is as
// colourful as it covers it, so that this is the centre of the line's coverage.
double middle_of_column(const picture *p, int x);

#endif
#endif
