// bench.c: `halfstep bench`: how near the library comes to what the machine can do, measured in the same run. Each
// subject has a file of its own; here is what they share.
#include "train/cli/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const cli_option options[] = {
    {.help = "Sizes"},
    {"vocabulary", 0, "V", CLI_INT64, offsetof(bench_values, vocabulary), .low = 1, .high = 1e9,
     .help = "rows of the large table; the small one has 8"},
    {"hidden", 0, "D", CLI_INT64, offsetof(bench_values, hidden), .low = 1, .high = 1e6, .help = "numbers in a row"},
    {"tokens", 0, "N", CLI_INT64, offsetof(bench_values, tokens), .low = 1, .high = 1e9, .help = "rows that are read"},
    {"length", 0, "N", CLI_INT64, offsetof(bench_values, length), .low = 1, .high = 1e6,
     .help = "steps of the recurrence"},
    {"batch", 0, "N", CLI_INT64, offsetof(bench_values, batch), .low = 1, .high = 1e6,
     .help = "sequences of the recurrence"},
    {"columns", 0, "D", CLI_INT64, offsetof(bench_values, columns), .low = 1, .high = 1e6,
     .help = "columns of the recurrence"},
    {"steps", 0, "N", CLI_INT64, offsetof(bench_values, steps), .low = 1, .high = 1e6,
     .help = "timed steps of the small model in each precision, after two; the large one has a tenth"},
    {"text", 0, "FILE", CLI_FILE, offsetof(bench_values, text), .standard = "made up",
     .help = "what these models learn"},
    {.help = "Measuring"},
    {"runs", 0, "N", CLI_INT, offsetof(bench_values, runs), .low = 1, .high = 1000,
     .help = "rounds, after one that is not counted; printed are medians"},
    {"json", 0, NULL, CLI_FLAG, offsetof(bench_values, json),
     .help = "print one JSON object for each table, dtype or preset"},
    {0}};

static void defaults(void *values) {
    bench_values *v = values;
    v->vocabulary = 50000;
    v->hidden = 512;
    v->tokens = 32768;
    v->length = 128;
    v->batch = 32;
    v->columns = 1024;
    v->steps = 30;
    v->runs = 9;
}

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the copy ----

enum { MAX_THREADS = 256 };

static void *copy_part(void *arg) {
    const bench_copy *c = arg;
    for (size_t at = 0; at < c->bytes; at += c->piece)
        memcpy(c->to + at, c->from + at, c->bytes - at < c->piece ? c->bytes - at : c->piece);
    return NULL;
}

double bench_time_copy(const bench_copy *whole, int threads) {
    pthread_t worker[MAX_THREADS];
    bench_copy parts[MAX_THREADS];
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    size_t each = whole->bytes / (size_t)threads;
    double began = bench_now();
    int started = 0;
    for (int i = 0; i < threads; i++) {
        size_t at = (size_t)i * each;
        parts[i] =
            (bench_copy){whole->to + at, whole->from + at, i == threads - 1 ? whole->bytes - at : each, whole->piece};
    }
    while (started < threads - 1 && pthread_create(&worker[started], NULL, copy_part, &parts[started]) == 0) started++;
    for (int i = started; i < threads; i++) copy_part(&parts[i]);
    for (int i = 0; i < started; i++) pthread_join(worker[i], NULL);
    return bench_now() - began;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_of(const void *rounds, size_t size, int count, size_t offset) {
    double sorted[BENCH_MAX_RUNS];
    for (int i = 0; i < count; i++)
        sorted[i] = *(const double *)(const void *)((const char *)rounds + (size_t)i * size + offset);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (bench_spread){sorted[count / 2], sorted[0], sorted[count - 1]};
}

// What can be measured; "all" is everything.
static const struct {
    const char *name;
    bool (*measure)(hst_context *ctx, const bench_values *v);
} benches[] = {{"embedding", bench_embedding}, {"recurrence", bench_recurrence}, {"precision", bench_precision}};
enum { BENCHES = sizeof benches / sizeof *benches };

static int run(const void *values, int count, char **operands) {
    const bench_values *v = values;
    bool all = strcmp(operands[0], "all") == 0;
    int code = CLI_DONE, first = 0, end = BENCHES;
    (void)count;
    while (!all && first < BENCHES && strcmp(operands[0], benches[first].name) != 0) first++;
    if (first == BENCHES) {
        cli_error("bench measures the embedding, the recurrence, the precisions (`precision`), or all, not `%s`",
                  operands[0]);
        return CLI_USAGE;
    }
    hst_context *ctx = cli_open(&v->common, NULL, NULL, &code);
    if (!ctx) return code;
    if (!all) end = first + 1;
    while (first < end && benches[first].measure(ctx, v)) first++;
    if (first < end) code = cli_failure(ctx, false);
    hst_close(ctx);
    return code;
}

static const cli_term examples[] = {{"halfstep bench embedding", "forward and gradient, beside a copy of memory"},
                                    {"halfstep bench embedding --threads 1 --json", "the same for a program to read"},
                                    {"halfstep bench recurrence", "the SRU's recurrence, its states in f32, f16, bf16"},
                                    {"halfstep bench precision", "every preset: speed, memory, loss, skipped steps"},
                                    {NULL, NULL}};

const cli_command cli_bench = {
    .name = "bench",
    .operands = "embedding|recurrence|precision|all",
    .at_least = 1,
    .at_most = 1,
    .summary = "speed beside what the machine can do",
    .details = "Measures the embedding's forward and gradient, of a large table whose rows are read as often as words "
               "in a text and of one with 8 rows, or the SRU's recurrence, forward and backward, stored in each dtype, "
               "and prints the bytes moved in a second beside those of a plain copy by as many threads, measured in "
               "turn with it. precision trains 2 layers of 512 (batch 32, length 128) and 6 of 512 (64, 256) in every "
               "preset and prints symbols a second, the peaks of memory by what it is for, the last loss and the "
               "skipped steps. Machines are shared: compare shares, not seconds of different runs.",
    .examples = examples,
    .options = options,
    .size = sizeof(bench_values),
    .defaults = defaults,
    .run = run,
};
