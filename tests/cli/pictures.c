// pictures.c: see pictures.h.
#include "tests/cli/pictures.h"
#include "tests/cli/child.h"

#ifdef CAN_LOOK_AT_PICTURES

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>

static const unsigned AXIS = 0x404040, GRID = 0xe4e4e4;

unsigned pixel(const picture *p, int x, int y) {
    cr_assert(x >= 0 && x < p->width && y >= 0 && y < p->height);
    const unsigned char *c = p->rgb + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
    return (unsigned)c[0] << 16 | (unsigned)c[1] << 8 | c[2];
}

static int count_in_row(const picture *p, int y, unsigned color) {
    int count = 0;
    for (int x = 0; x < p->width; x++) count += pixel(p, x, y) == color;
    return count;
}

// The x axis is the longest run of its colour; the first line of the grid is where the y axis ends.
static void find_axes(picture *p) {
    for (int y = 0; y < p->height; y++)
        for (int x = 0, length = 0; x < p->width; x++) {
            length = pixel(p, x, y) == AXIS ? length + 1 : 0;
            if (length > p->right + 1 - p->left) p->left = x + 1 - length, p->right = x, p->low = y;
        }
    cr_assert_gt(p->right - p->left, p->width / 2);
    for (p->high = 0; count_in_row(p, p->high, GRID) < p->width / 3; p->high++) cr_assert_lt(p->high, p->low);
}

picture read_picture(const char *path) {
    picture p = {.right = -1};
    int channels;
    p.rgb = stbi_load(path, &p.width, &p.height, &channels, 3);
    cr_assert(p.rgb && channels == 3, "%s: %s", path, p.rgb ? "not RGB" : stbi_failure_reason());
    find_axes(&p);
    return p;
}

void free_picture(picture p) { stbi_image_free(p.rgb); }

double x_at(const picture *p, double x, double last) { return p->left + (p->right - p->left) * x / last; }
double y_at(const picture *p, double y, double top) { return p->low - (p->low - p->high) * y / top; }

int colorfulness(unsigned color) {
    int r = color >> 16 & 255, g = color >> 8 & 255, b = color & 255;
    int most = r > g ? r : g, least = r < g ? r : g;
    return (b > most ? b : most) - (b < least ? b : least);
}

double middle_of_column(const picture *p, int x) {
    double sum = 0, moment = 0;
    for (int y = p->high + 50; y < p->low; y++) {
        sum += colorfulness(pixel(p, x, y));
        moment += y * colorfulness(pixel(p, x, y));
    }
    return sum > 0 ? moment / sum : NAN;
}

void expect_same_picture(const char *a, const char *b) {
    size_t sizes[2];
    const char *first = read_file(a, &sizes[0]), *second = read_file(b, &sizes[1]);
    cr_assert(first && second && sizes[0] == sizes[1] && memcmp(first, second, sizes[0]) == 0, "%s and %s differ", a,
              b);
}

#endif
