// test_tape.c: what is recorded and for how long: using up, keeping, scopes, no-grad regions, detaching, changes in
// place.
#include "tests/autograd/common.h"

TestSuite(autograd_tape, .init = open_context, .fini = close_context);

// ---- using up ----

Test(autograd_tape, backward_uses_the_tape_up) {
    hst_tensor *x = LEAF(1, 2), *y = hst_scale(x, 2), *loss = hst_sum(y);
    hst_backward(ctx, loss);
    hst_backward(ctx, loss);
    EXPECT_ERROR(HST_ERROR_STATE, "used it up");
    hst_sum(hst_detach(y));
    EXPECT(hst_grad(x), 2, 2);
    cr_assert_eq(tape_length(), 0);
}

// Two losses over one graph: the first takes the part that they share.
Test(autograd_tape, a_shared_part_is_used_up) {
    hst_tensor *x = LEAF(1, 2), *shared = hst_scale(x, 2), *first = hst_sum(shared),
               *second = hst_sum(hst_scale(shared, 5));
    hst_backward(ctx, first);
    hst_backward(ctx, second);
    EXPECT_ERROR(HST_ERROR_STATE, "scale was used up by an earlier hst_backward; hst_backward_keeping");
    EXPECT(hst_grad(x), 2, 2);
}

Test(autograd_tape, backward_keeping_leaves_the_tape) {
    hst_tensor *x = with_gradient(VECTOR(HST_F32, 1, 2), HST_ADD), *w = LEAF(1, 1);
    hst_tensor *shared = hst_add(hst_scale(x, 2), w), *first = hst_sum(shared), *second = hst_sum(hst_scale(shared, 5));
    cr_assert_eq(hst_backward_keeping(ctx, first), HST_OK);
    cr_assert_eq(hst_backward_keeping(ctx, first), HST_OK);
    EXPECT(hst_grad(x), 4, 4);
    EXPECT(hst_grad(w), 1, 1);
    cr_assert_eq(hst_backward(ctx, second), HST_OK);
    EXPECT(hst_grad(x), 14, 14);
    EXPECT(hst_grad(w), 5, 5);
    hst_backward_keeping(ctx, first);
    EXPECT_ERROR(HST_ERROR_STATE, "used up");
}

// After a failed backward the tape can be walked again.
Test(autograd_tape, a_failed_backward_loses_nothing) {
    hst_tensor *x = LEAF(1, 2), *loss = hst_sum(hst_scale(x, 2)), *other = hst_scale(x, 1), *wrong = VECTOR(HST_F32, 1);
    int64_t before = memory().current_total;
    hst_backward_from(ctx, 1, &other, &wrong);
    EXPECT_ERROR(HST_ERROR_SHAPE, "(2)");
    cr_assert_eq(memory().current_total, before);
    hst_backward(ctx, loss);
    EXPECT(hst_grad(x), 2, 2);
}

// ---- scopes ----

Test(autograd_tape, the_tape_ends_with_its_scope) {
    hst_tensor *x = LEAF(1, 2);
    int64_t before = 0;
    for (int i = 0; i < 3; i++) { // after the first, the tape itself is there
        hst_scope_begin(ctx);
        hst_tensor *y = hst_scale(x, 2), *loss = hst_keep(hst_sum(hst_add(y, x)));
        cr_assert_eq(tape_length(), 3);
        hst_scope_end(ctx, NULL);
        cr_assert_eq(tape_length(), 0);
        hst_backward(ctx, loss);
        EXPECT_ERROR(HST_ERROR_STATE, "tape of this tensor has ended");
        hst_release(loss);
        if (i == 1) before = memory().current[HST_WORKSPACE];
    }
    cr_assert_eq(memory().current[HST_WORKSPACE], before);
}

static hst_tensor *in_its_own_scope(hst_tensor *x, int depth) {
    hst_scope_begin(ctx);
    hst_tensor *waste = hst_scale(x, 100), *y = hst_scale(depth > 1 ? in_its_own_scope(x, depth - 1) : x, 2);
    (void)waste;
    return hst_scope_end(ctx, y);
}

// A function may compute in a scope of its own: the nodes move out with its result.
Test(autograd_tape, nodes_move_out_with_a_result) {
    hst_tensor *x = LEAF(1, 2);
    hst_scope_begin(ctx);
    hst_backward(ctx, hst_sum(in_its_own_scope(x, 5)));
    EXPECT(hst_grad(x), 32, 32);
    hst_tensor *y = in_its_own_scope(x, 3);
    cr_assert_gt(tape_length(), 0);
    cr_assert(y);
    hst_scope_begin(ctx);
    hst_scope_end(ctx, NULL);
    cr_assert_gt(tape_length(), 0, "they belong to the outer scope now, not to the next one inside");
    hst_scope_end(ctx, NULL);
    cr_assert_eq(tape_length(), 0, "moved out once, they die with the scope they moved to");
    hst_tensor *outside = in_its_own_scope(x, 2);
    hst_backward(ctx, hst_sum(outside));
    EXPECT(hst_grad(x), 4, 4);
}

// A result that was not recorded in the scope leaves the scope's nodes to die.
Test(autograd_tape, nodes_die_under_another_result) {
    hst_tensor *x = LEAF(1, 2);
    hst_scope_begin(ctx);
    hst_tensor *before = hst_scale(x, 2);
    hst_scope_begin(ctx);
    hst_sum(before);
    hst_scope_end(ctx, VECTOR(HST_F32, 1));
    cr_assert_eq(tape_length(), 1);
    hst_scope_begin(ctx);
    hst_sum(before);
    hst_scope_end(ctx, before);
    cr_assert_eq(tape_length(), 1);
    hst_backward(ctx, hst_sum(before));
    EXPECT(hst_grad(x), 2, 2);
    hst_scope_end(ctx, NULL);
}

// A leaf that dies before backward: its node holds it.
Test(autograd_tape, leaves_of_an_inner_scope) {
    hst_tensor *x = LEAF(1, 2);
    hst_scope_begin(ctx);
    hst_tensor *inner = LEAF(3, 4), *y = hst_scope_end(ctx, hst_add(x, inner));
    hst_backward(ctx, hst_sum(y));
    EXPECT(hst_grad(x), 1, 1);
}

Test(autograd_tape, close_with_a_tape) {
    hst_scope_begin(ctx);
    hst_tensor *x = hst_keep(LEAF(1, 2)), *w = with_gradient(hst_zeros(ctx, HST_F16, HST_SHAPE(2, 3)), HST_ADD);
    hst_linear(x, w, NULL);
    hst_layer_norm(x, NULL, NULL, 1e-5);
    cr_assert_eq(tape_length(), 2);
}

// ---- no-grad regions, detaching ----

Test(autograd_tape, no_grad_regions_nest) {
    hst_tensor *x = LEAF(1, 2);
    hst_no_grad_begin(ctx);
    hst_no_grad_begin(ctx);
    hst_tensor *first = hst_scale(x, 2);
    hst_no_grad_end(ctx);
    hst_tensor *second = hst_sum(first);
    cr_assert_eq(tape_length(), 0);
    hst_no_grad_end(ctx);
    hst_tensor *third = hst_sum(hst_add(first, x));
    cr_assert_eq(tape_length(), 2);
    hst_backward(ctx, third);
    EXPECT(hst_grad(x), 1, 1);
    hst_backward(ctx, second);
    EXPECT_ERROR(HST_ERROR_STATE, "nothing was recorded");
    cr_assert_eq(hst_no_grad_end(ctx), HST_ERROR_STATE);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_no_grad_begin");
    hst_scale(x, 1);
    cr_assert_eq(tape_length(), 1, "the wrong end changed nothing");
}

Test(autograd_tape, regions_are_closed_after_an_error) {
    hst_tensor *x = LEAF(1, 2);
    hst_no_grad_begin(ctx);
    hst_fail(ctx, HST_ERROR_VALUE, "stop");
    hst_no_grad_end(ctx);
    hst_clear_error(ctx);
    hst_scale(x, 1);
    cr_assert_eq(tape_length(), 1);
}

Test(autograd_tape, detached_tensors_are_constants) {
    hst_tensor *x = LEAF(1, 2), *y = hst_scale(x, 3), *constant = hst_detach(y);
    hst_backward(ctx, hst_sum(hst_add(y, hst_scale(constant, 100))));
    EXPECT(hst_grad(x), 3, 3);
    hst_copy_in(y, HST_F32, (float[]){7, 8});
    EXPECT(constant, 7, 8);
    hst_backward(ctx, hst_sum(hst_scale(with_gradient(constant, HST_WRITE), 5))); // it may be a leaf of its own
    EXPECT(hst_grad(constant), 5, 5);
    EXPECT(hst_grad(x), 3, 3);
}

// ---- changes in place ----

Test(autograd_tape, a_changed_argument_is_named) {
    hst_tensor *x = MATRIX(2, 2, 1, 2, 3, 4), *w = with_gradient(MATRIX(2, 2, 1, 2, 3, 4), HST_WRITE),
               *gain = VECTOR(HST_F32, 1, 1);
    float values[] = {5, 6};
    hst_tensor *loss = hst_sum(hst_linear(x, w, NULL));
    hst_copy_in(hst_reshape(hst_slice(x, 0, 0, 1), HST_SHAPE(2)), HST_F32, values); // through a view of a view
    hst_backward(ctx, loss);
    EXPECT_ERROR(HST_ERROR_STATE, "argument x of linear was changed");
    loss = hst_sum(hst_linear(x, w, NULL));
    *(float *)hst_mutable_data(w) = 3;
    hst_backward(ctx, loss);
    EXPECT_ERROR(HST_ERROR_STATE, "argument w of linear was changed");
    loss = hst_sum(hst_layer_norm(w, gain, NULL, 1e-5));
    hst_copy_in(gain, HST_F32, values);
    hst_backward(ctx, loss);
    EXPECT_ERROR(HST_ERROR_STATE, "argument gain of layer_norm was changed");
}

// What backward does not read may change: add needs neither its arguments nor its result.
Test(autograd_tape, changes_that_do_not_matter) {
    hst_tensor *x = LEAF(1, 2), *y = hst_add(x, x), *loss = hst_sum(y);
    hst_copy_in(x, HST_F32, (float[]){5, 6});
    hst_copy_in(y, HST_F32, (float[]){5, 6});
    hst_backward(ctx, loss);
    EXPECT(hst_grad(x), 2, 2);
}

// ---- arguments from a tape that has ended ----

// A view of a leaf made once, outside the steps: from the second step on it would be a constant, without a word.
Test(autograd_tape, an_argument_that_backward_used_up_is_refused) {
    hst_tensor *w = with_gradient(MATRIX(1, 2, 3, 4), HST_WRITE), *view = hst_transpose(w, 0, 1);
    hst_backward(ctx, hst_sum(hst_scale(view, 2)));
    EXPECT(hst_grad(w), 2, 2);
    cr_assert_null(hst_scale(view, 2));
    EXPECT_ERROR(HST_ERROR_STATE, "scale: argument x was computed on a tape that has ended");
    EXPECT(hst_scale(hst_detach(view), 2), 6, 8);
    hst_no_grad_begin(ctx); // where nothing is recorded it is as good as any
    EXPECT(hst_scale(view, 2), 6, 8);
    hst_no_grad_end(ctx);
}

Test(autograd_tape, an_argument_kept_beyond_its_scope_is_refused) {
    hst_tensor *x = LEAF(1, 2);
    hst_scope_begin(ctx);
    hst_tensor *y = hst_keep(hst_scale(x, 3));
    hst_scope_end(ctx, NULL);
    cr_assert_null(hst_sum(y));
    EXPECT_ERROR(HST_ERROR_STATE, "sum: argument x was computed on a tape that has ended");
    hst_release(y);
}

Test(autograd_tape, a_request_that_does_not_exist_is_refused) {
    hst_attach_grad(VECTOR(HST_F32, 1), (hst_request)9, HST_F32);
    EXPECT_ERROR(HST_ERROR_VALUE, "request 9");
    hst_attach_grad(VECTOR(HST_F32, 1), HST_WRITE, (hst_dtype)77);
    EXPECT_ERROR(HST_ERROR_DTYPE, "no dtype");
    double out;
    cr_assert(hst_copy_out(VECTOR(HST_F32, 1), (hst_dtype)99, &out) == HST_ERROR_DTYPE);
    EXPECT_ERROR(HST_ERROR_DTYPE, "dtype 99");
}

// ---- integers ----

Test(autograd_tape, a_cast_to_integers_is_a_constant) {
    hst_tensor *x = LEAF(1.75, -2.5);
    EXPECT(hst_cast(x, HST_I32), 1, -2);
    cr_assert_eq(tape_length(), 0);
}
