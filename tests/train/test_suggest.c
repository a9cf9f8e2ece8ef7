// test_suggest.c: what --time chooses: by the machine's speed, so only how choices hang together can be known.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "train/halfstep.h"

static hst_train_options suggested(hst_context *ctx, double seconds, int64_t symbols) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    cr_assert(hst_train_suggest(ctx, seconds, 256, symbols, &o), "%s", hst_error(ctx));
    return o;
}

// 86,400 times the time is a larger budget by more than any noise, and more than two rows apart, however slow the
// machine.
Test(train, suggestions_grow_with_the_time) {
    hst_context *ctx = hst_open(NULL);
    hst_train_options brief = suggested(ctx, 1, 1000000), day = suggested(ctx, 86400, 10000);
    cr_expect(brief.hidden < day.hidden && brief.layers <= day.layers && brief.lr >= day.lr);
    cr_expect(brief.dropout == 0 && day.dropout > 0, "a day reads 10 kB often");
    hst_close(ctx);
}

Test(train, suggestions_fit_a_short_text) {
    hst_context *ctx = hst_open(NULL);
    hst_corpus *text = hst_corpus_new(ctx);
    hst_corpus_add_bytes(text, "a text of few bytes, which is shorter than eight lanes of 64: it has hardly two", 80);
    hst_train_options o = suggested(ctx, 0.05, hst_corpus_size(text));
    o.steps = 1, o.seconds = 0;
    hst_trainer *trainer = hst_trainer_new(ctx, &o, text, NULL);
    cr_expect(trainer, "batch %lld, length %lld: %s", (long long)o.batch, (long long)o.length, hst_error(ctx));
    hst_trainer_free(trainer);
    hst_corpus_free(text);
    hst_close(ctx);
}

// All that is no size keeps its value, and precision changes only to one that is faster.
Test(train, suggestions_leave_the_rest) {
    hst_context *ctx = hst_open(NULL);
    hst_train_options o, s;
    hst_train_defaults(&o, sizeof o);
    o.weight_decay = 0.7, o.seed = 9, o.fresh_share = 0.4, o.tied = true;
    s = o;
    cr_assert(hst_train_suggest(ctx, 1, 65, 1000000, &s));
    cr_expect(s.precision == HST_FP32 || s.precision == HST_AMP_BF16);
    s.hidden = o.hidden, s.layers = o.layers, s.batch = o.batch, s.length = o.length, s.dropout = o.dropout;
    s.lr = o.lr, s.precision = o.precision;
    cr_expect_arr_eq(&s, &o, sizeof o);
    hst_memory before, after;
    hst_memory_stats(ctx, &before);
    cr_expect(!hst_train_suggest(NULL, 1, 65, 1, &o) && !hst_train_suggest(ctx, 1, 65, 1, NULL));
    hst_memory_stats(ctx, &after);
    cr_expect_eq(before.current_total, after.current_total);
    hst_close(ctx);
}

// However short: the speed is measured by one product at least.
Test(train, suggestions_for_no_time_and_for_nonsense) {
    hst_context *ctx = hst_open(NULL);
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    cr_expect(hst_train_suggest(ctx, 1e-9, 256, 0, &o) && hst_train_suggest(ctx, 0, 256, 1000, &o), "%s",
              hst_error(ctx));
    const double bad[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        cr_expect(!hst_train_suggest(ctx, bad[i], 256, 1000, &o));
        cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "hst_train_suggest: seconds"), "%s",
                  hst_error(ctx));
        hst_clear_error(ctx);
    }
    cr_expect(!hst_train_suggest(ctx, 1, 0, 1000, &o) && strstr(hst_error(ctx), "vocabulary is 0"));
    hst_close(ctx);
}
