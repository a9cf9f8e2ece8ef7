// plot.c: `halfstep plot`: the loss curves of one run or several. history.c reads the logs, chart.c draws, png.c
// writes.
#include "train/cli/plot.h"

#include "train/cli/chart.h"
#include "train/cli/history.h"
#include "train/cli/png.h"

#include <errno.h>
#include <float.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct plot_values {
    cli_common common;
    const char *output; // or NULL
    int width, height, x, unit, training;
    double low, high; // NAN: where the losses end
} plot_values;

enum { BY_STEPS, BY_TIME, BY_EPOCHS }; // --x
enum { NATS, BITS };                   // --unit
enum { SMOOTH, RAW };                  // --training

#define AT(field) offsetof(plot_values, field)

static const cli_option options[] = {
    {.help = "The file"},
    {"output", 'o', "FILE", CLI_FILE, AT(output), .standard = "loss.png beside the log of a single run",
     .help = "where to write the picture, a PNG; one that is there is replaced, any other file is left alone"},
    {"width", 0, "PIXELS", CLI_INT, AT(width), .low = CHART_MIN_WIDTH, .high = CHART_MAX_SIDE,
     .help = "how wide it is; letters and lines grow with it"},
    {"height", 0, "PIXELS", CLI_INT, AT(height), .low = CHART_MIN_HEIGHT, .high = CHART_MAX_SIDE,
     .help = "how high it is"},
    {.help = "The axes"},
    {"x", 0, NULL, CLI_CHOICE, AT(x), .choices = "steps|time|epochs", .help = "what losses are shown over"},
    {"unit", 0, NULL, CLI_CHOICE, AT(unit), .choices = "nats|bits", .help = "what losses are shown in"},
    {"training", 0, NULL, CLI_CHOICE, AT(training), .choices = "smooth|raw",
     .help = "the training loss: its running mean, or that of each step"},
    {"low", 0, "LOSS", CLI_REAL, AT(low), .low = 0, .high = 1e6, .standard = "where the losses end",
     .help = "where the axis of losses begins"},
    {"high", 0, "LOSS", CLI_REAL, AT(high), .low = 0, .high = 1e6, .standard = "where the losses end",
     .help = "where it ends; a lower end shows more of the last steps"},
    {0}};

static void set_defaults(void *values) {
    plot_values *v = values;
    v->width = 960;
    v->height = 540;
    v->low = v->high = NAN;
}

// ---- histories to curves ----

typedef struct plot {
    const plot_values *v;
    int count;
    history histories[CHART_COLORS];
    chart_entry entries[CHART_COLORS];
    chart_point *points; // of all curves
    char names[CHART_COLORS][PATH_MAX], notes[CHART_COLORS][64];
    double x_unit; // seconds in a unit of time
    char x_label[32], y_label[64];
} plot;

static double x_of(const plot *p, const history_point *point) {
    return p->v->x == BY_STEPS ? point->step : p->v->x == BY_EPOCHS ? point->epoch : point->seconds / p->x_unit;
}

static double unit_of(const plot *p) { return p->v->unit == BITS ? M_LN2 : 1; }

// A loss that fp32 cannot hold is no loss. Where the place on the x axis is not known, a point is not shown.
static chart_curve make_curve(const plot *p, const history_points *points, bool smooth, chart_point **next) {
    chart_curve curve = {.points = *next, .count = points->count, .mark = -1};
    for (size_t i = 0; i < points->count; i++) {
        const history_point *from = &points->at[i];
        double x = x_of(p, from), loss = (smooth ? from->smooth_loss : from->loss) / unit_of(p);
        bool shown = !isnan(x) && fabs(loss) <= FLT_MAX;
        *(*next)++ = shown ? (chart_point){x, loss} : (chart_point){0, NAN};
    }
    return curve;
}

static void make_entry(plot *p, int i, chart_point **next) {
    const history *h = &p->histories[i];
    chart_entry *e = &p->entries[i];
    e->name = p->names[i];
    e->note = p->notes[i];
    e->thin = make_curve(p, &h->training, p->v->training == SMOOTH, next);
    e->dotted = make_curve(p, &h->validation, false, next);
    long best = history_best(h);
    if (best < 0 || isnan(e->dotted.points[best].y)) return;
    e->dotted.mark = best;
    snprintf(p->notes[i], sizeof p->notes[i], "%.4f at step %.0f", e->dotted.points[best].y,
             h->validation.at[best].step);
}

// Seconds up to ten minutes, minutes up to ten hours.
static void choose_labels(plot *p) {
    const char *symbol = p->histories[0].symbol, *time = "seconds";
    double longest = 0;
    p->x_unit = 1;
    for (int i = 0; i < p->count; i++) {
        const history *h = &p->histories[i];
        if (strcmp(h->symbol, symbol) != 0) symbol = "symbol";
        if (h->training.count) longest = fmax(longest, h->training.at[h->training.count - 1].seconds);
        if (h->validation.count) longest = fmax(longest, h->validation.at[h->validation.count - 1].seconds);
    }
    if (longest > 600) p->x_unit = 60, time = "minutes";
    if (longest > 36000) p->x_unit = 3600, time = "hours";
    snprintf(p->x_label, sizeof p->x_label, "%s", p->v->x == BY_STEPS ? "step" : p->v->x == BY_EPOCHS ? "epoch" : time);
    snprintf(p->y_label, sizeof p->y_label, "%s per %s", p->v->unit == BITS ? "bits" : "nats", symbol);
}

static bool make_entries(plot *p) {
    size_t count = 0;
    for (int i = 0; i < p->count; i++) count += p->histories[i].training.count + p->histories[i].validation.count;
    chart_point *next = p->points = malloc(count * sizeof *next);
    if (!next) return false;
    choose_labels(p);
    for (int i = 0; i < p->count; i++) make_entry(p, i, &next);
    return true;
}

static bool has_points(const plot *p) {
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < 2; k++) {
            const chart_curve *curve = k ? &p->entries[i].dotted : &p->entries[i].thin;
            for (size_t n = 0; n < curve->count; n++)
                if (!isnan(curve->points[n].y)) return true;
        }
    return false;
}

// "runs/a/" and "runs/a/log.jsonl" are called runs/a.
static void set_name(char *name, size_t size, const char *run) {
    char log[PATH_MAX], path[PATH_MAX];
    snprintf(path, sizeof path, "%s", history_log_path(run, log, sizeof log));
    const char *file = strrchr(path, '/');
    bool in_folder = file && file > path && strcmp(file, "/log.jsonl") == 0;
    snprintf(name, size, "%s", in_folder ? dirname(path) : path);
}

// ---- the picture ----

static canvas *draw(const plot *p) {
    return chart_draw(&(chart){.width = p->v->width,
                               .height = p->v->height,
                               .x_label = p->x_label,
                               .y_label = p->y_label,
                               .thin_label = "training",
                               .dotted_label = "held-out",
                               .mark_label = "best",
                               .low = p->v->low,
                               .high = p->v->high,
                               .entries = p->entries,
                               .count = p->count});
}

static int write_picture(plot *p, const char *output, char *why, size_t size) {
    if (!make_entries(p)) return snprintf(why, size, "out of memory"), CLI_FAILED;
    if (!has_points(p)) {
        snprintf(why, size, "%s: has losses, but none that says its %s", p->names[0], p->x_label);
        return CLI_INPUT;
    }
    canvas *picture = draw(p);
    errno = ENOMEM;
    bool written = picture && canvas_write_png(picture, output);
    if (!written) snprintf(why, size, "%s: the picture could not be written: %s", output, strerror(errno));
    canvas_free(picture);
    return written ? CLI_DONE : CLI_FAILED;
}

static int plot_runs(const plot_values *v, int count, char *const *runs, const char *output, char *why, size_t size) {
    plot *p = calloc(1, sizeof *p);
    if (!p) return snprintf(why, size, "out of memory"), CLI_FAILED;
    int code = CLI_DONE;
    p->v = v;
    while (p->count < count && code == CLI_DONE) {
        set_name(p->names[p->count], sizeof *p->names, runs[p->count]);
        code = history_read(&p->histories[p->count], runs[p->count], why, size);
        p->count++;
    }
    if (code == CLI_DONE) code = write_picture(p, output, why, size);
    free(p->points);
    for (int i = 0; i < p->count; i++) history_free(&p->histories[i]);
    free(p);
    return code;
}

int cli_plot_run(const char *folder, char *why, size_t size) {
    char path[PATH_MAX];
    plot_values v = {0};
    set_defaults(&v);
    snprintf(path, sizeof path, "%s/loss.png", folder);
    return plot_runs(&v, 1, &(char *){(char *)folder}, path, why, size);
}

// ---- the command ----

// A picture is easily made again, a text or a model is not: only an empty file and a PNG may be replaced.
static bool may_be_replaced(const char *path) {
    static const char png[] = "\x89PNG\r\n\x1a\n";
    char start[sizeof png - 1];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return true;
    FILE *file = fopen(path, "re");
    bool is_png = file && fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, png, sizeof start) == 0;
    if (file) fclose(file);
    return is_png;
}

static bool options_fit(const plot_values *v, int count, const char *output) {
    if (count > CHART_COLORS)
        cli_error("%d runs are too many for one picture; it has colours for %d", count, CHART_COLORS);
    else if (v->low >= v->high)
        cli_error("--low must be less than --high");
    else if (!output)
        cli_error("a picture of several runs has no place of its own; -o says where it goes");
    else if (!*output)
        cli_error("--output needs the name of a file");
    else if (!may_be_replaced(output))
        cli_error("%s: is there and is no PNG; plot replaces only those, -o names another file", output);
    else
        return true;
    return false;
}

static int run(const void *values, int count, char **operands) {
    const plot_values *v = values;
    char log[PATH_MAX], place[PATH_MAX + 16], why[PATH_MAX + 256];
    const char *output = v->output;
    if (!output && count == 1) {
        snprintf(why, sizeof why, "%s", history_log_path(operands[0], log, sizeof log));
        snprintf(place, sizeof place, "%s/loss.png", dirname(why));
        output = place;
    }
    if (!options_fit(v, count, output)) return CLI_USAGE;
    if (!cli_has_png) return cli_error("%s", CLI_NO_PNG), CLI_FAILED;
    int code = plot_runs(v, count, operands, output, why, sizeof why);
    if (code != CLI_DONE) cli_error("%s", why);
    return code;
}

static const cli_term examples[] = {
    {"halfstep plot book.run", "draws book.run/loss.png, as train does at the end of a run"},
    {"halfstep plot a.run b.run -o both.png", "compares two runs"},
    {"halfstep plot book.run -o end.png --x time --high 2", "shows only what is below 2 nats, over time"},
    {NULL, NULL}};

static const cli_term files[] = {{"RUN/log.jsonl", "what is read: the run's record"},
                                 {"RUN/loss.png", "what is written, unless -o names another file"},
                                 {NULL, NULL}};

const cli_command cli_plot = {
    .name = "plot",
    .operands = "RUN...",
    .at_least = 1,
    .at_most = -1,
    .summary = "the loss curves of runs, as a picture",
    .details = "Draws the training loss and the held-out loss of up to 8 runs, with the best of each marked. RUN is a "
               "run folder, also of a run that is going on, or its log.jsonl. Needs a halfstep that was built with "
               "stb_image_write.h; `halfstep info` says whether this one was.",
    .examples = examples,
    .files = files,
    .options = options,
    .size = sizeof(plot_values),
    .defaults = set_defaults,
    .run = run,
};
