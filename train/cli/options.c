// options.c: the parser over option tables.
#include "train/cli/options.h"

#include "train/cli/cli.h"

#include <string.h>

typedef struct parser {
    const char *command;
    const cli_option *table;
    void *values;
    char **next; // the argument after the one at hand, in a list that ends with NULL
} parser;

cli_walk cli_walk_options(const cli_option *table) {
    return table ? (cli_walk){table, cli_common_options} : (cli_walk){cli_common_options, NULL};
}

const cli_option *cli_next_option(cli_walk *walk) {
    while (walk->next) {
        for (; cli_table_goes_on(walk->next); walk->next++)
            if (walk->next->name) return walk->next++;
        walk->next = walk->then;
        walk->then = NULL;
    }
    return NULL;
}

const cli_option *cli_find_option(const cli_option *table, const char *name, size_t length) {
    cli_walk walk = cli_walk_options(table);
    const cli_option *o;
    while ((o = cli_next_option(&walk)) && (strlen(o->name) != length || strncmp(o->name, name, length) != 0)) continue;
    return o;
}

static int place_of(const cli_option *table, const cli_option *option) {
    int place = 0;
    cli_walk walk = cli_walk_options(table);
    while (cli_next_option(&walk) != option) place++;
    return place;
}

bool cli_is_given(const cli_option *table, const void *values, const cli_option *option) {
    return ((const cli_common *)values)->given[place_of(table, option)];
}

void cli_set_given(const cli_option *table, void *values, const cli_option *option) {
    ((cli_common *)values)->given[place_of(table, option)] = true;
}

static const cli_option *find_alias(const parser *p, char alias) {
    cli_walk walk = cli_walk_options(p->table);
    const cli_option *o;
    while ((o = cli_next_option(&walk)) && o->alias != alias) continue;
    return o;
}

static bool refuse_unknown(const parser *p, const char *argument) {
    const char *names[CLI_MAX_OPTIONS + 1];
    int count = 0;
    cli_walk walk = cli_walk_options(p->table);
    for (const cli_option *o; count < CLI_MAX_OPTIONS && (o = cli_next_option(&walk));) names[count++] = o->name;
    names[count] = NULL;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument, "="), argument);
    const char *nearest = cli_nearest(word + strspn(word, "-"), names);
    if (nearest)
        cli_error("%s has no option `%s`; did you mean `--%s`?", p->command, word, nearest);
    else
        cli_error("%s has no option `%s`; `halfstep help %s` lists what there is", p->command, word, p->command);
    return false;
}

// The value is what followed '=', or else the next argument. One that starts with "--" is taken for a forgotten value.
static bool take_value(parser *p, const cli_option *o, const char *attached) {
    char expected[192];
    cli_describe_type(o, expected, sizeof expected);
    if (o->type == CLI_FLAG) {
        if (!attached) return cli_set_value(o, p->values, "");
        cli_error("--%s takes no value, but was given `%s`", o->name, attached);
        return false;
    }
    const char *value = attached ? attached : *p->next;
    if (!value || (!attached && strncmp(value, "--", 2) == 0)) {
        cli_error("--%s needs a value: %s", o->name, expected);
        return false;
    }
    if (!attached) p->next++;
    if (cli_set_value(o, p->values, value)) return true;
    cli_error("--%s must be %s, but was given `%s`", o->name, expected, value);
    return false;
}

static bool take_option(parser *p, const char *argument) {
    const char *attached = argument[2] ? argument + 2 : NULL;
    const cli_option *o;
    if (argument[1] == '-') {
        const char *name = argument + 2, *equals = strchr(name, '=');
        o = cli_find_option(p->table, name, equals ? (size_t)(equals - name) : strlen(name));
        attached = equals ? equals + 1 : NULL;
    } else
        o = find_alias(p, argument[1]);
    if (!o) return refuse_unknown(p, argument);
    cli_set_given(p->table, p->values, o);
    return take_value(p, o, attached);
}

bool cli_parse(const char *command, const cli_option *table, void *values, char **arguments, int *count) {
    parser p = {command, table, values, arguments};
    bool options = true; // until "--"
    *count = 0;
    while (*p.next) {
        char *argument = *p.next++;
        if (options && strcmp(argument, "--") == 0)
            options = false;
        else if (!options || argument[0] != '-' || !argument[1])
            arguments[(*count)++] = argument;
        else if (!take_option(&p, argument))
            return false;
        else
            cli_set_color(((const cli_common *)values)->color); // so that it holds for what is wrong further on
    }
    return true;
}
