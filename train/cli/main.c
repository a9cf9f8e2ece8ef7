// main.c: the `halfstep` command: finds the verb, parses its options, runs it. README.md has the conventions.
#include "train/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(name) &cli_##name,
const cli_command *const cli_commands[] = {CLI_COMMANDS(ROW) NULL};

const cli_option cli_common_options[] = {
    {.help = "Common"},
    {"threads", 0, "N", CLI_INT, offsetof(cli_common, threads), .low = 1, .high = 1024,
     .standard = "as many as the machine allows", .help = "threads; the results do not depend on it"},
    {"isa", 0, "NAME", CLI_TEXT, offsetof(cli_common, isa), .standard = "$HALFSTEP_ISA, else auto",
     .help = "kernels: auto, or a name that `halfstep info` lists"},
    {"color", 0, NULL, CLI_CHOICE, offsetof(cli_common, color), .choices = "auto|always|never",
     .help = "colour in messages"},
    {"help", 'h', NULL, CLI_FLAG, offsetof(cli_common, help), .help = "print this"},
    {0}};

const cli_command *cli_find_command(const char *name) {
    const char *names[sizeof cli_commands / sizeof *cli_commands];
    int count = 0;
    for (; cli_commands[count]; count++) {
        if (strcmp(cli_commands[count]->name, name) == 0) return cli_commands[count];
        names[count] = cli_commands[count]->name;
    }
    names[count] = NULL;
    const char *nearest = cli_nearest(name, names);
    if (nearest)
        cli_error("there is no command `%s`; did you mean `%s`?", name, nearest);
    else
        cli_error("there is no command `%s`; `halfstep help` lists what there is", name);
    return NULL;
}

void *cli_new_values(const cli_command *command) {
    void *values = calloc(1, command->size);
    if (!values)
        cli_error("out of memory");
    else if (command->defaults)
        command->defaults(values);
    return values;
}

static bool count_fits(const cli_command *command, int count) {
    if (count < command->at_least)
        cli_error("an argument is missing: halfstep %s [options] %s", command->name, command->operands);
    else if (command->at_most >= 0 && count > command->at_most)
        cli_error("%s takes only: halfstep %s [options] %s", command->name, command->name, command->operands);
    else
        return true;
    return false;
}

static int run_command(const cli_command *command, void *values, char **arguments) {
    int count;
    bool parsed = cli_parse(command->name, command->options, values, arguments, &count);
    const cli_common *common = values;
    cli_set_color(common->color);
    if (!parsed) return CLI_USAGE;
    if (common->help) {
        cli_print_help(stdout, command);
        return CLI_DONE;
    }
    return count_fits(command, count) ? command->run(values, count, arguments) : CLI_USAGE;
}

// A standard stream that the caller closed would be the number of the next file opened, and messages would end up in a
// model. Opened the wrong way round, the number is taken and every use of the stream fails, as it should.
static void occupy_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int run_version(const void *values, int count, char **operands) {
    (void)values, (void)count, (void)operands;
    printf("halfstep %s\n", hst_version());
    return CLI_DONE;
}

const cli_command cli_version = {
    .name = "version",
    .operands = "",
    .summary = "the version",
    .details = "Prints the version.",
    .size = sizeof(cli_common),
    .run = run_version,
};

int main(int argc, char **argv) {
    occupy_closed_streams();
    signal(SIGXFSZ, SIG_IGN); // a limit of file sizes becomes an error of the write
    cli_set_color(CLI_AUTO);
    if (argc < 2) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    const char *verb = argv[1];
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) verb = "help";
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0) verb = "version";
    const cli_command *command = cli_find_command(verb);
    void *values = command ? cli_new_values(command) : NULL;
    int code = !command ? CLI_USAGE : !values ? CLI_FAILED : run_command(command, values, argv + 2);
    free(values);
    return cli_close_stdout(code);
}
