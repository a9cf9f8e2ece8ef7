// test_memory.c: memory that runs out, at each allocation in turn: a run, its files, an evaluation and a sample.
// Nothing crashes, the status says what happened, and everything is given back.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "train/halfstep.h"

typedef struct ledger {
    int64_t calls, fail_at, live; // fail_at: the call that fails, the first is 1
    bool for_good;                // and all after it
} ledger;

static void *allocate(size_t bytes, void *user) {
    ledger *l = user;
    l->calls++;
    if (l->calls == l->fail_at || (l->for_good && l->calls > l->fail_at)) return NULL;
    l->live += (int64_t)bytes;
    return malloc(bytes);
}
static void deallocate(void *memory, size_t bytes, void *user) {
    ((ledger *)user)->live -= (int64_t)bytes;
    free(memory);
}

static bool accept(int64_t symbol, void *user) { return (void)symbol, (void)user, true; }

// As a program without checks would be written.
static hst_status train_and_use(ledger *l, hst_precision_kind precision, const char *path) {
    hst_context *ctx = hst_open(&(hst_options){
        .size = sizeof(hst_options), .threads = 1, .allocate = allocate, .deallocate = deallocate, .user = l});
    hst_corpus *text = hst_corpus_new(ctx), *held_out;
    for (int i = 0; i < 20; i++) hst_corpus_add_bytes(text, "memory runs out; ", 17);
    held_out = hst_corpus_split(text, 0.2);
    hst_train_options o;
    hst_train_defaults(&o, sizeof o);
    o.hidden = 8, o.layers = 2, o.batch = 2, o.length = 4, o.steps = 2, o.dropout = 0.1, o.accumulate = 2, o.ema = 0.5;
    o.precision = precision;
    hst_trainer *trainer = hst_trainer_new(ctx, &o, text, held_out);
    hst_trainer_run(trainer, NULL, NULL, NULL);
    hst_lm_save(hst_trainer_model(trainer), path);
    hst_lm *loaded = hst_lm_load(ctx, path);
    hst_sampling sampling = hst_sampling_defaults();
    hst_lm_generate(loaded, hst_byte_symbols("m", 1), 5, &sampling, accept, NULL);
    hst_status status = hst_get_status(ctx);
    hst_lm_free(loaded);
    hst_trainer_free(trainer);
    hst_corpus_free(held_out);
    hst_corpus_free(text);
    hst_close(ctx);
    return status;
}

Test(train, memory_that_runs_out_at_any_moment) {
    char path[] = "/tmp/halfstep-memory-XXXXXX";
    cr_assert(close(mkstemp(path)) == 0);
    static const hst_precision_kind precisions[] = {HST_FP32, HST_AMP_FP16, HST_APEX_O3}; // a region, shadows, scalers
    for (int way = 0; way < 6; way++) {
        ledger l = {.fail_at = 0};
        for (int64_t k = 1; l.calls >= l.fail_at; k++) { // until so many calls are not made
            l = (ledger){.fail_at = k, .for_good = way % 2};
            hst_status status = train_and_use(&l, precisions[way / 2], path);
            cr_assert_eq(l.live, 0, "allocation %d: %d bytes were not given back", (int)k, (int)l.live);
            if (l.calls >= k)
                cr_assert_eq(status, HST_ERROR_MEMORY, "allocation %d: status %d", (int)k, (int)status);
            else
                cr_assert_eq(status, HST_OK);
        }
    }
    unlink(path);
}
