// cli.h: what the files of the command share: commands, exit codes, messages. See README.md for the map.
#ifndef CLI_H
#define CLI_H

#include "train/cli/options.h"
#include "train/halfstep.h"

#include <stdio.h>

// Exit codes; 129, 130 and 143 (128 + signal) say that a signal stopped the run after saving.
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INPUT = 3, CLI_DIVERGED = 4 };

// Every command's options start with these; their table is cli_common_options.
typedef struct cli_common {
    int threads;     // 0: as many as the machine allows
    const char *isa; // NULL: $HALFSTEP_ISA, else auto
    int color;       // CLI_AUTO ...
    bool help;
    bool unsafe;                 // accumulation; set by the commands that offer it
    bool given[CLI_MAX_OPTIONS]; // cli_is_given, in the order of cli_walk_options
} cli_common;

enum { CLI_AUTO, CLI_ALWAYS, CLI_NEVER };

typedef struct cli_term {
    const char *name, *meaning; // a list of them ends with a NULL name
} cli_term;

// All that is known about a command. The parser, --help, the manual page and the completions are made from it.
typedef struct cli_command {
    const char *name;
    const char *operands;                                       // as the usage line shows them: "MODEL TEXT..."; a
                                                                // path each, but for COMMAND and choices "a|b"
    int at_least, at_most;                                      // how many; at_most < 0: any number
    const char *summary;                                        // one line
    const char *details;                                        // a paragraph
    const cli_term *examples;                                   // or NULL: command lines, and what they do
    const cli_term *files;                                      // or NULL: what it leaves behind
    const cli_option *options;                                  // or NULL
    size_t size;                                                // of the struct that the options fill in
    void (*defaults)(void *values);                             // NULL: all zero
    int (*run)(const void *values, int count, char **operands); // returns the exit code
} cli_command;

// Every verb, in the order of help: `name` is the command cli_<name>.
// clang-format off
#define CLI_COMMANDS(X) \
    X(train) \
    X(eval) \
    X(generate) \
    X(convert) \
    X(info) \
    X(plot) \
    X(doctor) \
    X(bench) \
    X(completion) \
    X(help) \
    X(version)
// clang-format on
#define CLI_COMMAND_DECLARATION(name) extern const cli_command cli_##name;
CLI_COMMANDS(CLI_COMMAND_DECLARATION)
extern const cli_command *const cli_commands[]; // ends with NULL
extern const cli_option cli_common_options[];

const cli_command *cli_find_command(const char *name); // NULL after printing which name is near
void *cli_new_values(const cli_command *command);      // its options at their defaults, for free(); NULL after an error

// ---- help.c ----
extern const cli_term cli_examples[], cli_exit_codes[], cli_environment[]; // what holds for all commands
void cli_print_overview(FILE *out);
void cli_print_help(FILE *out, const cli_command *command);
// What an option means, with its range and default, "layers (from 1 to 64; default: 4)". Returns buffer.
const char *cli_explain_option(const cli_option *option, const void *values, char *buffer, size_t size);

// ---- manual.c ----
void cli_print_manual(FILE *out, const cli_command *command); // as roff; NULL: the page of the whole, halfstep(1)

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
// A `log` that prints warnings.
void cli_print_message(int level, const char *message, void *user);
// Prints the context's error and returns its exit code. `reading`: an input was being read, which makes most errors
// CLI_INPUT.
int cli_failure(const hst_context *ctx, bool reading);
// Reads all texts into a new corpus, or a model (a file, or a run folder that holds model.safetensors) with what its
// symbols stand for. NULL after an error, which is the context's.
hst_corpus *cli_read_texts(hst_context *ctx, int count, char **paths);
hst_lm *cli_read_model(hst_context *ctx, const char *path, hst_tokenizer **tokenizer);
// The file that cli_read_model reads for `path`: the path itself, or in buffer[size].
const char *cli_model_path(const char *path, char *buffer, size_t size);

// What to do with characters that a tokenizer has no symbol for: the choices of --unknown.
enum { CLI_UNKNOWN_ERROR, CLI_UNKNOWN_SKIP };
#define CLI_UNKNOWN_CHOICES "error|skip"

// The dtype in which products read the weights: the choices of --weights, and what one means for a model.
#define CLI_WEIGHTS_CHOICES "stored|f32|f16|bf16"
hst_dtype cli_weights(int choice, const hst_lm *model);

#endif
