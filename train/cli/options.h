// options.h: option tables. One table a command drives the parser, --help, the manual page, the completions, and the
// configuration in a run's log:
//
//     static const cli_option options[] = {
//         {.help = "The model"},                                      // a heading
//         {"layers", 0, "N", CLI_INT, offsetof(values, layers), .low = 1, .high = 64, .help = "SRU layers"},
//         {"quiet", 'q', NULL, CLI_FLAG, offsetof(values, quiet), .help = "only warnings and errors"},
//         {0}};                                                       // the end
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "train/cli/json.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum cli_type {
    CLI_FLAG,    // bool, takes no argument
    CLI_SWITCH,  // bool: which of two `choices`, the second is true
    CLI_INT,     // int
    CLI_INT64,   // int64_t
    CLI_SEED,    // uint64_t, all of them
    CLI_REAL,    // double; `choices` may be a word for 0
    CLI_SECONDS, // double: "90", "90s", "3m", "1h30m"
    CLI_CHOICE,  // int: which of `choices`
    CLI_TEXT,    // const char *
    CLI_FILE,    // const char *: a path; completions offer files,
    CLI_FOLDER   // or folders
} cli_type;

typedef enum cli_ends { CLI_BOTH, CLI_ABOVE_LOW, CLI_BELOW_HIGH } cli_ends; // which ends belong to the range

typedef struct cli_option {
    const char *name;     // without the dashes; NULL: `help` is a heading, or, without one, the table ends
    char alias;           // one letter, or 0
    const char *argument; // what help calls the value: "N"
    cli_type type;
    size_t offset;    // of the target in the command's struct
    double low, high; // numbers: the range; high may be INFINITY
    cli_ends ends;
    const char *choices;  // "adamw|sgd"
    const char *standard; // the default in words, where the value does not speak for itself
    const char *help;
} cli_option;

enum { CLI_MAX_OPTIONS = 128 }; // of a command, with the common ones

static inline bool cli_table_goes_on(const cli_option *option) { return option->name || option->help; }

// Visits the options of a command: first its own table (or NULL), then the common one, without headings.
//
//     cli_walk walk = cli_walk_options(table);
//     for (const cli_option *o; (o = cli_next_option(&walk));) ...
typedef struct cli_walk {
    const cli_option *next, *then;
} cli_walk;
cli_walk cli_walk_options(const cli_option *table);
const cli_option *cli_next_option(cli_walk *walk); // NULL after the last

// Parses the arguments after the verb into `values`, an option's long name with "--name value" or "--name=value". What
// is not an option is moved to the front of `arguments`, *count says how many; "--" ends the options. false after
// printing what is wrong. A NULL table is empty; the list of arguments ends with NULL.
bool cli_parse(const char *command, const cli_option *table, void *values, char **arguments, int *count);

// Whether the command line had this option of the table, be it with its default; and as if it had.
bool cli_is_given(const cli_option *table, const void *values, const cli_option *option);
void cli_set_given(const cli_option *table, void *values, const cli_option *option);
// The option of this name; NULL where the table has none.
const cli_option *cli_find_option(const cli_option *table, const char *name, size_t length);

// ---- values.c: one option's text to its target, and back ----

// false where `text` is not a whole value in range.
bool cli_set_value(const cli_option *option, void *values, const char *text);
// What such a value must be: "an integer from 1 to 64". Into buffer[size]; returns buffer.
const char *cli_describe_type(const cli_option *option, char *buffer, size_t size);
// The range alone, "from 1 to 64", or "" where there is none to tell.
const char *cli_describe_range(const cli_option *option, char *buffer, size_t size);
// The value that `values` holds, as text that cli_set_value takes; "" for an unset text.
const char *cli_format_value(const cli_option *option, const void *values, char *buffer, size_t size);
// All values of a table as fields, '-' in names written as '_'.
void cli_options_json(json_object *json, const cli_option *table, const void *values);

// ---- nearest.c ----

// The name in names[0], names[1], ... NULL that is fewest edits away from `text`, or NULL where none is near.
const char *cli_nearest(const char *text, const char *const *names);

#endif
