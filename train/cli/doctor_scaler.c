// doctor_scaler.c: what the loss scalers of several systems make of the same overflows, by running them.
#include "train/cli/doctor_scaler.h"

#include <string.h>

static const char events[] = "NOL";
static const hst_finding findings[] = {HST_FOUND_FINITE, HST_FOUND_OVERFLOW, HST_FOUND_NAN_LOSS};

// Each profile, and the two settings of profiles that other systems' scalers are.
static const struct {
    hst_scaler_profile profile;
    bool hysteresis, consecutive;
} rows[] = {{HST_SCALER_TORCH, false, false},
            {HST_SCALER_APEX, false, false},
            {HST_SCALER_DEEPSPEED_ZERO, true, false},
            {HST_SCALER_DEEPSPEED_ZERO, true, true},
            {HST_SCALER_DEEPSPEED_FUSED, false, false},
            {HST_SCALER_MXNET, false, false},
            {HST_SCALER_APEX, true, true},
            {HST_SCALER_STATIC, false, false},
            {HST_SCALER_NONE, false, false}};
enum { ROWS = sizeof rows / sizeof *rows };

void doctor_scaler_defaults(doctor_scaler *v) {
    v->pattern = "OONNNNNONONNNNNN";
    v->init_scale = 65536;
    v->growth_interval = 4;
    v->hysteresis = 2;
}

static hst_scaler_options options_of(const doctor_scaler *v, int row) {
    hst_scaler_options o = hst_scaler_defaults(rows[row].profile);
    if (o.profile != HST_SCALER_NONE) o.init_scale = v->init_scale;
    o.interval = v->growth_interval;
    o.hysteresis = rows[row].hysteresis ? v->hysteresis : 1;
    o.consecutive = rows[row].consecutive;
    return o;
}

static const char *label_of(const hst_scaler_options *o, char label[64]) {
    char hysteresis[32] = "";
    if (o->hysteresis > 1) snprintf(hysteresis, sizeof hysteresis, " h=%lld", (long long)o->hysteresis);
    snprintf(label, 64, "%s%s%s", hst_scaler_name(o->profile), hysteresis, o->consecutive ? " consecutive" : "");
    return label;
}

// One iteration: the scale that it uses, and in words what became of it. false where the run ends with an error.
static bool iterate(hst_scaler *scaler, char event, double *scale, char *words, size_t size) {
    hst_context *ctx = hst_scaler_context(scaler);
    *scale = hst_scaler_scale(scaler);
    hst_scaler_report(scaler, findings[strchr(events, event) - events], "a parameter");
    bool goes_on = hst_scaler_update(scaler) == HST_OK;
    if (goes_on)
        hst_scaler_describe(scaler, words, size);
    else
        snprintf(words, size, "%s", hst_error(ctx));
    hst_clear_error(ctx);
    return goes_on;
}

static void print_json(const hst_scaler_options *o, int iteration, char event, double scale, const char *words) {
    json_object json = json_begin(stdout);
    json_text(&json, "profile", hst_scaler_name(o->profile));
    json_integer(&json, "hysteresis", o->hysteresis);
    json_bool(&json, "consecutive", o->consecutive);
    json_integer(&json, "iteration", iteration);
    json_text(&json, "event", (char[]){event, 0});
    json_real(&json, "scale", scale);
    json_text(&json, "action", words);
    json_end(&json);
}

// A row of the table of all, a line an iteration for one, or an object an iteration.
static bool show_trace(const doctor_scaler *v, bool json, int row, hst_context *ctx) {
    hst_scaler_options o = options_of(v, row);
    hst_scaler *scaler = hst_scaler_new(ctx, &o);
    if (!scaler) return false;
    bool table = v->profile == 0 && !json, goes_on = true;
    char label[64], words[512];
    if (!json) printf(table ? "%-30s" : "%s\n", label_of(&o, label));
    for (int i = 0; v->pattern[i] && goes_on; i++) {
        double scale;
        goes_on = iterate(scaler, v->pattern[i], &scale, words, sizeof words);
        if (json)
            print_json(&o, i + 1, v->pattern[i], scale, words);
        else if (table)
            printf(" %6.6g%s", scale, goes_on ? "" : " ends");
        else
            printf("%5d  %c %12.9g  %s\n", i + 1, v->pattern[i], scale, words);
    }
    if (!json) putchar('\n');
    hst_scaler_free(scaler);
    return true;
}

static void print_heading(const doctor_scaler *v) {
    printf(
        "The scale that each iteration uses. O: a gradient overflows; N: none does; L: the loss itself is not finite.\n"
        "Growth after %lld steps without an overflow, h: hysteresis, ends: training ends with an error.\n\n",
        (long long)v->growth_interval);
    if (v->profile > 0) return;
    printf("%-30s", "");
    for (const char *event = v->pattern; *event; event++) printf(" %6c", *event);
    putchar('\n');
}

int doctor_show_scaler(const doctor_scaler *v, bool json, hst_context *ctx) {
    if (!*v->pattern || v->pattern[strspn(v->pattern, events)]) {
        cli_error("--pattern must be letters O (a gradient overflows), N (none does) and L (the loss itself is not "
                  "finite), but was given `%s`",
                  v->pattern);
        return CLI_USAGE;
    }
    if (!json) print_heading(v);
    for (int row = 0; row < ROWS; row++) {
        bool wanted = v->profile == 0 || (int)rows[row].profile == v->profile - 1;
        if (wanted && !show_trace(v, json, row, ctx)) return cli_failure(ctx, false);
    }
    return CLI_DONE;
}
