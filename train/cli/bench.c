// bench.c: `halfstep bench`: how near the library comes to what the machine can do, measured in the same run. Each
// subject has a file of its own.
#include "train/cli/bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const cli_option options[] = {
    {.help = "The embedding"},
    {"vocabulary", 0, "V", CLI_INT64, offsetof(bench_values, vocabulary), .low = 1, .high = 1e9,
     .help = "rows of the large table; the small one has 8"},
    {"hidden", 0, "D", CLI_INT64, offsetof(bench_values, hidden), .low = 1, .high = 1e6, .help = "numbers in a row"},
    {"tokens", 0, "N", CLI_INT64, offsetof(bench_values, tokens), .low = 1, .high = 1e9, .help = "rows that are read"},
    {"runs", 0, "N", CLI_INT, offsetof(bench_values, runs), .low = 1, .high = 1000,
     .help = "rounds, after one that is not counted; printed are medians"},
    {.help = "The precisions"},
    {"steps", 0, "N", CLI_INT64, offsetof(bench_values, steps), .low = 1, .high = 1e6,
     .help = "timed steps of the small model, after two; the large one has a tenth"},
    {"text", 0, "FILE", CLI_FILE, offsetof(bench_values, text), .standard = "made up", .help = "what the models learn"},
    {.help = "Reports"},
    {"json", 0, NULL, CLI_FLAG, offsetof(bench_values, json), .help = "print one JSON object for each table, or row"},
    {0}};

static void defaults(void *values) {
    bench_values *v = values;
    v->vocabulary = 50000;
    v->hidden = 512;
    v->tokens = 32768;
    v->runs = 9;
    v->steps = 30;
}

double cli_bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the subjects ----

static const struct {
    const char *name;
    int (*run)(const bench_values *v);
} subjects[] = {{"embedding", cli_bench_embedding}, {"precision", cli_bench_precision}};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static int run(const void *values, int count, char **operands) {
    bool all = strcmp(operands[0], "all") == 0, found = all;
    int code = CLI_DONE;
    (void)count;
    for (int i = 0; i < SUBJECTS && code == CLI_DONE; i++) {
        if (!all && strcmp(operands[0], subjects[i].name) != 0) continue;
        found = true;
        code = subjects[i].run(values);
    }
    if (found) return code;
    cli_error("bench measures the embedding, the precisions, or all, not `%s`", operands[0]);
    return CLI_USAGE;
}

static const cli_term examples[] = {{"halfstep bench embedding", "forward and gradient, beside a copy of memory"},
                                    {"halfstep bench embedding --threads 1 --json", "the same for a program to read"},
                                    {"halfstep bench precision", "every preset: speed, memory, loss, skipped steps"},
                                    {NULL, NULL}};

const cli_command cli_bench = {
    .name = "bench",
    .operands = "embedding|precision|all",
    .at_least = 1,
    .at_most = 1,
    .summary = "speed beside what the machine can do",
    .details = "embedding measures its forward and gradient, of a large table whose rows are read as often as words in "
               "a text and of one with 8 rows, and prints the bytes moved in a second beside those of a plain copy by "
               "as many threads, measured in turn with it. precision trains 2 layers of 512 (batch 32, length 128) and "
               "6 of 512 (64, 256) in every preset and prints symbols a second, the peaks of memory by what it is for, "
               "the last loss and the skipped steps. Machines are shared: compare shares, not seconds of different "
               "runs.",
    .examples = examples,
    .options = options,
    .size = sizeof(bench_values),
    .defaults = defaults,
    .run = run,
};
