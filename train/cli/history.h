// history.h: the losses that a run's log tells of.
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include <stddef.h>

typedef struct history_point {
    double step, seconds, epoch; // of training; epoch NaN: not known
    double loss;                 // nats per symbol: of this step, or of an evaluation; NaN where it was not finite
    double smooth_loss;          // of a step: the running mean
} history_point;

typedef struct history_points {
    history_point *at;
    size_t count, room;
} history_points;

typedef struct history {
    history_points training, validation; // by step
    char symbol[24];                     // what a loss is per: "byte"; "symbol" where the log does not say
} history;

// Reads RUN/log.jsonl, or the log itself. CLI_DONE, or CLI_INPUT or CLI_FAILED with the sentence that says why in
// why[size]; in any case history_free is due.
int history_read(history *h, const char *path, char *why, size_t size);
void history_free(history *h);

// The place of the lowest validation loss, or -1.
long history_best(const history *h);

// The log that is meant by a run's path: the path itself, or in buffer[size]; returns it.
const char *history_log_path(const char *path, char *buffer, size_t size);

#endif
