// message.c: errors and warnings, one line each on stderr; and stdout's last word.
#include "train/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool colored;

void cli_set_color(int color) {
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool automatic = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 && !(no_color && *no_color);
    colored = color == CLI_ALWAYS || (color == CLI_AUTO && automatic);
}

static void print_message(const char *kind, const char *color, const char *format, va_list arguments) {
    fflush(stdout); // on a terminal, what was printed before stays before
    if (colored)
        fprintf(stderr, "halfstep: \033[%sm%s:\033[0m ", color, kind);
    else
        fprintf(stderr, "halfstep: %s: ", kind);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cli_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message("error", "1;31", format, arguments);
    va_end(arguments);
}

void cli_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message("warning", "1;33", format, arguments);
    va_end(arguments);
}

const char *cli_quoted(const char *text, char *buffer, size_t size) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
    if (*text && text[strspn(text, plain)] == '\0') {
        snprintf(buffer, size, "%s", text);
        return buffer;
    }
    size_t n = 0;
    for (const char *c = text; *c && n + 8 < size; c++)
        n += (size_t)snprintf(buffer + n, size - n, "%s%s", c == text ? "'" : "",
                              *c == '\'' ? "'\\''" : (char[]){*c, 0});
    snprintf(buffer + n, size - n, "%s'", n ? "" : "'");
    return buffer;
}

int cli_output_failure(int error) {
    cli_error("standard output could not be written%s%s", error ? ": " : "", error ? strerror(error) : "");
    return CLI_FAILED;
}

int cli_close_stdout(int code) {
    errno = 0;
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    return failed && code == CLI_DONE ? cli_output_failure(errno) : code;
}
