// naive_softmax.c: the naive kernels of softmax and of the maximum, over the rows of (outer, rows, width). A column is
// one sequence of `rows` elements that lie `width` apart; column c starts at first(c).
#include "ops/cpu/naive.h"

#include <math.h>

static int64_t first(int64_t rows, int64_t width, int64_t column) {
    return column / width * rows * width + column % width;
}

// NaN is greater than anything.
static double greatest(hst_source x, int64_t at, int64_t rows, int64_t width) {
    double most = -INFINITY;
    for (int64_t i = 0; i < rows && !isnan(most); i++) {
        double value = hst_load(x, at + i * width);
        if (!(value <= most)) most = value;
    }
    return most;
}

bool KERNEL(max)(hst_context *ctx, const hst_max_args *args) {
    (void)ctx;
    for (int64_t c = 0; c < args->outer * args->width; c++)
        put(args->y, c, greatest(args->x, first(args->rows, args->width, c), args->rows, args->width));
    return true;
}

// The greatest of several equals does not depend on any one of them alone: they share its gradient.
bool KERNEL(max_grad)(hst_context *ctx, const hst_max_grad_args *args) {
    (void)ctx;
    int64_t rows = args->rows, width = args->width;
    for (int64_t c = 0; c < args->outer * width; c++) {
        int64_t at = first(rows, width, c);
        double equals = 0, y = hst_load(args->y, c), dy = hst_load(args->dy, c);
        for (int64_t i = 0; i < rows; i++) equals = add(args->dx.dtype, equals, hst_load(args->x, at + i * width) == y);
        for (int64_t i = 0; i < rows; i++) {
            bool equal = hst_load(args->x, at + i * width) == y;
            put(args->dx, at + i * width, isnan(y) ? NAN : equal ? dy / equals : 0);
        }
    }
    return true;
}

// Subtracting the greatest x first keeps every exponential in [0, 1] and changes nothing.
bool KERNEL(softmax)(hst_context *ctx, const hst_softmax_args *args) {
    (void)ctx;
    int64_t rows = args->rows, width = args->width;
    for (int64_t c = 0; c < args->outer * width; c++) {
        int64_t at = first(rows, width, c);
        double most = greatest(args->x, at, rows, width), sum = 0;
        for (int64_t i = 0; i < rows; i++) sum = add(args->y.dtype, sum, exp(hst_load(args->x, at + i * width) - most));
        for (int64_t i = 0; i < rows; i++) {
            double x = hst_load(args->x, at + i * width) - most;
            put(args->y, at + i * width, args->log ? x - log(sum) : exp(x) / sum);
        }
    }
    return true;
}

// y_i = e_i / s, s = sum of e: dy_i/dx_j = y_i ((i = j) - y_j), so dx_j = y_j (dy_j - sum_i dy_i y_i).
// The logarithm, y_i = x_i - log s: dy_i/dx_j = (i = j) - exp(y_j), so dx_j = dy_j - exp(y_j) sum_i dy_i.
bool KERNEL(softmax_grad)(hst_context *ctx, const hst_softmax_grad_args *args) {
    (void)ctx;
    int64_t rows = args->rows, width = args->width;
    for (int64_t c = 0; c < args->outer * width; c++) {
        int64_t at = first(rows, width, c);
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            double y = hst_load(args->y, at + i * width), dy = hst_load(args->dy, at + i * width);
            sum = add(args->dx.dtype, sum, args->log ? dy : dy * y);
        }
        for (int64_t i = 0; i < rows; i++) {
            double y = hst_load(args->y, at + i * width), dy = hst_load(args->dy, at + i * width);
            put(args->dx, at + i * width, args->log ? dy - exp(y) * sum : y * (dy - sum));
        }
    }
    return true;
}
