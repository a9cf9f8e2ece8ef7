// test_functions.c: the functions of one number on every ISA: how far they are off, and what they make of zeros,
// infinities, NaN and numbers outside their domain, forward and backward.
#include "tests/ops/isas.h"

static const char *const names[] = {"sigmoid", "tanh", "relu", "gelu", "gelu_tanh", "exp", "log", "sqrt", "pow"};
enum { FUNCTIONS = sizeof names / sizeof *names };
static const double EXPONENT = 1.75;

static double gelu_argument(double x) { return sqrt(8 / acos(-1)) * (x + 0.044715 * x * x * x); }

// libm's functions, in double.
static double exact(int function, double x) {
    const double values[FUNCTIONS] = {1 / (1 + exp(-x)),
                                      tanh(x),
                                      x < 0 ? 0 : x,
                                      x * 0.5 * erfc(-x / sqrt(2)),
                                      x / (1 + exp(-gelu_argument(x))),
                                      exp(x),
                                      log(x),
                                      sqrt(x),
                                      pow(x, EXPONENT)};
    return values[function];
}

// The bounds that vector_math.h states, in places of the result. sigmoid and the two gelus are given up where they are
// subnormal or nearly so. Half a place more or less of gelu_tanh's argument v is a relative error of its exponential.
static double allowed(int function, double x) {
    static const double places[FUNCTIONS] = {2.5, 3, 0, 9, 3, 1.01, 0.51, 0.51, 0.51};
    static const double lowest[FUNCTIONS] = {-88.7, -INFINITY, -INFINITY, -12.9, -9.9};
    if (function <= HST_FUNCTION_GELU_TANH && x < lowest[function]) return INFINITY;
    return places[function] * (function == HST_FUNCTION_GELU_TANH ? 1 + 2 * fabs(gelu_argument(x)) : 1);
}

static double place(double x) { return ldexp(1, (fabs(x) < 0x1p-126 ? -126 : ilogb(x)) - 23); }

// Every 16411th float: all signs and exponents, some 500 numbers each.
static void check_accuracy(hst_context *ctx) {
    enum { COUNT = 261712 };
    static float x[COUNT], y[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) memcpy(&x[i], &(uint32_t){i * 16411}, sizeof *x);
    for (int f = 0; f < FUNCTIONS; f++) {
        hst_unary_args args = {
            .function = (hst_function)f, .parameter = EXPONENT, .count = COUNT, .x = {x, HST_F32}, .y = {y, HST_F32}};
        cr_assert(ctx->backend->unary(ctx, &args));
        for (int i = 0; i < COUNT; i++) {
            double want = exact(f, x[i]), bound = allowed(f, x[i]);
            if (isinf(x[i]) || bound == INFINITY) continue;
            if (isnan(want) || isinf((float)want) || isinf(y[i]))
                cr_assert(isnan(want) ? isnan(y[i]) : y[i] == (float)want, "%s: %s(%a) is %a, not %a", hst_isa(ctx),
                          names[f], x[i], y[i], want);
            else
                cr_assert(fabs(y[i] - want) <= bound * place(want), "%s: %s(%a) is %a, not %a: %.3g places",
                          hst_isa(ctx), names[f], x[i], y[i], want, fabs(y[i] - want) / place(want));
        }
    }
}
Test(ops, functions_are_accurate) { for_each_isa(check_accuracy); }

// ---- edges ----

typedef struct edge {
    hst_function function;
    double parameter, x, y, slope;
} edge;

static const edge edges[] = {
    {HST_FUNCTION_SIGMOID, 0, INFINITY, 1, 0},
    {HST_FUNCTION_SIGMOID, 0, -INFINITY, 0, 0},
    {HST_FUNCTION_SIGMOID, 0, 0, 0.5, 0.25},
    {HST_FUNCTION_SIGMOID, 0, NAN, NAN, NAN},
    {HST_FUNCTION_TANH, 0, INFINITY, 1, 0},
    {HST_FUNCTION_TANH, 0, -INFINITY, -1, 0},
    {HST_FUNCTION_TANH, 0, -0.0, -0.0, 1},
    {HST_FUNCTION_TANH, 0, 0x1p-140, 0x1p-140, 1},
    {HST_FUNCTION_TANH, 0, NAN, NAN, NAN},
    {HST_FUNCTION_RELU, 0, 0, 0, 0},
    {HST_FUNCTION_RELU, 0, INFINITY, INFINITY, 1},
    {HST_FUNCTION_RELU, 0, -INFINITY, 0, 0},
    {HST_FUNCTION_RELU, 0, NAN, NAN, 1}, // PyTorch passes the gradient on too
    {HST_FUNCTION_GELU, 0, 0, 0, 0.5},
    {HST_FUNCTION_GELU, 0, INFINITY, INFINITY, 1},
    {HST_FUNCTION_GELU, 0, -INFINITY, 0, 0},
    {HST_FUNCTION_GELU, 0, 1e30, (float)1e30, 1},
    {HST_FUNCTION_GELU, 0, -1e30, 0, 0},
    {HST_FUNCTION_GELU, 0, NAN, NAN, NAN},
    {HST_FUNCTION_GELU_TANH, 0, 0, 0, 0.5},
    {HST_FUNCTION_GELU_TANH, 0, INFINITY, INFINITY, 1},
    {HST_FUNCTION_GELU_TANH, 0, -INFINITY, 0, 0},
    {HST_FUNCTION_GELU_TANH, 0, -1e30, 0, 0},
    {HST_FUNCTION_GELU_TANH, 0, NAN, NAN, NAN},
    {HST_FUNCTION_EXP, 0, 0, 1, 1},
    {HST_FUNCTION_EXP, 0, INFINITY, INFINITY, INFINITY},
    {HST_FUNCTION_EXP, 0, -INFINITY, 0, 0},
    {HST_FUNCTION_EXP, 0, NAN, NAN, NAN},
    {HST_FUNCTION_LOG, 0, 0, -INFINITY, INFINITY},
    {HST_FUNCTION_LOG, 0, 1, 0, 1},
    {HST_FUNCTION_LOG, 0, INFINITY, INFINITY, 0},
    {HST_FUNCTION_LOG, 0, -1, NAN, -1},
    {HST_FUNCTION_LOG, 0, NAN, NAN, NAN},
    {HST_FUNCTION_SQRT, 0, 0, 0, INFINITY},
    {HST_FUNCTION_SQRT, 0, INFINITY, INFINITY, 0},
    {HST_FUNCTION_SQRT, 0, -1, NAN, NAN},
    {HST_FUNCTION_POW, 2, -3, 9, -6},
    {HST_FUNCTION_POW, 3, -2, -8, 12},
    {HST_FUNCTION_POW, 0, 0, 1, 0},
    {HST_FUNCTION_POW, 0, NAN, 1, 0},
    {HST_FUNCTION_POW, 1, 0, 0, 1},
    {HST_FUNCTION_POW, 2, 0, 0, 0},
    {HST_FUNCTION_POW, -1, 0, INFINITY, -INFINITY},
    {HST_FUNCTION_POW, -2, INFINITY, 0, 0},
    {HST_FUNCTION_POW, 0.5, -1, NAN, NAN},
    {HST_FUNCTION_POW, 2, NAN, NAN, NAN},
};

static void check_edges(hst_context *ctx) {
    for (int i = 0; i < COUNT(edges); i++) {
        const edge *e = &edges[i];
        enum { N = 67 }; // so that the number stands in a group of vectors, in one vector and in part of one
        float x[N], y[N], dy[N], dx[N];
        for (int j = 0; j < N; j++) x[j] = (float)e->x, dy[j] = 1;
        hst_unary_args args = {
            .function = e->function, .parameter = e->parameter, .count = N, .x = {x, HST_F32}, .y = {y, HST_F32}};
        hst_unary_grad_args grad = {
            .function = e->function, .parameter = e->parameter, .count = N, .dy = {dy, HST_F32}, .dx = {dx, HST_F32}};
        bool from_x = e->function == HST_FUNCTION_GELU || e->function == HST_FUNCTION_GELU_TANH ||
                      e->function == HST_FUNCTION_LOG || e->function == HST_FUNCTION_POW;
        *(from_x ? &grad.x : &grad.y) = (hst_source){from_x ? x : y, HST_F32};
        cr_assert(ctx->backend->unary(ctx, &args) && ctx->backend->unary_grad(ctx, &grad));
        for (int j = 0; j < N; j++) {
            char what[96];
            snprintf(what, sizeof what, "%s (parameter %g) of %g [%d]", names[e->function], e->parameter, e->x, j);
            expect(ctx, what, y[j], e->y, 0);
            if (e->x == 0 && e->y == 0) cr_assert_eq(signbit(y[j]) != 0, signbit(e->y) != 0, "%s: its sign", what);
            snprintf(what, sizeof what, "slope of %s (parameter %g) at %g [%d]", names[e->function], e->parameter, e->x,
                     j);
            expect(ctx, what, dx[j], e->slope, 0);
        }
    }
}
Test(ops, functions_at_their_edges) { for_each_isa(check_edges); }
