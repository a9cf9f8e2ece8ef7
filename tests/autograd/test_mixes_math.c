// test_mixes_math.c: as test_mixes.c, for arithmetic with broadcasting, functions, softmax and reductions: results and
// gradients are the exact ones, within stated roundings in fp32, rounded once to whatever dtype is asked for.
#include "tests/autograd/mixes.h"

TestSuite(autograd_mixes_math, .init = open_context, .fini = close_context);

enum { PLANES = 3, ROWS = 5, WIDTH = 7, ALL = PLANES * ROWS * WIDTH };

// ---- arithmetic ----

// All but quotients are exact until the last rounding. Shapes of b against a (PLANES, ROWS, WIDTH), and the element of
// b that meets element i of a.
static const int64_t shapes[][3] = {{PLANES, ROWS, WIDTH}, {1, 1, WIDTH}, {PLANES, ROWS, 1}, {1, ROWS, 1}, {1, 1, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int64_t partner(const int64_t *shape, int64_t i) {
    int64_t plane = i / (ROWS * WIDTH), row = i / WIDTH % ROWS, column = i % WIDTH;
    return ((plane % shape[0]) * shape[1] + row % shape[1]) * shape[2] + column % shape[2];
}

static double value(int f, double a, double b) { return f == 0 ? a + b : f == 1 ? a - b : f == 2 ? a * b : a / b; }
static double a_slope(int f, double b) { return f < 2 ? 1 : f == 2 ? b : 1 / b; }
static double b_slope(int f, double a, double b) { return f == 0 ? 1 : f == 1 ? -1 : f == 2 ? a : -a / (b * b); }

static void check_arithmetic(hst_tensor *(*apply)(hst_tensor *, hst_tensor *), int f, const int64_t *shape, int mix) {
    double a[ALL], b[ALL], dy[ALL], y[ALL], da[ALL], db[ALL] = {0}, slack[ALL];
    int64_t count = shape[0] * shape[1] * shape[2];
    fill(a, ALL, 0.125, 0);
    fill(b, ALL, 0.0625, 1);
    fill(dy, ALL, 0.125, 2);
    for (int i = 0; i < ALL; i++) b[i] = b[i] + 1; // 1/2 to 3/2
    for (int i = 0; i < ALL; i++) {
        int64_t k = partner(shape, i);
        y[i] = value(f, a[i], b[k]);
        slack[i] = U * fabs(y[i]);
        da[i] = dy[i] * a_slope(f, b[k]);
        db[k] += dy[i] * b_slope(f, a[i], b[k]);
    }
    hst_scope_begin(ctx);
    hst_tensor *x = leaf(mix, 0, HST_SHAPE(PLANES, ROWS, WIDTH), a), *z = leaf(mix, 1, 3, shape, b), *r = apply(x, z);
    cr_assert_eq(hst_dtype_of(r), hst_dtype_of(x) == hst_dtype_of(z) ? hst_dtype_of(x) : HST_F32);
    expect_near("y", mix, r, ALL, y, f == 3 ? slack : NULL);
    run_backward(r, dy);
    for (int i = 0; i < ALL; i++) slack[i] = 1e-13; // terms and sums are doubles
    expect_near("da", mix, hst_grad(x), ALL, da, f == 3 ? slack : NULL);
    expect_near("db", mix, hst_grad(z), count, db, f == 3 ? slack : NULL);
    hst_scope_end(ctx, NULL);
}

Test(autograd_mixes_math, arithmetic) {
    static hst_tensor *(*const functions[])(hst_tensor *, hst_tensor *) = {hst_add, hst_sub, hst_mul, hst_div};
    for (int f = 0; f < 4; f++)
        for (int s = 0; s < SHAPES; s++)
            for (int mix = 0; mix < MIXES; mix++) check_arithmetic(functions[f], f, shapes[s], mix);
}

// ---- functions ----

static hst_tensor *gelu(hst_tensor *x) { return hst_gelu(x, false); }
static hst_tensor *gelu_tanh(hst_tensor *x) { return hst_gelu(x, true); }
static hst_tensor *power(hst_tensor *x) { return hst_pow(x, 2.5); }

static const struct {
    hst_tensor *(*apply)(hst_tensor *x);
    double shift; // of the arguments, which are in -1 .. 1
} functions[] = {{hst_sigmoid, 0}, {hst_tanh, 0},  {hst_relu, 0.0625}, {gelu, 0},   {gelu_tanh, 0},
                 {hst_exp, 0},     {hst_log, 1.5}, {hst_sqrt, 1.5},    {power, 1.5}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const double PI = 3.14159265358979323846;
static double tanh_argument(double x) { return sqrt(2 / PI) * (x + 0.044715 * x * x * x); }

static double value_of(int f, double x) {
    const double values[FUNCTIONS] = {1 / (1 + exp(-x)),
                                      tanh(x),
                                      fmax(x, 0),
                                      x * (1 + erf(x / sqrt(2))) / 2,
                                      x * (1 + tanh(tanh_argument(x))) / 2,
                                      exp(x),
                                      log(x),
                                      sqrt(x),
                                      pow(x, 2.5)};
    return values[f];
}

// From x, and from y where the operation keeps only y, in y's dtype.
static double slope_of(int f, double x, double y) {
    double t = tanh(tanh_argument(x)), inner = sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x);
    const double slopes[FUNCTIONS] = {y * (1 - y),
                                      1 - y * y,
                                      x > 0,
                                      (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * PI),
                                      (1 + t) / 2 + x * (1 - t * t) * inner / 2,
                                      y,
                                      1 / x,
                                      0.5 / y,
                                      2.5 * pow(x, 1.5)};
    return slopes[f];
}

// 9 places of 2 U at most for a value on numbers this small, 16 U for a slope, which may be a difference of numbers up
// to 1 larger than itself.
static void check_function(int f, int mix) {
    double x[ALL], y[ALL], dy[ALL], dx[ALL], slack[ALL];
    fill(x, ALL, 0.125, 0);
    fill(dy, ALL, 0.125, 1);
    for (int i = 0; i < ALL; i++) x[i] += functions[f].shift;
    for (int i = 0; i < ALL; i++) y[i] = value_of(f, x[i]), slack[i] = 18 * U * fabs(y[i]);
    hst_scope_begin(ctx);
    hst_tensor *in = leaf(mix, 0, HST_SHAPE(ALL), x), *out = functions[f].apply(in);
    cr_assert_eq(hst_dtype_of(out), hst_dtype_of(in));
    expect_near("y", mix, out, ALL, y, slack);
    hst_copy_out(out, HST_F64, y);
    for (int i = 0; i < ALL; i++) {
        dx[i] = dy[i] * slope_of(f, x[i], y[i]);
        slack[i] = 16 * U * fabs(dy[i]) * (1 + fabs(slope_of(f, x[i], y[i])));
    }
    run_backward(out, dy);
    expect_near("dx", mix, hst_grad(in), ALL, dx, slack);
    hst_scope_end(ctx, NULL);
}

Test(autograd_mixes_math, functions) {
    for (int f = 0; f < FUNCTIONS; f++)
        for (int mix = 0; mix < MIXES; mix++) check_function(f, mix);
}

// ---- softmax ----

// Along `axis` of (PLANES, ROWS, WIDTH). Arguments of exp down to -2; 8 roundings.
static void check_softmax(bool log_of_it, int axis, int mix) {
    static const int64_t shape[] = {PLANES, ROWS, WIDTH}, stride[] = {ROWS * WIDTH, WIDTH, 1};
    double x[ALL], y[ALL], dy[ALL], dx[ALL], slack[ALL];
    fill(x, ALL, 0.125, 0);
    fill(dy, ALL, 0.125, 1);
    hst_scope_begin(ctx);
    hst_tensor *in = leaf(mix, 0, 3, shape, x), *out = log_of_it ? hst_log_softmax(in, axis) : hst_softmax(in, axis);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        int64_t first = i - i / stride[axis] % shape[axis] * stride[axis];
        for (int k = 0; k < shape[axis]; k++) sum += exp(x[first + k * stride[axis]]);
        y[i] = log_of_it ? x[i] - log(sum) : exp(x[i]) / sum;
        slack[i] = 8 * U * (log_of_it ? 1 : y[i]);
    }
    cr_assert_eq(hst_dtype_of(out), hst_dtype_of(in));
    expect_near("y", mix, out, ALL, y, slack);
    hst_copy_out(out, HST_F64, y);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        int64_t first = i - i / stride[axis] % shape[axis] * stride[axis];
        for (int k = 0; k < shape[axis]; k++)
            sum += dy[first + k * stride[axis]] * (log_of_it ? 1 : y[first + k * stride[axis]]);
        dx[i] = log_of_it ? dy[i] - exp(y[i]) * sum : y[i] * (dy[i] - sum);
        slack[i] = log_of_it ? 4 * U * fabs(sum) : 1e-13;
    }
    run_backward(out, dy);
    expect_near("dx", mix, hst_grad(in), ALL, dx, slack);
    hst_scope_end(ctx, NULL);
}

Test(autograd_mixes_math, softmax) {
    for (int axis = 0; axis < 3; axis++)
        for (int mix = 0; mix < MIXES; mix++) check_softmax(false, axis, mix), check_softmax(true, axis, mix);
}

// ---- reductions ----

// Sums of eighths are exact; a mean is rounded once.
static void check_reduction(int axis, int mix) {
    static const int64_t shape[] = {PLANES, ROWS, WIDTH}, stride[] = {ROWS * WIDTH, WIDTH, 1};
    double x[ALL], dy[ALL], sums[ALL] = {0}, means[ALL], most[ALL], spread[ALL], share[ALL], shares[ALL],
                            slack[ALL] = {0}, equals[ALL] = {0};
    int64_t rows = shape[axis], results = ALL / rows;
    fill(x, ALL, 0.125, 0);
    fill(dy, ALL, 0.125, 1);
    for (int i = 0; i < results; i++) most[i] = -INFINITY;
#define RESULT(i) ((i) / (stride[axis] * rows) * stride[axis] + (i) % stride[axis])
    for (int i = 0; i < ALL; i++) sums[RESULT(i)] += x[i], most[RESULT(i)] = fmax(most[RESULT(i)], x[i]);
    for (int i = 0; i < ALL; i++) equals[RESULT(i)] += x[i] == most[RESULT(i)];
    for (int i = 0; i < results; i++) means[i] = sums[i] / (double)rows;
    for (int i = 0; i < ALL; i++) {
        spread[i] = dy[RESULT(i)];
        share[i] = spread[i] / (double)rows;
        shares[i] = x[i] == most[RESULT(i)] ? spread[i] / equals[RESULT(i)] : 0;
        slack[i] = U * fabs(spread[i]);
    }
    hst_scope_begin(ctx);
    hst_tensor *in = leaf(mix, 0, 3, shape, x), *sum = hst_sum_axes(in, 1, &axis, true),
               *mean = hst_mean_axes(in, 1, &axis, false), *max = hst_max_axes(in, 1, &axis, false);
    cr_assert(hst_dtype_of(sum) == HST_F32 && hst_dtype_of(mean) == HST_F32 && hst_dtype_of(max) == hst_dtype_of(in));
    cr_assert(hst_rank(sum) == 3 && hst_dim(sum, axis) == 1 && hst_rank(mean) == 2);
    expect_near("sum", mix, sum, results, sums, NULL);
    expect_near("mean", mix, mean, results, means, (double[ALL]){0});
    expect_near("max", mix, max, results, most, NULL);
    run_backward(sum, dy);
    expect_near("dx of sum", mix, hst_grad(in), ALL, spread, NULL);
    run_backward(mean, dy);
    expect_near("dx of mean", mix, hst_grad(in), ALL, share, slack);
    run_backward(max, dy);
    expect_near("dx of max", mix, hst_grad(in), ALL, shares, slack);
    hst_scope_end(ctx, NULL);
}

Test(autograd_mixes_math, reductions) {
    for (int axis = 0; axis < 3; axis++)
        for (int mix = 0; mix < MIXES; mix++) check_reduction(axis, mix);
}
