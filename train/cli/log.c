// log.c: see log.h.
#include "train/cli/log.h"

#include "train/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

// A run that was killed may have left half a line. It goes, so that what is appended does not become its other half.
static bool drop_torn_line(FILE *file) {
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1, keep = end;
    while (keep > 0 && fseek(file, keep - 1, SEEK_SET) == 0 && fgetc(file) != '\n') keep--;
    return keep == end || (keep >= 0 && ftruncate(fileno(file), keep) == 0);
}

bool cli_log_open(cli_log *log, const char *folder, bool append) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    *log = (cli_log){.file = fopen(path, append ? "a+e" : "we")};
    bool open = log->file && (!append || drop_torn_line(log->file));
    if (!open) cli_error("%s: %s", path, strerror(errno));
    return open;
}

void cli_log_close(cli_log *log) {
    if (log->file) fclose(log->file);
    log->file = NULL;
}

bool cli_log_begin(cli_log *log, const char *event, json_object *json) {
    if (!log->file) return false;
    *json = json_begin(log->file);
    json_text(json, "event", event);
    return true;
}

// A full disk must not end a run that can still save to it later: the log is told to be incomplete, once.
void cli_log_end(cli_log *log, json_object *json) {
    if (json_end(json)) return;
    if (!log->failed) cli_warning("the log could not be written (%s); the run goes on", strerror(errno));
    log->failed = true;
    clearerr(log->file);
}

static void write_step(json_object *json, const hst_progress *p) {
    json_real(json, "epoch", p->epoch);
    json_real(json, "loss", p->loss);
    json_real(json, "smooth_loss", p->smooth_loss);
    json_real(json, "lr", p->rate);
    json_real(json, "norm", p->norm);
    json_real(json, "tokens_per_second", p->tokens_per_second);
    json_text(json, "result", hst_step_result_name(p->result));
    json_integer(json, "skipped", p->skipped);
    json_real(json, "scale", p->scale);
    if (*p->scaler) json_text(json, "scaler", p->scaler);
}

void cli_log_progress(cli_log *log, const hst_progress *p) {
    const char *event = p->event == HST_EVENT_STEP ? "step" : p->event == HST_EVENT_EVAL ? "eval" : "save";
    json_object json;
    if (!cli_log_begin(log, event, &json)) return;
    json_integer(&json, "step", p->step);
    json_real(&json, "seconds", p->seconds);
    if (p->event == HST_EVENT_STEP) write_step(&json, p);
    if (p->event == HST_EVENT_EVAL) {
        json_real(&json, "validation", p->validation);
        json_real(&json, "bits_per_symbol", p->validation / M_LN2);
        json_real(&json, "best", p->best);
    }
    if (p->event == HST_EVENT_SAVE) json_text(&json, "path", p->path);
    cli_log_end(log, &json);
}
