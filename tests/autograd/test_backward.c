// test_backward.c: values of gradients: requests, dtypes, several uses of one tensor, several roots. All numbers are
// such that the arithmetic is exact, so that results are compared for equality.
#include "tests/autograd/common.h"

TestSuite(autograd, .init = open_context, .fini = close_context);

// ---- requests ----

Test(autograd, write_overwrites_add_adds_null_leaves_alone) {
    hst_tensor *written = LEAF(1, 2), *added = with_gradient(VECTOR(HST_F32, 1, 2), HST_ADD),
               *none = VECTOR(HST_F32, 1, 2);
    EXPECT(hst_grad(written), 0, 0);
    for (int pass = 1; pass <= 3; pass++) {
        hst_tensor *y = hst_add(hst_add(hst_scale(written, 3), added), none);
        cr_assert_eq(hst_backward(ctx, hst_sum(y)), HST_OK, "%s", hst_error(ctx));
        EXPECT(hst_grad(written), 3, 3);
        EXPECT(hst_grad(added), pass, pass);
    }
    cr_assert(!hst_grad(none) && !hst_grad(NULL));
    hst_attach_grad(written, HST_NULL, HST_F32);
    cr_assert_null(hst_grad(written));
    hst_backward(ctx, hst_sum(hst_add(written, added)));
    EXPECT(hst_grad(added), 4, 4);
    hst_attach_grad(added, HST_WRITE, HST_F32);
    EXPECT(hst_grad(added), 0, 0);
}

// Write means once a backward: within one, all uses add up, whatever was there before.
Test(autograd, write_and_several_uses) {
    hst_tensor *x = LEAF(1, 2);
    for (int pass = 0; pass < 2; pass++) {
        hst_tensor *y = hst_add(hst_scale(x, 2), hst_add(hst_scale(x, 3), hst_scale(x, 4)));
        hst_backward(ctx, hst_sum(y));
        EXPECT(hst_grad(x), 9, 9);
    }
}

// A request that was taken away after the forward pass.
Test(autograd, null_before_backward) {
    hst_tensor *x = LEAF(1, 2), *w = LEAF(3, 4);
    hst_tensor *first = hst_scale(w, 3); // the last one that backward visits
    hst_tensor *loss = hst_sum(hst_add(first, hst_add(hst_scale(x, 2), x)));
    hst_attach_grad(x, HST_NULL, HST_F32);
    cr_assert_eq(hst_backward(ctx, loss), HST_OK, "%s", hst_error(ctx));
    EXPECT(hst_grad(w), 3, 3);
    cr_assert_null(hst_grad(x));
}

Test(autograd, only_leaves_with_a_path_are_recorded) {
    hst_tensor *x = LEAF(1, 2), *constant = VECTOR(HST_F32, 1, 2);
    hst_add(constant, constant);
    cr_assert_eq(tape_length(), 0);
    hst_tensor *y = hst_scale(x, 2);
    hst_scale(constant, 5);
    hst_add(y, constant);
    cr_assert_eq(tape_length(), 2);
}

Test(autograd, wrong_leaves_are_errors) {
    hst_tensor *x = LEAF(1, 2), *y = hst_scale(x, 2), *ids = hst_zeros(ctx, HST_I32, HST_SHAPE(2));
    hst_attach_grad(y, HST_WRITE, HST_F32);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_detach");
    hst_attach_grad(ids, HST_WRITE, HST_F32);
    EXPECT_ERROR(HST_ERROR_DTYPE, "i32");
    hst_attach_grad(x, HST_WRITE, HST_F64);
    EXPECT_ERROR(HST_ERROR_DTYPE, "f64");
    cr_assert_neq(hst_attach_grad(NULL, HST_WRITE, HST_F32), HST_OK);
    EXPECT(hst_grad(x), 0, 0);
}

// ---- dtypes ----

// The buffer's dtype is the program's choice, whatever the tensor's: the gradient is rounded once into it.
// 1 + 2^-9 is no bf16 (7 fraction bits), 1 + 2^-12 no f16 (10).
Test(autograd, gradients_come_in_the_dtype_that_was_asked_for) {
    static const hst_dtype dtypes[] = {HST_F32, HST_F16, HST_BF16};
    static const double expected[][3] = {{1 + 0x1p-9, 1 + 0x1p-9, 1}, {1 + 0x1p-12, 1, 1}};
    for (int k = 0; k < 2; k++)
        for (int g = 0; g < 3; g++) {
            hst_tensor *x = VECTOR(HST_F32, 5), *dy = VECTOR(HST_F32, expected[k][0]);
            hst_attach_grad(x, HST_WRITE, dtypes[g]);
            hst_tensor *y = hst_cast(x, HST_F32);
            hst_backward_from(ctx, 1, &y, &dy);
            cr_assert_eq(hst_dtype_of(hst_grad(x)), dtypes[g]);
            EXPECT(hst_grad(x), expected[k][g]);
        }
}

// A 16-bit tensor between two operations has a gradient of its dtype, also where its leaf has more bits.
Test(autograd, gradients_have_the_dtype_of_their_tensor) {
    hst_tensor *x = LEAF(5), *y = hst_scale(hst_cast(x, HST_BF16), 1), *dy = VECTOR(HST_F32, 1 + 0x1p-9);
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT(hst_grad(x), 1);
    y = hst_scale(hst_cast(x, HST_F16), 1);
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT(hst_grad(x), 1 + 0x1p-9);
}

// Gradients 1, e, e with e half a place of 1: their sum, 1 + 2 e, is one place more. Rounded after each addition it
// would stay 1 (ties go to even). An fp32 buffer, rounded once, is what a tensor with several uses has.
Test(autograd, several_uses_of_a_16_bit_tensor_are_rounded_once) {
    static const hst_dtype dtypes[] = {HST_F16, HST_BF16};
    static const double half_place[] = {0x1p-11, 0x1p-8};
    for (int i = 0; i < 2; i++) {
        hst_tensor *x = LEAF(5), *low = hst_cast(x, dtypes[i]), *y[3], *dy[3];
        for (int k = 0; k < 3; k++) {
            y[k] = hst_cast(low, HST_F32);
            dy[k] = VECTOR(HST_F32, k == 2 ? 1 : half_place[i]);
        }
        hst_backward_from(ctx, 3, y, dy);
        EXPECT(hst_grad(x), 1 + 2 * half_place[i]);
    }
}

// The same where one of the uses is the root itself, and where the root is given twice.
Test(autograd, a_root_that_is_used_is_rounded_once) {
    hst_tensor *x = LEAF(5), *low = hst_cast(x, HST_F16), *wide = hst_cast(low, HST_F32);
    hst_tensor *y[] = {low, wide, low},
               *dy[] = {VECTOR(HST_F32, 0x1p-11), VECTOR(HST_F32, 1), VECTOR(HST_F32, 0x1p-11)};
    hst_backward_from(ctx, 3, y, dy);
    EXPECT(hst_grad(x), 1 + 0x1p-10);
}

// ---- one tensor twice in one call ----

Test(autograd, one_tensor_twice_in_a_call) {
    hst_tensor *x = LEAF(1, 2), *added = with_gradient(VECTOR(HST_F32, 1, 2), HST_ADD);
    for (int pass = 1; pass <= 2; pass++) {
        hst_backward(ctx, hst_sum(hst_add(x, x)));
        EXPECT(hst_grad(x), 2, 2);
        hst_backward(ctx, hst_sum(hst_add(added, added)));
        EXPECT(hst_grad(added), 2 * pass, 2 * pass);
        hst_tensor *y = hst_scale(x, 3); // not a leaf
        hst_backward(ctx, hst_sum(hst_add(y, y)));
        EXPECT(hst_grad(x), 6, 6);
    }
}

// As table, gain and bias at once: dgain = sum of dy n, dbias = sum of dy. The row -1, 1 has n = -1, 1 (eps 0).
Test(autograd, one_tensor_as_gain_and_bias) {
    hst_tensor *g = LEAF(2, 3), *x = VECTOR(HST_F32, -1, 1), *y = hst_layer_norm(x, g, g, 0),
               *dy = VECTOR(HST_F32, 5, 7);
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT(hst_grad(g), 5 * -1 + 5, 7 + 7);
}

// y = x x^T for the square x: the gradient of the sum of all y is (1 x)^T + 1 x, ones times x from both sides.
Test(autograd, a_matrix_times_itself) {
    hst_tensor *x = with_gradient(MATRIX(2, 2, 1, 2, 3, 4), HST_WRITE);
    hst_backward(ctx, hst_sum(hst_matmul(x, x)));
    // dL/dx_ij = sum_k x_jk + sum_k x_ki: row sums 3, 7, column sums 4, 6
    EXPECT(hst_grad(x), 3 + 4, 7 + 4, 3 + 6, 7 + 6);
    hst_backward(ctx, hst_sum(hst_matmul(x, hst_transpose(x, 0, 1))));
    // dL/dx_ij = 2 sum_k x_kj
    EXPECT(hst_grad(x), 8, 12, 8, 12);
}

// ---- roots ----

Test(autograd, backward_from_tensors_of_any_shape) {
    hst_tensor *x = with_gradient(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), HST_WRITE);
    hst_tensor *y[] = {hst_transpose(x, 0, 1), hst_slice(x, 1, 1, 2)};
    hst_tensor *dy[] = {hst_from_array(ctx, HST_F16, HST_SHAPE(3, 2), HST_F32, (float[]){1, 2, 3, 4, 5, 6}),
                        hst_transpose(hst_from_array(ctx, HST_F64, HST_SHAPE(1, 2), HST_F32, (float[]){10, 20}), 0, 1)};
    cr_assert_eq(hst_backward_from(ctx, 2, y, dy), HST_OK, "%s", hst_error(ctx));
    EXPECT(hst_grad(x), 1, 3 + 10, 5, 2, 4 + 20, 6);
    cr_assert_eq(hst_backward_from(ctx, 0, NULL, NULL), HST_OK);
}

Test(autograd, wrong_roots_are_errors) {
    hst_tensor *x = LEAF(1, 2), *y = hst_scale(x, 2), *dy = VECTOR(HST_F32, 1, 2, 3), *null = NULL;
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT_ERROR(HST_ERROR_SHAPE, "gradient 0 is f32 (3), its root f32 (2)");
    hst_backward_from(ctx, 1, &y, &null);
    EXPECT_ERROR(HST_ERROR_VALUE, "gradient 0 is NULL");
    hst_backward_from(ctx, 1, &null, &dy);
    EXPECT_ERROR(HST_ERROR_VALUE, "root 0 is NULL");
    hst_backward(ctx, y);
    EXPECT_ERROR(HST_ERROR_SHAPE, "f32 (2)");
    hst_backward(ctx, NULL);
    EXPECT_ERROR(HST_ERROR_VALUE, "NULL");
    hst_backward(ctx, hst_sum(VECTOR(HST_F32, 1)));
    EXPECT_ERROR(HST_ERROR_STATE, "nothing was recorded");
    hst_backward(ctx, LEAF(1));
    EXPECT_ERROR(HST_ERROR_STATE, "nothing was recorded");
    EXPECT(hst_grad(x), 0, 0);
    hst_backward(ctx, hst_sum(y));
    EXPECT(hst_grad(x), 2, 2);
}

Test(autograd, a_context_that_recorded_nothing) {
    hst_backward(ctx, hst_sum(VECTOR(HST_F32, 1)));
    EXPECT_ERROR(HST_ERROR_STATE, "nothing was recorded");
}

// ---- views ----

Test(autograd, gradients_through_views) {
    hst_tensor *x = with_gradient(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), HST_ADD);
    for (int pass = 1; pass <= 2; pass++) { // added to what the buffer holds
        hst_tensor *row = hst_reshape(hst_cast(hst_slice(hst_transpose(x, 0, 1), 0, 1, 2), HST_F32), HST_SHAPE(2));
        hst_tensor *all = hst_reshape(hst_cast(hst_transpose(x, 0, 1), HST_F32), HST_SHAPE(6)); // a copy
        hst_backward(ctx, hst_sum(hst_add(hst_scale(row, 10), hst_slice(all, 0, 0, 2))));
        EXPECT(hst_grad(x), pass, 10 * pass, 0, pass, 10 * pass, 0);
    }
}

// A leaf that is itself a strided view.
Test(autograd, a_strided_leaf) {
    hst_tensor *x = with_gradient(hst_transpose(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), 0, 1), HST_WRITE);
    hst_tensor *y = hst_add(x, x), *dy = MATRIX(3, 2, 1, 2, 3, 4, 5, 6);
    EXPECT(y, 2, 8, 4, 10, 6, 12);
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT(hst_grad(x), 2, 4, 6, 8, 10, 12);
}

// Sums over nothing are zero, and are written.
Test(autograd, gradients_from_no_rows) {
    hst_tensor *w = with_gradient(hst_full(ctx, HST_F32, HST_SHAPE(2, 3), 1), HST_WRITE), *bias = LEAF(1, 2, 3);
    hst_tensor *table = with_gradient(hst_full(ctx, HST_F32, HST_SHAPE(3, 2), 1), HST_WRITE);
    for (int64_t rows = 4; rows >= 0; rows -= 4) { // first something, so that the buffers are not zero already
        hst_tensor *x = hst_embedding(table, hst_zeros(ctx, HST_U8, HST_SHAPE(rows)));
        hst_backward(ctx, hst_sum(hst_linear(x, w, bias)));
        double n = (double)rows;
        EXPECT(hst_grad(w), n, n, n, n, n, n);
        EXPECT(hst_grad(bias), n, n, n);
        EXPECT(hst_grad(table), 3 * n, 3 * n, 0, 0, 0, 0);
    }
}

// A gradient that the program gave is only read, also where others are added to it: of a root given twice, and of one
// that another root was computed from.
Test(autograd, given_gradients_stay_as_they_are) {
    hst_tensor *x = LEAF(1, 2), *y = hst_scale(x, 2), *z = hst_scale(y, 3);
    hst_tensor *dy = VECTOR(HST_F32, 1, 10), *dz = VECTOR(HST_F32, 100, 1000);
    cr_assert_eq(hst_backward_from(ctx, 3, (hst_tensor *[]){y, z, y}, (hst_tensor *[]){dy, dz, dy}), HST_OK);
    EXPECT(hst_grad(x), 2 * (1 + 1 + 300), 2 * (10 + 10 + 3000));
    EXPECT(dy, 1, 10);
    EXPECT(dz, 100, 1000);
}
