// bench.h: what the measurements of `halfstep bench` share: options, clocks, medians, the machine's ceilings, trainers.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "train/cli/cli.h"

typedef struct bench_values {
    cli_common common;
    int64_t vocabulary, hidden, tokens; // the embedding's
    int64_t length, batch, columns;     // the recurrence's
    int64_t steps;                      // the precisions'
    int64_t divide;                     // sizes of products, models and memory by this
    const char *text;                   // what is learnt; NULL: a text that is made up
    int runs;
    bool json;
} bench_values;

// A call of the command. The context has the threads and kernels to measure, and takes the errors.
typedef struct bench_run {
    hst_context *ctx;
    const bench_values *v;
    const hst_corpus *text; // or NULL
} bench_run;

enum { BENCH_MAX_RUNS = 1000 };

// Seconds by the clock for a job of so many threads: one thread's own, which stands still while others use the
// processor, or the wall's.
double bench_now(int threads);

// A context of b's kind with so many threads; closed by bench_close, which hands an error on to b's: false.
hst_context *bench_open(const bench_run *b, int threads);
bool bench_close(const bench_run *b, hst_context *ctx);
// One with one thread, and, where b's has more, one with as many: their number, or 0 after an error.
int bench_open_each(const bench_run *b, hst_context *contexts[2]);

// The next of a row of numbers in [0, 1) that is the same in each run; it begins with *state = 1.
static inline double bench_draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

// The median, the least and the greatest of one double of `count` structs of `size` bytes, `offset` into each.
typedef struct bench_spread {
    double median, least, most;
} bench_spread;
bench_spread bench_spread_of(const void *rounds, size_t size, int count, size_t offset);
#define BENCH_SPREAD(rounds, count, field)                                                                             \
    bench_spread_of(rounds, sizeof *(rounds), count, (size_t)((const char *)&(rounds)->field - (const char *)(rounds)))

// The fields that every object begins with, and three for a spread: name, name_least, name_most.
json_object bench_json(const char *what, const hst_context *like, int runs);
void bench_json_spread(json_object *json, const char *name, bench_spread s);

// ---- bench_machine.c: what the machine can do, with the threads and the vectors of the kernels of `like` ----

// Floating-point operations a second: fused multiply-adds, or products of bf16 pairs where the kernels have those; by a
// loop that is shorter by `divide`.
double bench_multiply(const hst_context *like, hst_dtype dtype, int64_t divide);
bool bench_multiplies_bf16(const hst_context *like);
// Bytes a second, these bytes read so many times, up to a multiple of 512.
double bench_read(const hst_context *like, const char *from, size_t bytes, int64_t times);
// A copy of memory, in pieces of so many bytes. The C library goes past the caches with large ones: a piece of all the
// bytes is the fastest copy, pieces of BENCH_PLAIN are made of ordinary stores.
typedef struct bench_copy {
    char *to;
    const char *from;
    size_t bytes, piece;
} bench_copy;
enum { BENCH_PLAIN = 4096 };
double bench_time_copy(const bench_copy *whole, int threads); // seconds

char *bench_bytes(hst_context *ctx, size_t bytes); // of whole pages, written to, for free(); NULL after an error

// ---- bench_train.c ----

typedef struct bench_model {
    int layers;
    int64_t hidden, vocabulary, batch, length;
} bench_model;

// A trainer of that model in `ctx`, for so many steps, on b's text or one that is made up (always where symbols are not
// bytes). It goes with the context; NULL after an error.
hst_trainer *bench_trainer(hst_context *ctx, const bench_run *b, const bench_model *m, hst_precision_kind precision,
                           int64_t steps);

// Each prints its tables; false after an error, b's context's.
bool bench_machine(const bench_run *b);
bool bench_gemm(const bench_run *b);
bool bench_train(const bench_run *b);
bool bench_generate(const bench_run *b);
bool bench_embedding(const bench_run *b);
bool bench_recurrence(const bench_run *b);
bool bench_precision(const bench_run *b);

#endif
