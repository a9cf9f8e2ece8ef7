// test_shape.c: the operations that move elements, by value: cat, stack, split, where, masked_fill, take, one_hot and
// the views; every mix of dtypes, empty pieces, what is refused and how it is said.
#include "tests/autograd/mixes.h"

TestSuite(autograd_shape, .init = open_context, .fini = close_context);

static hst_tensor *ints(hst_dtype dtype, int rank, const int64_t *shape, const int32_t *values) {
    return hst_from_array(ctx, dtype, rank, shape, HST_I32, values);
}
#define INTS(dtype, ...) ints(dtype, 1, (int64_t[]){LENGTH(((int32_t[]){__VA_ARGS__}))}, (int32_t[]){__VA_ARGS__})
#define LIST(...)                                                                                                      \
    (int)LENGTH(((hst_tensor *[]){__VA_ARGS__})), (hst_tensor *[]) { __VA_ARGS__ }

static void expect_shape(int line, const hst_tensor *t, hst_dtype dtype, int rank, const int64_t *shape) {
    cr_assert(t, "line %d: %s", line, hst_error(ctx));
    cr_assert(hst_dtype_of(t) == dtype && hst_rank(t) == rank, "line %d", line);
    for (int i = 0; i < rank; i++)
        cr_assert_eq(hst_dim(t, i), shape[i], "line %d: axis %d is %d", line, i, (int)hst_dim(t, i));
}
#define EXPECT_SHAPE(t, dtype, ...) expect_shape(__LINE__, t, dtype, __VA_ARGS__)

// ---- cat, stack, split ----

Test(autograd_shape, cat_puts_side_by_side) {
    hst_tensor *a = MATRIX(2, 2, 1, 2, 3, 4), *b = MATRIX(2, 1, 5, 6),
               *empty = hst_zeros(ctx, HST_F32, HST_SHAPE(2, 0));
    EXPECT(hst_cat(LIST(a, b, hst_transpose(a, 0, 1)), 1), 1, 2, 5, 1, 3, 3, 4, 6, 2, 4);
    EXPECT(hst_cat(LIST(a, hst_transpose(b, 0, 1)), 0), 1, 2, 3, 4, 5, 6);
    EXPECT(hst_cat(LIST(empty, b, empty, b), -1), 5, 5, 6, 6);
    EXPECT(hst_cat(LIST(b), -2), 5, 6);
    EXPECT_SHAPE(hst_cat(LIST(empty, empty), 1), HST_F32, HST_SHAPE(2, 0));
    EXPECT_SHAPE(hst_cat(LIST(empty, empty), 0), HST_F32, HST_SHAPE(4, 0));
    EXPECT(hst_cat(LIST(INTS(HST_I64, 1, 2), INTS(HST_I64, 3)), 0), 1, 2, 3);
}

// 0 .. 119 from 60 pieces of one or three elements, of which each wants a gradient: groups in groups.
Test(autograd_shape, cat_of_any_number) {
    enum { PIECES = 60, COUNT = 2 * PIECES };
    hst_tensor *x[PIECES];
    double want[COUNT], weights[COUNT];
    for (int i = 0, at = 0; i < PIECES; at += i++ % 2 ? 3 : 1) {
        double numbers[3] = {at, at + 1, at + 2};
        x[i] = with_gradient(vector_of(HST_F32, i % 2 ? 3 : 1, numbers), HST_WRITE);
    }
    for (int i = 0; i < COUNT; i++) want[i] = i, weights[i] = 3 * i - 50;
    for (int count = 1; count <= PIECES; count++) {
        hst_tensor *y = hst_cat(count, x, 0);
        cr_assert_eq(hst_count(y), count / 2 * 4 + count % 2);
        if (count == PIECES) run_backward(y, weights);
        for (int i = 0; i < hst_count(y); i++) cr_assert_eq(hst_item(y, (int64_t[]){i}), want[i]);
    }
    for (int i = 0, at = 0; i < PIECES; i++)
        for (int j = 0; j < hst_count(x[i]); j++, at++)
            cr_assert_eq(hst_item(hst_grad(x[i]), (int64_t[]){j}), weights[at]);
    for (int i = 0; i < PIECES; i++) x[i] = x[1];
    hst_tensor *rows = hst_stack(PIECES, x, 1);
    EXPECT_SHAPE(rows, HST_F32, HST_SHAPE(3, PIECES));
    cr_assert(hst_item(rows, (int64_t[]){0, 59}) == 1 && hst_item(rows, (int64_t[]){2, 7}) == 3);
}

// What only a wider dtype holds arrives in it, also through groups: 2^-9 next to 1 in the gradient of an f16 piece.
Test(autograd_shape, groups_do_not_round) {
    hst_tensor *x[20], *wide = VECTOR(HST_F32, 1 + 0x1p-20);
    for (int i = 0; i < 20; i++) x[i] = with_gradient(VECTOR(HST_F16, 1), HST_WRITE);
    x[19] = wide;
    hst_tensor *y = hst_cat(20, x, 0);
    cr_assert_eq(hst_dtype_of(y), HST_F32);
    cr_assert_eq(hst_item(y, (int64_t[]){19}), 1 + 0x1p-20);
    double dy[20] = {1 + 0x1p-20};
    run_backward(y, dy);
    cr_assert_eq(hst_item(hst_grad(x[0]), NULL), 1 + 0x1p-20);
}

Test(autograd_shape, cat_in_every_mix) {
    enum { A = 6, B = 9, COUNT = A + B };
    double a[A], b[B], dy[COUNT], y[COUNT];
    fill(a, A, 0.125, 0);
    fill(b, B, 0.125, 1);
    fill(dy, COUNT, 0x1p-12, 2);
    memcpy(y, a, sizeof a);
    memcpy(y + A, b, sizeof b);
    for (int mix = 0; mix < MIXES; mix++) {
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(2, 3), a), *z = leaf(mix, 1, HST_SHAPE(3, 3), b);
        hst_tensor *out = hst_cat(LIST(x, z), 0);
        cr_assert_eq(hst_dtype_of(out), hst_promote(hst_dtype_of(x), hst_dtype_of(z)));
        expect_near("y", mix, out, COUNT, y, NULL);
        run_backward(out, dy);
        expect_near("da", mix, hst_grad(x), A, dy, NULL);
        expect_near("db", mix, hst_grad(z), B, dy + A, NULL);
    }
}

Test(autograd_shape, stack_makes_an_axis) {
    hst_tensor *a = VECTOR(HST_F32, 1, 2), *b = VECTOR(HST_BF16, 3, 4);
    EXPECT_SHAPE(hst_stack(LIST(a, b, a), 0), HST_F32, HST_SHAPE(3, 2));
    EXPECT(hst_stack(LIST(a, b, a), 0), 1, 2, 3, 4, 1, 2);
    EXPECT_SHAPE(hst_stack(LIST(a, b, a), -1), HST_F32, HST_SHAPE(2, 3));
    EXPECT(hst_stack(LIST(a, b, a), -1), 1, 3, 1, 2, 4, 2);
    EXPECT_SHAPE(hst_stack(LIST(hst_sum(a), hst_sum(b)), 0), HST_F32, HST_SHAPE(2));
}

Test(autograd_shape, split_is_the_way_back) {
    hst_tensor *x = with_gradient(MATRIX(2, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), HST_WRITE), *part[3];
    cr_assert_eq(hst_split(x, -1, 3, (int64_t[]){2, 0, 3}, part), HST_OK);
    EXPECT(part[0], 1, 2, 6, 7);
    EXPECT_SHAPE(part[1], HST_F32, HST_SHAPE(2, 0));
    EXPECT(part[2], 3, 4, 5, 8, 9, 10);
    EXPECT(hst_cat(3, part, 1), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    hst_backward(ctx, hst_sum(hst_scale(part[2], 3)));
    EXPECT(hst_grad(x), 0, 0, 3, 3, 3, 0, 0, 3, 3, 3);
    cr_assert_eq(hst_split(hst_zeros(ctx, HST_F32, HST_SHAPE(0, 2)), 0, 0, NULL, NULL), HST_OK);
}

Test(autograd_shape, cat_and_split_refuse) {
    hst_tensor *a = MATRIX(2, 2, 1, 2, 3, 4), *b = MATRIX(1, 3, 5, 6, 7), *v = VECTOR(HST_F32, 1), *part[2] = {a, a};
    cr_assert_null(hst_cat(LIST(a, a, b), 1));
    EXPECT_ERROR(HST_ERROR_SHAPE, "cat: tensor 2 is f32 (1, 3) and tensor 0 is f32 (2, 2); only axis 1 may differ");
    cr_assert_null(hst_cat(LIST(a, v), 0));
    EXPECT_ERROR(HST_ERROR_SHAPE, "cat: tensor 1 is f32 (1)");
    cr_assert_null(hst_cat(LIST(a, a), 2));
    EXPECT_ERROR(HST_ERROR_VALUE, "cat: tensor 0 is f32 (2, 2) and has no axis 2");
    cr_assert_null(hst_cat(LIST(a, a), -3));
    EXPECT_ERROR(HST_ERROR_VALUE, "no axis -3");
    cr_assert_null(hst_cat(LIST(v, INTS(HST_I32, 1)), 0));
    EXPECT_ERROR(HST_ERROR_DTYPE, "cat: tensor 1 is i32 (1) and tensor 0 is f32 (1); only f32, f16 and bf16");
    cr_assert_null(hst_cat(LIST(NULL, a, a), 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "cat: tensor 0 is NULL");
    cr_assert(!hst_cat(LIST(NULL, NULL), 0) && !hst_cat(0, NULL, 0) && !hst_stack(0, NULL, 0));
    cr_assert_null(hst_stack(LIST(v, a), 0));
    EXPECT_ERROR(HST_ERROR_SHAPE, "stack: tensor 1 is f32 (2, 2) and tensor 0 is f32 (1); the shapes must agree");
    cr_assert_null(hst_stack(LIST(v, v), 2));
    EXPECT_ERROR(HST_ERROR_VALUE, "stack: tensor 0 is f32 (1) and the result would have no axis 2");
    cr_assert_null(hst_stack(LIST(v, INTS(HST_I32, 1)), 0));
    EXPECT_ERROR(HST_ERROR_DTYPE, "stack: tensor 1 is i32 (1) and tensor 0 is f32 (1); only f32, f16 and bf16");
    cr_assert_null(hst_stack(LIST(hst_zeros(ctx, HST_F32, HST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1))), 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "stack: tensor 0 is f32 (1, 1, 1, 1, 1, 1, 1, 1); the result would have more than 8");
    hst_split(a, 0, 2, (int64_t[]){1, 2}, part);
    EXPECT_ERROR(HST_ERROR_SHAPE, "split: 2 sizes along axis 0 of f32 (2, 2); none may be negative, and their sum");
    cr_assert(!part[0] && !part[1]);
    hst_split(a, 0, 2, (int64_t[]){3, -1}, part);
    EXPECT_ERROR(HST_ERROR_SHAPE, "sum must be 2");
    hst_split(a, 0, 1, (int64_t[]){1}, part);
    EXPECT_ERROR(HST_ERROR_SHAPE, "split: 1 sizes");
    hst_split(v, 1, 1, (int64_t[]){1}, part);
    EXPECT_ERROR(HST_ERROR_VALUE, "split: x is f32 (1) and has no axis 1");
    hst_context *other = hst_open(NULL);
    cr_assert_null(hst_cat(LIST(a, hst_zeros(other, HST_F32, HST_SHAPE(2, 2))), 0));
    EXPECT_ERROR(HST_ERROR_STATE, "cat: argument x1 belongs to another context");
    hst_close(other);
}

// ---- where, masked_fill ----

Test(autograd_shape, where_in_every_mix) {
    enum { ROWS = 3, WIDTH = 7, COUNT = ROWS * WIDTH };
    static const hst_dtype conditions[] = {HST_U8, HST_I32, HST_I64};
    double a[COUNT], b[WIDTH], dy[COUNT], y[COUNT], da[COUNT], chosen[COUNT];
    fill(a, COUNT, 0.125, 0);
    fill(b, WIDTH, 0.125, 1);
    fill(dy, COUNT, 0.125, 2);
    for (int mix = 0; mix < MIXES; mix++) {
        double db[WIDTH] = {0};
        for (int i = 0; i < COUNT; i++) {
            chosen[i] = i * 5 % 7 % 3; // 0, 1, 2
            y[i] = chosen[i] != 0 ? a[i] : b[i % WIDTH];
            da[i] = chosen[i] != 0 ? dy[i] : 0;
            db[i % WIDTH] += dy[i] - da[i];
        }
        hst_tensor *c = hst_from_array(ctx, conditions[mix % 7 % 3], HST_SHAPE(ROWS, WIDTH), HST_F64, chosen);
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(ROWS, WIDTH), a), *z = leaf(mix, 1, HST_SHAPE(WIDTH), b);
        hst_tensor *out = hst_where(c, x, z);
        EXPECT_SHAPE(out, hst_promote(hst_dtype_of(x), hst_dtype_of(z)), HST_SHAPE(ROWS, WIDTH));
        expect_near("y", mix, out, COUNT, y, NULL);
        run_backward(out, dy);
        expect_near("da", mix, hst_grad(x), COUNT, da, NULL);
        expect_near("db", mix, hst_grad(z), WIDTH, db, NULL);
    }
}

// 60000 gradients of 1 onto one number: f32 holds the sum, a running sum in 16 bits would stop at 2048 or 256. And 2^24
// followed by ones, which f32 would lose.
Test(autograd_shape, sums_over_repetitions_are_in_double) {
    enum { N = 60000 };
    static double dy[N];
    hst_tensor *a = with_gradient(VECTOR(HST_F16, 1), HST_WRITE), *b = LEAF(2);
    for (int i = 0; i < N; i++) dy[i] = 1;
    run_backward(hst_broadcast_to(a, HST_SHAPE(N)), dy);
    EXPECT(hst_grad(a), N);
    dy[0] = 0x1p24;
    run_backward(hst_broadcast_to(b, HST_SHAPE(N)), dy);
    EXPECT(hst_grad(b), 0x1p24 + N); // N - 1 rounds to even
    run_backward(hst_where(hst_full(ctx, HST_U8, HST_SHAPE(N), 0), a, b), dy);
    EXPECT(hst_grad(b), 0x1p24 + N);
    EXPECT(hst_grad(a), 0);
}

Test(autograd_shape, what_was_not_chosen_has_no_gradient) {
    hst_tensor *a = LEAF(NAN, 1), *b = LEAF(2, INFINITY), *y = hst_where(INTS(HST_U8, 0, 1), a, b);
    EXPECT(y, 2, 1);
    hst_tensor *dy = VECTOR(HST_F32, NAN, 5);
    hst_backward_from(ctx, 1, &y, &dy);
    cr_assert(hst_item(hst_grad(a), (int64_t[]){0}) == 0 && hst_item(hst_grad(a), (int64_t[]){1}) == 5);
    cr_assert(isnan(hst_item(hst_grad(b), (int64_t[]){0})) && hst_item(hst_grad(b), (int64_t[]){1}) == 0);
}

Test(autograd_shape, where_of_nothing) {
    hst_tensor *a = with_gradient(hst_zeros(ctx, HST_F32, HST_SHAPE(0, 3)), HST_WRITE), *b = LEAF(1, 2, 3);
    hst_copy_in(hst_grad(b), HST_F32, (float[]){7, 7, 7});
    hst_tensor *y = hst_where(INTS(HST_I32, 1), a, b);
    EXPECT_SHAPE(y, HST_F32, HST_SHAPE(0, 3));
    hst_backward_from(ctx, 1, &y, &y);
    EXPECT(hst_grad(b), 0, 0, 0);
}

Test(autograd_shape, masked_fill) {
    hst_tensor *x = with_gradient(hst_cast(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), HST_F16), HST_ADD);
    hst_tensor *y = hst_masked_fill(x, INTS(HST_U8, 0, 255, 0), -INFINITY);
    EXPECT_SHAPE(y, HST_F16, HST_SHAPE(2, 3));
    EXPECT(y, 1, -INFINITY, 3, 4, -INFINITY, 6);
    hst_tensor *dy = MATRIX(2, 3, 1, 2, 3, 4, 5, 6);
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT(hst_grad(x), 1, 0, 3, 4, 0, 6);
}

Test(autograd_shape, where_and_masked_fill_refuse) {
    hst_tensor *a = MATRIX(2, 2, 1, 2, 3, 4), *v = VECTOR(HST_F32, 1, 2, 3), *mask = INTS(HST_U8, 1, 0);
    cr_assert_null(hst_where(mask, a, v));
    EXPECT_ERROR(HST_ERROR_SHAPE,
                 "where: condition is u8 (2), a is f32 (2, 2) and b is f32 (3); counted from the last");
    cr_assert_null(hst_where(v, v, v));
    EXPECT_ERROR(HST_ERROR_DTYPE, "where: argument condition is f32 (3); u8, i32 or i64 is needed");
    cr_assert_null(hst_where(mask, a, mask));
    EXPECT_ERROR(HST_ERROR_DTYPE, "where: argument b is u8 (2); f32, f16 or bf16 is needed");
    cr_assert_null(hst_masked_fill(v, hst_zeros(ctx, HST_U8, HST_SHAPE(2, 3)), 1));
    EXPECT_ERROR(HST_ERROR_SHAPE, "masked_fill: mask is u8 (2, 3) and x is f32 (3)");
    cr_assert_null(hst_masked_fill(VECTOR(HST_F32, 1), mask, 1));
    EXPECT_ERROR(HST_ERROR_SHAPE,
                 "the mask is what is repeated; counted from the last, axes must be equal, or 1 or missing");
    cr_assert_null(hst_masked_fill(mask, mask, 1));
    EXPECT_ERROR(HST_ERROR_DTYPE, "masked_fill: argument x is u8 (2); f32, f16 or bf16 is needed");
    cr_assert_null(hst_masked_fill(v, v, 1));
    EXPECT_ERROR(HST_ERROR_DTYPE, "masked_fill: argument mask is f32 (3); u8, i32 or i64 is needed");
    cr_assert(!hst_masked_fill(v, NULL, 1));
    EXPECT_ERROR(HST_ERROR_VALUE, "masked_fill: argument mask is NULL");
    cr_assert(!hst_where(mask, NULL, a));
    EXPECT_ERROR(HST_ERROR_VALUE, "where: argument a is NULL");
}

// ---- take, one_hot ----

// The rows of mxnet#17703 through take, along the first axis and along the last: 12500 gradients of 0.01 (in f16) onto
// each of 8 entries that hold 1. The sums in double are 126.0267; f16 has steps of 1/8 there, bf16 of 1.
Test(autograd_shape, take_sums_safely) {
    enum { ROWS = 8, COUNT = 100000 };
    static uint8_t ids[COUNT];
    const double expected[] = {(float)(1 + COUNT / ROWS * (double)hst_from_f16(hst_to_f16(0.01))), 126, 126};
    for (int i = 0; i < COUNT; i++) ids[i] = (uint8_t)(i % ROWS);
    for (int axis = 0; axis < 2; axis++)
        for (int dtype = 0; dtype < FLOATS; dtype++) {
            hst_scope_begin(ctx);
            hst_tensor *x = hst_zeros(ctx, HST_F16, 2, axis ? (int64_t[]){1, ROWS} : (int64_t[]){ROWS, 1});
            hst_attach_grad(x, HST_ADD, (hst_dtype)dtype);
            hst_copy_in(hst_grad(x), HST_F32, (float[]){1, 1, 1, 1, 1, 1, 1, 1});
            hst_tensor *y = hst_take(x, hst_from_array(ctx, HST_U8, HST_SHAPE(COUNT), HST_U8, ids), axis);
            hst_tensor *dy = hst_full(ctx, HST_F16, y->rank, y->shape, 0.01);
            cr_assert_eq(hst_backward_from(ctx, 1, &y, &dy), HST_OK, "%s", hst_error(ctx));
            double rows[ROWS];
            hst_copy_out(hst_grad(x), HST_F64, rows);
            for (int r = 0; r < ROWS; r++) cr_assert_eq(rows[r], expected[dtype], "axis %d: %.9g", axis, rows[r]);
            hst_scope_end(ctx, NULL);
        }
}

Test(autograd_shape, take_along_every_axis) {
    double numbers[24], dy[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (int i = 0; i < 24; i++) numbers[i] = i;
    static const hst_dtype dtypes[] = {HST_U8, HST_I32, HST_I64};
    for (int mix = 0; mix < MIXES; mix++) {
        hst_tensor *x = leaf(mix, 0, HST_SHAPE(2, 3, 4), numbers);
        hst_tensor *ids = ints(dtypes[mix % 5 % 3], HST_SHAPE(1, 1), (int32_t[]){2});
        hst_tensor *rows = hst_take(x, ids, -2); // (2, 1, 1, 4)
        EXPECT_SHAPE(rows, hst_dtype_of(x), HST_SHAPE(2, 1, 1, 4));
        EXPECT(rows, 8, 9, 10, 11, 20, 21, 22, 23);
        run_backward(rows, dy);
        EXPECT(hst_grad(x), 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8);
        hst_tensor *columns = hst_take(x, INTS(HST_I64, 3, 3), 2); // (2, 3, 2)
        EXPECT(columns, 3, 3, 7, 7, 11, 11, 15, 15, 19, 19, 23, 23);
        run_backward(columns, dy);
        EXPECT(hst_grad(x), 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 11, 0, 0, 0, 15, 0, 0, 0, 19, 0, 0, 0, 23);
        hst_tensor *one = hst_take(x, hst_full(ctx, HST_I32, HST_SCALAR, 1), 0);
        EXPECT_SHAPE(one, hst_dtype_of(x), HST_SHAPE(3, 4));
        EXPECT(one, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    }
    hst_tensor *none = hst_take(LEAF(1, 2), hst_zeros(ctx, HST_I32, HST_SHAPE(0)), 0);
    EXPECT_SHAPE(none, HST_F32, HST_SHAPE(0));
}

Test(autograd_shape, one_hot_rows) {
    hst_tensor *x = INTS(HST_U8, 2, 0, 1);
    EXPECT_SHAPE(hst_one_hot(x, 4, HST_BF16), HST_BF16, HST_SHAPE(3, 4));
    EXPECT(hst_one_hot(x, 4, HST_BF16), 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0);
    EXPECT(hst_one_hot(hst_cast(x, HST_I64), 3, HST_U8), 0, 0, 1, 1, 0, 0, 0, 1, 0);
    EXPECT_SHAPE(hst_one_hot(hst_zeros(ctx, HST_I32, HST_SHAPE(0)), 0, HST_F32), HST_F32, HST_SHAPE(0, 0));
    cr_assert_eq(tape_length(), 0);
}

Test(autograd_shape, take_and_one_hot_refuse) {
    hst_tensor *x = MATRIX(2, 2, 1, 2, 3, 4), *deep = hst_zeros(ctx, HST_I32, HST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    cr_assert_null(hst_take(x, INTS(HST_I32, 0, 1, 2), 1));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: id 2 at position 2 is not in 0 .. 1");
    cr_assert_null(hst_take(x, INTS(HST_I64, 0, -1), 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: id -1 at position 1 is not in 0 .. 1");
    cr_assert_null(hst_take(x, INTS(HST_I64, 0), 2));
    EXPECT_ERROR(HST_ERROR_VALUE, "take: x is f32 (2, 2) and has no axis 2");
    cr_assert_null(hst_take(x, INTS(HST_I64, 0), -3));
    EXPECT_ERROR(HST_ERROR_VALUE, "no axis -3");
    cr_assert_null(hst_take(x, deep, 0));
    EXPECT_ERROR(HST_ERROR_SHAPE, "the result would have more than 8 axes");
    cr_assert_null(hst_take(x, x, 0));
    EXPECT_ERROR(HST_ERROR_DTYPE, "take: argument ids is f32 (2, 2)");
    cr_assert_null(hst_one_hot(INTS(HST_U8, 1, 3), 3, HST_F32));
    EXPECT_ERROR(HST_ERROR_VALUE, "one_hot: id 3 at position 1 is not in 0 .. 2");
    cr_assert_null(hst_one_hot(deep, 3, HST_F32));
    EXPECT_ERROR(HST_ERROR_VALUE, "one_hot: 3 classes in dtype 0 of ids i32 (1, 1, 1, 1, 1, 1, 1, 1)");
    cr_assert_null(hst_one_hot(INTS(HST_U8, 1), -3, HST_F32));
    EXPECT_ERROR(HST_ERROR_VALUE, "classes are not negative");
    cr_assert_null(hst_one_hot(INTS(HST_U8, 1), 3, (hst_dtype)77));
    EXPECT_ERROR(HST_ERROR_VALUE, "dtype 77");
    cr_assert_null(hst_one_hot(x, 3, HST_F32));
    EXPECT_ERROR(HST_ERROR_DTYPE, "one_hot: argument ids is f32 (2, 2)");
}

// ---- views ----

Test(autograd_shape, reshape_of_strided_views) {
    float numbers[24];
    for (int i = 0; i < 24; i++) numbers[i] = (float)i;
    hst_tensor *x = hst_from_array(ctx, HST_F32, HST_SHAPE(2, 3, 4), HST_F32, numbers);
    hst_tensor *column = hst_slice(x, 2, 1, 2), *turned = hst_transpose(x, 0, 2), *part = hst_slice(x, 1, 0, 2);
    EXPECT(hst_reshape(column, HST_SHAPE(6)), 1, 5, 9, 13, 17, 21); // one stride runs through it
    EXPECT(hst_reshape(column, HST_SHAPE(3, -1, 1)), 1, 5, 9, 13, 17, 21);
    EXPECT(hst_reshape(hst_slice(turned, 0, 3, 4), HST_SHAPE(3, 2)), 3, 15, 7, 19, 11, 23);
    EXPECT(hst_reshape(part, HST_SHAPE(2, 1, 2, 4)), 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19);
    EXPECT(hst_reshape(part, HST_SHAPE(2, 8)), 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19);
    hst_copy_in(hst_reshape(column, HST_SHAPE(6)), HST_F32, (float[]){-1, -2, -3, -4, -5, -6}); // a view, not a copy
    EXPECT(column, -1, -2, -3, -4, -5, -6);
    EXPECT_SHAPE(hst_reshape(hst_slice(turned, 1, 1, 1), HST_SHAPE(0, 7)), HST_F32, HST_SHAPE(0, 7));
    EXPECT(hst_reshape(hst_slice(hst_slice(column, 0, 1, 2), 1, 2, 3), HST_SCALAR), -6);
    cr_assert_null(hst_reshape(part, HST_SHAPE(16)));
    EXPECT_ERROR(HST_ERROR_SHAPE,
                 "reshape: no view of f32 (2, 2, 4), which is strided, has this shape; hst_cast to its");
    cr_assert_null(hst_reshape(turned, HST_SHAPE(4, 6)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "reshape: no view of f32 (4, 3, 2)");
    cr_assert_null(hst_reshape(turned, HST_SHAPE(5, -1)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "reshape: f32 (4, 3, 2) does not fit (5, -1)");
}

Test(autograd_shape, axes_of_extent_one) {
    hst_tensor *x = hst_transpose(MATRIX(2, 3, 1, 2, 3, 4, 5, 6), 0, 1);
    EXPECT_SHAPE(hst_unsqueeze(x, 0), HST_F32, HST_SHAPE(1, 3, 2));
    EXPECT_SHAPE(hst_unsqueeze(x, -1), HST_F32, HST_SHAPE(3, 2, 1));
    EXPECT(hst_unsqueeze(x, 1), 1, 4, 2, 5, 3, 6);
    EXPECT_SHAPE(hst_squeeze(hst_unsqueeze(x, 1), -2), HST_F32, HST_SHAPE(3, 2));
    EXPECT_SHAPE(hst_squeeze(VECTOR(HST_F32, 1), 0), HST_F32, HST_SCALAR);
    cr_assert_null(hst_squeeze(x, 1));
    EXPECT_ERROR(HST_ERROR_SHAPE, "squeeze: axis 1 of f32 (3, 2) has extent 2, not 1");
    cr_assert_null(hst_squeeze(x, 2));
    EXPECT_ERROR(HST_ERROR_VALUE, "squeeze: axis 2 of f32 (3, 2); axes are -2 to 1 here");
    cr_assert_null(hst_unsqueeze(x, 3));
    EXPECT_ERROR(HST_ERROR_VALUE, "unsqueeze: axis 3 of f32 (3, 2); axes are -3 to 2 here");
    cr_assert_null(hst_unsqueeze(hst_zeros(ctx, HST_F32, HST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "unsqueeze: f32 (1, 1, 1, 1, 1, 1, 1, 1) has 8 axes already");
    cr_assert_null(hst_squeeze(hst_sum(x), 0));
    EXPECT_ERROR(HST_ERROR_VALUE, "squeeze: axis 0 of f32 (), which has no axes");
    cr_assert_null(hst_reshape(x, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 3, 2}));
    EXPECT_ERROR(HST_ERROR_VALUE, "reshape: rank 9; ranks are 0 to 8");
    cr_assert_null(hst_reshape(x, 2, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "reshape: rank 2 without extents");
}

Test(autograd_shape, broadcast_to) {
    hst_tensor *x = with_gradient(MATRIX(2, 1, 1, 2), HST_ADD), *y = hst_broadcast_to(x, HST_SHAPE(2, 2, 3));
    EXPECT(y, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2);
    run_backward(y, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    EXPECT(hst_grad(x), 1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12);
    EXPECT_SHAPE(hst_broadcast_to(INTS(HST_I64, 3), HST_SHAPE(2, 2)), HST_I64, HST_SHAPE(2, 2));
    cr_assert_eq(hst_copy_in(y, HST_F32, (float[12]){0}), HST_ERROR_STATE);
    EXPECT_ERROR(HST_ERROR_STATE, "hst_copy_in: this view repeats its elements along axis 0");
    cr_assert_null(hst_broadcast_to(x, HST_SHAPE(3, 2)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "broadcast_to: f32 (2, 1) does not fit (3, 2); counted from the last, axes must");
    cr_assert_null(hst_broadcast_to(x, HST_SHAPE(2)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "does not fit (2)");
    cr_assert_null(hst_broadcast_to(x, HST_SHAPE(2, -1)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "does not fit (2, -1)");
}

// Neither the number of elements nor a stride may overflow, also where an extent of 0 leaves no elements.
Test(autograd_shape, views_too_large_are_refused) {
    const int64_t big = (int64_t)1 << 40;
    hst_tensor *one = VECTOR(HST_F32, 1), *none = hst_zeros(ctx, HST_F32, HST_SHAPE(0));
    cr_assert_eq(hst_count(hst_broadcast_to(one, HST_SHAPE(big))), big); // 4 TiB by name only
    cr_assert_null(hst_broadcast_to(one, HST_SHAPE(big, big)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "extent 1099511627776 at axis 1: negative, or too large together");
    cr_assert_null(hst_broadcast_to(none, HST_SHAPE(big, big, 0)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "too large together");
    EXPECT_SHAPE(hst_reshape(none, HST_SHAPE(big, 0)), HST_F32, HST_SHAPE(big, 0));
    cr_assert_null(hst_reshape(none, HST_SHAPE(0, big, big)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "reshape: f32 (0) does not fit (0, 1099511627776, 1099511627776)");
    cr_assert_null(hst_reshape(none, HST_SHAPE(0, -1)));
    EXPECT_ERROR(HST_ERROR_SHAPE, "reshape: f32 (0) does not fit (0, -1)");
}

// Nothing, in 2^40 rows or products: it takes no time.
Test(autograd_shape, empty_rows_take_no_time, .timeout = 20) {
    hst_tensor *x = hst_zeros(ctx, HST_F32, HST_SHAPE((int64_t)1 << 40, 0));
    hst_attach_grad(x, HST_WRITE, HST_F32);
    hst_tensor *a = hst_zeros(ctx, HST_F32, HST_SHAPE((int64_t)1 << 40, 0, 2)),
               *b = hst_zeros(ctx, HST_F32, HST_SHAPE((int64_t)1 << 40, 2, 0));
    hst_attach_grad(a, HST_WRITE, HST_F32);
    hst_tensor *y[] = {hst_softmax(x, 1), hst_log_softmax(x, 1), hst_layer_norm(x, NULL, NULL, 1e-5), hst_matmul(a, b)};
    for (int i = 0; i < 4; i++) cr_assert(y[i] && hst_count(y[i]) == 0, "%s", hst_error(ctx));
    cr_expect_eq(hst_backward_from(ctx, 4, y, y), HST_OK, "%s", hst_error(ctx));
}
