// test_stream.c: batches of a text whose bytes say where they are, so that each expectation is arithmetic on positions.
#include "data/data.h"
#include "tests/temporary.h"

// A text of n <= 256 bytes, each of which is its position.
static hst_corpus *numbered(int64_t n) {
    hst_corpus *corpus = hst_corpus_new(ctx);
    for (int64_t p = 0; p < n; p++) hst_corpus_add_bytes(corpus, &(uint8_t){(uint8_t)p}, 1);
    return corpus;
}

typedef struct batch {
    uint8_t ids[512], targets[512];
    bool fresh;
} batch;

// The next batch, as plain arrays [t * B + b].
static batch next(hst_stream *stream, int64_t length, int64_t lanes) {
    batch result = {.fresh = false};
    hst_scope_begin(ctx);
    hst_tensor *ids = hst_empty(ctx, HST_U8, HST_SHAPE(length, lanes));
    hst_tensor *targets = hst_empty(ctx, HST_U8, HST_SHAPE(length, lanes));
    cr_assert_eq(hst_stream_next(stream, ids, targets, &result.fresh), HST_OK, "%s", hst_error(ctx));
    hst_copy_out(ids, HST_U8, result.ids);
    hst_copy_out(targets, HST_U8, result.targets);
    hst_scope_end(ctx, NULL);
    return result;
}

static const struct {
    int64_t n, lanes, length;
} cases[] = {{2, 1, 1},    {7, 2, 3},   {8, 2, 3},    {100, 3, 8}, {101, 5, 4},
             {201, 4, 50}, {251, 7, 5}, {250, 1, 60}, {65, 64, 1}};
enum { CASES = sizeof cases / sizeof *cases };

// Three epochs: lane b goes on where it was, targets are one byte later on the ring, no byte is an input twice in an
// epoch, and all are but the n - B L epoch_batches that no whole batch covers.
Test(data, stream_lanes_continue_and_cover_an_epoch, .init = set_up, .fini = tear_down) {
    for (int c = 0; c < CASES; c++) {
        int64_t n = cases[c].n, lanes = cases[c].lanes, length = cases[c].length, lane = (n - 1) / lanes;
        hst_corpus *corpus = numbered(n);
        hst_stream *stream = hst_stream_new(corpus, lanes, length, 7);
        cr_assert(stream, "%s", hst_error(ctx));
        cr_assert_eq(hst_stream_epoch_batches(stream), lane / length);
        for (int epoch = 0; epoch < 3; epoch++) {
            int seen[256] = {0}, inputs = 0;
            int64_t offset = 0;
            for (int64_t i = 0; i < lane / length; i++) {
                batch x = next(stream, length, lanes);
                cr_expect_eq(x.fresh, i == 0);
                if (i == 0) offset = x.ids[0];
                for (int64_t t = 0; t < length; t++)
                    for (int64_t b = 0; b < lanes; b++) {
                        int64_t p = (offset + b * lane + i * length + t) % n;
                        cr_assert_eq(x.ids[t * lanes + b], p, "case %d, batch %d, lane %d", c, (int)i, (int)b);
                        cr_assert_eq(x.targets[t * lanes + b], (p + 1) % n);
                        inputs += seen[p]++ == 0;
                    }
            }
            cr_expect_eq(inputs, lanes * length * (lane / length));
        }
        hst_stream_free(stream);
        hst_corpus_free(corpus);
    }
    hst_stream_free(NULL);
}

// Each epoch cuts the text elsewhere, over all of it: 400 draws from 100 places miss 100 * 0.99^400 = 1.8 of them on
// average, and more than 10 with a probability far below 1e-4.
Test(data, stream_epochs_start_at_other_places, .init = set_up, .fini = tear_down) {
    hst_corpus *corpus = numbered(100);
    hst_stream *a = hst_stream_new(corpus, 1, 99, 1), *b = hst_stream_new(corpus, 1, 99, 2);
    int seen[100] = {0}, places = 0, equal = 0;
    for (int epoch = 0; epoch < 400; epoch++) {
        uint8_t offset = next(a, 99, 1).ids[0];
        places += seen[offset]++ == 0;
        equal += offset == next(b, 99, 1).ids[0];
    }
    cr_expect_geq(places, 90);
    cr_expect_leq(equal, 40, "streams of two seeds are the same"); // 4 expected
    hst_stream_free(a), hst_stream_free(b);
    hst_corpus_free(corpus);
}

// From any position to any other, forwards and backwards, across epochs: the batch is the one that stepping gives.
Test(data, stream_seek_equals_stepping, .init = set_up, .fini = tear_down) {
    enum { STEPS = 40 };
    hst_corpus *corpus = numbered(101);
    hst_stream *stepping = hst_stream_new(corpus, 3, 4, 5), *seeking = hst_stream_new(corpus, 3, 4, 5);
    batch steps[STEPS];
    for (int i = 0; i < STEPS; i++) {
        cr_expect_eq(hst_stream_position(stepping), i);
        steps[i] = next(stepping, 4, 3);
    }
    for (int i = 0; i < STEPS; i++) {
        int position = i * 17 % STEPS;
        hst_stream_seek(seeking, position);
        batch x = next(seeking, 4, 3);
        cr_expect_arr_eq(x.ids, steps[position].ids, 12);
        cr_expect_arr_eq(x.targets, steps[position].targets, 12);
        cr_expect_eq(x.fresh, steps[position].fresh);
        cr_expect_eq(hst_stream_position(seeking), position + 1);
    }
    hst_stream_seek(seeking, (int64_t)1 << 60); // far away is as near as the next one
    next(seeking, 4, 3);
    hst_stream_seek(seeking, -1);
    expect_failure(HST_ERROR_VALUE, "hst_stream_seek: position -1; it must be from 0 to 2^61 - 1");
    hst_stream_free(stepping), hst_stream_free(seeking);
    hst_corpus_free(corpus);
}

// With the run's end known, epochs are counted back from it: the last is whole and its last target is the text's last
// byte, the first has what is left over; within each, lanes continue.
Test(data, stream_last_epoch_ends_with_the_text, .init = set_up, .fini = tear_down) {
    int outside = 0;
    for (int c = 0; c < CASES; c++) {
        int64_t n = cases[c].n, lanes = cases[c].lanes, length = cases[c].length, epoch = (n - 1) / lanes / length;
        hst_corpus *corpus = numbered(n);
        const int64_t ends[] = {1, epoch, epoch + 1, 2 * epoch, 3 * epoch - 1};
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            hst_stream *stream = hst_stream_new(corpus, lanes, length, 7);
            hst_stream_set_end(stream, ends[e]);
            int64_t next_input = 0, first_of_last = n - 1 - (lanes - 1) * ((n - 1) / lanes) - epoch * length;
            for (int64_t i = 0; i < ends[e]; i++) {
                batch x = next(stream, length, lanes);
                cr_expect_eq(x.fresh, i == 0 || (ends[e] - i) % epoch == 0);
                if (!x.fresh) cr_expect_eq(x.ids[0], next_input);
                next_input = (x.ids[0] + length) % n;
                if (i + 1 == ends[e]) cr_expect_eq(x.targets[length * lanes - 1], n - 1, "case %d, end %zu", c, e);
            }
            batch beyond = next(stream, length, lanes); // as skipped steps read: of an epoch more
            cr_expect(beyond.fresh);
            outside += beyond.ids[0] != first_of_last;
            hst_stream_seek(stream, ends[e] - 1);
            cr_expect_eq(next(stream, length, lanes).targets[length * lanes - 1], n - 1);
            hst_stream_free(stream);
        }
        hst_corpus_free(corpus);
    }
    cr_expect_gt(outside, CASES, "the next epoch begins elsewhere");
    hst_corpus *corpus = numbered(10);
    hst_stream *stream = hst_stream_new(corpus, 1, 3, 1);
    hst_stream_set_end(stream, -1);
    expect_failure(HST_ERROR_VALUE, "hst_stream_set_end: position -1; it must be from 0 to 2^61 - 1");
    hst_stream_set_end(stream, 1); // the farthest place is one, beyond it is none
    hst_stream_seek(stream, INT64_MAX / 4);
    next(stream, 3, 1);
    hst_stream_seek(stream, INT64_MAX / 4 + 1);
    expect_failure(HST_ERROR_VALUE, "position 2305843009213693952; it must be");
    hst_stream_free(stream);
    hst_corpus_free(corpus);
}

Test(data, stream_says_what_a_small_text_would_fit, .init = set_up, .fini = tear_down) {
    static const struct {
        int64_t n, lanes, length;
        const char *message;
    } small[] = {
        {120, 32, 64,
         "the text has 120 symbols: batch 32 x length 64 needs at least 2049; "
         "length 3 or batch 1 would fit"},
        {2048, 32, 64, "needs at least 2049; length 63 or batch 31 would fit"},
        {120, 200, 64, "needs at least 12801; batch 1 would fit"},
        {120, 32, 200, "needs at least 6401; length 3 would fit"},
        {10, 100, 100, "needs at least 10001; batch 1 x length 9 would fit"},
        {1, 1, 1, "needs at least 2; no batch fits"},
        {0, 1, 1, "the text has 0 symbols: batch 1 x length 1 needs at least 2; no batch fits"},
        {10, INT64_MAX, INT64_MAX, "needs more than 2^63; batch 1 x length 9 would fit"},
        {10, 1, INT64_MAX, "needs more than 2^63; length 9 would fit"},
        {10, 0, 5, "batch 0, length 5; both must be at least 1"},
        {10, 5, -1, "batch 5, length -1; both must be at least 1"},
    };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        hst_corpus *corpus = numbered(small[i].n);
        cr_expect_null(hst_stream_new(corpus, small[i].lanes, small[i].length, 1));
        expect_failure(HST_ERROR_VALUE, small[i].message);
        hst_corpus_free(corpus);
    }
    hst_corpus *corpus = numbered(100); // what a message says is true
    cr_expect_null(hst_stream_new(corpus, 10, 10, 1));
    expect_failure(HST_ERROR_VALUE, "needs at least 101; length 9 or batch 9 would fit");
    hst_stream *fits[] = {hst_stream_new(corpus, 10, 9, 1), hst_stream_new(corpus, 9, 10, 1)};
    cr_expect(fits[0] && fits[1]);
    hst_stream_free(fits[0]), hst_stream_free(fits[1]);
    hst_corpus_free(corpus);
}

Test(data, stream_refuses_wrong_targets, .init = set_up, .fini = tear_down) {
    hst_corpus *corpus = numbered(100);
    hst_stream *stream = hst_stream_new(corpus, 2, 3, 1);
    hst_tensor *good = hst_zeros(ctx, HST_U8, HST_SHAPE(3, 2)), *turned = hst_zeros(ctx, HST_U8, HST_SHAPE(2, 3));
    hst_tensor *wide = hst_zeros(ctx, HST_I32, HST_SHAPE(3, 2));
    hst_stream_next(stream, turned, good, NULL);
    expect_failure(HST_ERROR_SHAPE, "ids is u8 (2, 3); u8 (3, 2) is expected");
    hst_stream_next(stream, good, wide, NULL);
    expect_failure(HST_ERROR_DTYPE, "targets is i32 (3, 2); u8 (3, 2) is expected");
    hst_stream_next(stream, good, NULL, NULL);
    expect_failure(HST_ERROR_VALUE, "targets is NULL");
    hst_context *other = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1});
    hst_stream_next(stream, hst_zeros(other, HST_U8, HST_SHAPE(3, 2)), good, NULL);
    expect_failure(HST_ERROR_STATE, "another context");
    cr_expect_eq(hst_get_status(other), HST_ERROR_STATE);
    hst_close(other);
    cr_expect_eq(hst_stream_position(stream), 0);
    hst_corpus_add_bytes(corpus, "x", 1);
    hst_stream_next(stream, good, good, NULL);
    expect_failure(HST_ERROR_STATE, "the text changed");
    hst_stream_free(stream);
    hst_corpus_free(corpus);
}
