// test_view.c: looking at tensors: extents, elements, strided views, ranks 0 to 8, tensors without elements.
#include <criterion/criterion.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/context.h"
#include "tests/tensor/expect.h"

static hst_context *ctx;
static void open_context(void) { ctx = hst_open(NULL); }
static void close_context(void) { hst_close(ctx); }
TestSuite(tensor_view, .init = open_context, .fini = close_context);

static hst_tensor *numbered(int rank, const int64_t *shape) { // 0, 1, 2, ...
    hst_tensor *t = hst_empty(ctx, HST_F32, rank, shape);
    float *values = hst_mutable_data(t);
    for (int64_t i = 0; i < hst_count(t); i++) values[i] = (float)i;
    return t;
}

static void expect_elements(int line, hst_tensor *t, int count, const double *expected) {
    double values[64];
    cr_assert_eq(hst_count(t), count);
    cr_assert_eq(hst_copy_out(t, HST_F64, values), HST_OK);
    for (int i = 0; i < count; i++)
        cr_assert_eq(values[i], expected[i], "line %d: element %d is %g, not %g", line, i, values[i], expected[i]);
}
#define EXPECT(t, ...)                                                                                                 \
    expect_elements(__LINE__, t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

Test(tensor_view, extents) {
    hst_tensor *t = hst_zeros(ctx, HST_I32, HST_SHAPE(2, 3, 4));
    cr_assert(hst_context_of(t) == ctx && hst_dtype_of(t) == HST_I32 && hst_rank(t) == 3 && hst_count(t) == 24);
    cr_assert(hst_dim(t, 0) == 2 && hst_dim(t, 2) == 4 && hst_dim(t, -1) == 4 && hst_dim(t, -3) == 2);
    cr_assert(hst_shape(t)[0] == 2 && hst_shape(t)[1] == 3 && hst_shape(t)[2] == 4);
    cr_assert_eq(hst_dim(t, 3), 0);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "axis 3");
    hst_dim(t, -4);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "axis -4");
}

Test(tensor_view, items) {
    hst_tensor *t = hst_transpose(numbered(HST_SHAPE(2, 3)), 0, 1);
    cr_assert_eq(hst_item(t, (int64_t[]){2, 1}), 5);
    cr_assert_eq(hst_item(t, NULL), 0);
    cr_assert_eq(hst_item(hst_full(ctx, HST_F16, HST_SCALAR, 0.5), NULL), 0.5);
    cr_assert_eq(hst_item(t, (int64_t[]){0, 2}), 0);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "index 2 at axis 1");
    hst_item(t, (int64_t[]){-1, 0});
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "index -1 at axis 0");
    hst_item(hst_zeros(ctx, HST_F32, HST_SHAPE(0)), NULL);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "extent is 0");
}

// ---- views ----

Test(tensor_view, views_share_memory) {
    hst_tensor *t = numbered(HST_SHAPE(2, 3));
    hst_tensor *flat = hst_reshape(t, HST_SHAPE(-1)), *column = hst_slice(t, 1, 1, 2),
               *turned = hst_transpose(t, 0, -1);
    hst_copy_in(column, HST_F32, (float[]){10, 40});
    EXPECT(t, 0, 10, 2, 3, 40, 5);
    EXPECT(flat, 0, 10, 2, 3, 40, 5);
    hst_copy_in(turned, HST_I32, (int32_t[]){1, 2, 3, 4, 5, 6});
    EXPECT(t, 1, 3, 5, 2, 4, 6);
    EXPECT(column, 3, 4);
    hst_copy_in(flat, HST_U8, (uint8_t[]){6, 5, 4, 3, 2, 1});
    EXPECT(turned, 6, 3, 5, 2, 4, 1);
    EXPECT(hst_slice(turned, 0, 1, 3), 5, 2, 4, 1);
    EXPECT(hst_slice(hst_slice(t, 0, 1, 2), 1, 1, 3), 2, 1);
    EXPECT(hst_reshape(hst_cast(turned, HST_F32), HST_SHAPE(2, 3)), 6, 3, 5, 2, 4, 1);
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

Test(tensor_view, contiguity) {
    hst_tensor *t = numbered(HST_SHAPE(2, 1, 3));
    cr_assert(hst_is_contiguous(t) && hst_is_contiguous(hst_slice(t, 0, 1, 2)) &&
              hst_is_contiguous(hst_transpose(t, 0, 1)));
    cr_assert(!hst_is_contiguous(hst_transpose(t, 0, 2)) && !hst_is_contiguous(hst_slice(t, 2, 0, 2)));
    cr_assert(hst_is_contiguous(hst_slice(hst_slice(t, 2, 0, 2), 0, 0, 1)), "one row of a part");
    cr_assert_eq(hst_data(hst_slice(t, 0, 1, 2)), (const float *)hst_data(t) + 3);
    cr_assert_null(hst_data(hst_transpose(t, 0, 2)));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "hst_copy_out");
    cr_assert_null(hst_mutable_data(hst_slice(t, 2, 0, 2)));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "hst_data");
}

Test(tensor_view, wrong_views_are_errors) {
    hst_tensor *t = numbered(HST_SHAPE(2, 3)), *none = hst_zeros(ctx, HST_F32, HST_SHAPE(0, 3));
    static const int64_t shapes[][2] = {
        {4, 2}, {-1, 4}, {-1, -1}, {-2, -3}, {-6, -1}, {0, -1}, {INT64_C(1) << 33, INT64_C(1) << 33}};
    for (int i = 0; i < 7; i++) {
        cr_assert_null(hst_reshape(t, 2, shapes[i]), "shape %d", i);
        EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "reshape");
    }
    cr_assert_null(hst_reshape(none, HST_SHAPE(0, -1)), "any extent would do");
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "reshape");
    cr_assert_null(hst_reshape(hst_transpose(t, 0, 1), HST_SHAPE(6)));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "strided");
    cr_assert_null(hst_reshape(t, 9, (int64_t[9]){6, 1, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rank 9");
    static const int64_t slices[][3] = {{0, 1, 3}, {0, -1, 1}, {0, 2, 1}, {2, 0, 1}, {-3, 0, 1}};
    for (int i = 0; i < 5; i++) {
        cr_assert_null(hst_slice(t, (int)slices[i][0], slices[i][1], slices[i][2]));
        EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "slice");
    }
    cr_assert_null(hst_transpose(t, 0, 2));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "transpose");
    cr_assert_null(hst_transpose(hst_full(ctx, HST_F32, HST_SCALAR, 1), 0, -1));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "transpose");
}

// ---- ranks ----

Test(tensor_view, every_rank) {
    int64_t shape[HST_MAX_RANK] = {2, 1, 2, 2, 1, 2, 1, 2}, index[HST_MAX_RANK];
    for (int rank = 0; rank <= HST_MAX_RANK; rank++) {
        hst_tensor *t = numbered(rank, shape), *back = hst_reshape(hst_reshape(t, HST_SHAPE(-1)), rank, shape);
        for (int i = 0; i < rank; i++) index[i] = shape[i] - 1;
        cr_assert_eq(hst_item(back, index), (double)(hst_count(t) - 1), "rank %d", rank);
        if (rank < 2) continue;
        hst_tensor *turned = hst_transpose(t, 0, rank - 1),
                   *copy = hst_reshape(hst_cast(turned, HST_I32), HST_SHAPE(-1));
        memset(index, 0, sizeof index);
        index[rank - 1] = 1; // of the turned one; in memory it is the first of the second half
        cr_assert_eq(hst_item(turned, index), (double)(hst_count(t) / 2), "rank %d", rank);
        cr_assert_eq(hst_item(copy, (int64_t[]){1}), (double)(hst_count(t) / 2), "rank %d", rank);
    }
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}

// ---- tensors without elements ----

Test(tensor_view, tensors_without_elements) {
    hst_tensor *none = hst_zeros(ctx, HST_F32, HST_SHAPE(3, 0)), *part = hst_slice(numbered(HST_SHAPE(3, 4)), 1, 2, 2);
    float untouched = 5;
    cr_assert(hst_count(none) == 0 && hst_count(part) == 0);
    cr_assert(hst_is_contiguous(none) && hst_is_contiguous(part) && hst_is_contiguous(hst_transpose(none, 0, 1)));
    cr_assert(hst_data(none) && hst_data(part));
    cr_assert_eq(hst_copy_out(none, HST_F32, &untouched), HST_OK);
    cr_assert_eq(hst_copy_in(part, HST_F32, NULL), HST_OK);
    cr_assert_eq(hst_copy_out(hst_transpose(part, 0, 1), HST_F16, NULL), HST_OK);
    cr_assert_eq(untouched, 5);
    cr_assert_eq(hst_count(hst_cast(part, HST_I32)), 0);
    cr_assert_eq(hst_dim(hst_reshape(none, HST_SHAPE(-1, 7)), 0), 0);
    cr_assert_eq(hst_count(hst_add(part, none)), 0);
    cr_assert_eq(hst_item(hst_sum(none), NULL), 0);
    cr_assert(hst_adopt(ctx, HST_F32, HST_SHAPE(0), NULL, NULL, NULL), "memory of no bytes may be NULL");
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
}
