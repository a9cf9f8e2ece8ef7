// bench.c: `halfstep bench`: how near the library comes to what the machine can do, measured in the same run. Each
// subject has a file of its own; here is what they share.
#include "train/cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const cli_option options[] = {
    {.help = "Sizes"},
    {"vocabulary", 0, "V", CLI_INT64, offsetof(bench_values, vocabulary), .low = 1, .high = 1e9,
     .help = "rows of the large table; the small one has 8"},
    {"hidden", 0, "D", CLI_INT64, offsetof(bench_values, hidden), .low = 1, .high = 1e6,
     .help = "numbers in a row, and how wide the models are; some are twice as wide"},
    {"tokens", 0, "N", CLI_INT64, offsetof(bench_values, tokens), .low = 1, .high = 1e9, .help = "rows that are read"},
    {"length", 0, "N", CLI_INT64, offsetof(bench_values, length), .low = 1, .high = 1e6,
     .help = "steps of the recurrence, and of the models"},
    {"batch", 0, "N", CLI_INT64, offsetof(bench_values, batch), .low = 1, .high = 1e6, .help = "sequences of the same"},
    {"columns", 0, "D", CLI_INT64, offsetof(bench_values, columns), .low = 1, .high = 1e6,
     .help = "columns of the recurrence"},
    {"steps", 0, "N", CLI_INT64, offsetof(bench_values, steps), .low = 1, .high = 1e6,
     .help =
         "timed steps of the smaller model of `precision` in each preset, after two; the larger one, of three times "
         "the layers, twice the batch and length, has a tenth"},
    {"text", 0, "FILE", CLI_FILE, offsetof(bench_values, text), .standard = "made up",
     .help = "what the models of bytes learn"},
    {"divide", 0, "N", CLI_INT64, offsetof(bench_values, divide), .low = 1, .high = 64,
     .help = "for a quick look: products, the models of `train` and `generate`, and the memory of `machine` smaller by "
             "this in each size"},
    {.help = "Measuring"},
    {"runs", 0, "N", CLI_INT, offsetof(bench_values, runs), .low = 1, .high = 1000,
     .help = "rounds, after some that are not counted; printed are medians, and of what the machine can do the best"},
    {"json", 0, NULL, CLI_FLAG, offsetof(bench_values, json), .help = "print one JSON object for each row"},
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
    v->divide = 1;
    v->runs = 9;
}

double bench_now(int threads) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

hst_context *bench_open(const bench_run *b, int threads) {
    return hst_open(&(hst_options){.size = sizeof(hst_options), .threads = threads, .isa = hst_isa(b->ctx)});
}

bool bench_close(const bench_run *b, hst_context *ctx) {
    hst_status status = ctx ? hst_get_status(ctx) : HST_ERROR_MEMORY;
    if (status != HST_OK) hst_fail(b->ctx, status, "%s", ctx ? hst_error(ctx) : "out of memory");
    hst_close(ctx);
    return status == HST_OK;
}

int bench_open_each(const bench_run *b, hst_context *contexts[2]) {
    int all = hst_thread_count(b->ctx), count = all > 1 ? 2 : 1;
    for (int i = 0; i < count; i++) {
        contexts[i] = bench_open(b, i == 0 ? 1 : all);
        if (contexts[i] && hst_get_status(contexts[i]) == HST_OK) continue;
        bench_close(b, contexts[i]);
        if (i == 1) hst_close(contexts[0]);
        return 0;
    }
    return count;
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

json_object bench_json(const char *what, const hst_context *like, int runs) {
    json_object json = json_begin(stdout);
    json_text(&json, "what", what);
    json_integer(&json, "threads", hst_thread_count(like));
    json_text(&json, "isa", hst_isa(like));
    json_integer(&json, "runs", runs);
    return json;
}

void bench_json_spread(json_object *json, const char *name, bench_spread s) {
    char part[64];
    json_real(json, name, s.median);
    snprintf(part, sizeof part, "%s_least", name);
    json_real(json, part, s.least);
    snprintf(part, sizeof part, "%s_most", name);
    json_real(json, part, s.most);
}

// What can be measured; "all" is everything.
static const struct {
    const char *name;
    bool (*measure)(const bench_run *b);
} subjects[] = {{"machine", bench_machine},    {"gemm", bench_gemm},           {"train", bench_train},
                {"generate", bench_generate},  {"embedding", bench_embedding}, {"recurrence", bench_recurrence},
                {"precision", bench_precision}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static int measure(bench_run *b, int first, int end) {
    if (b->v->text && !(b->text = cli_read_texts(b->ctx, 1, (char *[]){(char *)b->v->text})))
        return cli_failure(b->ctx, true);
    while (first < end && subjects[first].measure(b)) first++;
    return first < end ? cli_failure(b->ctx, b->text) : CLI_DONE; // a text may be too small
}

static int run(const void *values, int count, char **operands) {
    bench_run b = {.v = values};
    bool all = strcmp(operands[0], "all") == 0;
    int code = CLI_DONE, first = 0;
    (void)count;
    while (!all && first < SUBJECTS && strcmp(operands[0], subjects[first].name) != 0) first++;
    if (first == SUBJECTS) {
        cli_error("bench measures one of %s, not `%s`", cli_bench.operands, operands[0]);
        return CLI_USAGE;
    }
    b.ctx = cli_open(&b.v->common, NULL, NULL, &code);
    if (!b.ctx) return code;
    code = measure(&b, first, all ? SUBJECTS : first + 1);
    hst_close(b.ctx);
    return code;
}

static const cli_term examples[] = {
    {"halfstep bench all --text book.txt", "everything, some minutes"},
    {"halfstep bench gemm --threads 1", "products, beside what one thread can multiply"},
    {"halfstep bench train --runs 3", "a step of training, in fp32 and amp-bf16"},
    {"halfstep bench generate --json", "text, one symbol at a time, for a program to read"},
    {"halfstep bench precision", "every preset: speed, memory, loss, skipped steps"},
    {NULL, NULL}};

const cli_command cli_bench = {
    .name = "bench",
    .operands = "machine|gemm|train|generate|embedding|recurrence|precision|all",
    .at_least = 1,
    .at_most = 1,
    .summary = "speed beside what the machine can do",
    .details =
        "Each figure stands beside the machine's own limit, measured in turn with it and with as many threads, so "
        "that a busy machine is busy for both: compare shares, not seconds of different runs. machine has these "
        "limits alone: fused multiply-adds in registers, copies, reads of memory and of the last-level cache. gemm "
        "has the products of language models in f32, bf16 and f16, and those of few rows, which read weights. "
        "train has a step of 2 layers of 512 and 4 of 1024 on bytes, and of 2 of 640 with 10,000 symbols, in fp32 "
        "and amp-bf16. generate writes with 2 layers of 512, which the cache holds, and 6 of 1024, which it does "
        "not. embedding has lookup and gradient, of a large table whose rows are read as often as words in a text "
        "and of one with 8 rows; recurrence the SRU's, stored in each dtype; both beside a copy. precision trains "
        "2 layers of 512 (batch 32, length 128) and 6 (64, 256) in every preset, for speed, the peaks of memory by "
        "what it is for, the last loss and the skipped steps. machine, gemm and generate are measured with one "
        "thread and with all. One thread is timed by its own clock, several by the wall's.",
    .examples = examples,
    .options = options,
    .size = sizeof(bench_values),
    .defaults = defaults,
    .run = run,
};
