// run.h: one call of `halfstep train`, for the files it is made of: report.c tells, prepare.c reads and checks,
// dry_run.c tries, train.c runs.
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "train/cli/log.h"
#include "train/cli/progress.h"
#include "train/cli/train_options.h"

typedef struct run {
    cli_train_values v; // output is always set, steps once planned
    int texts;
    char **paths;
    hst_context *ctx;
    hst_corpus *text, *held_out; // held_out NULL: no validation
    hst_tokenizer *tokenizer;
    hst_trainer *trainer;
    cli_log log;
    cli_progress progress;
    hst_progress now;                // the last state reported
    bool saved;                      // since this run began
    bool sizes_chosen;               // by --time
    double memory_bytes, file_bytes; // what it will need, by estimate
} run;

// Prints a warning and logs it.
void cli_run_warn(run *r, const char *message);

// Notes what has been planned, and prints it.
void cli_run_take_plan(run *r, const hst_progress *p);
// The log's first line and its last: how it ended ("done"), and the error, or NULL.
void cli_run_log_start(run *r);
void cli_run_log_end(run *r, const char *result, const char *error);

// A few steps of a prepared run without its folder, and what all of it would take; the exit code.
int cli_dry_run(run *r);

// Whether the run to go on with, if there is one, was made with unsafe accumulation: a context is opened so.
bool cli_run_was_unsafe(const run *r);

// Reads the texts and makes the trainer, with everything that could fail at the end tried before the first step; opens
// the folder and its log unless this is a dry run. The exit code, after printing what is wrong.
int cli_run_prepare(run *r);

#endif
