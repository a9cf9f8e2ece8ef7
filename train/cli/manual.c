// manual.c: manual pages in roff, man(7), made from the tables that --help is made from. Three things are special:
//
//     \-     a dash to be typed; a plain - is a hyphen, which cannot be copied or searched for
//     \fB    bold, for what is typed as it stands; \fI italic, for what stands for something; \fP back
//     . '    begin a request at a line's start; \& before them makes them text
#include "train/cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 78 }; // of the source's lines

static void put_character(FILE *out, char c) {
    const char *name = c == '-' ? "\\-" : c == '\\' ? "\\e" : c == '\'' ? "\\(aq" : c == '^' ? "\\(ha" : NULL;
    if (c == '~') name = "\\(ti";
    if (name)
        fputs(name, out);
    else
        fputc(c, out);
}

// Text that is typed as it stands.
static void put_literal(FILE *out, const char *text) {
    fputs("\\fB", out);
    for (; *text; text++) put_character(out, *text);
    fputs("\\fP", out);
}

// Names in capitals stand for something: "MODEL TEXT...", "bash|zsh".
static void put_placeholders(FILE *out, const char *text) {
    while (*text) {
        int capitals = (int)strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), small = 0;
        while (islower((unsigned char)text[small])) small++;
        if (capitals)
            fprintf(out, "\\fI%.*s\\fP", capitals, text);
        else if (small)
            fprintf(out, "\\fB%.*s\\fP", small, text);
        else
            put_character(out, *text);
        text += capitals + small + (capitals + small == 0);
    }
}

// One word of a sentence. Words in `backquotes` become bold; a dash is one to be typed where an option begins with it
// or a digit follows.
static void put_word(FILE *out, const char *word, int length, bool *literal) {
    bool option = word[strspn(word, "(`")] == '-';
    for (int i = 0; i < length; i++) {
        if (word[i] == '`')
            fputs((*literal = !*literal) ? "\\fB" : "\\fP", out);
        else if (word[i] == '-' && !*literal && !option && !isdigit((unsigned char)word[i + 1]))
            fputc('-', out);
        else
            put_character(out, word[i]);
    }
}

static void put_sentence(FILE *out, const char *text) {
    bool literal = false;
    for (int column = 0; *text;) {
        int word = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + word > WIDTH - 12) { // escapes make words longer
            fputc('\n', out);
            column = 0;
        }
        if (column > 0) fputc(' ', out);
        if (column == 0 && (*text == '.' || *text == '\'')) fputs("\\&", out);
        put_word(out, text, word, &literal);
        column += word + 1;
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

static void put_terms(FILE *out, const char *section, const cli_term *terms) {
    if (terms) fprintf(out, ".SH %s\n", section);
    for (; terms && terms->name; terms++) {
        fputs(".TP\n", out);
        put_literal(out, terms->name);
        fputc('\n', out);
        put_sentence(out, terms->meaning);
    }
}

static void put_options(FILE *out, const cli_option *table, const void *values) {
    for (; table && cli_table_goes_on(table); table++) {
        if (!table->name) {
            fprintf(out, ".SS %s\n", table->help);
            continue;
        }
        char name[64], meaning[512];
        const char *argument = table->argument ? table->argument : table->choices;
        fputs(".TP\n", out);
        if (table->alias) fprintf(out, "\\fB\\-%c\\fP, ", table->alias);
        snprintf(name, sizeof name, "--%s", table->name);
        put_literal(out, name);
        if (argument) fputc(' ', out);
        if (argument) put_placeholders(out, argument);
        fputc('\n', out);
        put_sentence(out, cli_explain_option(table, values, meaning, sizeof meaning));
    }
}

// No date but a given one, so that the same source always gives the same page.
static void put_title(FILE *out, const char *name) {
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    char date[32] = "";
    time_t seconds = epoch ? (time_t)strtoll(epoch, NULL, 10) : 0;
    struct tm utc;
    if (epoch && gmtime_r(&seconds, &utc)) strftime(date, sizeof date, "%Y-%m-%d", &utc);
    fputs(".TH HALFSTEP", out);
    if (*name) fputs("\\-", out);
    for (; *name; name++) fputc(toupper((unsigned char)*name), out);
    fprintf(out, " 1 \"%s\" \"halfstep %s\" \"halfstep manual\"\n", date, hst_version());
}

// SEE ALSO: the other pages.
static void put_references(FILE *out, const cli_command *command) {
    fputs(".SH SEE ALSO\n", out);
    if (command) fputs(".BR halfstep (1),\n", out);
    for (int i = 0; cli_commands[i]; i++)
        if (cli_commands[i] != command) fprintf(out, ".BR halfstep\\-%s (1),\n", cli_commands[i]->name);
    fputs(".BR halfstep (3)\n", out);
}

static void put_command(FILE *out, const cli_command *command, const void *values) {
    put_title(out, command->name);
    fprintf(out, ".SH NAME\nhalfstep\\-%s \\- ", command->name);
    put_sentence(out, command->summary);
    fprintf(out, ".SH SYNOPSIS\n\\fBhalfstep %s\\fP [\\fIoptions\\fP]%s", command->name, *command->operands ? " " : "");
    put_placeholders(out, command->operands);
    fputs("\n.SH DESCRIPTION\n", out);
    put_sentence(out, command->details);
    fputs(".SH OPTIONS\n", out);
    put_options(out, command->options, values);
    put_options(out, cli_common_options, values);
    put_terms(out, "EXIT STATUS", cli_exit_codes);
    put_terms(out, "ENVIRONMENT", cli_environment);
    put_terms(out, "FILES", command->files);
    put_terms(out, "EXAMPLES", command->examples);
    put_references(out, command);
}

static void put_overview(FILE *out, const void *values) {
    put_title(out, "");
    fputs(".SH NAME\nhalfstep \\- trains small language models and uses them\n"
          ".SH SYNOPSIS\n\\fBhalfstep\\fP \\fICOMMAND\\fP [\\fIoptions\\fP] ...\n.SH DESCRIPTION\n",
          out);
    put_sentence(out, "Results go to standard output, everything else to standard error. Each command has a page of "
                      "its own:");
    for (int i = 0; cli_commands[i]; i++) {
        fprintf(out, ".TP\n\\fB%s\\fP%s", cli_commands[i]->name, *cli_commands[i]->operands ? " " : "");
        put_placeholders(out, cli_commands[i]->operands);
        fputc('\n', out);
        put_sentence(out, cli_commands[i]->summary);
    }
    fputs(".SH OPTIONS\n", out);
    put_options(out, cli_common_options, values);
    put_terms(out, "EXIT STATUS", cli_exit_codes);
    put_terms(out, "ENVIRONMENT", cli_environment);
    put_terms(out, "FILES", cli_train.files);
    put_terms(out, "EXAMPLES", cli_examples);
    put_references(out, NULL);
}

void cli_print_manual(FILE *out, const cli_command *command) {
    void *values = cli_new_values(command ? command : &cli_version); // of all commands the one with common options only
    if (values && command) put_command(out, command, values);
    if (values && !command) put_overview(out, values);
    free(values);
}
