// test_pool.c: the memory pool: size classes, alignment, statistics, the program's own allocator.
#include "tests/tensor/allocator.h"

#include "autograd/autograd.h"
#include "tensor/context.h"

static hst_memory stats_of(const hst_context *ctx) {
    hst_memory stats;
    hst_memory_stats(ctx, &stats);
    return stats;
}

Test(tensor, blocks_are_aligned_and_do_not_overlap) {
    hst_context *ctx = hst_open(NULL);
    enum { N = 400 };
    unsigned char *blocks[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * i / 3);
        blocks[i] = hst_allocate(ctx, bytes, HST_WORKSPACE);
        cr_assert_eq((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i & 0xff, bytes);
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < i * i / 3; k++) cr_assert_eq(blocks[i][k], i & 0xff, "block %d was overwritten", i);
        hst_free(ctx, blocks[i]);
    }
    hst_free(ctx, NULL);
    hst_close(ctx);
}

// A block that was given back serves every request of its size class, and at most 1/8 of a block is unused.
Test(tensor, blocks_are_used_again_by_size_class) {
    hst_context *ctx = hst_open(NULL);
    int64_t at_first = stats_of(ctx).current_total;
    for (size_t bytes = 64; bytes < 100000; bytes += bytes / 7) {
        void *first = hst_allocate(ctx, bytes, HST_WORKSPACE);
        int64_t held = stats_of(ctx).current_total - at_first, asked = stats_of(ctx).system_allocations;
        cr_assert(held >= (int64_t)bytes && (double)held <= 1.125 * (double)bytes + 8, "%zu bytes in %lld", bytes,
                  (long long)held);
        hst_free(ctx, first);
        void *second = hst_allocate(ctx, (size_t)held, HST_WORKSPACE); // the largest of the class
        cr_assert_eq(second, first);
        cr_assert_eq(stats_of(ctx).system_allocations, asked);
        hst_free(ctx, second);
    }
    cr_assert_eq(stats_of(ctx).current_total, at_first);
    hst_close(ctx);
}

Test(tensor, statistics_by_category) {
    hst_context *ctx = hst_open(NULL);
    void *blocks[HST_CATEGORIES];
    hst_memory before = stats_of(ctx);
    for (int c = 0; c < HST_CATEGORIES; c++) {
        blocks[c] = hst_allocate(ctx, 1024 << c, (hst_category)c);
        cr_assert_eq(stats_of(ctx).current[c] - before.current[c], 1024 << c);
    }
    cr_assert_eq(stats_of(ctx).current_total - before.current_total, 1024 * 31);
    for (int c = 0; c < HST_CATEGORIES; c++) {
        hst_free(ctx, blocks[c]);
        hst_memory s = stats_of(ctx);
        cr_assert_eq(s.current[c], before.current[c]);
        cr_assert_eq(s.peak[c] - before.current[c], 1024 << c);
    }
    hst_memory after = stats_of(ctx);
    cr_assert_eq(after.current_total, before.current_total);
    cr_assert_eq(after.peak_total - before.current_total, 1024 * 31);
    cr_assert(after.system_bytes >= after.peak_total);
    hst_close(ctx);
}

Test(tensor, tensors_count_in_the_categories_they_are_for) {
    hst_context *ctx = hst_open(NULL);
    hst_memory before = stats_of(ctx);
    hst_tensor *t = hst_zeros(ctx, HST_F32, HST_SHAPE(1024));
    hst_attach_grad(t, HST_WRITE, HST_F16);
    hst_memory after = stats_of(ctx);
    int64_t activations = after.current[HST_ACTIVATIONS] - before.current[HST_ACTIVATIONS];
    int64_t gradients = after.current[HST_GRADIENTS] - before.current[HST_GRADIENTS];
    cr_assert(activations >= 4096 && activations < 5120, "%lld", (long long)activations);
    cr_assert(gradients >= 2048 && gradients < 3072, "%lld", (long long)gradients);
    hst_close(ctx);
}

// A request that no machine can meet is an error, not an overflow.
Test(tensor, absurd_sizes_are_refused) {
    hst_context *ctx = hst_open(NULL);
    size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, (size_t)1 << 63, ((size_t)1 << 52) + 1};
    for (int i = 0; i < 4; i++) {
        cr_assert_null(hst_allocate(ctx, sizes[i], HST_WORKSPACE));
        cr_assert_eq(hst_get_status(ctx), HST_ERROR_MEMORY);
        hst_clear_error(ctx);
    }
    hst_close(ctx);
}

// ---- the program's allocator ----

Test(tensor, allocator_gets_everything_back) {
    allocator a = {0};
    hst_options options = options_with(&a);
    hst_context *ctx = hst_open(&options);
    hst_scope_begin(ctx);
    hst_tensor *kept = hst_keep(hst_full(ctx, HST_F16, HST_SHAPE(100, 100), 1)), *view = hst_keep(hst_detach(kept));
    hst_zeros(ctx, HST_I64, HST_SHAPE(3));
    hst_release(kept);
    cr_assert(a.live > 20000 && view);
    cr_assert_eq(stats_of(ctx).system_allocations, a.calls - 1); // the pool's own record is not the pool's
    hst_close(ctx);                                              // with a scope open and a tensor kept
    cr_assert_eq(a.live, 0);
}

// What a program does between open and close; true if all of it worked. A failure, also of hst_open, leaves an error
// that says memory.
static bool run(hst_context *ctx) {
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    float foreign[6] = {0};
    hst_scope_begin(ctx);
    hst_tensor *x = hst_from_array(ctx, HST_BF16, HST_SHAPE(2, 3), HST_F32, values);
    hst_tensor *y = hst_adopt(ctx, HST_F32, HST_SHAPE(6), foreign, NULL, NULL);
    hst_tensor *z = x ? hst_detach(x) : NULL, *u = hst_uniform(ctx, HST_F32, HST_SHAPE(1000), 0, 1);
    hst_keep(u);
    bool done = x && y && z && u;
    z = hst_scope_end(ctx, z);
    hst_release(u);
    cr_assert_eq(done, hst_get_status(ctx) == HST_OK, "%s", hst_error(ctx));
    if (done)
        cr_assert_eq(hst_item(z, (int64_t[]){1, 2}), 6);
    else
        cr_assert(hst_get_status(ctx) == HST_ERROR_MEMORY && !z);
    return done;
}

// Each allocation fails in turn: no crash, the right status, nothing lost, and the context works afterwards.
Test(tensor, every_allocation_may_fail) {
    bool failed = true;
    for (int64_t k = 1; failed; k++) {
        allocator a = {.fail_at = k};
        hst_options options = options_with(&a);
        hst_context *ctx = hst_open(&options);
        failed = a.calls >= k;
        if (ctx) {
            cr_assert_eq(failed, hst_get_status(ctx) != HST_OK, "after failure %lld", (long long)k);
            bool done = run(ctx);
            failed = a.calls >= k;
            cr_assert_eq(done, !failed);
            a.fail_at = 0;
            hst_clear_error(ctx);
            cr_assert(run(ctx), "after failure %lld: %s", (long long)k, hst_error(ctx));
        }
        hst_close(ctx);
        cr_assert_eq(a.live, 0, "%lld bytes lost after failure %lld", (long long)a.live, (long long)k);
    }
}
