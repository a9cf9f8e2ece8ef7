// test_torch_fixture.c: layer norm, linear, embedding, cross entropy and binary cross entropy, forward and backward,
// against PyTorch in fp64. tests/fixtures/README.md says what the file holds and how it was made.
//
// Tolerances count roundings relative to a tensor's largest number; a sum of n terms of both signs may lose a few
// digits to cancellation, which n itself covers here.
#include "ops/ops.h"
#include "tests/fixtures/fixture.h"
#include "tests/ops/isas.h"

static void backward(const fixture *f, hst_tensor *y) {
    hst_tensor *dy = fixture_tensor(f, "gy");
    cr_assert_eq(hst_backward_from(f->ctx, 1, &y, &dy), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
}

// A row is shifted, scaled and shifted with seven roundings, its gradient with as many again; dgain and dbias are sums
// over the rows. The mean is a double, off by as many of its roundings as the row has numbers, times the largest.
static void check_layer_norm(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x"), *gain = fixture_leaf(f, "gain"), *bias = fixture_leaf(f, "bias");
    double mean = (double)hst_dim(x, -1) * fixture_largest_of(f, "x") * 0x1p-53 / ROUNDING;
    double roundings = 16 + mean + (double)(hst_count(x) / hst_dim(x, -1));

    hst_tensor *y = hst_layer_norm(x, gain, bias, fixture_number(f, "options", 0));
    fixture_expect(f, "y", y, roundings);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), roundings);
    if (gain) fixture_expect(f, "dgain", hst_grad(gain), roundings);
    if (bias) fixture_expect(f, "dbias", hst_grad(bias), roundings);
}

// Products of K, N and M = rows terms.
static void check_linear(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x"), *w = fixture_leaf(f, "w"), *bias = fixture_leaf(f, "bias");
    double rows = (double)(hst_count(x) / hst_dim(x, -1));
    hst_tensor *y = hst_linear(x, w, bias);
    fixture_expect(f, "y", y, (double)hst_dim(w, 0) + 2);
    backward(f, y);
    fixture_expect(f, "dx", hst_grad(x), (double)hst_dim(w, 1) + 1);
    fixture_expect(f, "dw", hst_grad(w), rows + 1);
    if (bias) fixture_expect(f, "dbias", hst_grad(bias), 1);
}

// Looking up is exact; each sum is rounded once.
static void check_embedding(const fixture *f) {
    static const hst_dtype dtypes[] = {HST_U8, HST_I32, HST_I64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        hst_tensor *table = fixture_leaf(f, "table");
        hst_tensor *y = hst_embedding(table, hst_cast(fixture_tensor(f, "ids"), dtypes[i]));
        fixture_expect(f, "y", y, 0);
        backward(f, y);
        fixture_expect(f, "dtable", hst_grad(table), 1);
    }
}

// Row v: the losses with v as every target, which are the log-softmax, negated.
static hst_tensor *class_losses(hst_tensor *logits) {
    hst_context *ctx = hst_context_of(logits);
    int64_t classes = hst_dim(logits, -1), rows = hst_count(logits) / classes;
    hst_tensor *flat = hst_reshape(logits, HST_SHAPE(rows, classes));
    double *all = calloc((size_t)(classes * rows), sizeof *all);
    cr_assert(all);
    for (int64_t v = 0; v < classes; v++) {
        hst_tensor *losses = hst_token_losses(flat, hst_full(ctx, HST_I64, HST_SHAPE(rows), (double)v));
        cr_assert(losses, "%s", hst_error(ctx));
        hst_copy_out(losses, HST_F64, all + v * rows);
    }
    hst_tensor *t = hst_from_array(ctx, HST_F32, HST_SHAPE(classes, rows), HST_F64, all);
    free(all);
    return t;
}

// A loss is log sum exp minus a logit, in double, rounded once; the mean is rounded once more. Backward starts from the
// rounded log sum exp, whose error of |logit| roundings is a relative one of the softmax.
static void check_cross_entropy(const fixture *f) {
    hst_tensor *logits = fixture_leaf(f, "logits"), *targets = fixture_tensor(f, "targets");
    double backward_roundings = 8 + fixture_largest_of(f, "logits");
    double loss_roundings = 1 + backward_roundings * 0x1p-53 / ROUNDING;

    hst_tensor *mean = hst_cross_entropy(logits, targets);
    fixture_expect(f, "mean", mean, loss_roundings + 1);
    cr_assert_eq(hst_backward(f->ctx, mean), HST_OK, "%s: %s", f->name, hst_error(f->ctx));
    fixture_expect(f, "dmean", hst_grad(logits), backward_roundings);

    hst_tensor *losses = hst_token_losses(logits, targets);
    fixture_expect(f, "losses", losses, loss_roundings);
    backward(f, losses);
    fixture_expect(f, "dlosses", hst_grad(logits), backward_roundings);
    fixture_expect(f, "class_losses", class_losses(logits), loss_roundings);
}

// A loss is a double, a few of its roundings off, and then rounded once. Its gradient: p - t, 1 - p, p (1 - p) or
// 10^-12, the quotient and the product with gy are rounded.
static void check_binary_cross_entropy(const fixture *f) {
    hst_tensor *p = fixture_leaf(f, "x"), *losses = hst_binary_cross_entropy(p, fixture_tensor(f, "targets"));
    fixture_expect(f, "y", losses, 1 + 6 * 0x1p-53 / ROUNDING);
    backward(f, losses);
    fixture_expect(f, "dx", hst_grad(p), 5);
}

// As before; and of the gradient s(x), up to 1, is within 5 roundings (vector_math.h), s(x) - t and the product with gy
// are rounded.
static void check_binary_cross_entropy_with_logits(const fixture *f) {
    hst_tensor *x = fixture_leaf(f, "x"),
               *losses = hst_binary_cross_entropy_with_logits(x, fixture_tensor(f, "targets"));
    fixture_expect(f, "y", losses, 1 + 6 * 0x1p-53 / ROUNDING);
    backward(f, losses);
    fixture_expect(f, "dx", hst_grad(x), 7 * fixture_largest_of(f, "gy") / fixture_largest_of(f, "dx"));
}

static void check_all(hst_context *ctx) {
    for_each_case(ctx, "torch_ops", "layer_norm/", "y", check_layer_norm);
    for_each_case(ctx, "torch_ops", "linear/", "y", check_linear);
    for_each_case(ctx, "torch_ops", "embedding", "y", check_embedding);
    for_each_case(ctx, "torch_ops", "cross_entropy/", "mean", check_cross_entropy);
    for_each_case(ctx, "torch_ops", "binary_cross_entropy/", "y", check_binary_cross_entropy);
    for_each_case(ctx, "torch_ops", "binary_cross_entropy_with_logits/", "y", check_binary_cross_entropy_with_logits);
}
Test(ops, operations_are_pytorchs) { for_each_isa(check_all); }
