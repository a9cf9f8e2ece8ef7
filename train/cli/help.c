// help.c: `halfstep help`: the overview of commands, and each command's --help, printed from its tables.
#include "train/cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 28, WIDTH = 100 }; // the column where meanings start, and where lines end

const cli_term cli_exit_codes[] = {
    {"0", "done"},
    {"1", "the run failed: a file that could not be written, memory"},
    {"2", "the command line is wrong"},
    {"3", "an input or a model file is wrong: missing, unreadable, empty, too small, damaged"},
    {"4", "training diverged; what was saved before is kept"},
    {"129, 130, 143", "stopped by SIGHUP, SIGINT or SIGTERM, after saving"},
    {NULL, NULL}};

const cli_term cli_environment[] = {
    {"HALFSTEP_ISA", "the kernels to use where --isa is not given: auto, or a name that `halfstep info` lists"},
    {"NO_COLOR", "where it is set and not empty, messages have no colour unless --color always is given"},
    {"TERM", "where it is dumb or not set, messages have no colour; where it is dumb, progress is plain lines"},
    {"SOURCE_DATE_EPOCH",
     "seconds since 1970: the date on the pages of `halfstep help --man`, which have none without"},
    {NULL, NULL}};

const cli_term cli_examples[] = {{"halfstep train book.txt", "trains a model on a text, into the folder book.run"},
                                 {"halfstep generate book.run --prompt 'It was '", "writes like it"},
                                 {NULL, NULL}};

// Prints text from column `indent` on, broken at spaces, further lines indented alike.
static void print_wrapped(FILE *out, const char *text, int indent) {
    int column = indent;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > WIDTH) column = fprintf(out, "\n%*s", indent, "") - 1;
        column += fprintf(out, column > indent ? " %.*s" : "%.*s", word, text);
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

// A name in the left column, its meaning in the right one, or below where the name is too long.
static void print_term(FILE *out, const char *name, const char *meaning) {
    int column = fprintf(out, "  %s", name);
    if (column < MARGIN - 1)
        fprintf(out, "%*s", MARGIN - column, "");
    else
        fprintf(out, "\n%*s", MARGIN, "");
    print_wrapped(out, meaning, MARGIN);
}

static void print_terms(FILE *out, const char *heading, const cli_term *terms) {
    if (terms) fprintf(out, "\n%s\n", heading);
    for (; terms && terms->name; terms++) print_term(out, terms->name, terms->meaning);
}

// Limits that nobody meets by accident are left to the error message.
const char *cli_explain_option(const cli_option *option, const void *values, char *buffer, size_t size) {
    char range[64] = "", value[64];
    if (option->high < 1e5) cli_describe_range(option, range, sizeof range);
    cli_format_value(option, values, value, sizeof value);
    const char *standard = option->standard ? option->standard : option->type == CLI_FLAG ? "" : value;
    if (*range && *standard)
        snprintf(buffer, size, "%s (%s; default: %s)", option->help, range, standard);
    else if (*range)
        snprintf(buffer, size, "%s (%s)", option->help, range);
    else if (*standard)
        snprintf(buffer, size, "%s (default: %s)", option->help, standard);
    else
        snprintf(buffer, size, "%s", option->help);
    return buffer;
}

static void print_options(FILE *out, const cli_option *table, const void *values) {
    for (; table && cli_table_goes_on(table); table++) {
        if (!table->name) {
            fprintf(out, "\n%s\n", table->help);
            continue;
        }
        const char *argument = table->argument ? table->argument : table->choices;
        char alias[8] = "    ", name[64], meaning[512];
        if (table->alias) snprintf(alias, sizeof alias, "-%c, ", table->alias);
        snprintf(name, sizeof name, "%s--%s%s%s", alias, table->name, argument ? " " : "", argument ? argument : "");
        print_term(out, name, cli_explain_option(table, values, meaning, sizeof meaning));
    }
}

void cli_print_help(FILE *out, const cli_command *command) {
    void *values = cli_new_values(command);
    if (!values) return;
    fprintf(out, "Usage: halfstep %s [options]%s%s\n\n", command->name, *command->operands ? " " : "",
            command->operands);
    print_wrapped(out, command->details, 0);
    print_options(out, command->options, values);
    print_options(out, cli_common_options, values);
    print_terms(out, "Examples", command->examples);
    print_terms(out, "Exit status", cli_exit_codes);
    free(values);
}

void cli_print_overview(FILE *out) {
    fprintf(out, "Usage: halfstep COMMAND [options] ...\n\nTrains small language models and uses them.\n\n");
    for (int i = 0; cli_commands[i]; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s %s", cli_commands[i]->name, cli_commands[i]->operands);
        print_term(out, name, cli_commands[i]->summary);
    }
    print_terms(out, "Examples", cli_examples);
    print_terms(out, "Environment", cli_environment);
}

// ---- the command ----

typedef struct help_values {
    cli_common common;
    bool manual;
} help_values;

static const cli_option options[] = {
    {.help = "Form"},
    {"man", 0, NULL, CLI_FLAG, offsetof(help_values, manual), .help = "as a manual page, for man or a file"},
    {0}};

static const cli_term examples[] = {{"halfstep help train", "lists the options of train"},
                                    {"halfstep help train --man | man -l -", "shows its manual page"},
                                    {NULL, NULL}};

static int run(const void *values, int count, char **operands) {
    const help_values *v = values;
    const cli_command *command = count ? cli_find_command(operands[0]) : NULL;
    if (count && !command) return CLI_USAGE;
    if (v->manual)
        cli_print_manual(stdout, command);
    else if (command)
        cli_print_help(stdout, command);
    else
        cli_print_overview(stdout);
    return CLI_DONE;
}

const cli_command cli_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .at_most = 1,
    .summary = "this, or all about one command",
    .details = "Prints the list of commands, or all about one.",
    .examples = examples,
    .options = options,
    .size = sizeof(help_values),
    .run = run,
};
