// log.h: a run's record, RUN/log.jsonl: one flat JSON object a line, each with "event": start, step, eval, save, warn,
// end. Losses are in nats per byte, times in seconds since the run began. A line is on its way to the disk when the
// call returns; a torn last line is possible after a crash, until the run goes on.
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include "train/cli/json.h"
#include "train/halfstep.h"

typedef struct cli_log {
    FILE *file;  // NULL: none
    bool failed; // a write did; said once
} cli_log;

// `append` to the log of a run that goes on. false after printing what is wrong.
bool cli_log_open(cli_log *log, const char *folder, bool append);
void cli_log_close(cli_log *log);

// A line's begin, to be filled in by the caller, and its end. Without a file nothing is written.
bool cli_log_begin(cli_log *log, const char *event, json_object *json);
void cli_log_end(cli_log *log, json_object *json);

// The line of a step, an evaluation or a save.
void cli_log_progress(cli_log *log, const hst_progress *progress);

#endif
