// train_options.h: the options of `halfstep train`.
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include "train/cli/cli.h"

typedef struct cli_train_values {
    cli_common common;
    hst_train_options train;
    const char *output;
    const char *from, *val; // paths, or NULL
    double val_split;
    int tokenizer, unknown;
    bool force, resume, dry_run, quiet, json;
} cli_train_values;

enum { CLI_BYTES, CLI_CHARACTERS }; // --tokenizer

extern const cli_option cli_train_options[];
void cli_train_defaults(void *values);

// Whether the options go together; false after printing what does not.
bool cli_train_options_fit(const cli_train_values *values);

#endif
