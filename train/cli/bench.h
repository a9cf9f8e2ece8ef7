// bench.h: what the measurements of `halfstep bench` share: options, a clock, the copy that is the machine's limit,
// medians.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "train/cli/cli.h"

typedef struct bench_values {
    cli_common common;
    int64_t vocabulary, hidden, tokens; // the embedding's
    int64_t length, batch, columns;     // the recurrence's
    int64_t steps;                      // the precisions'
    const char *text;                   // the same; NULL: one that is made up
    int runs;
    bool json;
} bench_values;

enum { BENCH_MAX_RUNS = 1000 };

double bench_now(void); // seconds

// The next of a row of numbers in [0, 1) that is the same in each run; it begins with *state = 1.
static inline double bench_draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

// A copy of memory, in pieces of so many bytes. The C library goes past the caches with large ones: a piece of all the
// bytes is the fastest copy, pieces of BENCH_PLAIN are made of ordinary stores.
typedef struct bench_copy {
    char *to;
    const char *from;
    size_t bytes, piece;
} bench_copy;
enum { BENCH_PLAIN = 4096 };
double bench_time_copy(const bench_copy *whole, int threads); // by so many threads together, their start included

// The median, the least and the greatest of one double of `count` structs of `size` bytes, `offset` into each.
typedef struct bench_spread {
    double median, least, most;
} bench_spread;
bench_spread bench_spread_of(const void *rounds, size_t size, int count, size_t offset);
#define BENCH_SPREAD(rounds, count, field)                                                                             \
    bench_spread_of(rounds, sizeof *(rounds), count, (size_t)((const char *)&(rounds)->field - (const char *)(rounds)))

// Each prints its tables; false after an error, the context's.
bool bench_embedding(hst_context *ctx, const bench_values *v);
bool bench_recurrence(hst_context *ctx, const bench_values *v);
bool bench_precision(hst_context *ctx, const bench_values *v);

#endif
