// test_torch_math_fixture.c: arithmetic with broadcasting, functions, softmax, reductions and RMS norm, forward and
// backward, against PyTorch in fp64; tests/fixtures/README.md says what the file holds and how it was made.
//
// Tolerances count roundings relative to a tensor's largest number, as in test_torch_fixture.c.
#include "ops/ops.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static int option(const fixture *f, int i) { return (int)fixture_number(f, "options", i); }

static void backward(const fixture *f, hst_tensor *y) {
    hst_tensor *dy = fixture_tensor(f, "gy");
    cr_assert_eq(hst_backward_from(f->ctx, 1, &y, &dy), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
}

// A result is rounded once, and so are gradients, whose terms and sums are doubles: of those at most 105 terms, each a
// few roundings of a double off, count in the double build.
static void check_arithmetic(const fixture *f) {
    static hst_tensor *(*const functions[])(hst_tensor *, hst_tensor *) = {hst_add, hst_sub, hst_mul, hst_div};
    hst_tensor *a = fixture_leaf(f, "a"), *b = fixture_leaf(f, "b");
    double roundings = 1 + 4 * 105 * 0x1p-53 / ROUNDING;
    hst_tensor *y = functions[option(f, 0)](option(f, 1) ? hst_transpose(a, 0, 1) : a, b);
    fixture_expect(f, "y", y, 1);
    backward(f, y);
    fixture_expect(f, "da", hst_grad(a), roundings);
    fixture_expect(f, "db", hst_grad(b), roundings);
}

static hst_tensor *gelu(hst_tensor *x) { return hst_gelu(x, false); }
static hst_tensor *gelu_tanh(hst_tensor *x) { return hst_gelu(x, true); }
static hst_tensor *power(hst_tensor *x) { return hst_pow(x, -1.5); }
static hst_tensor *cube(hst_tensor *x) { return hst_pow(x, 3); }

// The widest bound of vector_math.h is 9 places of two roundings; exp's derivative is its result, the others' a few
// roundings of numbers as large.
static void check_function(const fixture *f) {
    static hst_tensor *(*const functions[])(hst_tensor *) = {hst_sigmoid, hst_tanh, hst_relu, gelu,  gelu_tanh,
                                                             hst_exp,     hst_log,  hst_sqrt, power, cube};
    hst_tensor *x = fixture_leaf(f, "x"), *y = functions[option(f, 0)](x);
    fixture_expect(f, "y", y, 18);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), 18 + 4);
}

// An exponential's argument is rounded once, and with it the result's logarithm by as many roundings as the spread of
// x.
static void check_softmax(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x");
    double roundings = 8 + 2 * fixture_largest_of(f, "x");
    hst_tensor *y = option(f, 0) ? hst_log_softmax(x, option(f, 1)) : hst_softmax(x, option(f, 1));
    fixture_expect(f, "y", y, roundings);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), 2 * roundings);
}

// Sums of at most 105 terms in double, rounded once; a gradient is a quotient, rounded once.
static void check_reduction(const fixture *f) {
    static hst_tensor *(*const functions[])(hst_tensor *, int, const int *, bool) = {hst_sum_axes, hst_mean_axes,
                                                                                     hst_max_axes};
    hst_tensor *x = fixture_leaf(f, "x");
    int axes[3], count = (int)fixture_count(fixture_find(f, "axes"));
    for (int i = 0; i < count; i++) axes[i] = (int)fixture_number(f, "axes", i);
    hst_tensor *y = functions[option(f, 0)](x, count, axes, option(f, 1));
    fixture_expect(f, "y", y, 1 + 105 * 0x1p-53 / ROUNDING);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), 2);
}

// As layer norm, with 7 roundings each way; dgain is a sum over the rows.
static void check_rms_norm(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x"), *gain = fixture_leaf(f, "gain");
    double roundings = 16 + (double)(hst_count(x) / hst_dim(x, -1));
    hst_tensor *y = hst_rms_norm(x, gain, fixture_number(f, "options", 0));
    fixture_expect(f, "y", y, roundings);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), roundings);
    if (gain) fixture_expect(f, "dgain", hst_grad(gain), roundings);
}

static void check_all(hst_context *ctx) {
    for_each_case(ctx, "torch_math", "arithmetic/", "y", check_arithmetic);
    for_each_case(ctx, "torch_math", "function/", "y", check_function);
    for_each_case(ctx, "torch_math", "softmax/", "y", check_softmax);
    for_each_case(ctx, "torch_math", "reduce/", "y", check_reduction);
    for_each_case(ctx, "torch_math", "rms_norm/", "y", check_rms_norm);
}
Test(ops, mathematics_is_pytorchs) { for_each_isa(check_all); }
