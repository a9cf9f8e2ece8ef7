// progress.c: see progress.h.
#include "train/cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { STEP, LOSS, VALIDATION, RATE, NORM, SCALE, SPEED, ETA, FIELDS };
enum { FIELD = 64, LINE = FIELDS * FIELD, ETA_STEPS = 5 };
static const double MANY_DIGITS = 1e6; // one that diverges may have thirty digits

static const double terminal_interval = 0.1, plain_interval = 10; // seconds

// Where the line does not fit, the first of these goes, then the next.
static const int dispensable[] = {NORM, RATE, SPEED, SCALE, VALIDATION, ETA, LOSS};

void cli_progress_begin(cli_progress *progress, bool quiet) {
    const char *name = getenv("TERM");
    bool dumb = name && strcmp(name, "dumb") == 0; // no way back to the start of a line
    *progress = (cli_progress){.quiet = quiet, .terminal = isatty(STDERR_FILENO) && !dumb, .shown = -INFINITY};
}

const char *cli_format_duration(double seconds, char *buffer, size_t size) {
    long long s = seconds < 1e12 ? (long long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buffer, size, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(buffer, size, "%lldm%02llds", s / 60, s % 60);
    else
        snprintf(buffer, size, "%llds", s);
    return buffer;
}

// 0.003 as "3.0e-3"
static void format_rate(double rate, char text[FIELD]) {
    int exponent = rate > 0 ? (int)floor(log10(rate)) : 0;
    snprintf(text, FIELD, "lr %.1fe%d", rate / pow(10, exponent), exponent);
}

static void format_speed(double speed, char text[FIELD]) {
    if (speed >= 1e6)
        snprintf(text, FIELD, "%.1fM tok/s", speed / 1e6);
    else if (speed >= 1e3)
        snprintf(text, FIELD, "%.1fk tok/s", speed / 1e3);
    else
        snprintf(text, FIELD, "%.0f tok/s", speed);
}

static void format_fields(const cli_progress *progress, const hst_progress *now, char fields[FIELDS][FIELD]) {
    char left[32];
    snprintf(fields[STEP], FIELD, "step %lld/%lld %d%%", (long long)now->step, (long long)now->steps,
             now->steps > 0 ? (int)(100 * now->step / now->steps) : 0);
    if (!isnan(now->smooth_loss)) // all steps so far were skipped
        snprintf(fields[LOSS], FIELD, now->smooth_loss < MANY_DIGITS ? "loss %.3f (bpc %.3f)" : "loss %.3g (bpc %.3g)",
                 now->smooth_loss, now->smooth_loss / M_LN2);
    if (!isnan(now->validation))
        snprintf(fields[VALIDATION], FIELD, now->validation < MANY_DIGITS ? "val %.3f" : "val %.3g", now->validation);
    format_rate(now->rate, fields[RATE]);
    if (isfinite(now->norm)) // else the step was skipped
        snprintf(fields[NORM], FIELD, now->norm < MANY_DIGITS ? "|g| %.2f" : "|g| %.3g", now->norm);
    if (*now->scaler) snprintf(fields[SCALE], FIELD, "scale %.9g, %lld skipped", now->scale, (long long)now->skipped);
    if (!(now->tokens_per_second > 0)) return;
    format_speed(now->tokens_per_second, fields[SPEED]);
    if (now->step < ETA_STEPS) return; // the first steps are no measure
    double seconds = (double)(now->steps - now->step) * progress->tokens / now->tokens_per_second;
    snprintf(fields[ETA], FIELD, "eta %s", cli_format_duration(seconds, left, sizeof left));
}

static int join_fields(char fields[FIELDS][FIELD], char line[LINE + 1]) {
    int length = 0;
    for (int i = 0; i < FIELDS; i++)
        if (*fields[i])
            length += snprintf(line + length, (size_t)(LINE + 1 - length), "%s%s", i ? " | " : "", fields[i]);
    return length;
}

// One column stays free: writing to the last one makes some terminals wrap.
static int terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
    return size.ws_col - 1;
}

static void draw(cli_progress *progress, char fields[FIELDS][FIELD]) {
    char line[LINE + 1];
    int length = join_fields(fields, line), width = terminal_width();
    for (size_t i = 0; length > width && i < sizeof dispensable / sizeof *dispensable; i++) {
        *fields[dispensable[i]] = '\0';
        length = join_fields(fields, line);
    }
    if (length > width) length = width;
    int blanks = progress->drawn > length && progress->drawn <= width ? progress->drawn - length : 0;
    fprintf(stderr, "\r%.*s%*s", length, line, blanks, "");
    progress->drawn = length;
}

void cli_progress_show(cli_progress *progress, const hst_progress *now, bool lasting) {
    double interval = progress->terminal ? terminal_interval : plain_interval;
    if (progress->quiet || (!lasting && now->seconds - progress->shown < interval)) return;
    progress->shown = now->seconds;
    char fields[FIELDS][FIELD] = {{0}}, line[LINE + 1];
    format_fields(progress, now, fields);
    if (progress->terminal) {
        draw(progress, fields);
        if (lasting) cli_progress_leave(progress);
    } else {
        join_fields(fields, line);
        fprintf(stderr, "%s\n", line);
    }
}

void cli_progress_leave(cli_progress *progress) {
    if (progress->drawn) fputc('\n', stderr);
    progress->drawn = 0;
}
