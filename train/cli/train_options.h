// train_options.h: the options of `halfstep train`.
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include "train/cli/cli.h"

typedef struct cli_train_values {
    cli_common common;
    hst_train_options train;
    const char *output;
    const char *from, *val, *deepspeed; // paths, or NULL
    double loss_scale;                  // 0: one that changes; below 0: the preset's
    double val_split;
    int tokenizer, unknown;
    bool force, resume, dry_run, quiet, json;
} cli_train_values;

enum { CLI_BYTES, CLI_CHARACTERS }; // --tokenizer

extern const cli_option cli_train_options[];
#define CLI_PRECISION_HEADING "Mixed precision"
void cli_train_defaults(void *values);
bool cli_train_is_given(const cli_train_values *values, const char *name); // an option of this name

// Whether the options go together; false after printing what does not.
bool cli_train_options_fit(const cli_train_values *values);

// ---- precision.c: the options of mixed precision ----

// Whether these go together, and then what --loss-scale means for the trainer; false after printing what does not.
bool cli_precision_fit(cli_train_values *values);
// The first of them that is given, or NULL.
const cli_option *cli_precision_find_given(const cli_train_values *values);
// Whether an option is one of these, and may stand beside --resume.
bool cli_is_of_precision(const cli_option *option);
// What the trainer made of them: the rest of `values` from values->train; and the plan's lines about it.
void cli_precision_take(cli_train_values *values);
void cli_precision_print(const cli_train_values *values, FILE *out);

#endif
