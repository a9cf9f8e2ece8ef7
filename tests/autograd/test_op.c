// test_op.c: what the dispatcher and backward promise to an operation, with operations made here.
#include "tests/autograd/common.h"

TestSuite(autograd_op, .init = open_context, .fini = close_context);

static bool same_shape(hst_call *call, hst_type *out) {
    out[0] = hst_type_of(call->in[0]);
    return hst_check_float(call, 0);
}

static double element(const hst_tensor *t, int64_t i) { return hst_load(hst_source_of(t), i); }

static void put(hst_gradient g, int64_t i, double value) {
    hst_target to = hst_gradient_target(g);
    hst_store(to, i, (to.add ? element(g.into, i) : 0) + value);
}

static hst_tensor *apply(const hst_op *op, hst_tensor *a, hst_tensor *b) {
    return hst_apply(op, (hst_tensor *[HST_MAX_INPUTS]){a, b}, NULL, 0, NULL);
}

// ---- y = x^2, from whose result backward knows x (if positive): dx = 2 sqrt(y) dy ----

static bool square_forward(hst_call *call) {
    hst_target to = hst_target_of(call->out[0]);
    for (int64_t i = 0; i < hst_count(call->in[0]); i++) hst_store(to, i, pow(element(call->in[0], i), 2));
    return true;
}

static bool square_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    cr_assert(!call->in[0] && call->out[0], "it reads its result only");
    for (int64_t i = 0; i < hst_count(dy[0]); i++)
        put(dx[0], i, 2 * sqrt(element(call->out[0], i)) * element(dy[0], i));
    return true;
}

static const hst_op square = {.name = "square",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .reads_outputs = 1,
                              .shape = same_shape,
                              .forward = square_forward,
                              .backward = square_backward};

Test(autograd_op, a_changed_result_is_named) {
    hst_tensor *x = LEAF(2, 3), *y = apply(&square, x, NULL), *loss = hst_sum(y);
    hst_copy_in(x, HST_F32, (float[]){0, 0}); // which it does not read
    hst_backward(ctx, loss);
    EXPECT(hst_grad(x), 4, 6);
    hst_copy_in(x, HST_F32, (float[]){2, 3});
    y = apply(&square, x, NULL);
    loss = hst_sum(y);
    hst_copy_in(y, HST_F32, (float[]){5, 6});
    hst_backward(ctx, loss);
    EXPECT_ERROR(HST_ERROR_STATE, "result y of square was changed");
}

// ---- y = a b, whose gradients are written side by side: da = b dy, db = a dy ----

static bool product_forward(hst_call *call) {
    hst_target to = hst_target_of(call->out[0]);
    cr_assert(hst_is_contiguous(call->in[0]) && hst_is_contiguous(call->in[1]), "it does not take strides");
    for (int64_t i = 0; i < hst_count(call->in[0]); i++)
        hst_store(to, i, element(call->in[0], i) * element(call->in[1], i));
    return true;
}

static bool product_backward(hst_call *call, hst_tensor *const *dy, const hst_gradient *dx) {
    cr_assert(dx[0].into != dx[1].into, "no two are the same buffer");
    for (int k = 0; k < 2; k++) {
        const hst_tensor *other = call->in[1 - k];
        if (dx[k].request == HST_NULL) continue;
        cr_assert(hst_is_contiguous(dx[k].into) && hst_is_contiguous(dy[0]));
        for (int64_t i = 0; i < hst_count(other); i++) put(dx[k], i, element(other, i) * element(dy[0], i));
    }
    return true;
}

static const hst_op product = {.name = "product",
                               .inputs = {"a", "b"},
                               .outputs = {"y"},
                               .reads_inputs = 3,
                               .shape = same_shape,
                               .forward = product_forward,
                               .backward = product_backward};

Test(autograd_op, one_tensor_twice_has_two_buffers) {
    hst_tensor *x = LEAF(2, 3), *y = hst_scale(x, 1);
    hst_backward(ctx, hst_sum(apply(&product, x, x)));
    EXPECT(hst_grad(x), 4, 6);
    hst_backward(ctx, hst_sum(apply(&product, y, y)));
    EXPECT(hst_grad(x), 4, 6);
}

Test(autograd_op, strided_arguments_become_contiguous) {
    hst_tensor *a = with_gradient(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), HST_WRITE);
    hst_tensor *b = with_gradient(MATRIX(3, 2, 1, 2, 3, 4, 5, 6), HST_WRITE);
    hst_tensor *y = apply(&product, hst_transpose(a, 0, 1), b);
    EXPECT(y, 1, 8, 6, 20, 15, 36);
    hst_backward(ctx, hst_sum(y));
    EXPECT(hst_grad(a), 1, 3, 5, 2, 4, 6);
    EXPECT(hst_grad(b), 1, 4, 2, 5, 3, 6);
}

Test(autograd_op, only_wanted_gradients_are_asked_for) {
    hst_tensor *a = LEAF(2, 3), *constant = VECTOR(HST_F32, 5, 7);
    hst_backward(ctx, hst_sum(apply(&product, a, constant)));
    EXPECT(hst_grad(a), 5, 7);
    hst_backward(ctx, hst_sum(apply(&product, constant, a)));
    EXPECT(hst_grad(a), 5, 7);
}

// ---- without a gradient ----

static const hst_op no_gradient = {
    .name = "step", .inputs = {"x"}, .outputs = {"y"}, .shape = same_shape, .forward = square_forward};

Test(autograd_op, an_operation_without_a_gradient_refuses_where_one_is_wanted) {
    hst_tensor *x = LEAF(2, 3);
    cr_assert_null(hst_sum(apply(&no_gradient, x, NULL)));
    EXPECT_ERROR(HST_ERROR_UNSUPPORTED, "step: has no gradient");
    EXPECT(apply(&no_gradient, VECTOR(HST_F32, 2, 3), NULL), 4, 9);
    EXPECT(apply(&no_gradient, hst_detach(x), NULL), 4, 9);
    hst_no_grad_begin(ctx);
    EXPECT(apply(&no_gradient, x, NULL), 4, 9);
}
