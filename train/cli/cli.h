// cli.h: what the files of the command share: commands, exit codes, messages. See README.md for the map.
#ifndef CLI_H
#define CLI_H

#include "train/cli/options.h"
#include "train/halfstep.h"

#include <stdio.h>

// Exit codes; 130 and 143 (128 + signal) say that a signal stopped the run after saving.
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INPUT = 3, CLI_DIVERGED = 4 };

// Every command's options start with these; their table is cli_common_options.
typedef struct cli_common {
    int threads;     // 0: as many as the machine allows
    const char *isa; // NULL: $HALFSTEP_ISA, else auto
    int color;       // CLI_AUTO ...
    bool help;
} cli_common;

enum { CLI_AUTO, CLI_ALWAYS, CLI_NEVER };

typedef struct cli_command {
    const char *name;
    const char *operands;                                       // as the usage line shows them: "MODEL TEXT..."
    int at_least, at_most;                                      // how many; at_most < 0: any number
    const char *summary;                                        // one line
    const char *details;                                        // a paragraph for --help
    const cli_option *options;                                  // or NULL
    size_t size;                                                // of the struct that the options fill in
    void (*defaults)(void *values);                             // NULL: all zero
    int (*run)(const void *values, int count, char **operands); // returns the exit code
} cli_command;

extern const cli_command cli_train, cli_eval, cli_generate, cli_convert, cli_info, cli_help, cli_version;
extern const cli_command *const cli_commands[]; // ends with NULL
extern const cli_option cli_common_options[];

const cli_command *cli_find_command(const char *name); // NULL after printing which name is near
void *cli_new_values(const cli_command *command);      // its options at their defaults, for free(); NULL after an error

// ---- help.c ----
void cli_print_overview(FILE *out);
void cli_print_help(FILE *out, const cli_command *command);

// ---- message.c: one line each on stderr ----
void cli_set_color(int color); // CLI_AUTO: a terminal, TERM is not "dumb", NO_COLOR is unset or empty
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *cli_quoted(const char *text, char *buffer, size_t size); // as a shell reads it back; returns buffer
int cli_output_failure(int error); // says that stdout failed, and why (an errno); returns CLI_FAILED
int cli_close_stdout(int code);    // flushes; returns code, or, where that is CLI_DONE and a write failed, CLI_FAILED

// ---- context.c: the library, opened as the common options say ----
// NULL after printing why; *code is then the exit code. `log` may be NULL.
hst_context *cli_open(const cli_common *common, void (*log)(int level, const char *message, void *user), void *user,
                      int *code);
// Prints the context's error and returns its exit code. `reading`: an input was being read, which makes most errors
// CLI_INPUT.
int cli_failure(const hst_context *ctx, bool reading);
// Reads all texts into a new corpus, or a model (a file, or a run folder that holds model.safetensors). NULL after an
// error, which is the context's.
hst_corpus *cli_read_texts(hst_context *ctx, int count, char **paths);
hst_lm *cli_read_model(hst_context *ctx, const char *path);
const char *cli_model_path(const char *path, char *buffer, size_t size); // the file that a MODEL operand names
hst_lm *cli_read_byte_model(hst_context *ctx, const char *path);         // the same, with a vocabulary of 256

#endif
