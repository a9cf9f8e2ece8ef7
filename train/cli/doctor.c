// doctor.c: `halfstep doctor`: what 16 bits do. `accumulate` computes the example of apache/mxnet#17703 with safe and
// with unsafe accumulation, then how far a sum of the user's own gets; `precision` is in doctor_precision.c, `scaler`
// in doctor_scaler.c.
#include "train/cli/doctor_precision.h"
#include "train/cli/doctor_scaler.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct doctor_values {
    cli_common common;
    double term, start;
    int64_t count;
    doctor_scaler scaler;
    doctor_precision precision;
    bool json;
} doctor_values;

static const cli_option options[] = {
    {.help = "accumulate: a sum of your own"},
    {"term", 0, "X", CLI_REAL, offsetof(doctor_values, term), .low = -1e30, .high = 1e30,
     .help = "what is added again and again"},
    {"start", 0, "Y", CLI_REAL, offsetof(doctor_values, start), .low = -1e30, .high = 1e30,
     .help = "what it is added to"},
    {"count", 0, "N", CLI_INT64, offsetof(doctor_values, count), .low = 1, .high = 1e9, .help = "how many times"},
    {.help = "scaler: overflows of your own"},
    {"pattern", 0, "LETTERS", CLI_TEXT, offsetof(doctor_values, scaler.pattern),
     .help = "what happens in each iteration: O, a gradient overflows; N, none does; L, the loss itself is not finite"},
    {"profile", 0, "NAME", CLI_CHOICE, offsetof(doctor_values, scaler.profile), .choices = DOCTOR_PROFILES,
     .help = "all as a table, or with what each step does to the scale one of none, static, torch, apex, "
             "deepspeed_zero, deepspeed_fused and mxnet"},
    {"init-scale", 0, "X", CLI_REAL, offsetof(doctor_values, scaler.init_scale), .low = 0x1p-14, .high = 0x1p24,
     .help = "the first scale"},
    {"growth-interval", 0, "N", CLI_INT64, offsetof(doctor_values, scaler.growth_interval), .low = 1, .high = 1e9,
     .help = "steps without an overflow before the scale grows"},
    {"hysteresis", 0, "N", CLI_INT64, offsetof(doctor_values, scaler.hysteresis), .low = 1, .high = 1000,
     .help = "overflows that it takes to lower the scale, of the scalers that have it"},
    {.help = "precision: a model of your own"},
    {"batch", 0, "B", CLI_INT64, offsetof(doctor_values, precision.batch), .low = 1, .high = 1e6,
     .help = "places of the text that are read side by side"},
    {"length", 0, "L", CLI_INT64, offsetof(doctor_values, precision.length), .low = 1, .high = 1e6,
     .help = "symbols read at each of them; the kernels that add in 16 bits are slow, so small numbers will do"},
    {"loss-scale", 0, "S", CLI_REAL, offsetof(doctor_values, precision.scale), .low = 0x1p-30, .high = 0x1p60,
     .help = "what the loss is multiplied by before gradients are taken"},
    {.help = "Output"},
    {"json", 0, NULL, CLI_FLAG, offsetof(doctor_values, json), .help = "print one JSON object a row"},
    {0}};

static void defaults(void *values) {
    doctor_values *v = values;
    v->term = 0.01;
    v->start = 1;
    v->count = 100000;
    doctor_scaler_defaults(&v->scaler);
    doctor_precision_defaults(&v->precision);
}

// ---- the example ----

enum { ROWS = 8, COUNT = 100000 };

static const struct {
    const char *name;
    int counts[ROWS]; // how often the report looked each row up
} examples_of[] = {{"embedding", {12574, 12653, 12430, 12436, 12527, 12605, 12374, 12401}},
                   {"take", {12444, 12568, 12562, 12444, 12602, 12538, 12410, 12432}}};

// The columns: computed by which kernels, in which dtype.
static const struct {
    const char *name, *key;
    bool unsafe;
    hst_dtype dtype;
} columns[] = {{"fp32 sequential", "fp32_sequential", true, HST_F32},
               {"fp16 unsafe", "fp16_unsafe", true, HST_F16},
               {"fp16 safe", "fp16_safe", false, HST_F16},
               {"bf16 unsafe", "bf16_unsafe", true, HST_BF16},
               {"bf16 safe", "bf16_safe", false, HST_BF16}};
enum { COLUMNS = sizeof columns / sizeof *columns };

// The gradient of a table of which row r was looked up counts[r] times, by gradients of 0.01, onto ones.
static bool compute(hst_context *ctx, bool take, hst_dtype dtype, double rows[ROWS]) {
    static uint8_t ids[COUNT];
    static const double ones[ROWS] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int row = 0, i = 0; row < ROWS; row++)
        for (int n = 0; n < examples_of[take].counts[row]; n++) ids[i++] = (uint8_t)row;
    hst_scope_begin(ctx);
    hst_tensor *weight = hst_zeros(ctx, dtype, HST_SHAPE(ROWS, 1));
    hst_tensor *which = hst_from_array(ctx, HST_U8, HST_SHAPE(COUNT), HST_U8, ids);
    hst_attach_grad(weight, HST_ADD, dtype);
    hst_copy_in(hst_grad(weight), HST_F64, ones);
    hst_tensor *y = take ? hst_take(weight, which, 0) : hst_embedding(weight, which);
    hst_tensor *dy = hst_full(ctx, dtype, HST_SHAPE(COUNT, 1), 0.01);
    hst_backward_from(ctx, 1, &y, &dy);
    hst_copy_out(hst_grad(weight), HST_F64, rows);
    hst_scope_end(ctx, NULL);
    return hst_get_status(ctx) == HST_OK;
}

static void print_example(const doctor_values *v, bool take, double (*sums)[ROWS]) {
    if (!v->json) {
        printf("%-9s %5s %12s", examples_of[take].name, "times", "exact");
        for (int c = 0; c < COLUMNS; c++) printf(" %15s", columns[c].name);
        putchar('\n');
    }
    for (int row = 0; row < ROWS; row++) {
        int times = examples_of[take].counts[row];
        double exact = 1 + times * (double)0.01f;
        if (v->json) {
            json_object json = json_begin(stdout);
            json_text(&json, "operation", examples_of[take].name);
            json_integer(&json, "row", row);
            json_integer(&json, "times", times);
            json_real(&json, "exact", exact);
            for (int c = 0; c < COLUMNS; c++) json_real(&json, columns[c].key, sums[c][row]);
            json_end(&json);
            continue;
        }
        printf("row %-5d %5d %12.6f", row, times, exact);
        for (int c = 0; c < COLUMNS; c++) printf(" %15.8g", sums[c][row]);
        putchar('\n');
    }
    if (!v->json) putchar('\n');
}

static int show_examples(const doctor_values *v, hst_context *safe, hst_context *unsafe) {
    double sums[COLUMNS][ROWS];
    if (!v->json)
        printf("apache/mxnet#17703: %d gradients of 0.01 added onto %d rows that hold 1. Unsafe: rounded after each\n"
               "addition; safe: added exactly, rounded once. exact: with 0.01 as fp32 has it.\n\n",
               COUNT, ROWS);
    for (int take = 0; take < 2; take++) {
        for (int c = 0; c < COLUMNS; c++) {
            hst_context *ctx = columns[c].unsafe ? unsafe : safe;
            if (!compute(ctx, take, columns[c].dtype, sums[c])) return cli_failure(ctx, false);
        }
        print_example(v, take, sums);
    }
    return CLI_DONE;
}

// ---- a sum of one's own, by adding ----

static double rounded(hst_dtype dtype, double x) {
    if (dtype == HST_F16) return (double)hst_from_f16(hst_to_f16(x));
    if (dtype == HST_BF16) return (double)hst_from_bf16(hst_to_bf16(x));
    return (double)(float)x;
}

static void show_stall(const doctor_values *v, const char *name, hst_dtype dtype) {
    double term = rounded(dtype, v->term), sum = rounded(dtype, v->start);
    int64_t done = 0;
    bool stopped = false; // what an addition leaves as it is, so do all that follow
    while (done < v->count && !stopped) {
        double next = rounded(dtype, sum + term);
        stopped = next == sum;
        done += !stopped;
        sum = next;
    }
    if (v->json) {
        json_object json = json_begin(stdout);
        json_text(&json, "dtype", name);
        json_real(&json, "term", term);
        json_real(&json, "start", rounded(dtype, v->start));
        json_integer(&json, "count", v->count);
        json_real(&json, "sum", sum);
        json_bool(&json, "stopped", stopped);
        json_integer(&json, "additions", done);
        json_real(&json, "exact", rounded(dtype, v->start) + (double)v->count * term);
        json_end(&json);
        return;
    }
    printf("%-6s %14.9g %14.9g %16.9g", name, term, sum, rounded(dtype, v->start) + (double)v->count * term);
    if (stopped)
        printf("  %s after %" PRId64 " additions\n", isinf(sum) ? "infinite" : "stops", done);
    else
        printf("  still moving\n");
}

static void show_stalls(const doctor_values *v) {
    if (!v->json)
        printf("%.10g added %" PRId64 " times to %.10g, rounded after each addition:\n%-6s %14s %14s %16s\n", v->term,
               v->count, v->start, "", "term", "sum", "exact");
    show_stall(v, "fp16", HST_F16);
    show_stall(v, "bf16", HST_BF16);
    show_stall(v, "fp32", HST_F32);
}

// ---- the command ----

static int show_accumulation(const doctor_values *v, hst_context *safe, int count, char **operands) {
    (void)count, (void)operands;
    int code = CLI_DONE;
    cli_common common = v->common;
    common.unsafe = true;
    hst_context *unsafe = cli_open(&common, NULL, NULL, &code);
    if (unsafe) code = show_examples(v, safe, unsafe);
    if (unsafe && code == CLI_DONE) show_stalls(v);
    hst_close(unsafe);
    return code;
}

static int show_precision(const doctor_values *v, hst_context *ctx, int count, char **operands) {
    return doctor_show_precision(&v->precision, v->json, ctx, count, operands);
}

static int show_scaler(const doctor_values *v, hst_context *ctx, int count, char **operands) {
    (void)count, (void)operands;
    return doctor_show_scaler(&v->scaler, v->json, ctx);
}

static const struct {
    const char *name, *operands; // the latter behind the name
    int at_least, at_most;       // how many of them; at_most < 0: any number
    int (*show)(const doctor_values *v, hst_context *ctx, int count, char **operands); // returns the exit code
} topics[] = {{"accumulate", "", 0, 0, show_accumulation},                             //
              {"precision", "MODEL TEXT...", 2, -1, show_precision},
              {"scaler", "", 0, 0, show_scaler}};
enum { TOPICS = sizeof topics / sizeof *topics };

static int run(const void *values, int count, char **operands) {
    const doctor_values *v = values;
    int code = CLI_DONE, i = 0;
    while (i < TOPICS && strcmp(topics[i].name, operands[0]) != 0) i++;
    if (i == TOPICS) {
        cli_error("doctor knows %s, not `%s`", cli_doctor.operands, operands[0]);
        return CLI_USAGE;
    }
    if (count - 1 < topics[i].at_least || (topics[i].at_most >= 0 && count - 1 > topics[i].at_most)) {
        cli_error("doctor %s takes %s, not %d operands", topics[i].name,
                  *topics[i].operands ? topics[i].operands : "nothing more", count - 1);
        return CLI_USAGE;
    }
    hst_context *ctx = cli_open(&v->common, cli_print_message, NULL, &code);
    if (ctx) code = topics[i].show(v, ctx, count - 1, operands + 1);
    hst_close(ctx);
    return code;
}

static const cli_term examples[] = {
    {"halfstep doctor accumulate", "the example that began it, and how far sums of 0.01 get"},
    {"halfstep doctor accumulate --term 1 --start 0 --count 5000", "counting to 5000 in 16 bits"},
    {"halfstep doctor scaler",
     "what the loss scalers of PyTorch, APEX, DeepSpeed and MXNet make of the same overflows"},
    {"halfstep doctor scaler --profile mxnet --pattern ONNNNLN", "one of them, step by step"},
    {"halfstep doctor precision book.run book.txt --loss-scale 1024", "what fp16 and bf16 would do to this model"},
    {NULL, NULL}};

const cli_command cli_doctor = {
    .name = "doctor",
    .operands = "accumulate|precision [MODEL TEXT...]|scaler",
    .at_least = 1,
    .at_most = -1,
    .summary = "what 16 bits do to sums, to models and to losses",
    .details =
        "`accumulate` computes the example of apache/mxnet#17703, whose fp16 gradients stop at 32 where 126 is right, "
        "with this library's kernels and with the same ones rounding after each addition. Then adds --term to --start "
        "as often as --count says, in fp16, bf16 and fp32, and says where the sum stops. `precision` takes one forward "
        "and backward pass of MODEL on a little of TEXT and says of each tensor what storing it in fp16 or bf16 would "
        "lose, of each sum how far it would be off if it were added in them, and what to do about it. `scaler` runs "
        "each loss scaler over the overflows of --pattern and prints the scale that every iteration uses.",
    .examples = examples,
    .options = options,
    .size = sizeof(doctor_values),
    .defaults = defaults,
    .run = run,
};
