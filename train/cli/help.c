// help.c: the overview of commands, and each command's --help, printed from its option table.
#include "train/cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 26, WIDTH = 100 }; // the column where an option's help starts, and where lines end

static const char exit_status[] =
    "Exit status: 0 done, 1 the run failed, 2 the command line is wrong, 3 an input or model file is wrong, 4 training "
    "diverged, 130 or 143 stopped by a signal after saving.";

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

// "help (from 1 to 64; default: 4)". Limits that nobody meets by accident are left to the error message.
static void print_meaning(FILE *out, const cli_option *option, const void *values) {
    char range[64] = "", value[64], notes[160] = "", line[512];
    if (option->high < 1e5) cli_describe_range(option, range, sizeof range);
    cli_format_value(option, values, value, sizeof value);
    const char *standard = option->standard ? option->standard : option->type == CLI_FLAG ? "" : value;
    if (*range && *standard)
        snprintf(notes, sizeof notes, " (%s; default: %s)", range, standard);
    else if (*range)
        snprintf(notes, sizeof notes, " (%s)", range);
    else if (*standard)
        snprintf(notes, sizeof notes, " (default: %s)", standard);
    snprintf(line, sizeof line, "%s%s", option->help, notes);
    print_wrapped(out, line, MARGIN);
}

static void print_options(FILE *out, const cli_option *table, const void *values) {
    for (; table && cli_table_goes_on(table); table++) {
        if (!table->name) {
            fprintf(out, "\n%s\n", table->help);
            continue;
        }
        const char *argument = table->argument ? table->argument : table->choices;
        char alias[8] = "    ", left[64];
        if (table->alias) snprintf(alias, sizeof alias, "-%c, ", table->alias);
        int column = snprintf(left, sizeof left, "  %s--%s%s%s", alias, table->name, argument ? " " : "",
                              argument ? argument : "");
        fprintf(out, "%s", left);
        if (column < MARGIN - 1)
            fprintf(out, "%*s", MARGIN - column, "");
        else
            fprintf(out, "\n%*s", MARGIN, "");
        print_meaning(out, table, values);
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
    fputc('\n', out);
    print_wrapped(out, exit_status, 0);
    free(values);
}

void cli_print_overview(FILE *out) {
    fprintf(out, "Usage: halfstep COMMAND [options] ...\n\nTrains small language models and uses them.\n\n");
    for (int i = 0; cli_commands[i]; i++) {
        int column = fprintf(out, "  %s %s", cli_commands[i]->name, cli_commands[i]->operands);
        fprintf(out, "%*s%s\n", MARGIN - column, "", cli_commands[i]->summary);
    }
    fprintf(out, "\nStart with: halfstep train book.txt\n");
}
