// test_matmul.c: every form of hst_matmul, forward and backward, in every mix of dtypes, written and added to, strided
// and not, against sums in double. The numbers are dyadic, so fp32 sums are exact in any order, and the one rounding
// into each result is the only error: equality is asked for.
#include "tests/autograd/mixes.h"

TestSuite(autograd_matmul, .init = open_context, .fini = close_context);

typedef struct form {
    int a_rank;
    int64_t a[4];
    int b_rank;
    int64_t b[4];
    int y_rank;
    int64_t y[4];
} form;

static const form forms[] = {
    {2, {3, 4}, 2, {4, 5}, 2, {3, 5}},
    {1, {4}, 2, {4, 5}, 1, {5}}, // vectors
    {2, {3, 4}, 1, {4}, 1, {3}},
    {1, {4}, 1, {4}, 0, {0}},
    {3, {2, 3, 4}, 1, {4}, 2, {2, 3}},
    {1, {4}, 3, {2, 4, 5}, 2, {2, 5}},
    {3, {2, 3, 4}, 2, {4, 5}, 3, {2, 3, 5}}, // one of them has no batch
    {2, {3, 4}, 3, {2, 4, 5}, 3, {2, 3, 5}},
    {3, {2, 3, 4}, 3, {2, 4, 5}, 3, {2, 3, 5}}, // equal batches
    {4, {2, 3, 2, 4}, 4, {2, 3, 4, 5}, 4, {2, 3, 2, 5}},
    {4, {2, 3, 2, 4}, 4, {2, 1, 4, 5}, 4, {2, 3, 2, 5}}, // repeated: inside, outside, both, neither has all
    {4, {2, 3, 2, 4}, 4, {1, 3, 4, 5}, 4, {2, 3, 2, 5}},
    {4, {1, 3, 2, 4}, 4, {2, 1, 4, 5}, 4, {2, 3, 2, 5}},
    {4, {2, 3, 2, 4}, 3, {3, 4, 5}, 4, {2, 3, 2, 5}},
    {3, {5, 1, 4}, 2, {4, 3}, 3, {5, 1, 3}}, // one row each
    {3, {5, 1, 4}, 3, {1, 4, 3}, 3, {5, 1, 3}},
    {2, {3, 0}, 2, {0, 5}, 2, {3, 5}},       // nothing to sum: zeros
    {3, {0, 3, 4}, 2, {4, 5}, 3, {0, 3, 5}}, // empty batches, whose db is zero
    {3, {0, 3, 4}, 3, {1, 4, 5}, 3, {0, 3, 5}},
    {3, {0, 3, 4}, 3, {0, 4, 5}, 3, {0, 3, 5}},
    {3, {2, 0, 4}, 3, {2, 4, 5}, 3, {2, 0, 5}},
};

enum { MOST = 160 };

typedef struct values {
    double a[MOST], b[MOST], dy[MOST], y[MOST], da[MOST], db[MOST], old_a[MOST], old_b[MOST];
    int64_t a_count, b_count, y_count;
} values;

static int64_t product_of(int rank, const int64_t *shape) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++) count *= shape[i];
    return count;
}

// Where matrix `n` of y's batch has its operand: the leading axes of y are counted through, and those that the operand
// has only once are left out.
static int64_t matrix_at(const form *f, int rank, const int64_t *shape, int64_t n) {
    int lead = f->y_rank - (f->a_rank > 1) - (f->b_rank > 1), matrix = rank > 2 ? 2 : rank;
    int64_t at = 0, step = product_of(matrix, shape + rank - matrix);
    for (int i = 1; i <= lead; i++) {
        int64_t index = n % f->y[lead - i], extent = matrix + i <= rank ? shape[rank - matrix - i] : 1;
        if (extent > 1) at += index * step;
        step *= extent;
        n /= f->y[lead - i];
    }
    return at;
}

static values reference(const form *f) {
    static values v;
    v = (values){.a_count = product_of(f->a_rank, f->a), .b_count = product_of(f->b_rank, f->b)};
    v.y_count = product_of(f->y_rank, f->y);
    fill(v.a, MOST, 0.125, 0);
    fill(v.b, MOST, 0.125, 1);
    fill(v.dy, MOST, 0.125, 2);
    fill(v.old_a, MOST, 0.125, 3);
    fill(v.old_b, MOST, 0.125, 4);
    int64_t m = f->a_rank > 1 ? f->a[f->a_rank - 2] : 1, k = f->a[f->a_rank - 1];
    int64_t n = f->b_rank > 1 ? f->b[f->b_rank - 1] : 1, batches = m * n > 0 ? v.y_count / (m * n) : 0;
    for (int64_t i = 0; i < batches * m * n * k; i++) {
        int64_t batch = i / (m * n * k), row = i / (n * k) % m, column = i / k % n, term = i % k;
        int64_t a = matrix_at(f, f->a_rank, f->a, batch) + row * k + term;
        int64_t b = matrix_at(f, f->b_rank, f->b, batch) + term * n + column;
        int64_t y = (batch * m + row) * n + column;
        v.y[y] += v.a[a] * v.b[b];
        v.da[a] += v.dy[y] * v.b[b];
        v.db[b] += v.a[a] * v.dy[y];
    }
    return v;
}

static void swap_ends(int64_t *shape, int rank) {
    int64_t first = shape[0];
    shape[0] = shape[rank - 1];
    shape[rank - 1] = first;
}

// The elements of `from` (shape) as a tensor whose first and last axes are exchanged.
static void turn(double *to, const double *from, int rank, const int64_t *shape) {
    int64_t first = shape[0], last = shape[rank - 1], middle = product_of(rank, shape) / (first * last);
    for (int64_t i = 0; i < first * middle * last; i++) {
        int64_t at = i % last * middle * first + i / last % middle * first + i / (last * middle);
        to[at] = from[i];
    }
}

// An operand as a leaf and, if it is turned, the view that has the operand's shape.
typedef struct given {
    hst_tensor *leaf, *view;
    bool turned;
    int rank;
    const int64_t *shape;
} given;

static given give(int mix, int operand, int rank, const int64_t *shape, const double *x, bool turned,
                  const double *old) {
    double elements[MOST], before[MOST];
    int64_t stored[4] = {0}, count = product_of(rank, shape);
    given g = {.turned = turned && rank > 1 && count > 0, .rank = rank, .shape = shape};
    memcpy(stored, shape, (size_t)rank * sizeof *shape);
    memcpy(elements, x, sizeof elements);
    if (g.turned) {
        swap_ends(stored, rank);
        turn(elements, x, rank, shape);
    }
    g.view = g.leaf = leaf(mix, operand, rank, stored, elements);
    if (g.turned) g.view = hst_transpose(g.leaf, 0, -1);
    if (!old) return g;
    hst_attach_grad(g.leaf, HST_ADD, hst_dtype_of(hst_grad(g.leaf)));
    memcpy(before, old, sizeof before);
    if (g.turned) turn(before, old, rank, shape);
    hst_copy_in(hst_grad(g.leaf), HST_F64, before);
    return g;
}

static void expect_gradient(const char *what, int mix, given g, const double *want, const double *old) {
    double sum[MOST], elements[MOST];
    int64_t count = product_of(g.rank, g.shape);
    for (int64_t i = 0; i < count; i++) sum[i] = want[i] + (old ? old[i] : 0);
    if (g.turned)
        turn(elements, sum, g.rank, g.shape);
    else
        memcpy(elements, sum, sizeof elements);
    expect_near(what, mix, hst_grad(g.leaf), count, elements, NULL);
}

// Bit 0 of `turned`: a, bit 1: b.
static void check_form(const form *f, const values *v, int mix, int turned, bool add) {
    hst_scope_begin(ctx);
    const double *old_a = add ? v->old_a : NULL, *old_b = add ? v->old_b : NULL;
    given a = give(mix, 0, f->a_rank, f->a, v->a, turned & 1, old_a);
    given b = give(mix, 1, f->b_rank, f->b, v->b, turned & 2, old_b);
    hst_tensor *y = hst_matmul(a.view, b.view);
    cr_assert(y, "%s", hst_error(ctx));
    cr_assert(hst_rank(y) == f->y_rank && hst_dtype_of(y) == hst_dtype_of(a.leaf));
    for (int i = 0; i < f->y_rank; i++) cr_assert_eq(hst_dim(y, i), f->y[i]);
    expect_near("y", mix, y, v->y_count, v->y, NULL);
    run_backward(y, v->dy);
    // A view passes its gradient on in its own dtype, and in one addition: the leaf's may be rounded twice.
    if (!a.turned || hst_dtype_of(a.leaf) == HST_F32) expect_gradient("da", mix, a, v->da, old_a);
    if (!b.turned || hst_dtype_of(b.leaf) == HST_F32) expect_gradient("db", mix, b, v->db, old_b);
    hst_scope_end(ctx, NULL);
}

Test(autograd_matmul, every_form_in_every_mix) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        values v = reference(&forms[i]);
        for (int mix = 0; mix < MIXES; mix++)
            if (mix / 9 % 3 == 0) // digit 2 is of a third operand
                check_form(&forms[i], &v, mix, (int)i % 4, mix % 2);
        for (int turned = 0; turned < 4; turned++) check_form(&forms[i], &v, 0, turned, turned % 2);
    }
}

Test(autograd_matmul, one_tensor_twice) {
    hst_tensor *x = with_gradient(MATRIX(2, 2, 1, 2, 3, 4), HST_WRITE);
    hst_backward(ctx, hst_sum(hst_matmul(x, hst_transpose(x, 0, 1)))); // |column sums|^2: twice the sum, in each row
    EXPECT(hst_grad(x), 8, 12, 8, 12);
    hst_tensor *v = LEAF(3, 4);
    hst_tensor *norm = hst_matmul(v, v);
    EXPECT(norm, 25);
    hst_backward(ctx, norm);
    EXPECT(hst_grad(v), 6, 8);
}

// 300 batches add 1 each to an element of db: rounded into bf16 after each they would stop at 256.
Test(autograd_matmul, sums_over_a_batch_are_rounded_once) {
    hst_tensor *a = hst_transpose(hst_full(ctx, HST_BF16, HST_SHAPE(300, 2, 1), 1), 1, 2);
    hst_tensor *b = hst_full(ctx, HST_BF16, HST_SHAPE(1, 2, 1), 1);
    hst_attach_grad(b, HST_ADD, HST_BF16);
    hst_backward(ctx, hst_sum(hst_matmul(hst_transpose(hst_full(ctx, HST_BF16, HST_SHAPE(2, 2, 300), 0.5), 0, 2), b)));
    EXPECT(hst_grad(b), 300, 300); // 300 batches of two rows
    hst_backward(ctx, hst_sum(hst_matmul(a, b)));
    EXPECT(hst_grad(b), 600, 600);
}

Test(autograd_matmul, what_does_not_fit_is_named) {
    hst_tensor *a = hst_zeros(ctx, HST_F32, HST_SHAPE(2, 3, 4)), *b = hst_zeros(ctx, HST_F16, HST_SHAPE(3, 4, 5));
    hst_tensor *v = VECTOR(HST_F32, 1, 2, 3), *scalar = hst_zeros(ctx, HST_F32, HST_SCALAR);
    cr_assert_null(hst_matmul(a, b));
    EXPECT_ERROR(HST_ERROR_SHAPE, "matmul: a is f32 (2, 3, 4) and b is f16 (3, 4, 5); a's last axis must be");
    cr_assert_null(hst_matmul(a, v));
    EXPECT_ERROR(HST_ERROR_SHAPE, "matmul: a is f32 (2, 3, 4) and b is f32 (3)");
    cr_assert_null(hst_matmul(scalar, v));
    EXPECT_ERROR(HST_ERROR_SHAPE, "matmul: a is f32 ()");
    cr_assert_null(hst_matmul(v, hst_zeros(ctx, HST_I32, HST_SHAPE(3))));
    EXPECT_ERROR(HST_ERROR_DTYPE, "matmul: argument b is i32 (3); f32, f16 or bf16 is needed");
}
