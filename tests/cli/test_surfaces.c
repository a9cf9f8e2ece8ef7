// test_surfaces.c: help, manual pages and completions are made from one table of options; here they are compared with
// each other and with what the parser takes. The verbs and options are those that the help lists, so a new one is
// tested without a line here.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(surfaces, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

enum { MANY = 128 };

typedef struct words {
    char text[MANY][64];
    int count;
} words;

// The first word of each line of the overview up to its second heading, but for lines that go on: the verbs.
static words verbs(void) {
    words found = {.count = 0};
    child c = RUN("help");
    cr_assert_eq(c.code, 0);
    char *line = strstr(c.out, "\n  ");
    for (; line && line[1] != '\n'; line = strchr(line + 1, '\n'))
        if (line[3] != ' ' && sscanf(line, "\n  %63[a-z]", found.text[found.count]) == 1) found.count++;
    cr_assert(found.count >= 7, "only %d verbs in: %s", found.count, c.out);
    return found;
}

// The long options of a verb's help, without dashes.
static words options(const char *verb) {
    words found = {.count = 0};
    child c = RUN("help", verb);
    cr_assert_eq(c.code, 0);
    for (char *line = c.out; line; line = strchr(line + 1, '\n'))
        if (sscanf(line, "\n      --%63[a-z0-9-]", found.text[found.count]) == 1 ||
            sscanf(line, "\n  -%*c, --%63[a-z0-9-]", found.text[found.count]) == 1)
            found.count++;
    cr_assert(found.count >= 4, "only %d options in: %s", found.count, c.out); // the common ones
    return found;
}

// "--val-split" as roff
static const char *as_roff(const char *option) {
    static char text[160];
    char *t = text + sprintf(text, "\\-\\-");
    for (; *option; option++) t += sprintf(t, *option == '-' ? "\\-" : "%c", *option);
    return text;
}

Test(surfaces, every_option_has_its_place_in_the_manual_and_the_completions) {
    char *scripts[3];
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (int i = 0; i < 3; i++) {
        child c = RUN("completion", shells[i]);
        cr_assert(c.code == 0 && c.err_size == 0);
        scripts[i] = c.out;
    }
    words all = verbs();
    for (int v = 0; v < all.count; v++) {
        const char *verb = all.text[v];
        words found = options(verb);
        child page = RUN("help", verb, "--man");
        cr_assert(page.code == 0 && page.err_size == 0, "%s", page.err);
        char start[3][128], text[128];
        snprintf(start[0], sizeof start[0], "\n    %s)\n", verb);
        snprintf(start[1], sizeof start[1], "\n        %s)\n", verb);
        snprintf(start[2], sizeof start[2], "-a %s -d ", verb);
        for (int o = 0; o < found.count; o++) {
            cr_expect(strstr(page.out, as_roff(found.text[o])), "%s: no %s in the manual", verb, found.text[o]);
            for (int i = 0; i < 3; i++) {
                const char *part = strstr(scripts[i], start[i]);
                snprintf(text, sizeof text, i < 2 ? "--%s" : "seen_subcommand_from %s' -l %s",
                         i < 2 ? found.text[o] : verb, found.text[o]);
                cr_expect(part && strstr(part, text), "%s: no %s for %s", verb, found.text[o], shells[i]);
            }
            snprintf(text, sizeof text, "--%s", found.text[o]);
            child used = RUN(verb, text, "--no-such-option"); // the error, if any, is about what follows
            cr_expect(strstr(used.err, "no-such-option") || strstr(used.err, "needs a value"), "%s", used.err);
        }
    }
}

Test(surfaces, manual_pages_have_all_sections_in_order) {
    static const char *const sections[] = {"NAME",        "SYNOPSIS",    "DESCRIPTION", "OPTIONS",
                                           "EXIT STATUS", "ENVIRONMENT", "EXAMPLES",    "SEE ALSO"};
    words all = verbs();
    unsetenv("SOURCE_DATE_EPOCH");
    for (int v = -1; v < all.count; v++) {
        child c = v < 0 ? RUN("help", "--man") : RUN("help", "--man", all.text[v]);
        const char *at = c.out;
        cr_assert(strncmp(at, ".TH HALFSTEP", 12) == 0 && strstr(at, " 1 \"\" \"halfstep "), "a date in %.60s", at);
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
            char heading[64];
            snprintf(heading, sizeof heading, "\n.SH %s\n", sections[s]);
            const char *next = strstr(at, heading);
            bool optional = v >= 0 && strcmp(sections[s], "EXAMPLES") == 0;
            cr_expect(next || optional, "%s: %s is missing or misplaced", v < 0 ? "halfstep" : all.text[v],
                      sections[s]);
            if (next) at = next;
        }
        for (const char *line = c.out; line; line = strchr(line + 1, '\n'))
            cr_expect(strcspn(line + 1, "\n") <= 80 || line[1] == '\\', "a long line: %.80s", line + 1);
    }
    setenv("SOURCE_DATE_EPOCH", "86400", 1);
    child dated = RUN("help", "--man");
    cr_assert(strstr(dated.out, "\"1970-01-02\""), "%.60s", dated.out);
}

Test(surfaces, the_manual_documents_every_exit_code_and_variable) {
    child c = RUN("help", "--man");
    static const char *const names[] = {"\n\\fB0\\fP\n",
                                        "\n\\fB1\\fP\n",
                                        "\n\\fB2\\fP\n",
                                        "\n\\fB3\\fP\n",
                                        "\n\\fB4\\fP\n",
                                        "\n\\fB129, 130, 143\\fP\n",
                                        "\n\\fBHALFSTEP_ISA\\fP\n",
                                        "\n\\fBNO_COLOR\\fP\n",
                                        "\n\\fBlog.jsonl\\fP\n"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) cr_expect(strstr(c.out, names[i]), "%s", names[i]);
}

Test(surfaces, completion_is_for_three_shells) {
    child c = RUN("completion", "tcsh");
    cr_assert(c.code == 2 && strstr(c.err, "bash, zsh and fish") && c.out_size == 0, "%s", c.err);
    c = RUN("completion");
    cr_assert(c.code == 2 && strstr(c.err, "bash|zsh|fish"), "%s", c.err);
}

// What a shell offers for a command line that ends at its last word, a line each. NULL: there is no such shell here.
static const char *offered(const char *shell, const char *line) {
    static const char bash[] = "eval \"$($HALFSTEP completion bash)\"\n"
                               "compopt() { echo \"($2)\"; }\n"
                               "read -ra COMP_WORDS <<<\"$LINE\"\n"
                               "[[ $LINE != *' ' ]] || COMP_WORDS+=('')\n"
                               "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                               "_halfstep\n"
                               "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    static const char fish[] = "$HALFSTEP completion fish | source\n"
                               "complete -C $LINE | string replace -r '\\t.*' ''\n" // without the description
                               "true\n";
    char command[128];
    setenv("LINE", line, 1);
    setenv("HALFSTEP", child_binary(), 1);
    snprintf(command, sizeof command, "command -v %s >offered.txt && exec %s -c \"$SCRIPT\" >offered.txt 2>&1", shell,
             shell);
    setenv("SCRIPT", strcmp(shell, "bash") == 0 ? bash : fish, 1);
    int status = system(command);
    const char *text = read_file("offered.txt", NULL);
    cr_assert(status == 0 || !*text, "%s: %s", shell, text);
    return status == 0 ? text : NULL;
}

static bool has_line(const char *text, const char *line) {
    size_t length = strlen(line);
    for (; text && *text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
        if (strncmp(text, line, length) == 0 && (text[length] == '\n' || !text[length])) return true;
    return false;
}

Test(surfaces, shells_complete_verbs_options_and_choices) {
    static const struct {
        const char *line, *offered, *not_offered;
    } cases[] = {
        {"halfstep tr", "train", "eval"},
        {"halfstep ", "completion", "--layers"},
        {"halfstep train --opti", "--optimizer", "--output"},
        {"halfstep train book.txt --val", "--val-split", "--tokens"},
        {"halfstep train --optimizer ", "sgd", "train"},
        {"halfstep train --color = al", "always", "auto"},
        {"halfstep help ev", "eval", "train"},
        {"halfstep completion z", "zsh", "bash"},
    };
    static const char *const shells[] = {"bash", "fish"};
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (s == 1 && strstr(cases[i].line, " = ")) continue; // only bash takes "--color=al" apart
            const char *text = offered(shells[s], cases[i].line);
            if (!text) break; // the shell is not installed
            cr_expect(has_line(text, cases[i].offered), "%s: `%s` offers %s", shells[s], cases[i].line, text);
            cr_expect(!has_line(text, cases[i].not_offered), "%s: `%s` offers %s", shells[s], cases[i].line, text);
        }
}

Test(surfaces, bash_completes_paths_where_a_path_is_wanted) {
    static const char *const cases[][2] = {
        {"halfstep train ", "(default)"},         {"halfstep train -o ", "(dirnames)"},
        {"halfstep train x --val ", "(default)"}, {"halfstep generate ", "(default)"},
        {"halfstep generate x --prompt ", ""},    {"halfstep train --steps ", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = offered("bash", cases[i][0]);
        if (text) cr_expect(has_line(text, cases[i][1]), "`%s` offers %s", cases[i][0], text);
        if (text && !*cases[i][1]) cr_expect(!strchr(text, '('), "`%s` offers %s", cases[i][0], text);
    }
}
