// history.c: see history.h. A run that was killed and went on has some steps twice in its log, and its seconds start
// again: a line that goes back in steps makes those after it void, and seconds go on from the last one that counts.
// Steps that were skipped for the loss scale are no points of a curve.
#include "train/cli/history.h"

#include "train/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct record {
    bool is_start, is_step, is_evaluation;
    bool skipped; // a step that was none: its line has the number of the last one
    history_point point;
    json_part symbol;
} record;

typedef struct reading {
    history *history;
    double offset;          // of seconds
    double epochs_per_step; // of the last step that had both; an evaluation's line has no epoch
    bool began;             // a start line, and no point after it
    int objects;
} reading;

// false for a line that is torn, or something else.
static bool parse_line(const char *line, record *r) {
    *r = (record){.point = {NAN, NAN, NAN, NAN, NAN}};
    json_reader reader = json_read(line);
    double validation = NAN;
    while (json_next(&reader)) {
        json_part key = reader.key, value = reader.value;
        if (json_is(key, "event")) {
            r->is_start = json_is(value, "start");
            r->is_step = json_is(value, "step");
            r->is_evaluation = json_is(value, "eval");
        }
        if (json_is(key, "result")) r->skipped = !json_is(value, "stepped");
        if (json_is(key, "symbol")) r->symbol = value;
        if (json_is(key, "step")) r->point.step = json_number(value);
        if (json_is(key, "seconds")) r->point.seconds = json_number(value);
        if (json_is(key, "epoch")) r->point.epoch = json_number(value);
        if (json_is(key, "loss")) r->point.loss = json_number(value);
        if (json_is(key, "smooth_loss")) r->point.smooth_loss = json_number(value);
        if (json_is(key, "validation")) validation = json_number(value);
    }
    if (r->is_evaluation) r->point.loss = validation;
    return reader.whole;
}

// Drops the points after a step, with `also` those of the step itself.
static void drop_after(history_points *points, double step, bool also) {
    while (points->count > 0) {
        double last = points->at[points->count - 1].step;
        if (last < step || (last == step && !also)) return;
        points->count--;
    }
}

static double last_seconds(const history *h) {
    double seconds = 0;
    if (h->training.count) seconds = h->training.at[h->training.count - 1].seconds;
    if (h->validation.count) seconds = fmax(seconds, h->validation.at[h->validation.count - 1].seconds);
    return seconds;
}

static bool append(history_points *points, const history_point *point) {
    if (points->count == points->room) {
        size_t room = points->room ? 2 * points->room : 256;
        history_point *grown = realloc(points->at, room * sizeof *grown);
        if (!grown) return false;
        points->at = grown;
        points->room = room;
    }
    points->at[points->count++] = *point;
    return true;
}

// false: no memory
static bool add_point(reading *r, const record *line) {
    history *h = r->history;
    history_point p = line->point;
    if (isnan(p.step) || p.step < 0) return true;
    if (isnan(p.seconds)) p.seconds = 0;
    drop_after(&h->training, p.step, line->is_step);
    drop_after(&h->validation, p.step, line->is_evaluation);
    if (r->began) r->offset = last_seconds(h);
    r->began = false;
    p.seconds += r->offset;
    if (line->is_step && p.step > 0 && !isnan(p.epoch)) r->epochs_per_step = p.epoch / p.step;
    if (isnan(p.epoch)) p.epoch = p.step * r->epochs_per_step;
    return append(line->is_step ? &h->training : &h->validation, &p);
}

static bool read_line(reading *r, const char *text) {
    record line;
    if (!parse_line(text, &line)) return true;
    r->objects++;
    if (line.is_start) r->began = true;
    if (line.is_start && line.symbol.quoted)
        snprintf(r->history->symbol, sizeof r->history->symbol, "%.*s", (int)fmin((double)line.symbol.length, 23),
                 line.symbol.text);
    bool is_point = (line.is_step && !line.skipped) || line.is_evaluation;
    return !is_point || add_point(r, &line);
}

static bool has_losses(const history_points *points) {
    for (size_t i = 0; i < points->count; i++)
        if (!isnan(points->at[i].loss)) return true;
    return false;
}

static int fail(int code, const char *path, const char *what, char *why, size_t size) {
    snprintf(why, size, "%s: %s", path, what);
    return code;
}

const char *history_log_path(const char *path, char *buffer, size_t size) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return path;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    snprintf(buffer, size, "%.*s/log.jsonl", (int)length, path);
    return buffer;
}

int history_read(history *h, const char *path, char *why, size_t size) {
    char buffer[PATH_MAX], *line = NULL;
    const char *log = history_log_path(path, buffer, sizeof buffer);
    size_t room = 0;
    *h = (history){.symbol = "symbol"};
    reading r = {.history = h, .epochs_per_step = NAN};
    FILE *file = fopen(log, "re");
    if (!file && errno == ENOENT && log != path)
        return fail(CLI_INPUT, path, "holds no log.jsonl, so it is not the folder of a run", why, size);
    if (!file) return fail(CLI_INPUT, log, strerror(errno), why, size);
    bool memory = true;
    while (memory && getline(&line, &room, file) >= 0) memory = read_line(&r, line);
    int error = feof(file) ? 0 : errno;
    free(line);
    fclose(file);
    if (!memory || error == ENOMEM) return fail(CLI_FAILED, log, "out of memory", why, size);
    if (error) return fail(CLI_INPUT, log, strerror(error), why, size);
    if (has_losses(&h->training) || has_losses(&h->validation)) return CLI_DONE;
    return fail(CLI_INPUT, log,
                r.objects ? "has no losses yet; a run writes the first after its first step"
                          : "is empty, or not the log of a run, which has a JSON object a line",
                why, size);
}

void history_free(history *h) {
    free(h->training.at);
    free(h->validation.at);
    h->training = h->validation = (history_points){0};
}

long history_best(const history *h) {
    long best = -1;
    for (size_t i = 0; i < h->validation.count; i++)
        if (!isnan(h->validation.at[i].loss) && (best < 0 || h->validation.at[i].loss < h->validation.at[best].loss))
            best = (long)i;
    return best;
}
