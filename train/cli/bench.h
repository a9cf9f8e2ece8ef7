// bench.h: what the files of `halfstep bench` share.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "train/cli/cli.h"

typedef struct bench_values {
    cli_common common;
    int64_t vocabulary, hidden, tokens;
    int64_t steps;
    const char *text; // NULL: one that is made up
    int runs;
    bool json;
} bench_values;

double cli_bench_now(void); // seconds, of a clock that only goes forward

// Each prints its tables; the exit code, after printing what is wrong.
int cli_bench_embedding(const bench_values *v);
int cli_bench_precision(const bench_values *v);

#endif
