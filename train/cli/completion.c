// completion.c: `halfstep completion`: what a shell needs to complete command lines, written from the option tables.
#include "train/cli/cli.h"

#include <ctype.h>
#include <string.h>

// ---- what stands where ----

typedef enum kind { NOTHING, FILES, FOLDERS, WORDS } kind; // that can be offered

static kind value_kind(const cli_option *option) {
    bool choice = option->type == CLI_CHOICE || option->type == CLI_SWITCH;
    return choice ? WORDS : option->type == CLI_FILE ? FILES : option->type == CLI_FOLDER ? FOLDERS : NOTHING;
}

// Takes the next operand off a list like "MODEL TEXT...": its length without brackets and dots, its begin in *operand;
// 0 at the end. *many: any number of them.
static int next_operand(const char **list, const char **operand, bool *many) {
    *list += strspn(*list, " [");
    *operand = *list;
    int length = (int)strcspn(*list, " ].");
    *list += strcspn(*list, " ");
    *many = length > 0 && (*operand)[length] == '.';
    return length;
}

// The words that an operand can be, into buffer[size], or "" where it is a path.
static const char *operand_words(const char *operand, int length, char *buffer, size_t size) {
    size_t n = 0;
    snprintf(buffer, size, "%s", "");
    if (islower((unsigned char)*operand)) { // typed as it stands, or one of several
        snprintf(buffer, size, "%.*s", length, operand);
        for (char *bar; (bar = strchr(buffer, '|'));) *bar = ' ';
    } else if (strncmp(operand, "COMMAND", (size_t)length) == 0)
        for (int i = 0; cli_commands[i] && n < size; i++)
            n += (size_t)snprintf(buffer + n, size - n, "%s%s", i ? " " : "", cli_commands[i]->name);
    return buffer;
}

// "adamw sgd" of "adamw|sgd"
static void put_choices(const char *choices) {
    for (; *choices; choices++) putchar(*choices == '|' ? ' ' : *choices);
}

// Text inside single quotes; `special` characters get `escape` before them.
static void put_quoted(const char *text, const char *special, const char *escape, const char *quote) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs(quote, stdout);
        else
            printf("%s%c", strchr(special, *text) ? escape : "", *text);
    }
}

// ---- bash ----
// The function notes what kind of word is wanted, from the word before and the verb. Paths are left to readline, which
// knows about quotes and tildes.

// The patterns of all options whose value is of the kind, and what they lead to.
static void put_bash_values(const cli_command *command, kind wanted, const char *name) {
    bool any = false;
    cli_walk walk = cli_walk_options(command->options);
    for (const cli_option *o; (o = cli_next_option(&walk));) {
        if (o->type == CLI_FLAG || value_kind(o) != wanted) continue;
        printf("%s--%s", any ? " | " : "        ", o->name);
        if (o->alias) printf(" | -%c", o->alias);
        any = wanted != WORDS; // whose words differ
        if (any) continue;
        fputs(") kind=words words='", stdout);
        put_choices(o->choices);
        puts("' ;;");
    }
    if (any) printf(") kind=%s ;;\n", name);
}

static void put_bash_command(const cli_command *command) {
    const char *list = command->operands, *operand;
    char words[512] = "";
    bool many;
    int length = next_operand(&list, &operand, &many);
    if (length) operand_words(operand, length, words, sizeof words);
    printf("    %s)\n        kind=%s words='%s' options='", command->name,
           !length  ? "nothing"
           : *words ? "words"
                    : "files",
           words);
    cli_walk walk = cli_walk_options(command->options);
    for (const cli_option *o; (o = cli_next_option(&walk));) printf("--%s ", o->name);
    puts("'\n        case $before in");
    put_bash_values(command, NOTHING, "nothing");
    put_bash_values(command, FILES, "files");
    put_bash_values(command, FOLDERS, "folders");
    put_bash_values(command, WORDS, "words");
    puts("        *) [[ $word == -* ]] && kind=words words=$options ;;\n        esac ;;");
}

static void put_bash(void) {
    puts("# bash completion of halfstep\n"
         "_halfstep() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    local kind=nothing words= options=\n"
         "    if [[ $word == = ]]; then # --name=value comes as three words\n"
         "        word=\n"
         "    elif [[ $before == = ]]; then\n"
         "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    for (int i = 0; cli_commands[i]; i++) put_bash_command(cli_commands[i]);
    fputs("    esac\n"
          "    ((COMP_CWORD > 1)) || kind=words words='",
          stdout);
    for (int i = 0; cli_commands[i]; i++) printf("%s ", cli_commands[i]->name);
    puts("'\n"
         "    COMPREPLY=()\n"
         "    case $kind in\n"
         "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    files) compopt -o default 2>/dev/null ;;\n"
         "    folders) compopt -o dirnames 2>/dev/null ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _halfstep halfstep");
}

// ---- zsh ----
// One specification an option, in the language of _arguments: '(-o --output)'{-o+,--output=}'[meaning]:RUN:_files -/'.

static void put_zsh_text(const char *text) { put_quoted(text, "[]:\\", "\\", "'\\''"); }

static void put_zsh_option(const cli_option *o) {
    const char *one = o->type == CLI_FLAG ? "" : "+", *two = o->type == CLI_FLAG ? "" : "=";
    if (o->alias)
        printf("            '(-%c --%s)'{-%c%s,--%s%s}'[", o->alias, o->name, o->alias, one, o->name, two);
    else
        printf("            '--%s%s[", o->name, two);
    put_zsh_text(o->help);
    putchar(']');
    if (o->type != CLI_FLAG) printf(":%s:", o->argument ? o->argument : o->name);
    if (value_kind(o) == WORDS) {
        putchar('(');
        put_choices(o->choices);
        putchar(')');
    } else if (o->type != CLI_FLAG)
        fputs(value_kind(o) == FILES ? "_files" : value_kind(o) == FOLDERS ? "_files -/" : " ", stdout);
    puts("' \\");
}

static void put_zsh_command(const cli_command *command) {
    const char *list = command->operands, *operand;
    char words[512];
    bool many;
    printf("        %s)\n            _arguments \\\n", command->name);
    cli_walk walk = cli_walk_options(command->options);
    for (const cli_option *o; (o = cli_next_option(&walk));) put_zsh_option(o);
    for (int i = 1, length; (length = next_operand(&list, &operand, &many)); i++) {
        operand_words(operand, length, words, sizeof words);
        if (many)
            fputs("            '*:", stdout);
        else
            printf("            '%d:", i);
        printf("%.*s:", (int)strcspn(operand, " ].|"), operand);
        printf("%s%s%s' \\\n", *words ? "(" : "_files", words, *words ? ")" : "");
    }
    puts("            && return ;;");
}

static void put_zsh(void) {
    puts("#compdef halfstep\n"
         "_halfstep() {\n"
         "    local curcontext=$curcontext state line\n"
         "    typeset -A opt_args\n"
         "    _arguments -C '1:command:->commands' '*::argument:->arguments' && return\n"
         "    case $state in\n"
         "    commands)\n"
         "        local -a commands\n"
         "        commands=(");
    for (int i = 0; cli_commands[i]; i++) {
        printf("            '%s:", cli_commands[i]->name);
        put_zsh_text(cli_commands[i]->summary);
        puts("'");
    }
    puts("        )\n"
         "        _describe command commands && return ;;\n"
         "    arguments)\n"
         "        case $words[1] in");
    for (int i = 0; cli_commands[i]; i++) put_zsh_command(cli_commands[i]);
    puts("        esac ;;\n"
         "    esac\n"
         "    return 1\n"
         "}\n"
         "if [[ $funcstack[1] == _halfstep ]]; then # found in $fpath\n"
         "    _halfstep \"$@\"\n"
         "else # sourced\n"
         "    compdef _halfstep halfstep\n"
         "fi");
}

// ---- fish ----

static void put_fish_text(const char *text) { put_quoted(text, "\\", "\\", "\\'"); }

static void put_fish_option(const cli_command *command, const cli_option *o) {
    printf("complete -c halfstep -n '__fish_seen_subcommand_from %s' -l %s", command->name, o->name);
    if (o->alias) printf(" -s %c", o->alias);
    switch (o->type == CLI_FLAG ? NOTHING : value_kind(o)) {
    case NOTHING:
        if (o->type != CLI_FLAG) fputs(" -x", stdout);
        break;
    case FILES:
        fputs(" -r -F", stdout);
        break;
    case FOLDERS:
        fputs(" -x -a '(__fish_complete_directories)'", stdout);
        break;
    case WORDS:
        fputs(" -x -a '", stdout);
        put_choices(o->choices);
        putchar('\'');
        break;
    }
    fputs(" -d '", stdout);
    put_fish_text(o->help);
    puts("'");
}

static void put_fish_command(const cli_command *command) {
    const char *list = command->operands, *operand;
    char words[512];
    bool many;
    printf("complete -c halfstep -n __fish_use_subcommand -a %s -d '", command->name);
    put_fish_text(command->summary);
    puts("'");
    int length = next_operand(&list, &operand, &many);
    if (length) {
        operand_words(operand, length, words, sizeof words);
        printf("complete -c halfstep -n '__fish_seen_subcommand_from %s' %s%s%s\n", command->name,
               *words ? "-a '" : "-F", words, *words ? "'" : "");
    }
    cli_walk walk = cli_walk_options(command->options);
    for (const cli_option *o; (o = cli_next_option(&walk));) put_fish_option(command, o);
}

static void put_fish(void) {
    puts("# fish completion of halfstep: no files but where one is wanted\n"
         "complete -c halfstep -f");
    for (int i = 0; cli_commands[i]; i++) put_fish_command(cli_commands[i]);
}

// ---- the command ----

static const struct {
    const char *name;
    void (*put)(void);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
enum { SHELLS = sizeof shells / sizeof *shells };

static int run(const void *values, int count, char **operands) {
    (void)values, (void)count;
    for (int i = 0; i < SHELLS; i++) {
        if (strcmp(shells[i].name, operands[0]) != 0) continue;
        shells[i].put();
        return CLI_DONE;
    }
    cli_error("completion is for bash, zsh and fish, not for `%s`", operands[0]);
    return CLI_USAGE;
}

static const cli_term examples[] = {
    {"source <(halfstep completion bash)", "completes in this shell; in ~/.bashrc, in every new one; so for zsh"},
    {"halfstep completion fish | source", "the same for fish"},
    {NULL, NULL}};

const cli_command cli_completion = {
    .name = "completion",
    .operands = "bash|zsh|fish",
    .at_least = 1,
    .at_most = 1,
    .summary = "makes a shell complete commands, options and values",
    .details = "Prints a script for the shell. An installed halfstep needs none of this: its completions are where "
               "shells look for them.",
    .examples = examples,
    .size = sizeof(cli_common),
    .run = run,
};
