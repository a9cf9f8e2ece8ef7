// bench.c: `halfstep bench`: how near the library comes to what the machine can do, measured in the same run.
//
// The embedding moves memory and computes next to nothing, so the machine's limit is that of a copy. Counted is what
// must be moved at least: forward reads and writes a row for each token, the gradient reads one for each token and
// writes each row of the table.
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
    {.help = "Measuring"},
    {"runs", 0, "N", CLI_INT, offsetof(bench_values, runs), .low = 1, .high = 1000,
     .help = "rounds, after one that is not counted; printed are medians"},
    {"json", 0, NULL, CLI_FLAG, offsetof(bench_values, json), .help = "print one JSON object for each table and dtype"},
    {0}};

static void defaults(void *values) {
    bench_values *v = values;
    v->vocabulary = 50000;
    v->hidden = 512;
    v->tokens = 32768;
    v->length = 128;
    v->batch = 32;
    v->columns = 1024;
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

// ---- the embedding ----

// Tokens as in a text: the symbol of rank r comes 1/r as often as the first (Zipf). The symbols are numbered by rank.
static bool draw_tokens(int64_t *ids, int64_t count, int64_t vocabulary) {
    double *cumulative = malloc((size_t)vocabulary * sizeof *cumulative), sum = 0;
    uint64_t state = 1;
    if (!cumulative) return false;
    for (int64_t r = 0; r < vocabulary; r++) cumulative[r] = sum += 1 / (double)(r + 1);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(state >> 11) * 0x1p-53 * sum;
        int64_t low = 0, high = vocabulary - 1;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (cumulative[middle] <= u)
                low = middle + 1;
            else
                high = middle;
        }
        ids[i] = low;
    }
    free(cumulative);
    return true;
}

typedef struct figures {
    double forward, gradient, copy; // of a round: seconds, and bytes a second of the copy
    double rate, share;             // bytes a second of forward and gradient together, and their share of the copy's
} figures;

typedef struct table {
    const bench_values *v;
    hst_context *ctx;
    int64_t rows;
    hst_tensor *weights, *ids, *dy;
    bench_copy copy;
} table;

static bool make_table(table *t, int64_t *ids) {
    int64_t count = t->v->tokens, width = t->v->hidden;
    if (!draw_tokens(ids, count, t->rows)) return hst_fail(t->ctx, HST_ERROR_MEMORY, "out of memory"), false;
    t->weights = hst_uniform(t->ctx, HST_F32, HST_SHAPE(t->rows, width), -1, 1);
    t->ids = hst_from_array(t->ctx, HST_I64, HST_SHAPE(count), HST_I64, ids);
    t->dy = hst_uniform(t->ctx, HST_F32, HST_SHAPE(count, width), -1, 1);
    hst_tensor *from = hst_zeros(t->ctx, HST_F32, HST_SHAPE(count, width)),
               *to = hst_zeros(t->ctx, HST_F32, HST_SHAPE(count, width));
    if (hst_get_status(t->ctx) || hst_attach_grad(t->weights, HST_WRITE, HST_F32)) return false;
    size_t bytes = (size_t)(count * width) * sizeof(float);
    t->copy = (bench_copy){hst_mutable_data(to), hst_data(from), bytes, bytes};
    return true;
}

static figures measure_round(const table *t) {
    double row = (double)t->v->hidden * sizeof(float), tokens = (double)t->v->tokens, rows = (double)t->rows;
    figures f;
    f.copy = 2 * (double)t->copy.bytes / bench_time_copy(&t->copy, hst_thread_count(t->ctx));
    hst_scope_begin(t->ctx);
    double began = bench_now();
    hst_tensor *y = hst_embedding(t->weights, t->ids), *dy = t->dy;
    double between = bench_now();
    if (y) hst_backward_from(t->ctx, 1, &y, &dy);
    f.gradient = bench_now() - between;
    f.forward = between - began;
    hst_scope_end(t->ctx, NULL);
    f.rate = (3 * tokens + rows) * row / (f.forward + f.gradient);
    f.share = f.rate / f.copy;
    return f;
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

static void print_table(const table *t, const figures *rounds, int runs) {
    bench_spread forward = BENCH_SPREAD(rounds, runs, forward), gradient = BENCH_SPREAD(rounds, runs, gradient);
    bench_spread rate = BENCH_SPREAD(rounds, runs, rate), copied = BENCH_SPREAD(rounds, runs, copy),
                 share = BENCH_SPREAD(rounds, runs, share);
    if (t->v->json) {
        json_object json = json_begin(stdout);
        json_text(&json, "what", "embedding");
        json_integer(&json, "vocabulary", t->rows);
        json_integer(&json, "hidden", t->v->hidden);
        json_integer(&json, "tokens", t->v->tokens);
        json_integer(&json, "threads", hst_thread_count(t->ctx));
        json_text(&json, "isa", hst_isa(t->ctx));
        json_integer(&json, "runs", runs);
        json_real(&json, "forward_seconds", forward.median);
        json_real(&json, "gradient_seconds", gradient.median);
        json_real(&json, "bytes_per_second", rate.median);
        json_real(&json, "copy_bytes_per_second", copied.median);
        json_real(&json, "share_of_copy", share.median);
        json_real(&json, "share_of_copy_least", share.least);
        json_real(&json, "share_of_copy_most", share.most);
        json_end(&json);
        return;
    }
    printf("%lld rows\n", (long long)t->rows);
    printf("  forward   %8.2f ms   (%.2f to %.2f)\n", 1e3 * forward.median, 1e3 * forward.least, 1e3 * forward.most);
    printf("  gradient  %8.2f ms   (%.2f to %.2f)\n", 1e3 * gradient.median, 1e3 * gradient.least, 1e3 * gradient.most);
    printf("  both      %8.2f GB/s (%.2f to %.2f)\n", 1e-9 * rate.median, 1e-9 * rate.least, 1e-9 * rate.most);
    printf("  a copy    %8.2f GB/s (%.2f to %.2f)\n", 1e-9 * copied.median, 1e-9 * copied.least, 1e-9 * copied.most);
    printf("  share     %8.2f      (%.2f to %.2f)\n", share.median, share.least, share.most);
}

static bool bench_table(hst_context *ctx, const bench_values *v, int64_t rows, int64_t *ids) {
    figures rounds[BENCH_MAX_RUNS];
    table t = {.v = v, .ctx = ctx, .rows = rows};
    hst_scope_begin(ctx);
    bool made = make_table(&t, ids);
    for (int i = -1; made && i < v->runs; i++) rounds[i < 0 ? 0 : i] = measure_round(&t); // the first warms up
    hst_scope_end(ctx, NULL);
    if (hst_get_status(ctx)) return false;
    print_table(&t, rounds, v->runs);
    return true;
}

static bool bench_embedding(hst_context *ctx, const bench_values *v) {
    int64_t *ids = malloc((size_t)v->tokens * sizeof *ids);
    if (!ids) hst_fail(ctx, HST_ERROR_MEMORY, "out of memory for %lld tokens", (long long)v->tokens);
    if (ids && !v->json)
        printf("embedding, f32: %lld tokens of %lld numbers, %d threads, %s kernels, median of %d\n",
               (long long)v->tokens, (long long)v->hidden, hst_thread_count(ctx), hst_isa(ctx), v->runs);
    bool done = ids && bench_table(ctx, v, v->vocabulary, ids) && bench_table(ctx, v, 8, ids);
    free(ids);
    return done;
}

// What can be measured; "all" is everything.
static const struct {
    const char *name;
    bool (*measure)(hst_context *ctx, const bench_values *v);
} benches[] = {{"embedding", bench_embedding}, {"recurrence", bench_recurrence}};
enum { BENCHES = sizeof benches / sizeof *benches };

static int run(const void *values, int count, char **operands) {
    const bench_values *v = values;
    bool all = strcmp(operands[0], "all") == 0;
    int code = CLI_DONE, first = 0, end = BENCHES;
    (void)count;
    while (!all && first < BENCHES && strcmp(operands[0], benches[first].name) != 0) first++;
    if (first == BENCHES) {
        cli_error("bench measures the embedding, the recurrence, or all, not `%s`", operands[0]);
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
                                    {NULL, NULL}};

const cli_command cli_bench = {
    .name = "bench",
    .operands = "embedding|recurrence|all",
    .at_least = 1,
    .at_most = 1,
    .summary = "speed beside what the machine can do",
    .details = "Measures the embedding's forward and gradient, of a large table whose rows are read as often as words "
               "in a text and of one with 8 rows, or the SRU's recurrence, forward and backward, stored in each dtype, "
               "and prints the bytes moved in a second beside those of a plain copy by as many threads, measured in "
               "turn with it. Machines are shared: compare shares, not seconds of different runs.",
    .examples = examples,
    .options = options,
    .size = sizeof(bench_values),
    .defaults = defaults,
    .run = run,
};
