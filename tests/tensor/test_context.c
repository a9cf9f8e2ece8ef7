// test_context.c: opening, sticky errors, scopes, keeping and releasing, adopted memory.
#include "tests/tensor/allocator.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "tensor/context.h"
#include "tests/tensor/expect.h"

static int64_t bytes_in_use(const hst_context *ctx) {
    hst_memory stats;
    hst_memory_stats(ctx, &stats);
    return stats.current_total;
}

// ---- opening ----

Test(tensor, opens_with_defaults) {
    hst_context *ctx = hst_open(NULL);
    cr_assert(ctx && hst_get_status(ctx) == HST_OK);
    cr_assert_str_eq(hst_error(ctx), "");
    size_t length = strlen(hst_isa(ctx));
    cr_assert_eq(strncmp(hst_isa_names(), hst_isa(ctx), length), 0, "the best one is the default");
    cr_assert_eq(hst_thread_count(ctx), hst_threads_default());
    hst_close(ctx);
    hst_close(NULL);
}

Test(tensor, opens_each_isa_and_no_other) {
    char names[128], *rest = names;
    snprintf(names, sizeof names, "auto %s", hst_isa_names());
    for (const char *isa; (isa = strtok_r(rest, " ", &rest));) {
        hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .isa = isa});
        cr_assert_eq(hst_get_status(ctx), HST_OK, "%s: %s", isa, hst_error(ctx));
        hst_close(ctx);
    }
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .isa = "z80"});
    cr_assert_null(hst_zeros(ctx, HST_F32, HST_SCALAR));
    EXPECT_ERROR_OF(ctx, HST_ERROR_UNSUPPORTED, "z80");
    cr_assert(hst_zeros(ctx, HST_F32, HST_SCALAR), "a cleared context is a working one");
    hst_close(ctx);
}

// A program compiled when the options ended after `threads`: what lies behind is not read.
Test(tensor, an_older_program_passes_smaller_options) {
    hst_options options;
    memset(&options, 0xff, sizeof options);
    options.size = offsetof(hst_options, isa);
    options.threads = 3;
    hst_context *ctx = hst_open(&options);
    cr_assert(ctx && hst_get_status(ctx) == HST_OK && hst_thread_count(ctx) == 3);
    cr_assert(hst_zeros(ctx, HST_F32, HST_SHAPE(4)));
    hst_close(ctx);
}

// Without its size nothing of the options would be read, silently.
Test(tensor, options_need_their_size) {
    hst_context *ctx = hst_open(&(hst_options){.threads = 3});
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "sizeof(hst_options)");
    hst_close(ctx);
}

static void *only_half(size_t bytes, void *user) { return (void)user, malloc(bytes); }

Test(tensor, an_allocator_needs_both_halves) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .allocate = only_half});
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "go together");
    hst_close(ctx);
}

// ---- errors ----

Test(tensor, the_first_error_stays) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *t = hst_full(ctx, HST_F32, HST_SHAPE(2), 7), *kept = hst_keep(t);
    float values[2] = {5, 5};
    cr_assert_eq(hst_fail(ctx, HST_ERROR_IO, "disk %d", 1), HST_ERROR_IO);
    cr_assert_eq(hst_fail(ctx, HST_ERROR_VALUE, "later"), HST_ERROR_VALUE);
    cr_assert_str_eq(hst_error(ctx), "disk 1");
    cr_assert_null(hst_zeros(ctx, HST_F32, HST_SHAPE(2)));
    cr_assert_null(hst_add(t, t));
    cr_assert_null(hst_slice(t, 0, 0, 1));
    cr_assert_null(hst_adopt(ctx, HST_F32, HST_SHAPE(2), values, NULL, NULL));
    cr_assert_null(hst_detach(t));
    cr_assert_eq(hst_copy_out(t, HST_F32, values), HST_ERROR_IO);
    cr_assert_eq(values[0], 5, "nothing is written");
    cr_assert_eq(hst_copy_in(t, HST_F32, values), HST_ERROR_IO);
    cr_assert_eq(hst_attach_grad(t, HST_WRITE, HST_F32), HST_ERROR_IO);
    hst_release(kept);
    EXPECT_ERROR_OF(ctx, HST_ERROR_IO, "disk 1");
    cr_assert_str_eq(hst_error(ctx), "");
    cr_assert_eq(hst_item(t, NULL), 7);
    cr_assert(hst_add(t, t));
    hst_close(ctx);
}

// A forward pass is written without checks: what failed is NULL, and NULL goes through everything.
Test(tensor, null_passes_through) {
    hst_context *ctx = hst_open(NULL);
    double out[4] = {1, 2, 3, 4};
    hst_tensor *failed = hst_zeros(ctx, HST_F32, HST_SHAPE(-1));
    cr_assert_null(hst_reshape(hst_transpose(hst_slice(hst_add(failed, failed), 0, 0, 1), 0, 1), HST_SHAPE(1)));
    cr_assert_null(hst_keep(failed));
    hst_release(failed);
    cr_assert_neq(hst_copy_out(failed, HST_F64, out), HST_OK);
    cr_assert_neq(hst_copy_in(failed, HST_F64, out), HST_OK);
    cr_assert_eq(hst_item(failed, NULL), 0);
    char text[4] = "old";
    cr_assert(hst_format(failed, text, sizeof text) == 0 && text[0] == 0);
    cr_assert(!hst_data(failed) && !hst_mutable_data(failed) && !hst_grad(failed) && !hst_detach(failed));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "-1");
    hst_close(ctx);
}

Test(tensor, long_sentences_are_cut) {
    hst_context *ctx = hst_open(NULL);
    char text[3 * HST_MAX_ERROR];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    hst_fail(ctx, HST_ERROR_VALUE, "%s", text);
    cr_assert_eq(strlen(hst_error(ctx)), HST_MAX_ERROR - 1);
    hst_close(ctx);
}

static void note(int level, const char *message, void *user) { sprintf(user, "%d %s", level, message); }

Test(tensor, messages_go_to_the_program) {
    char text[64] = "";
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .log = note, .user = text});
    hst_log_message(ctx, HST_LOG_WARNING, "%d apples", 3);
    cr_assert_str_eq(text, "1 3 apples");
    hst_close(ctx);
    ctx = hst_open(NULL);
    hst_log_message(ctx, HST_LOG_INFO, "to nobody");
    hst_close(ctx);
}

// ---- making ----

Test(tensor, impossible_tensors_are_refused) {
    hst_context *ctx = hst_open(NULL);
    int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[8];
    for (int i = 0; i < 8; i++) huge[i] = INT64_C(1) << 40;
    cr_assert_null(hst_zeros(ctx, HST_F32, 9, ones));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rank 9");
    cr_assert_null(hst_from_array(ctx, HST_F32, HST_SHAPE(2), HST_F32, NULL));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "a plain array of 2 elements is NULL");
    cr_assert_null(hst_zeros(ctx, HST_F32, 2, NULL));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rank 2 without extents");
    cr_assert_null(hst_zeros(ctx, HST_F32, -1, ones));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "rank -1");
    cr_assert_null(hst_zeros(ctx, (hst_dtype)99, 1, ones));
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "99");
    cr_assert_null(hst_zeros(ctx, HST_F32, HST_SHAPE(2, -3)));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "-3");
    cr_assert_null(hst_zeros(ctx, HST_U8, 8, huge));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "too large");
    huge[0] = 0; // no elements, but strides that do not fit
    cr_assert_null(hst_zeros(ctx, HST_U8, 8, huge));
    EXPECT_ERROR_OF(ctx, HST_ERROR_SHAPE, "too large");
    hst_close(ctx);
}

// ---- scopes ----

Test(tensor, a_scope_takes_its_tensors_with_it) {
    hst_context *ctx = hst_open(NULL);
    int64_t before = bytes_in_use(ctx);
    hst_scope_begin(ctx);
    hst_zeros(ctx, HST_F32, HST_SHAPE(100));
    hst_scope_begin(ctx);
    hst_tensor *inner = hst_full(ctx, HST_F32, HST_SHAPE(100), 3), *other = hst_full(ctx, HST_F32, HST_SHAPE(100), 4);
    hst_tensor *view = hst_slice(inner, 0, 10, 20);
    cr_assert(other);
    cr_assert_eq(hst_scope_end(ctx, view), view);
    cr_assert_eq(hst_item(view, NULL), 3, "a view keeps its storage alive");
    int64_t with_view = bytes_in_use(ctx);
    cr_assert_eq(hst_scope_end(ctx, view), view, "moves on, out of all scopes");
    cr_assert_lt(bytes_in_use(ctx), with_view, "the outer scope's own tensor is gone");
    cr_assert_eq(hst_item(view, (int64_t[]){9}), 3);
    cr_assert_gt(bytes_in_use(ctx), before);
    hst_close(ctx);
}

Test(tensor, a_result_of_an_outer_scope_stays_there) {
    hst_context *ctx = hst_open(NULL);
    int64_t before = bytes_in_use(ctx);
    hst_scope_begin(ctx);
    hst_tensor *outer = hst_zeros(ctx, HST_F32, HST_SHAPE(9));
    hst_scope_begin(ctx);
    cr_assert_eq(hst_scope_end(ctx, outer), outer);
    hst_scope_end(ctx, NULL);
    cr_assert_eq(bytes_in_use(ctx), before);
    hst_close(ctx);
}

Test(tensor, scopes_out_of_order_are_errors) {
    hst_context *ctx = hst_open(NULL), *other = hst_open(NULL);
    cr_assert_null(hst_scope_end(ctx, NULL));
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "hst_scope_begin");
    hst_scope_begin(ctx);
    hst_tensor *foreign = hst_zeros(other, HST_F32, HST_SHAPE(3));
    cr_assert_null(hst_scope_end(ctx, foreign));
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "context");
    EXPECT_ERROR_OF(other, HST_ERROR_STATE, "context");
    cr_assert_null(hst_scope_end(ctx, NULL), "that end did end the scope");
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "hst_scope_begin");
    hst_close(ctx);
    cr_assert_eq(hst_item(foreign, NULL), 0);
    hst_close(other);
}

Test(tensor, scopes_too_deep) {
    hst_context *ctx = hst_open(NULL);
    int64_t before = bytes_in_use(ctx);
    int depth = 0;
    while (hst_scope_begin(ctx) == HST_OK) cr_assert(++depth < 1000 && hst_zeros(ctx, HST_F32, HST_SHAPE(5)));
    cr_assert_eq(depth, HST_MAX_DEPTH - 1);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "63");
    hst_tensor *t = hst_zeros(ctx, HST_F32, HST_SHAPE(5)); // in the deepest scope that there is
    hst_scope_end(ctx, NULL);                              // of the one that was refused
    cr_assert_eq(hst_count(t), 5);
    for (int i = 0; i < depth; i++) hst_scope_end(ctx, NULL);
    cr_assert_eq(hst_get_status(ctx), HST_OK);
    cr_assert_eq(bytes_in_use(ctx), before);
    hst_scope_end(ctx, NULL);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "hst_scope_begin");
    hst_close(ctx);
}

// A scope is ended also while an error stands: then its result is NULL, and nothing stays behind.
Test(tensor, scopes_end_after_an_error) {
    hst_context *ctx = hst_open(NULL);
    int64_t before = bytes_in_use(ctx);
    hst_scope_begin(ctx);
    hst_scope_begin(ctx);
    hst_tensor *t = hst_zeros(ctx, HST_F32, HST_SHAPE(5));
    hst_fail(ctx, HST_ERROR_VALUE, "stop");
    cr_assert_null(hst_scope_end(ctx, t));
    hst_scope_end(ctx, NULL);
    cr_assert_eq(bytes_in_use(ctx), before);
    EXPECT_ERROR_OF(ctx, HST_ERROR_VALUE, "stop");
    hst_close(ctx);
}

// ---- keeping ----

Test(tensor, kept_tensors_outlive_their_scope) {
    hst_context *ctx = hst_open(NULL);
    int64_t before = bytes_in_use(ctx);
    hst_scope_begin(ctx);
    hst_tensor *t = hst_keep(hst_full(ctx, HST_F32, HST_SHAPE(5), 2));
    cr_assert_eq(hst_keep(t), t);
    hst_scope_end(ctx, NULL);
    hst_release(t);
    cr_assert_eq(hst_item(t, NULL), 2, "kept twice, released once");
    hst_release(t);
    cr_assert_eq(bytes_in_use(ctx), before);
    hst_release(NULL);
    cr_assert_eq(hst_get_status(ctx), HST_OK);
    hst_close(ctx);
}

Test(tensor, a_release_without_a_keep_is_an_error) {
    hst_context *ctx = hst_open(NULL);
    hst_tensor *t = hst_full(ctx, HST_F32, HST_SHAPE(5), 2);
    hst_release(hst_keep(t));
    hst_release(t);
    EXPECT_ERROR_OF(ctx, HST_ERROR_STATE, "hst_release");
    cr_assert_eq(hst_item(t, NULL), 2);
    hst_close(ctx);
}

// ---- adopted memory ----

static void count_done(void *data, void *user) {
    cr_assert_eq(*(float *)data, 9);
    ++*(int *)user;
}

Test(tensor, adopted_memory_is_not_copied_and_its_owner_told_once) {
    hst_context *ctx = hst_open(NULL);
    float values[6] = {1, 2, 3, 4, 5, 6};
    int done = 0;
    hst_scope_begin(ctx);
    hst_tensor *t = hst_adopt(ctx, HST_F32, HST_SHAPE(2, 3), values, count_done, &done);
    cr_assert_eq(hst_data(t), values);
    hst_copy_in(t, HST_F32, (float[]){9, 8, 7, 6, 5, 4});
    cr_assert_eq(values[5], 4);
    hst_tensor *view = hst_keep(hst_slice(t, 0, 1, 2));
    hst_scope_end(ctx, NULL);
    cr_assert_eq(done, 0, "a view is left");
    values[3] = 11;
    cr_assert_eq(hst_item(view, NULL), 11);
    hst_release(view);
    cr_assert_eq(done, 1);
    hst_tensor *last = hst_keep(hst_adopt(ctx, HST_F32, HST_SHAPE(6), values, count_done, &done));
    cr_assert(hst_slice(last, 0, 0, 1) && hst_adopt(ctx, HST_F32, HST_SHAPE(6), values, NULL, NULL));
    hst_close(ctx);
    cr_assert_eq(done, 2, "and at hst_close, for two tensors over one storage");
}

// Memory that could not be adopted stays the caller's.
Test(tensor, a_refused_adoption_does_not_call_done) {
    hst_context *ctx = hst_open(NULL);
    float value = 9;
    int done = 0;
    cr_assert_null(hst_adopt(ctx, HST_F32, HST_SHAPE(-1), &value, count_done, &done));
    hst_close(ctx);
    cr_assert_eq(done, 0);
}
