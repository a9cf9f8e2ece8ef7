// test_errors.c: what operations refuse and how they say it: contexts, NULL, cancelling, memory, and the anomaly mode.
#include "tests/autograd/common.h"

#include "tests/tensor/allocator.h"

TestSuite(autograd_errors, .init = open_context, .fini = close_context);

Test(autograd_errors, two_contexts_in_one_call) {
    hst_context *other = hst_open(NULL);
    hst_tensor *a = LEAF(1, 2), *b = hst_zeros(other, HST_F32, HST_SHAPE(2)),
               *w = hst_zeros(other, HST_F32, HST_SHAPE(2, 2));
    cr_assert_null(hst_add(a, b));
    EXPECT_ERROR(HST_ERROR_STATE, "add: argument b belongs to another context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "add: argument b was used in another context");
    cr_assert_null(hst_linear(b, w, a));
    EXPECT_ERROR(HST_ERROR_STATE, "linear: argument bias was used in another context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "linear: argument bias belongs to another context");
    hst_tensor *y = hst_scale(a, 1);
    hst_backward_from(ctx, 1, &y, &b);
    EXPECT_ERROR(HST_ERROR_STATE, "another context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "another context");
    hst_backward(ctx, b);
    EXPECT_ERROR(HST_ERROR_STATE, "another context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "another context");
    hst_close(other);
}

Test(autograd_errors, a_missing_argument_is_named) {
    hst_tensor *x = VECTOR(HST_F32, 1, 2);
    cr_assert_null(hst_add(x, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "add: argument b is NULL");
    cr_assert_null(hst_linear(NULL, x, NULL));
    EXPECT_ERROR(HST_ERROR_VALUE, "linear: argument x is NULL");
    cr_assert_null(hst_add(NULL, NULL));
    cr_assert_eq(hst_get_status(ctx), HST_OK, "nobody to tell");
    hst_tensor *y = hst_layer_norm(x, NULL, NULL, 1);
    cr_assert(y, "these are optional");
}

// A failure in the middle of a forward pass: the first sentence stays, and everything after it is NULL.
Test(autograd_errors, a_missing_list_is_named) {
    hst_tensor *x = VECTOR(HST_F32, 1);
    hst_backward_from(ctx, 1, &x, NULL);
    EXPECT_ERROR(HST_ERROR_VALUE, "hst_backward: the list of gradients is NULL");
    hst_backward_from(ctx, 1, NULL, &x);
    EXPECT_ERROR(HST_ERROR_VALUE, "hst_backward: the list of roots is NULL");
}

Test(autograd_errors, null_passes_through_after_an_error) {
    hst_tensor *x = LEAF(1, 2), *w = hst_zeros(ctx, HST_F32, HST_SHAPE(3, 2)), *c_last = x;
    hst_tensor *bad = hst_linear(x, w, NULL);
    hst_tensor *h =
        hst_sru_recurrence(bad, NULL, NULL, NULL, bad, NULL, NULL, NULL, hst_recurrence_defaults(), &c_last);
    hst_tensor *loss = hst_cross_entropy(hst_layer_norm(hst_dropout(h, 0.5), NULL, x, 1), bad);
    cr_assert(!bad && !h && !c_last && !loss);
    cr_assert(!hst_sum(x), "a good argument does not help");
    cr_assert_eq(hst_backward(ctx, loss), HST_ERROR_SHAPE);
    cr_assert_eq(tape_length(), 0);
    EXPECT_ERROR(HST_ERROR_SHAPE, "linear: x is f32 (2) and w is f32 (3, 2)");
}

Test(autograd_errors, wrong_dtypes_and_shapes_are_named) {
    hst_tensor *x = VECTOR(HST_F32, 1, 2), *ids = hst_zeros(ctx, HST_I32, HST_SHAPE(2)),
               *w = hst_zeros(ctx, HST_F16, HST_SHAPE(2, 3));
    cr_assert_null(hst_linear(x, w, ids));
    EXPECT_ERROR(HST_ERROR_DTYPE, "linear: argument bias is i32 (2); f32, f16 or bf16 is needed");
    cr_assert_null(hst_linear(x, w, x));
    EXPECT_ERROR(HST_ERROR_SHAPE, "linear: argument bias is f32 (2); its shape should be (3)");
    hst_tensor *u = hst_zeros(ctx, HST_F32, HST_SHAPE(2, 1, 9)), *b = hst_zeros(ctx, HST_F32, HST_SHAPE(6));
    cr_assert_null(hst_sru_recurrence(u, NULL, NULL, NULL, b, NULL, NULL, NULL,
                                      (hst_recurrence){.k = 3, .bidirectional = true}, NULL));
    EXPECT_ERROR(HST_ERROR_SHAPE, "sru_recurrence: u is f32 (2, 1, 9), so D is 3; two directions need an even number");
    cr_assert_null(hst_sru_recurrence(u, NULL, NULL, NULL, b, NULL, NULL, NULL,
                                      (hst_recurrence){.k = 3, .names_dtype = true, .dtype = HST_U8}, NULL));
    EXPECT_ERROR(HST_ERROR_DTYPE, "sru_recurrence: h cannot be u8; f32, f16 or bf16 are possible");
    cr_assert_null(hst_sru_recurrence(u, NULL, NULL, u, b, NULL, NULL, NULL, (hst_recurrence){.k = 3}, NULL));
    EXPECT_ERROR(HST_ERROR_SHAPE, "sru_recurrence: argument v_steps is f32 (2, 1, 9); its shape should be (2, 1, 6)");
    cr_assert_null(hst_add(x, w));
    EXPECT_ERROR(HST_ERROR_SHAPE, "add: a is f32 (2) and b is f16 (2, 3); counted from the last, axes must");
    cr_assert_null(hst_embedding(w, x));
    EXPECT_ERROR(HST_ERROR_DTYPE, "embedding: argument ids is f32 (2); u8, i32 or i64 is needed");
    cr_assert_null(hst_cast(x, (hst_dtype)50));
    EXPECT_ERROR(HST_ERROR_DTYPE, "50");
}

// ---- cancelling ----

static bool stop_at_third(void *user) { return ++*(int *)user == 3; }

Test(autograd_errors, the_program_may_cancel) {
    int asked = 0;
    hst_context *busy = hst_open(&(hst_options){.size = sizeof(hst_options), .cancel = stop_at_third, .user = &asked});
    hst_tensor *x = hst_full(busy, HST_F32, HST_SHAPE(2), 1), *y = hst_scale(hst_scale(x, 2), 3);
    cr_assert(y && asked == 2);
    cr_assert_null(hst_sum(hst_scale(y, 4)));
    cr_assert_eq(asked, 3, "not asked again");
    EXPECT_ERROR_OF(busy, HST_CANCELLED, "scale: cancelled");
    cr_assert(hst_scale(y, 4));
    hst_close(busy);
}

// ---- anomaly mode ----

Test(autograd_errors, anomaly_names_the_first_nan_of_a_forward_pass) {
    hst_tensor *x = LEAF(1, 1);
    cr_assert(isnan(hst_item(hst_layer_norm(x, NULL, NULL, 0), NULL)), "silent while off");
    hst_anomaly_mode(ctx, true);
    cr_assert_null(hst_layer_norm(x, NULL, NULL, 0)); // a constant row has variance 0: 0 / 0
    EXPECT_ERROR(HST_ERROR_DIVERGED, "layer_norm: made the first NaN");
    cr_assert_null(hst_sum(hst_scale(x, NAN)));
    EXPECT_ERROR(HST_ERROR_DIVERGED, "scale: made the first NaN");
    hst_anomaly_mode(ctx, false);
    cr_assert(hst_scale(x, NAN));
}

// A NaN that was there before is not the operation's, also in a view whose elements are not adjacent.
Test(autograd_errors, anomaly_does_not_blame_what_passes_a_nan_on) {
    hst_anomaly_mode(ctx, true);
    hst_tensor *x = MATRIX(2, 2, 1, NAN, 3, 4), *turned = hst_transpose(x, 0, 1);
    cr_assert(hst_sum(hst_scale(x, 2)) && hst_linear(VECTOR(HST_F32, 1, 1), turned, NULL), "%s", hst_error(ctx));
    cr_assert(hst_cast(turned, HST_F16), "%s", hst_error(ctx));
    cr_assert(hst_cast(hst_slice(turned, 0, 0, 1), HST_F16), "%s", hst_error(ctx));
}

Test(autograd_errors, anomaly_names_the_first_nan_of_a_backward_pass) {
    hst_anomaly_mode(ctx, true);
    hst_tensor *x = LEAF(1, 1), *w = LEAF(2, 3);
    hst_tensor *y = hst_add(hst_scale(x, 0), w), *dy = VECTOR(HST_F32, INFINITY, 1); // 0 times infinity
    hst_backward_from(ctx, 1, &y, &dy);
    EXPECT_ERROR(HST_ERROR_DIVERGED, "scale: its gradient for x made the first NaN");
    hst_tensor *gain = LEAF(1, 1), *n = hst_layer_norm(VECTOR(HST_F32, -1, 1), gain, NULL, 0);
    hst_tensor *infinite = VECTOR(HST_F32, INFINITY, INFINITY), *both[] = {n, n},
               *dn[] = {infinite, hst_scale(infinite, -1)};
    hst_backward_from(ctx, 2, both, dn); // infinity minus infinity, in the roots themselves: nobody's fault
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    hst_tensor *zeros = VECTOR(HST_F32, 0, 0);
    n = hst_layer_norm(zeros, gain, NULL, 1);
    hst_backward_from(ctx, 1, &n, &infinite); // dgain = dy n = infinity times 0
    EXPECT_ERROR(HST_ERROR_DIVERGED, "layer_norm: its gradient for gain made the first NaN");
}

// ---- memory ----

// A forward and a backward pass over a leaf that lives on; its gradient is 3 s (s once for each row).
static bool train(hst_context *c, hst_tensor *w, double s) {
    static const float rows[] = {1, 1, 1, 1, 1, 1};
    hst_scope_begin(c);
    hst_tensor *x = hst_from_array(c, HST_F16, HST_SHAPE(3, 2), HST_F32, rows);
    hst_tensor *y = hst_linear(x, w, NULL), *n = hst_layer_norm(y, NULL, NULL, 1);
    hst_tensor *loss = hst_add(hst_sum(hst_scale(hst_add(y, y), s / 2)), hst_scale(hst_sum(n), 0));
    hst_backward(c, loss);
    hst_scope_end(c, NULL);
    cr_assert(hst_get_status(c) == HST_OK || hst_get_status(c) == HST_ERROR_MEMORY, "%s", hst_error(c));
    if (hst_get_status(c) != HST_OK) return false;
    for (int i = 0; i < 4; i++) cr_assert_eq(hst_item(hst_grad(w), (int64_t[]){i / 2, i % 2}), 3 * s);
    return true;
}

static bool try_training(hst_context *c, hst_tensor **w) {
    if (!*w) *w = hst_zeros(c, HST_F32, HST_SHAPE(2, 2));
    if (!hst_grad(*w)) hst_attach_grad(*w, HST_WRITE, HST_F32);
    return *w && hst_get_status(c) == HST_OK && train(c, *w, 1) && train(c, *w, 2);
}

// Each allocation fails in turn: an error, no crash, nothing lost; and once there is memory again all goes on.
Test(autograd_errors, every_allocation_may_fail) {
    bool failed = true;
    int64_t in_use = 0;
    for (int64_t k = 1; failed; k++) {
        allocator a = {.fail_at = k};
        hst_options options = options_with(&a);
        hst_context *c = hst_open(&options);
        hst_tensor *w = NULL;
        failed = !c || !try_training(c, &w);
        cr_assert_eq(failed, a.calls >= k);
        if (c) {
            a.fail_at = 0;
            hst_clear_error(c);
            cr_assert(try_training(c, &w), "after failure %lld: %s", (long long)k, hst_error(c));
            hst_memory stats;
            hst_memory_stats(c, &stats);
            if (in_use == 0) in_use = stats.current_total;
            cr_assert_eq(stats.current_total, in_use, "after failure %lld", (long long)k);
        }
        hst_close(c);
        cr_assert_eq(a.live, 0, "%lld bytes lost after failure %lld", (long long)a.live, (long long)k);
    }
}

// A leaf whose buffer could not be made is none.
Test(autograd_errors, a_failed_attach_leaves_no_request) {
    for (int64_t k = 1; k <= 3; k++) { // the storage, the elements, the header
        allocator a = {0};
        hst_options options = options_with(&a);
        hst_context *c = hst_open(&options);
        hst_tensor *t = hst_zeros(c, HST_F32, HST_SHAPE(1000));
        a.fail_at = a.calls + k;
        cr_assert_eq(hst_attach_grad(t, HST_WRITE, HST_F32), HST_ERROR_MEMORY);
        hst_clear_error(c);
        hst_backward(c, hst_sum(t));
        EXPECT_ERROR_OF(c, HST_ERROR_STATE, "nothing was recorded");
        hst_close(c);
    }
}
