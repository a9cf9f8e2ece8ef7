// test_lookup.c: embedding and take with their options, by value: index modes, norm limits, gradients of rows only,
// tied tables. Padding and frequencies are compared with PyTorch in tests/ops.
#include "tests/autograd/common.h"

TestSuite(autograd_lookup, .init = open_context, .fini = close_context);

// ---- index modes ----

#define IDS(...)                                                                                                       \
    hst_from_array(ctx, HST_I64, HST_SHAPE(LENGTH(((int64_t[]){__VA_ARGS__}))), HST_I64, (int64_t[]){__VA_ARGS__})
static hst_tensor *table_of_three(void) { return with_gradient(MATRIX(3, 2, 0, 1, 10, 11, 20, 21), HST_WRITE); }
static void ones_backward(hst_tensor *y) {
    hst_tensor *dy = y ? hst_full(ctx, hst_dtype_of(y), hst_rank(y), hst_shape(y), 1) : NULL;
    cr_assert_eq(hst_backward_from(ctx, 1, &y, &dy), HST_OK, "%s", hst_error(ctx));
}

Test(autograd_lookup, modes_choose_rows_and_the_gradient_follows) {
    hst_embedding_options o = hst_embedding_defaults();
    for (int take = 0; take < 2; take++) {
        hst_tensor *x = table_of_three(), *y;
        o.mode = HST_INDEX_CLIP;
        y = take ? hst_take_with(x, IDS(-5, 1, 3, 99), 0, o.mode) : hst_embedding_with(x, IDS(-5, 1, 3, 99), &o);
        EXPECT(y, 0, 1, 10, 11, 20, 21, 20, 21);
        ones_backward(y);
        EXPECT(hst_grad(x), 1, 1, 1, 1, 2, 2);
        o.mode = HST_INDEX_WRAP;
        y = take ? hst_take_with(x, IDS(-1, -4, 3, 7), 0, o.mode) : hst_embedding_with(x, IDS(-1, -4, 3, 7), &o);
        EXPECT(y, 20, 21, 20, 21, 0, 1, 10, 11);
        ones_backward(y);
        EXPECT(hst_grad(x), 1, 1, 1, 1, 2, 2);
        o.mode = HST_INDEX_FROM_END;
        y = take ? hst_take_with(x, IDS(-1, -3, 2), 0, o.mode) : hst_embedding_with(x, IDS(-1, -3, 2), &o);
        EXPECT(y, 20, 21, 0, 1, 20, 21);
        ones_backward(y);
        EXPECT(hst_grad(x), 1, 1, 0, 0, 2, 2);
    }
}

Test(autograd_lookup, take_of_the_last_axis_and_of_all) {
    hst_tensor *x = table_of_three();
    EXPECT(hst_take_with(x, IDS(-1, 5), -1, HST_INDEX_WRAP), 1, 1, 11, 11, 21, 21);
    hst_tensor *y = hst_take_with(x, IDS(5, 0, 5), HST_AXIS_NONE, HST_INDEX_RAISE);
    EXPECT(y, 21, 0, 21);
    ones_backward(y);
    EXPECT(hst_grad(x), 1, 0, 0, 0, 0, 2);
    EXPECT(hst_take_with(hst_transpose(x, 0, 1), IDS(1, -9), HST_AXIS_NONE, HST_INDEX_CLIP), 10, 0);
    y = hst_take_with(x, hst_zeros(ctx, HST_I32, HST_SHAPE(0)), HST_AXIS_NONE, HST_INDEX_RAISE);
    cr_assert(y && hst_count(y) == 0);
    ones_backward(y);
    EXPECT(hst_grad(x), 0, 0, 0, 0, 0, 0);
    cr_assert_null(hst_take_with(NULL, NULL, HST_AXIS_NONE, HST_INDEX_CLIP));
}

Test(autograd_lookup, errors_say_which_index) {
    hst_tensor *x = table_of_three(), *none = hst_zeros(ctx, HST_F32, HST_SHAPE(0, 2));
    hst_embedding_options o = hst_embedding_defaults();
    cr_assert_null(hst_embedding(x, IDS(0, 2, 3)));
    EXPECT_ERROR(HST_ERROR_VALUE, "embedding: id 3 at position 2 is not in 0 .. 2");
    cr_assert_null(hst_embedding(x, IDS(-1)));
    EXPECT_ERROR(HST_ERROR_VALUE, "embedding: id -1 at position 0 is not in 0 .. 2");
    cr_assert_null(hst_take_with(x, IDS(-3, -4), 0, HST_INDEX_FROM_END));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: id -4 at position 1 is not in -3 .. 2");
    cr_assert_null(hst_take_with(none, IDS(7), 0, HST_INDEX_CLIP));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: id 7 at position 0 names nothing: there are no entries");
    cr_assert_null(hst_take_with(x, IDS(0), 0, (hst_index_mode)9));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: index mode 9; modes are 0 to 3");
    o.padding_index = -4;
    cr_assert_null(hst_embedding_with(x, IDS(0), &o));
    EXPECT_ERROR(HST_ERROR_VALUE, "embedding: padding index -4 is not in -3 .. 2");
    o = hst_embedding_defaults();
    o.max_norm = -1;
    cr_assert_null(hst_embedding_with(x, IDS(0), &o));
    EXPECT_ERROR(HST_ERROR_VALUE, "embedding: a norm of power 2 limited to -1");
    o.max_norm = 1;
    cr_assert_null(hst_embedding_with(hst_transpose(x, 0, 1), IDS(0), &o));
    EXPECT_ERROR(HST_ERROR_SHAPE, "max_norm changes table in place, and f32 (2, 3) is a strided view");
}

// ---- options ----

// Norms 1, 5 and 13: the second row is shortened once although it is read twice, the third is not read.
Test(autograd_lookup, max_norm_changes_the_table_and_its_version) {
    hst_tensor *x = with_gradient(MATRIX(3, 2, 0, 1, 3, 4, 5, 12), HST_WRITE);
    hst_embedding_options o = hst_embedding_defaults();
    o.max_norm = 2.5;
    uint32_t version = x->storage->version;
    hst_tensor *square = hst_mul(x, x), *y = hst_embedding_with(x, IDS(1, 0, 1), &o);
    float by = (float)(3 * (2.5 / (5 + 1e-7))), row = (float)(4 * (2.5 / (5 + 1e-7)));
    EXPECT(x, 0, 1, by, row, 5, 12);
    EXPECT(y, by, row, 0, 1, by, row);
    cr_assert_eq(x->storage->version, version + 1);
    ones_backward(y);
    EXPECT(hst_grad(x), 1, 1, 2, 2, 0, 0);
    hst_tensor *dy = hst_full(ctx, HST_F32, HST_SHAPE(3, 2), 1);
    hst_backward_from(ctx, 1, &square, &dy);
    EXPECT_ERROR(HST_ERROR_STATE, "argument a of mul was changed in place");
}

// ---- rows ----

static hst_tensor *rows_leaf(hst_request request, hst_dtype dtype) {
    hst_tensor *x = MATRIX(3, 2, 0, 1, 10, 11, 20, 21);
    cr_assert_eq(hst_attach_grad_rows(x, request, dtype), HST_OK);
    return x;
}

Test(autograd_lookup, rows_are_sorted_unique_and_written_anew) {
    hst_tensor *x = rows_leaf(HST_WRITE, HST_F32);
    cr_assert(hst_grad(x) == NULL && hst_count(hst_grad_rows(x)) == 0 && hst_dim(hst_grad_row_values(x), 1) == 2);
    ones_backward(hst_embedding(x, IDS(2, 0, 2)));
    EXPECT(hst_grad_rows(x), 0, 2);
    EXPECT(hst_grad_row_values(x), 1, 1, 2, 2);
    ones_backward(hst_take(x, IDS(1), 0));
    EXPECT(hst_grad_rows(x), 1);
    EXPECT(hst_grad_row_values(x), 1, 1);
    ones_backward(hst_embedding(x, hst_zeros(ctx, HST_U8, HST_SHAPE(0))));
    cr_assert_eq(hst_count(hst_grad_rows(x)), 0);
}

// Two lookups in one backward, and a second backward, meet in the union of their rows.
Test(autograd_lookup, rows_are_added_to) {
    for (int dtype = 0; dtype < 3; dtype++) {
        hst_tensor *x = rows_leaf(HST_ADD, (hst_dtype)dtype);
        ones_backward(hst_embedding(x, IDS(2, 2)));
        EXPECT(hst_grad_rows(x), 2);
        ones_backward(hst_add(hst_embedding(x, IDS(0, 2)), hst_embedding(x, IDS(0, 0))));
        EXPECT(hst_grad_rows(x), 0, 2);
        EXPECT(hst_grad_row_values(x), 3, 3, 3, 3);
    }
    hst_embedding_options o = hst_embedding_defaults();
    o.padding_index = -1;
    hst_tensor *x = rows_leaf(HST_ADD, HST_F32);
    ones_backward(hst_embedding_with(x, IDS(2, 1, 2), &o)); // no row for the padding
    EXPECT(hst_grad_rows(x), 1);
}

// An output layer tied to the embedding: y = table[ids] table^T, both with options and without. Whoever comes first,
// the gradient ends dense and has the bits of the one that was dense from the start.
Test(autograd_lookup, a_tied_table_becomes_dense) {
    hst_embedding_options o = hst_embedding_defaults();
    o.padding_index = 0;
    o.scale_by_frequency = true;
    for (int mix = 0; mix < 4; mix++) {
        hst_tensor *grad[2];
        for (int rows = 0; rows < 2; rows++) {
            hst_tensor *x = rows ? rows_leaf(HST_ADD, HST_F32) : with_gradient(table_of_three(), HST_ADD);
            if (mix & 2) ones_backward(hst_embedding(x, IDS(1, 1, 0)));
            hst_tensor *y = hst_embedding_with(x, IDS(2, 0, 2), mix & 1 ? &o : NULL);
            ones_backward(hst_matmul(y, hst_transpose(x, 0, 1)));
            cr_assert(hst_grad(x) && !hst_grad_rows(x) && !hst_grad_row_values(x));
            grad[rows] = hst_grad(x);
        }
        cr_assert_eq(memcmp(hst_data(grad[0]), hst_data(grad[1]), 6 * sizeof(float)), 0);
    }
}

Test(autograd_lookup, a_wrong_request_for_rows_is_an_error) {
    cr_assert_eq(hst_attach_grad_rows(NULL, HST_WRITE, HST_F32), HST_ERROR_STATE);
    hst_attach_grad_rows(hst_full(ctx, HST_F32, HST_SCALAR, 1), HST_WRITE, HST_F32);
    EXPECT_ERROR(HST_ERROR_SHAPE, "hst_attach_grad_rows: a scalar has no rows");
    hst_tensor *x = rows_leaf(HST_WRITE, HST_F32);
    hst_attach_grad_rows(hst_embedding(x, IDS(1)), HST_WRITE, HST_F32);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_attach_grad_rows: this tensor was computed");
    hst_attach_grad_rows(x, HST_WRITE, HST_I32);
    EXPECT_ERROR(HST_ERROR_DTYPE, "hst_attach_grad_rows: a gradient in i32");
    cr_assert(hst_attach_grad(x, HST_NULL, HST_F32) == HST_OK && !hst_grad_rows(x) && !hst_grad_row_values(NULL));
}
