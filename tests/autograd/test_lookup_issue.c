// test_lookup_issue.c: the numbers of apache/mxnet#17703 through embedding and take, on every instruction set.
#include "ops/ops.h"
#include "tests/ops/isas.h"

// 100000 gradients of 0.01 onto rows that hold 1, so often as the thread's figures say. What must come out is 1 +
// n 0.01, with 0.01 as the dtype stores it, rounded once. ("Sequential" f32, which the thread printed, is 0.009 off.)
enum { ISSUE = 100000 };
typedef struct issue {
    int axis; // of take; -1: embedding
    int counts[8];
    double f16[8], bf16[8];
    uint32_t f32[8];
} issue;
static const issue embedding_issue = {
    -1,
    {12574, 12653, 12430, 12436, 12527, 12605, 12374, 12401},
    {126.75, 127.5625, 125.3125, 125.375, 126.3125, 127.0625, 124.75, 125.0625},
    {127, 127.5, 125.5, 125.5, 126.5, 127, 125, 125},
    {0x42FD7AE1, 0x42FF0F5C, 0x42FA9999, 0x42FAB852, 0x42FC8A3D, 0x42FE1999, 0x42F97AE1, 0x42FA051E}};
static const issue take_issue = {
    0,
    {12444, 12568, 12562, 12444, 12602, 12538, 12410, 12432},
    {125.4375, 126.6875, 126.625, 125.4375, 127.0625, 126.4375, 125.125, 125.375},
    {125.5, 127, 126.5, 125.5, 127, 126.5, 125, 125.5},
    {0x42FAE147, 0x42FD5C29, 0x42FD3D70, 0x42FAE147, 0x42FE0A3D, 0x42FCC28F, 0x42FA3333, 0x42FAA3D7}};

// The ids in turn, or shuffled.
static hst_tensor *issue_ids(hst_context *c, const issue *s, bool shuffled) {
    static uint8_t ids[ISSUE];
    int64_t n = 0;
    for (int i = 0; i < 13000; i++)
        for (int r = 0; r < 8; r++)
            if (i < s->counts[r]) ids[n++] = (uint8_t)r;
    cr_assert_eq(n, ISSUE);
    for (int64_t i = ISSUE - 1; shuffled && i > 0; i--) {
        int64_t k = i * 7919 % (i + 1);
        uint8_t old = ids[i];
        ids[i] = ids[k], ids[k] = old;
    }
    return hst_from_array(c, HST_U8, HST_SHAPE(ISSUE), HST_U8, ids);
}

// rows[8] get the gradient; `rows_only`: the row-sparse one, whose ids must be all.
static void issue_gradient(hst_context *c, const issue *s, int axis, hst_dtype dtype, bool shuffled, bool rows_only,
                           float rows[8]) {
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    hst_scope_begin(c);
    hst_tensor *x = hst_zeros(c, dtype, 2, axis == 1 ? (int64_t[]){1, 8} : (int64_t[]){8, 1});
    hst_tensor *ids = issue_ids(c, s, shuffled);
    if (rows_only) { // ones from a first backward
        hst_attach_grad_rows(x, HST_ADD, dtype);
        hst_tensor *first =
            hst_embedding(x, hst_from_array(c, HST_U8, HST_SHAPE(8), HST_U8, (uint8_t[]){7, 1, 0, 2, 6, 3, 5, 4}));
        hst_tensor *one = hst_full(c, dtype, HST_SHAPE(8, 1), 1);
        hst_backward_from(c, 1, &first, &one);
    } else {
        hst_attach_grad(x, HST_ADD, dtype);
        hst_copy_in(hst_grad(x), HST_F32, ones);
    }
    hst_tensor *y = axis < 0 ? hst_embedding(x, ids) : hst_take(x, ids, axis);
    hst_tensor *dy = y ? hst_full(c, dtype, hst_rank(y), hst_shape(y), 0.01) : NULL;
    cr_assert_eq(hst_backward_from(c, 1, &y, &dy), HST_OK, "%s", hst_error(c));
    if (rows_only) {
        cr_assert(hst_grad_rows(x) && !hst_grad(x) && hst_dim(hst_grad_rows(x), 0) == 8);
        for (int64_t i = 0; i < 8; i++) cr_assert_eq(hst_item(hst_grad_rows(x), &i), i);
    }
    hst_copy_out(rows_only ? hst_grad_row_values(x) : hst_grad(x), HST_F32, rows);
    hst_scope_end(c, NULL);
}

static void check_issue(hst_context *c, const issue *s, int axis, bool shuffled, bool rows_only) {
    float rows[8];
    issue_gradient(c, s, axis, HST_F16, shuffled, rows_only, rows);
    for (int r = 0; r < 8; r++) expect(c, "f16", rows[r], s->f16[r], 0);
    issue_gradient(c, s, axis, HST_BF16, shuffled, rows_only, rows);
    for (int r = 0; r < 8; r++) expect(c, "bf16", rows[r], s->bf16[r], 0);
    issue_gradient(c, s, axis, HST_F32, shuffled, rows_only, rows);
    for (int r = 0; r < 8; r++) {
        uint32_t bits;
        memcpy(&bits, &rows[r], sizeof bits);
        cr_assert_eq(bits, s->f32[r], "%s: f32 row %d is %08x, not %08x", hst_isa(c), r, bits, s->f32[r]);
    }
}

static void check_issues(hst_context *c) {
    for (int shuffled = 0; shuffled < 2; shuffled++)
        for (int rows_only = 0; rows_only < 2; rows_only++) {
            check_issue(c, &embedding_issue, -1, shuffled, rows_only);
            check_issue(c, &take_issue, 0, shuffled, rows_only);
        }
    check_issue(c, &take_issue, 1, true, false);
}
Test(autograd_issue, the_issues_rows_are_golden) {
    for_each_isa(check_issues);
    for (int threads = 1; threads < 8; threads += threads < 3 ? 1 : 4) {
        hst_context *c = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = threads});
        check_issues(c);
        hst_close(c);
    }
}

// 4000 backward calls, each adding 0.01 (in f16) to 1: 41.0085 in f32; an f16 buffer stays at 32.
Test(autograd_issue, micro_batches_meet_in_f32) {
    hst_context *ctx = hst_open(NULL);
    for (int half = 0; half < 2; half++) {
        hst_tensor *x = hst_zeros(ctx, HST_F16, HST_SHAPE(1, 1));
        hst_attach_grad(x, HST_ADD, half ? HST_F16 : HST_F32);
        hst_copy_in(hst_grad(x), HST_F32, (float[]){1});
        for (int i = 0; i < 4000; i++) {
            hst_scope_begin(ctx);
            hst_tensor *y = hst_embedding(x, hst_zeros(ctx, HST_U8, HST_SHAPE(1)));
            hst_tensor *dy = hst_full(ctx, HST_F16, HST_SHAPE(1, 1), 0.01);
            hst_backward_from(ctx, 1, &y, &dy);
            hst_scope_end(ctx, NULL);
        }
        double sum = hst_item(hst_grad(x), NULL), exact = 1 + 4000 * 0x1.47cp-7;
        if (half)
            cr_assert_eq(sum, 32);
        else // one rounding a call, of a number below 64
            cr_assert(fabs(sum - exact) <= 4000 * 32 * 0x1p-24 && hst_from_f16(hst_to_f16(sum)) == 41, "%.9g", sum);
    }
    hst_close(ctx);
}

// A scale of 65536 on the issue's gradients: an f16 gradient overflows, an f32 one does not.
Test(autograd_issue, a_loss_scale_overflows_f16_gradients_only) {
    hst_context *ctx = hst_open(NULL);
    for (int half = 0; half < 2; half++) {
        hst_tensor *x = hst_zeros(ctx, HST_F16, HST_SHAPE(8, 1));
        hst_attach_grad(x, HST_WRITE, half ? HST_F16 : HST_F32);
        hst_tensor *y = hst_embedding(x, issue_ids(ctx, &embedding_issue, false));
        hst_tensor *dy = hst_full(ctx, HST_F16, HST_SHAPE(ISSUE, 1), 0.01 * 65536);
        hst_backward_from(ctx, 1, &y, &dy);
        double row = hst_item(hst_grad(x), NULL);
        cr_assert(half ? isinf(row) : row == 12574 * (double)hst_from_f16(hst_to_f16(655.36)), "%g", row);
    }
    hst_close(ctx);
}
