// test_refusals.c: what no trainer is made of.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "tests/train/story.h"

Test(train, a_text_of_another_context_is_refused) {
    hst_context *ctx = open_context(1), *other = open_context(1);
    hst_corpus *text = story(other, 100);
    hst_train_options o = small(5);
    cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_STATE && strstr(hst_error(ctx), "another context"), "%s",
              hst_error(ctx));
    hst_corpus_free(text);
    hst_close(ctx);
    hst_close(other);
}

Test(train, options_out_of_range_are_refused_by_name) {
    hst_context *ctx = open_context(1);
    hst_corpus *text = story(ctx, 100);
    for (int i = 0; i < 15; i++) {
        hst_train_options o = small(10);
        const char *names[] = {"hidden",
                               "dropout",
                               "lr",
                               "epochs",
                               "length",
                               "size is 0",
                               "clip",
                               "accumulate",
                               "ema",
                               "kind 9",
                               "schedule of kind 9",
                               "adamw's betas",
                               "nesterov needs",
                               "lr_step_every",
                               "lr_step_factor"};
        if (i == 0) o.hidden = 0;
        if (i == 1) o.dropout = NAN;
        if (i == 2) o.lr = -1;
        if (i == 3) o.steps = 0, o.epochs = 0;
        if (i == 4) o.length = 100000; // more than the text
        if (i == 5) o.size = 0;
        if (i == 6) o.clip = INFINITY;
        if (i == 7) o.accumulate = 0;
        if (i == 8) o.ema = 1;
        if (i == 9) o.optimizer = (hst_optimizer_kind)9;
        if (i == 10) o.schedule = (hst_schedule_kind)9;
        if (i == 11) o.beta2 = 1;
        if (i == 12) o.optimizer = HST_SGD, o.nesterov = true, o.momentum = 0;
        if (i == 13) o.lr_step_every = 0;
        if (i == 14) o.lr_step_factor = NAN;
        cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
        cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), names[i]), "%s", hst_error(ctx));
        hst_clear_error(ctx);
    }
    hst_corpus_free(text);
    hst_close(ctx);
}

// Batches are counted in an int64_t, and in doubles that hold whole numbers up to 2^53.
Test(train, more_batches_than_can_be_counted_are_refused) {
    hst_context *ctx = open_context(1);
    hst_corpus *text = story(ctx, 50);
    hst_train_options o = small(1000000000000000);
    o.accumulate = 1 << 20;
    cr_expect_null(hst_trainer_new(ctx, &o, text, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "steps x accumulate is 1.04858e+21"),
              "%s", hst_error(ctx));
    hst_clear_error(ctx);
    o.steps = 0, o.accumulate = 1, o.batch = o.length = 1, o.epochs = 1e9;
    hst_corpus *long_text = hst_corpus_new(ctx);
    static char bytes[1 << 24];
    hst_corpus_add_bytes(long_text, bytes, sizeof bytes);
    cr_expect_null(hst_trainer_new(ctx, &o, long_text, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "steps x accumulate is 1.67772e+16"),
              "%s", hst_error(ctx));
    hst_close(ctx);
}
