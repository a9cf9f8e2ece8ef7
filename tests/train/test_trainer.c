// test_trainer.c: whole training runs.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/train/story.h"

static char folder[] = "/tmp/halfstep-train-XXXXXX";

static void make_folder(void) { cr_assert(mkdtemp(folder)); }
static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(system(command) == 0);
}

TestSuite(train, .init = make_folder, .fini = remove_folder);

static char *read_file(const char *name, size_t *size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "rb");
    if (!in) return NULL;
    fseek(in, 0, SEEK_END);
    *size = (size_t)ftell(in);
    rewind(in);
    char *bytes = malloc(*size + 1);
    cr_assert(fread(bytes, 1, *size, in) == *size);
    fclose(in);
    return bytes;
}

static void run_into_folder(hst_context *ctx, const hst_train_options *o,
                            bool (*progress)(const hst_progress *, void *), void *user, hst_status expected) {
    hst_corpus *text = story(ctx, 400), *held_out = hst_corpus_split(text, 0.1);
    hst_trainer *t = hst_trainer_new(ctx, o, text, held_out);
    cr_assert(t, "%s", hst_error(ctx));
    hst_status status = hst_trainer_run(t, folder, progress, user);
    cr_expect(status == expected, "status %d: %s", status, hst_error(ctx));
    hst_trainer_free(t);
    hst_corpus_free(held_out);
    hst_corpus_free(text);
}

Test(train, one_two_and_three_threads_write_the_same_checkpoint) {
    char *first = NULL;
    size_t first_size = 0;
    for (int threads = 1; threads <= 3; threads++) {
        hst_context *ctx = open_context(threads);
        hst_train_options o = small(200);
        run_into_folder(ctx, &o, NULL, NULL, HST_OK);
        hst_close(ctx);
        size_t size;
        char *bytes = read_file("last.safetensors", &size);
        cr_assert(bytes);
        if (!first) {
            first = bytes;
            first_size = size;
            continue;
        }
        cr_expect(size == first_size && !memcmp(bytes, first, size), "%d threads differ from one", threads);
        free(bytes);
    }
    free(first);
}

Test(train, a_step_allocates_nothing_from_the_system_after_the_third) {
    hst_context *ctx = open_context(2);
    hst_corpus *text = story(ctx, 400);
    hst_train_options o = small(100);
    o.accumulate = 3;
    o.ema = 0.99;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    hst_memory before, after;
    for (int i = 0; i < 3; i++) cr_assert(hst_trainer_step(t, NULL) == HST_OK);
    hst_memory_stats(ctx, &before);
    for (int i = 0; i < 50; i++) cr_assert(hst_trainer_step(t, NULL) == HST_OK);
    hst_memory_stats(ctx, &after);
    cr_expect(after.system_allocations == before.system_allocations, "%lld more",
              (long long)(after.system_allocations - before.system_allocations));
    cr_expect(after.current_total == before.current_total, "memory in use grew by %lld bytes",
              (long long)(after.current_total - before.current_total));
    hst_trainer_free(t);
    hst_corpus_free(text);
    hst_close(ctx);
}

Test(train, a_text_that_repeats_is_learned) {
    hst_context *ctx = open_context(0);
    hst_corpus *text = hst_corpus_new(ctx);
    for (int i = 0; i < 300; i++) hst_corpus_add_bytes(text, "abcdefghijklm", 13);
    hst_train_options o = small(150);
    o.fresh_share = 0;
    o.dropout = 0;
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    double first, loss;
    cr_assert(hst_trainer_step(t, &first) == HST_OK);
    cr_expect_float_eq(first, log(256), 1.0); // nothing is known yet of 256 symbols
    for (int i = 1; i < 150; i++) cr_assert(hst_trainer_step(t, &loss) == HST_OK, "%s", hst_error(ctx));
    cr_expect_lt(loss, 0.02); // each symbol follows from the one before
    hst_trainer_free(t);
    hst_corpus_free(text);
    hst_close(ctx);
}

static bool collect_plan(const hst_progress *p, void *user) {
    if (p->event == HST_EVENT_PLAN) *(int64_t *)user = p->steps;
    return true;
}

Test(train, a_run_planned_for_a_duration_is_the_run_with_that_number_of_steps) {
    int64_t steps = 0;
    size_t size, again_size;
    hst_context *ctx = open_context(1);
    hst_train_options o = small(0);
    o.seconds = 3;          // enough for some steps under sanitizers on a busy machine too
    o.eval_every = 1000000; // the same evaluations, whatever the number of steps
    run_into_folder(ctx, &o, collect_plan, &steps, HST_OK);
    hst_close(ctx);
    char *planned = read_file("last.safetensors", &size);
    cr_assert(planned && steps > 1);
    ctx = open_context(1);
    o.seconds = 0;
    o.steps = steps;
    run_into_folder(ctx, &o, NULL, NULL, HST_OK);
    hst_close(ctx);
    char *repeated = read_file("last.safetensors", &again_size);
    cr_expect(repeated && size == again_size && !memcmp(planned, repeated, size));
    free(planned);
    free(repeated);
}

Test(train, a_diverged_run_overwrites_nothing) {
    hst_context *ctx = open_context(1);
    hst_train_options o = small(20);
    run_into_folder(ctx, &o, NULL, NULL, HST_OK);
    size_t size, after;
    char *good = read_file("last.safetensors", &size);
    o.lr = 1e6;
    o.clip = 0;
    o.optimizer = HST_SGD;
    o.steps = 200;
    run_into_folder(ctx, &o, NULL, NULL, HST_ERROR_DIVERGED);
    cr_expect(strstr(hst_error(ctx), "diverged at step"), "%s", hst_error(ctx));
    char *kept = read_file("last.safetensors", &after);
    cr_expect(kept && size == after && !memcmp(good, kept, size));
    free(good);
    free(kept);
    hst_close(ctx);
}

static bool stop_at_seven(const hst_progress *p, void *user) {
    if (p->event == HST_EVENT_SAVE) ++*(int *)user;
    return p->step < 7;
}

Test(train, stopping_saves) {
    hst_context *ctx = open_context(1);
    hst_train_options o = small(100);
    int saves = 0;
    run_into_folder(ctx, &o, stop_at_seven, &saves, HST_CANCELLED);
    cr_expect(saves == 2, "%d files were saved", saves); // last, and for lack of an evaluation the model
    hst_clear_error(ctx);
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    hst_lm *model = hst_lm_load(ctx, path);
    cr_expect(model, "%s", hst_error(ctx));
    hst_lm_free(model);
    hst_close(ctx);
}

static bool cancelled; // by the program, from the next operation on
static bool is_cancelled(void *user) { return (void)user, cancelled; }

// Three steps; in between the context is used for something else, or a step is cancelled and tried again.
static double third_loss(bool disturbed) {
    hst_context *ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1, .cancel = is_cancelled});
    hst_corpus *text = story(ctx, 100);
    hst_train_options o = small(10);
    hst_trainer *t = hst_trainer_new(ctx, &o, text, NULL);
    double loss = 0;
    for (int i = 0; i < 3; i++) {
        if (disturbed && i > 0) {
            hst_seed(ctx, 99);
            cancelled = true;
            cr_assert_eq(hst_trainer_step(t, &loss), HST_CANCELLED);
            cancelled = false;
            hst_clear_error(ctx);
        }
        cr_assert_eq(hst_trainer_step(t, &loss), HST_OK, "%s", hst_error(ctx));
    }
    hst_trainer_free(t);
    hst_corpus_free(text);
    hst_close(ctx);
    return loss;
}

Test(train, a_step_depends_on_its_number_alone) { cr_expect_eq(third_loss(true), third_loss(false)); }

// An evaluation may take long: it is asked in between, and what it had so far is forgotten.
static bool stop_when_busy(const hst_progress *p, void *user) {
    int *busy = user;
    if (p->event == HST_EVENT_BUSY) ++*busy;
    cr_assert(p->event != HST_EVENT_EVAL, "an evaluation that was stopped has no result");
    return p->event != HST_EVENT_BUSY;
}

Test(train, an_evaluation_can_be_stopped) {
    hst_context *ctx = open_context(1);
    hst_train_options o = small(20);
    int busy = 0;
    run_into_folder(ctx, &o, stop_when_busy, &busy, HST_CANCELLED);
    cr_expect_eq(busy, 1);
    hst_close(ctx);
}

Test(train, the_previous_checkpoint_is_the_last_before) {
    hst_context *ctx = open_context(1);
    hst_train_options o = small(6);
    o.save_every = 3;
    run_into_folder(ctx, &o, NULL, NULL, HST_OK); // saves at 3 and at the end
    size_t size, last_size;
    char *last = read_file("last.safetensors", &last_size), *previous = read_file("previous.safetensors", &size),
         path[256];
    cr_assert(last && previous && strstr(last + 8, "\\\"step\\\":6,") && strstr(previous + 8, "\\\"step\\\":3,"));
    snprintf(path, sizeof path, "%s/next.safetensors", folder);
    cr_expect(access(path, F_OK) != 0, "nothing is left behind");
    free(last);
    free(previous);
    hst_close(ctx);
}

// The estimate against what the pool counts, over one step and an evaluation.
Test(train, memory_is_known_before_it_is_taken) {
    static const struct {
        int64_t hidden, batch, length;
        int layers;
        double dropout;
        bool tied;
        hst_optimizer_kind optimizer;
    } cases[] = {{128, 16, 64, 4, 0, false, HST_ADAMW}, {64, 32, 64, 1, 0, false, HST_SGD},
                 {40, 5, 13, 2, 0.1, true, HST_ADAMW},  {96, 8, 32, 8, 0.1, true, HST_ADAMW},
                 {32, 1, 1, 2, 0, false, HST_ADAMW},    {128, 16, 64, 4, 0.1, false, HST_SGD}};
    for (int k = 0; k < (int)(sizeof cases / sizeof *cases) * HST_PRECISIONS * 2; k++) {
        int i = k / (HST_PRECISIONS * 2), f32 = k % 2;
        hst_context *ctx = open_context(1);
        hst_corpus *text = story(ctx, 250), *held_out = hst_corpus_split(text, 0.4);
        hst_memory before, after;
        hst_memory_stats(ctx, &before);
        hst_train_options o = small(1);
        o.hidden = cases[i].hidden, o.batch = cases[i].batch, o.length = cases[i].length, o.layers = cases[i].layers;
        o.dropout = cases[i].dropout, o.tied = cases[i].tied, o.optimizer = cases[i].optimizer;
        o.precision = (hst_precision_kind)(k / 2 % HST_PRECISIONS), o.recurrence_f32 = f32;
        hst_trainer *trainer = hst_trainer_new(ctx, &o, text, held_out);
        cr_assert_eq(hst_trainer_run(trainer, NULL, NULL, NULL), HST_OK, "%s", hst_error(ctx));
        hst_memory_stats(ctx, &after);
        double taken = (double)(after.peak_total - before.current_total), estimate = hst_train_memory(&o, 256);
        cr_expect(estimate > 0.75 * taken && estimate < 1.25 * taken, "case %d, %s, %d: %.0f, estimated %.0f", i,
                  hst_precision_of(o.precision)->name, f32, taken, estimate);
        hst_trainer_free(trainer);
        hst_corpus_free(held_out), hst_corpus_free(text);
        hst_close(ctx);
    }
}

// Characters as symbols: the model has their number, and its file says which they are.
Test(train, a_text_of_characters) {
    hst_context *ctx = open_context(1);
    hst_corpus *text = story(ctx, 50), *held_out = hst_corpus_split(text, 0.2);
    hst_tokenizer *t = hst_tokenizer_characters(text);
    hst_corpus_encode(text, t, false);
    hst_train_options o = small(2);
    cr_expect_null(hst_trainer_new(ctx, &o, text, held_out));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "another tokenizer"), "%s",
              hst_error(ctx));
    hst_clear_error(ctx);
    hst_corpus_encode(held_out, t, false);
    hst_trainer *trainer = hst_trainer_new(ctx, &o, text, held_out);
    cr_assert_eq(hst_trainer_run(trainer, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
    hst_trainer_free(trainer);
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    hst_lm *model = hst_lm_load(ctx, path);
    cr_assert(model, "%s", hst_error(ctx));
    cr_expect_eq(hst_lm_configuration(model)->vocabulary, hst_tokenizer_size(t));
    cr_expect_str_eq(hst_lm_tokenizer(model), hst_tokenizer_text(t));
    hst_lm_free(model);
    hst_corpus *bytes = story(ctx, 50);
    cr_expect_null(hst_trainer_new_from(ctx, path, &o, bytes, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "tokenizer of this file"), "%s",
              hst_error(ctx));
    hst_close(ctx);
}

// Training further starts from the file's weights, and so do their averages: with a rate of 0 it ends with them.
Test(train, a_model_is_trained_further) {
    hst_context *ctx = open_context(1);
    hst_corpus *text = story(ctx, 50), *other = story(ctx, 80);
    hst_train_options o = small(3);
    hst_trainer *first = hst_trainer_new(ctx, &o, text, NULL);
    cr_assert_eq(hst_trainer_run(first, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    o.hidden = 999, o.layers = 9, o.lr = 0; // the shape is the file's
    for (int averaged = 0; averaged < 2; averaged++) {
        o.ema = averaged ? 0.99 : 0;
        hst_trainer *second = hst_trainer_new_from(ctx, path, &o, other, NULL);
        cr_assert(second, "%s", hst_error(ctx));
        cr_expect(hst_trainer_options(second)->hidden == 40 && hst_trainer_options(second)->layers == 2);
        cr_assert_eq(hst_trainer_run(second, NULL, NULL, NULL), HST_OK, "%s", hst_error(ctx));
        hst_ema_swap(hst_trainer_ema(second));
        const hst_parameters *a = hst_lm_parameters(hst_trainer_model(first)),
                             *b = hst_lm_parameters(hst_trainer_model(second));
        cr_assert_eq(hst_parameter_count(a), hst_parameter_count(b));
        for (int i = 0; i < hst_parameter_count(a); i++) {
            hst_tensor *x = hst_parameter_value(a, i), *y = hst_parameter_value(b, i);
            cr_expect_arr_eq(hst_data(x), hst_data(y), (size_t)hst_count(x) * sizeof(float), "%s, averaged: %d",
                             hst_parameter_name(a, i), averaged);
        }
        hst_trainer_free(second);
    }
    hst_trainer_free(first);
    hst_close(ctx);
}

// A file whose vocabulary is not that of its symbols, bytes here, is as wrong to train further as to sample from.
Test(train, a_vocabulary_that_is_not_the_tokenizers_is_refused) {
    hst_context *ctx = open_context(1);
    hst_corpus *text = story(ctx, 50);
    hst_train_options o = small(3);
    hst_lm_config config = hst_lm_defaults();
    config.vocabulary = 255, config.hidden = 4, config.layers = 1;
    hst_lm *model = hst_lm_new(ctx, &config);
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    cr_assert_eq(hst_lm_save(model, path), HST_OK, "%s", hst_error(ctx));
    cr_expect_null(hst_trainer_new_from(ctx, path, &o, text, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT &&
                  strstr(hst_error(ctx), "vocabulary has 255 symbols, but its tokenizer, of bytes, has 256"),
              "%s", hst_error(ctx));
    hst_lm_free(model);
    hst_close(ctx);
}
