// test_torch_shape_fixture.c: products in all forms and the operations that move elements, forward and backward,
// against PyTorch in fp64. Moving is exact; tolerances count roundings, as in test_torch_fixture.c.
#include "ops/ops.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static void backward(const fixture *f, hst_tensor *y) {
    hst_tensor *dy = fixture_tensor(f, "gy");
    cr_assert_eq(hst_backward_from(f->ctx, 1, &y, &dy), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
}

// y sums K terms; da sums N for each product that a is in, db M; no count of terms exceeds that of all products'.
static void check_matmul(const fixture *f) {
    hst_tensor *a = fixture_leaf(f, "a"), *b = fixture_leaf(f, "b"), *y = hst_matmul(a, b);
    double k = (double)hst_dim(a, -1);
    fixture_expect(f, "y", y, k + 2);
    backward(f, y);
    fixture_expect(f, "da", hst_grad(a), (double)hst_count(y) * k / (double)hst_count(a) + 2);
    fixture_expect(f, "db", hst_grad(b), (double)hst_count(y) * k / (double)hst_count(b) + 2);
}

typedef hst_tensor *joining(int count, hst_tensor *const *x, int axis);

static void check_joined(const fixture *f, joining *join) {
    hst_tensor *x[9];
    int axis = (int)fixture_number(f, "options", 0), count = (int)fixture_number(f, "options", 1);
    char name[16];
    for (int i = 0; i < count; i++) snprintf(name, sizeof name, "x%d", i), x[i] = fixture_leaf(f, name);
    hst_tensor *y = join(count, x, axis);
    fixture_expect(f, "y", y, 0);
    backward(f, y);
    for (int i = 0; i < count; i++) snprintf(name, sizeof name, "dx%d", i), fixture_expect(f, name, hst_grad(x[i]), 0);
}
static void check_cat(const fixture *f) { check_joined(f, hst_cat); }
static void check_stack(const fixture *f) { check_joined(f, hst_stack); }

// A sum over repetitions, of at most 24 terms here, is formed in double and rounded once.
#define SUM (1 + 24 * 0x1p-53 / ROUNDING)

static void check_where(const fixture *f) {
    hst_tensor *a = fixture_leaf(f, "a"), *b = fixture_leaf(f, "b"), *y = hst_where(fixture_tensor(f, "c"), a, b);
    fixture_expect(f, "y", y, 0);
    backward(f, y);
    fixture_expect(f, "da", hst_grad(a), SUM);
    fixture_expect(f, "db", hst_grad(b), SUM);
}

static void check_masked_fill(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x");
    hst_tensor *y = hst_masked_fill(x, fixture_tensor(f, "c"), fixture_number(f, "options", 0));
    fixture_expect(f, "y", y, 0);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), 0);
}

static void check_take(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x");
    hst_tensor *y = hst_take(x, fixture_tensor(f, "ids"), (int)fixture_number(f, "options", 0));
    fixture_expect(f, "y", y, 0);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), SUM);
}

static void check_one_hot(const fixture *f) {
    fixture_expect(f, "y", hst_one_hot(fixture_tensor(f, "ids"), 6, HST_F32), 0);
}

static void check_all(hst_context *ctx) {
    for_each_case(ctx, "torch_shape", "matmul/", "y", check_matmul);
    for_each_case(ctx, "torch_shape", "cat/", "y", check_cat);
    for_each_case(ctx, "torch_shape", "stack/", "y", check_stack);
    for_each_case(ctx, "torch_shape", "where/", "y", check_where);
    for_each_case(ctx, "torch_shape", "masked_fill/", "y", check_masked_fill);
    for_each_case(ctx, "torch_shape", "take/", "y", check_take);
    for_each_case(ctx, "torch_shape", "one_hot", "y", check_one_hot);
}
Test(ops, products_and_moves_are_pytorchs) { for_each_isa(check_all); }
