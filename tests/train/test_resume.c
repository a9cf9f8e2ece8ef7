// test_resume.c: a run that is stopped at any moment and goes on writes the same bytes as one that was never stopped.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/halfstep.h"
#include "train/trainer.h"

enum { STEPS = 24, EVERY = 6 };

static char folder[] = "/tmp/halfstep-resume-XXXXXX";
static hst_context *ctx;
static hst_corpus *text, *held_out;

static void set_up(void) {
    cr_assert(mkdtemp(folder));
    ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1});
    text = hst_corpus_new(ctx);
    for (int i = 0; i < 12; i++) { // an epoch is 6 batches: the runs cross several epochs
        char line[64];
        hst_corpus_add_bytes(text, line,
                             (size_t)snprintf(line, sizeof line, "%d bridges over %d rivers\n", i * 7 % 10, i));
    }
    held_out = hst_corpus_split(text, 0.2);
}
static void tear_down(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(system(command) == 0);
    hst_close(ctx);
}
TestSuite(resume, .init = set_up, .fini = tear_down);

static const char *in_folder(const char *name) {
    static char paths[2][128];
    static int next;
    snprintf(paths[next ^= 1], sizeof *paths, "%s/%s", folder, name);
    return paths[next];
}

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static bytes read_file(const char *name) {
    FILE *in = fopen(in_folder(name), "rb");
    cr_assert(in, "%s is missing", name);
    bytes b = {malloc(1 << 20), 0};
    b.size = fread(b.data, 1, 1 << 20, in);
    fclose(in);
    return b;
}

static bool same(bytes a, bytes b) {
    bool equal = a.size == b.size && !memcmp(a.data, b.data, a.size);
    free(b.data);
    return equal;
}

// Each optimizer and each schedule, with several batches a step and averaged weights, together and alone.
static const struct {
    hst_optimizer_kind optimizer;
    hst_schedule_kind schedule;
    double lr, ema;
    int64_t accumulate;
    bool nesterov;
} variants[] = {{HST_ADAMW, HST_COSINE, 0.01, 0, 1, false},      {HST_SGD, HST_COSINE, 0.05, 0, 1, false},
                {HST_ADAM, HST_LINEAR, 0.01, 0.9, 1, false},     {HST_RADAM, HST_STEP_DECAY, 0.01, 0, 2, false},
                {HST_SGD, HST_INVERSE_SQRT, 0.05, 0.5, 3, true}, {HST_ADAMW, HST_CONSTANT, 0.01, 0.9, 2, false}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static hst_trainer *fresh(int variant) {
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = 12, o.layers = 2, o.batch = 3, o.length = 13, o.steps = STEPS, o.eval_every = EVERY, o.dropout = 0.2;
    o.optimizer = variants[variant].optimizer, o.schedule = variants[variant].schedule, o.lr = variants[variant].lr;
    o.ema = variants[variant].ema, o.accumulate = variants[variant].accumulate, o.nesterov = variants[variant].nesterov;
    if (variant > 1) o.beta1 = 0.8, o.beta2 = 0.95, o.eps = 1e-6, o.lr_step_every = 0.25, o.lr_step_factor = 0.5;
    return hst_trainer_new(ctx, &o, text, held_out);
}

// Stops at a step: before its evaluation, in the middle of it, or right after it.
typedef struct stop {
    int64_t step;
    hst_event event;
} stop;

static bool until(const hst_progress *p, void *user) {
    const stop *s = user;
    return p->step != s->step || p->event != s->event;
}

static void go_on(void) {
    hst_trainer *t = hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out);
    cr_assert(t, "%s", hst_error(ctx));
    cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
    hst_trainer_free(t);
}

Test(resume, ends_with_the_same_bytes_wherever_it_was_stopped) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        hst_trainer *t = fresh(variant);
        cr_assert_eq(hst_trainer_run(t, folder, NULL, NULL), HST_OK, "%s", hst_error(ctx));
        hst_trainer_free(t);
        bytes last = read_file("last.safetensors"), best = read_file("model.safetensors");
        for (int64_t step = 1; step <= STEPS; step++)
            for (hst_event event = HST_EVENT_STEP; event <= HST_EVENT_BUSY; event++) {
                if (event != HST_EVENT_STEP && step % EVERY) continue; // there is no evaluation
                stop s = {step, event};
                t = fresh(variant);
                hst_status status = hst_trainer_run(t, folder, until, &s);
                cr_assert(status == HST_CANCELLED || event == HST_EVENT_SAVE, "%s", hst_error(ctx)); // it may not save
                hst_clear_error(ctx);
                hst_trainer_free(t);
                go_on();
                cr_expect(same(last, read_file("last.safetensors")), "variant %d, last: stopped at %d, event %d",
                          variant, (int)step, event);
                cr_expect(same(best, read_file("model.safetensors")), "variant %d, model: stopped at %d, event %d",
                          variant, (int)step, event);
            }
        free(last.data);
        free(best.data);
    }
}

Test(resume, a_finished_run_stays_as_it_is) {
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    bytes last = read_file("last.safetensors");
    go_on();
    cr_expect(same(last, read_file("last.safetensors")));
    free(last.data);
}

// Changes a word of a checkpoint, with another of the same length. Its sum, which would tell, goes too: under another
// name nobody looks at it.
static void replace_in(const char *name, const char *from, const char *to) {
    bytes b = read_file(name);
    char *at = memmem(b.data, b.size, from, strlen(from));
    cr_assert(at && strlen(from) == strlen(to), "%s has no %s", name, from);
    memcpy(at, to, strlen(to));
    char *sum = memmem(b.data, b.size, "halfstep.sha256", 15);
    if (sum) sum[9] = '?';
    FILE *out = fopen(in_folder(name), "wb");
    cr_assert(out && fwrite(b.data, 1, b.size, out) == b.size && fclose(out) == 0);
    free(b.data);
}

// A file from before these settings were there has none of them, and its run had what are now their defaults.
Test(resume, a_checkpoint_without_the_younger_fields) {
    static const char *const keys[] = {"schedule", "lr_step_every", "lr_step_factor", "nesterov", "beta1",
                                       "beta2",    "eps",           "accumulate",     "ema",      "held_out_sha256"};
    stop s = {7, HST_EVENT_STEP};
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    bytes last = read_file("last.safetensors");
    t = fresh(0);
    cr_assert_eq(hst_trainer_run(t, folder, until, &s), HST_CANCELLED);
    hst_clear_error(ctx);
    hst_trainer_free(t);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[32], unknown[32];
        snprintf(key, sizeof key, "\"%s\\\":", keys[i]);
        snprintf(unknown, sizeof unknown, "\"?%s\\\":", keys[i] + 1);
        replace_in("last.safetensors", key, unknown);
    }
    go_on();
    cr_expect(same(last, read_file("last.safetensors")));
    free(last.data);
}

Test(resume, a_checkpoint_names_its_kernels_and_a_model_none) {
    char isa[32] = "";
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    cr_expect(!hst_trainer_read_isa(ctx, in_folder("model.safetensors"), isa, sizeof isa) && !*isa);
    cr_expect_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    cr_expect(hst_trainer_read_isa(ctx, in_folder("last.safetensors"), isa, sizeof isa));
    cr_expect_str_eq(isa, hst_isa(ctx));
    replace_in("last.safetensors", "\"isa\\\":", "\"?sa\\\":");
    cr_expect(hst_trainer_read_isa(ctx, in_folder("last.safetensors"), isa, sizeof isa) && !*isa);
    cr_expect(!hst_trainer_read_isa(ctx, in_folder("none.safetensors"), isa, sizeof isa));
    cr_expect_eq(hst_get_status(ctx), HST_ERROR_IO);
    hst_clear_error(ctx);
}

Test(resume, an_optimizer_that_is_not_known_is_refused) {
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    replace_in("last.safetensors", "\"adamw\\\"", "\"adamx\\\"");
    cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out));
    cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), "optimizer is `adamx`"), "%s",
              hst_error(ctx));
    hst_clear_error(ctx);
    replace_in("last.safetensors", "\"adamx\\\"", "\"adamw\\\"");
    replace_in("last.safetensors", "\"cosine\\\"", "\"sinecu\\\"");
    cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out));
    cr_expect(strstr(hst_error(ctx), "schedule is `sinecu`"), "%s", hst_error(ctx));
}

Test(resume, more_skips_than_there_can_be_are_refused) {
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    replace_in("last.safetensors", "scaler_skipped\\\":0,\\\"consecutive_skips\\\":0,\\\"skipped\\\":0,",
               "skipped\\\":9223372036854775807                           ,");
    cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out));
    cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), "9223372036854775807 skipped steps"),
              "%s", hst_error(ctx));
}

Test(resume, what_cannot_go_on_is_refused) {
    hst_trainer *t = fresh(0);
    hst_trainer_run(t, folder, NULL, NULL);
    hst_trainer_free(t);
    cr_expect_null(hst_trainer_resume(ctx, in_folder("model.safetensors"), text, held_out));
    cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), "holds a model only"), "%s",
              hst_error(ctx));
    hst_clear_error(ctx);
    cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), held_out, NULL));
    cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), "goes on with the same text"), "%s",
              hst_error(ctx));
    hst_clear_error(ctx);
    cr_expect_null(hst_trainer_resume(ctx, in_folder("missing.safetensors"), text, NULL));
    cr_expect_eq(hst_get_status(ctx), HST_ERROR_IO);
    cr_expect_null(hst_trainer_resume(NULL, "", NULL, NULL));
}

// The held-out text decides which weights are the best: another would make another run of it.
Test(resume, another_held_out_text_is_refused) {
    static const char says[] = "the held-out text is not the one that its run is evaluated on";
    hst_corpus *other = hst_corpus_new(ctx);
    hst_corpus_add_bytes(other, "another text\n", 13);
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        hst_corpus *own = evaluated ? held_out : NULL;
        hst_train_options o = *hst_trainer_options(fresh(0));
        hst_trainer *t = hst_trainer_new(ctx, &o, text, own);
        hst_trainer_run(t, folder, NULL, NULL);
        hst_trainer_free(t);
        hst_corpus *const wrong[] = {other, evaluated ? NULL : held_out};
        for (int i = 0; i < 2; i++) {
            cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), text, wrong[i]));
            cr_expect(hst_get_status(ctx) == HST_ERROR_VALUE && strstr(hst_error(ctx), says), "%d %d: %s", evaluated, i,
                      hst_error(ctx));
            hst_clear_error(ctx);
        }
        t = hst_trainer_resume(ctx, in_folder("last.safetensors"), text, own);
        cr_expect(t, "%s", hst_error(ctx));
        hst_trainer_free(t);
    }
}

// A run's numbers multiply: those of a forged file must not overflow, nor name a step beyond its end.
Test(resume, impossible_progress_is_refused) {
    static const char *const forged[][2] = {{"\"steps\\\":24", "\"steps\\\":23"},
                                            {"\"evaluated\\\":24", "\"evaluated\\\":25"},
                                            {"\"best_step\\\":24", "\"best_step\\\":25"},
                                            {"\"since_best\\\":0", "\"since_best\\\":9"}};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        hst_trainer *t = fresh(0);
        hst_trainer_run(t, folder, NULL, NULL);
        hst_trainer_free(t);
        replace_in("last.safetensors", forged[i][0], forged[i][1]);
        cr_expect_null(hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out));
        cr_expect(hst_get_status(ctx) == HST_ERROR_FORMAT && strstr(hst_error(ctx), "no run gets to"), "%zu: %s", i,
                  hst_error(ctx));
        hst_clear_error(ctx);
    }
}

// ---- older files ----

// Hides a field of the newest checkpoint's metadata, and their sum, under names that are not known.
static void hide(const char *key) {
    bytes file = read_file("last.safetensors");
    const char *keys[] = {key, "halfstep.sha256"};
    for (int i = 0; i < 2; i++) {
        char *at = memmem(file.data, file.size, keys[i], strlen(keys[i]));
        cr_assert(at, "%s is not in the file", keys[i]);
        *at = '_';
    }
    FILE *out = fopen(in_folder("last.safetensors"), "wb");
    cr_assert(out && fwrite(file.data, 1, file.size, out) == file.size && fclose(out) == 0);
    free(file.data);
}

// Whether the run's next batch is the stream's of a run whose end is not known.
static bool reads_without_end(int64_t position) {
    hst_trainer *t = hst_trainer_resume(ctx, in_folder("last.safetensors"), text, held_out);
    cr_assert(t && hst_trainer_step(t, NULL) == HST_OK, "%s", hst_error(ctx));
    hst_stream *stream = hst_stream_new(text, t->options.batch, t->options.length, t->options.seed);
    hst_stream_seek(stream, position);
    hst_scope_begin(ctx);
    int64_t shape[] = {t->options.length, t->options.batch};
    hst_tensor *ids = hst_zeros(ctx, HST_U8, 2, shape), *targets = hst_zeros(ctx, HST_U8, 2, shape);
    cr_assert_eq(hst_stream_next(stream, ids, targets, NULL), HST_OK, "%s", hst_error(ctx));
    bool equal = !memcmp(hst_data(ids), hst_data(t->ids), (size_t)hst_count(ids));
    hst_scope_end(ctx, NULL);
    hst_stream_free(stream);
    hst_trainer_free(t);
    return equal;
}

// A run from before the last epoch ended with the text goes on in its own order.
Test(resume, an_older_run_reads_on_where_it_was) {
    hst_trainer *t = fresh(0);
    stop s = {STEPS - 3, HST_EVENT_STEP};
    cr_assert_eq(hst_trainer_run(t, folder, until, &s), HST_CANCELLED);
    hst_clear_error(ctx);
    hst_trainer_free(t);
    cr_expect(!reads_without_end(STEPS - 3));
    hide("ends_with_text");
    cr_expect(reads_without_end(STEPS - 3));
}
