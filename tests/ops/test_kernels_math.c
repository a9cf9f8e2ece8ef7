// test_kernels_math.c: as test_kernels.c, for arithmetic, functions, softmax and reductions.
#include "tests/ops/twins.h"

// ---- arithmetic ----

// How an operand lies in the space (PLANES, rows, width): all of it, in order and transposed, or repeated along axes.
enum { PLANES = 3 };
typedef enum layout { ALL, TRANSPOSED, ROW, COLUMN, PLANE_AND_ROW, MIDDLE, ONE, LAYOUTS } layout;

static int64_t lay_out(const run *r, layout how, int64_t *stride) {
    int64_t rows = r->rows, width = r->width;
    const int64_t strides[LAYOUTS][3] = {
        [ALL] = {rows * width, width, 1}, [TRANSPOSED] = {rows * width, 1, rows}, [ROW] = {0, 0, 1},
        [COLUMN] = {rows, 1, 0},          [PLANE_AND_ROW] = {width, 0, 1},        [MIDDLE] = {0, 1, 0}};
    static const bool has_axis[LAYOUTS][3] = {[ALL] = {1, 1, 1},    [TRANSPOSED] = {1, 1, 1},    [ROW] = {0, 0, 1},
                                              [COLUMN] = {1, 1, 0}, [PLANE_AND_ROW] = {1, 0, 1}, [MIDDLE] = {0, 1, 0}};
    const int64_t shape[3] = {PLANES, rows, width};
    int64_t count = 1;
    for (int axis = 0; axis < 3; axis++) {
        stride[axis] = strides[how][axis];
        if (has_axis[how][axis]) count *= shape[axis];
    }
    return count;
}

// Swept for each layout of a; b's are drawn. Flags 1, 2: the function. Flags 3 to 5: the layout of b.
static layout a_layout;
static layout b_layout(const run *r) { return (layout)((r->flags >> 3 & 7) % LAYOUTS); }

// Numbers up to 2, rounded to f32 and once more when they are added to a number up to 1.
static bool binary_case(run *r) {
    hst_binary_args args = {
        .function = (hst_arithmetic)(r->flags >> 1 & 3), .rank = 3, .shape = {PLANES, r->rows, r->width}};
    args.a = in(r, 0, lay_out(r, a_layout, args.a_stride), -1, 1);
    args.b = in(r, 1, lay_out(r, b_layout(r), args.b_stride), 0.5, 1.5);
    args.y = out(r, 2, PLANES * r->rows * r->width, 2 * 3 * F);
    return r->ctx->backend->binary(r->ctx, &args);
}
Test(ops, binary_matches) {
    for (a_layout = ALL; a_layout < LAYOUTS; a_layout++) sweep("binary", binary_case, 3, 3, 6);
}

// One operand is one double, b or with flag 3 a: the bits are the same, and the factor is not rounded to f32.
static bool binary_with_a_double_case(run *r) {
    hst_binary_args args = {
        .function = (hst_arithmetic)(r->flags >> 1 & 3), .rank = 3, .shape = {PLANES, r->rows, r->width}};
    bool first = has(r, 3);
    int64_t count = lay_out(r, a_layout, first ? args.b_stride : args.a_stride);
    *(first ? &args.b : &args.a) = in(r, 0, count, 0.5, 1.5);
    array *one = draw(r, HST_F64, 1, 0, 0);
    hst_store((hst_target){(void *)one->values.data, HST_F64, false}, 0, 0.1);
    *(first ? &args.a : &args.b) = one->values;
    args.y = out(r, 1, PLANES * r->rows * r->width, EXACT);
    return r->ctx->backend->binary(r->ctx, &args);
}
Test(ops, binary_with_a_double_has_the_same_bits) {
    for (a_layout = ALL; a_layout < LAYOUTS; a_layout++) sweep("binary", binary_with_a_double_case, 2, 3, 4);
}

// Flag 6: the gradient of b. Terms up to 1 / 0.5^2, of four roundings, and sums of n of them: n (n + 4) 4 D.
static bool binary_grad_case(run *r) {
    hst_binary_grad_args args = {.function = (hst_arithmetic)(r->flags >> 1 & 3),
                                 .operand = has(r, 6),
                                 .rank = 3,
                                 .shape = {PLANES, r->rows, r->width}};
    int64_t all = PLANES * r->rows * r->width, a_count = lay_out(r, a_layout, args.a_stride),
            b_count = lay_out(r, b_layout(r), args.b_stride);
    layout own = has(r, 6) ? b_layout(r) : a_layout;
    int64_t count = lay_out(r, own == TRANSPOSED ? ALL : own, args.dx_stride), n = all / count;
    args.dy = in(r, 0, all, -1, 1);
    args.a = in(r, 1, a_count, -1, 1);
    args.b = in(r, 2, b_count, 0.5, 1.5);
    if (args.function <= HST_MINUS) args.a = args.b = absent;
    args.dx = out(r, 3, count, (double)(n * (n + 4)) * 4 * D);
    return r->ctx->backend->binary_grad(r->ctx, &args);
}
Test(ops, binary_grad_matches) {
    for (a_layout = ALL; a_layout < LAYOUTS; a_layout++) sweep("binary_grad", binary_grad_case, 4, 3, 7);
}

// ---- functions ----

static hst_function function; // swept

// Arguments within 4 (positive ones for log, sqrt and pow with its odd exponent); results up to 55 for exp, 16 for pow
// and 4 for the others, with 8 roundings; gelu_tanh's exponential has an argument up to 11, rounded three times.
static bool unary_case(run *r) {
    bool positive = function == HST_FUNCTION_LOG || function == HST_FUNCTION_SQRT || function == HST_FUNCTION_POW;
    double largest = function == HST_FUNCTION_EXP ? 55 : positive ? 32 : 4;
    hst_unary_args args = {.function = function, .parameter = has(r, 1) ? 2.5 : -0.5, .count = r->rows * r->width};
    args.x = in(r, 0, args.count, positive ? 0.25 : -4, 4);
    args.y = out(r, 1, args.count, (8 + (function == HST_FUNCTION_GELU_TANH ? 3 * 11 : 0)) * largest * F);
    return r->ctx->backend->unary(r->ctx, &args);
}
Test(ops, unary_matches) {
    for (function = HST_FUNCTION_SIGMOID; function <= HST_FUNCTION_POW; function++) sweep("unary", unary_case, 2, 3, 2);
}

// x or y in 1/4 .. 4: the slopes are at most 1 / (1/4) for log, 0.5 * 4^1.5 and 2.5 * 4^1.5 for pow, 4 * 5 for tanh.
// gelu_tanh's second term is 0 where the argument of its exponential is large.
static bool unary_grad_case(run *r) {
    bool from_x = function == HST_FUNCTION_GELU || function == HST_FUNCTION_GELU_TANH || function == HST_FUNCTION_LOG ||
                  function == HST_FUNCTION_POW;
    hst_unary_grad_args args = {.function = function, .parameter = has(r, 1) ? 2.5 : -0.5, .count = r->rows * r->width};
    args.dy = in(r, 0, args.count, -1, 1);
    *(from_x ? &args.x : &args.y) = in(r, 1, args.count, 0.25, 4);
    args.dx = out(r, 2, args.count, 12 * 20 * F);
    return r->ctx->backend->unary_grad(r->ctx, &args);
}
Test(ops, unary_grad_matches) {
    for (function = HST_FUNCTION_SIGMOID; function <= HST_FUNCTION_POW; function++)
        sweep("unary_grad", unary_grad_case, 3, 3, 2);
}

// ---- over the rows of (outer, rows, width) ----

// Flag 1: width 1. Flag 2: one plane or three.
typedef struct planes {
    int64_t outer, rows, width, all, results;
} planes;

static planes planes_of(const run *r) {
    planes p = {.outer = has(r, 2) ? 3 : 1, .rows = r->rows, .width = r->width};
    if (has(r, 1)) p = (planes){.outer = r->rows, .rows = r->width, .width = 1};
    p.all = p.outer * p.rows * p.width;
    p.results = p.outer * p.width;
    return p;
}

static bool max_case(run *r) {
    planes p = planes_of(r);
    hst_max_args args = {.outer = p.outer, .rows = p.rows, .width = p.width};
    args.x = in(r, 0, p.all, -2, 2);
    args.y = out(r, 1, p.results, has(r, 0) ? 3 * F : 0);
    return r->ctx->backend->max(r->ctx, &args);
}
Test(ops, max_matches) { sweep("max", max_case, 2, 3, 3); }

// x are 0, 1 and 2, with many equals. A share is rounded once, and once more where it is added to a number up to 1.
static bool max_grad_case(run *r) {
    planes p = planes_of(r);
    hst_max_grad_args args = {.outer = p.outer, .rows = p.rows, .width = p.width};
    args.x = draw(r, HST_U8, p.all, 0, 3)->values;
    array *x = draw(r, dtype_of(r, 0), p.all, 0, 0), *y = draw(r, dtype_of(r, 1), p.results, 0, 0);
    for (int64_t i = 0; i < p.all; i++)
        hst_store((hst_target){(void *)x->values.data, x->values.dtype, false}, i, hst_load(args.x, i));
    for (int64_t i = 0; i < p.results; i++)
        hst_store((hst_target){(void *)y->values.data, y->values.dtype, false}, i, (double)(i % 3));
    args.x = x->values;
    args.y = y->values;
    args.dy = in(r, 2, p.results, -1, 1);
    args.dx = out(r, 3, p.all, 3 * F);
    return r->ctx->backend->max_grad(r->ctx, &args);
}
Test(ops, max_grad_matches) { sweep("max_grad", max_grad_case, 4, 3, 3); }

// Arguments of exp down to -16, rounded once, then 3 roundings; the logarithms are down to -16 - 7, rounded once or,
// where they are added, twice, from a sum of exponentials of which each may be 1 + 16 roundings off.
static bool softmax_case(run *r) {
    planes p = planes_of(r);
    hst_softmax_args args = {.outer = p.outer, .rows = p.rows, .width = p.width, .log = has(r, 3)};
    args.x = in(r, 0, p.all, -8, 8);
    args.y = out(r, 1, p.all, args.log ? (23 + 24 + 17) * F : (16 + 3 + 2) * F);
    return r->ctx->backend->softmax(r->ctx, &args);
}
Test(ops, softmax_matches) { sweep("softmax", softmax_case, 2, 3, 4); }

// Sums of n terms up to 1 in double; of the logarithm's exp(y) two roundings. dx is written in double.
static bool softmax_grad_case(run *r) {
    planes p = planes_of(r);
    hst_softmax_grad_args args = {.outer = p.outer, .rows = p.rows, .width = p.width, .log = has(r, 3)};
    double n = (double)p.rows;
    args.dy = in(r, 0, p.all, -1, 1);
    args.y = in(r, 1, p.all, args.log ? -8 : 0, args.log ? 0 : 1);
    args.dx = out(r, 2, p.all, args.log ? n * 2 * F : n * (n + 3) * D);
    return r->ctx->backend->softmax_grad(r->ctx, &args);
}
Test(ops, softmax_grad_matches) { sweep("softmax_grad", softmax_grad_case, 3, 3, 4); }
