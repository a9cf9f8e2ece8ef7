// deepspeed.c: reading DeepSpeed's configuration: every key that halfstep knows is a row of a table, as options are.
#include "train/cli/deepspeed.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(field) offsetof(deepspeed, field)
#define BOOLEAN(key, field)                                                                                            \
    { key, 0, NULL, CLI_CHOICE, AT(field), .choices = "false|true" }
#define NAME(key, field, names)                                                                                        \
    { key, 0, NULL, CLI_CHOICE, AT(field), .choices = names }
#define COUNT(key, field, least, most)                                                                                 \
    { key, 0, NULL, CLI_INT64, AT(field), .low = least, .high = most }
#define REAL(key, field, least, most, which)                                                                           \
    { key, 0, NULL, CLI_REAL, AT(field), .low = least, .high = most, .ends = which }

const cli_option deepspeed_keys[] = {BOOLEAN("fp16.enabled", fp16),
                                     BOOLEAN("fp16.auto_cast", auto_cast),
                                     REAL("fp16.loss_scale", loss_scale, 0, FLT_MAX, CLI_BOTH),
                                     COUNT("fp16.initial_scale_power", scale_power, 0, 127),
                                     COUNT("fp16.loss_scale_window", window, 1, 1e12),
                                     COUNT("fp16.hysteresis", hysteresis, 1, 1e12),
                                     BOOLEAN("fp16.consecutive_hysteresis", consecutive),
                                     REAL("fp16.min_loss_scale", min_loss_scale, 0, FLT_MAX, CLI_ABOVE_LOW),
                                     BOOLEAN("fp16.fp16_master_weights_and_grads", fp16_masters),
                                     BOOLEAN("bf16.enabled", bf16),
                                     BOOLEAN("bf16.immediate_grad_update", immediate),
                                     BOOLEAN("bf16.check_grad_overflow", check_overflow),
                                     BOOLEAN("bf16.bf16_master_weights_and_grads", bf16_masters),
                                     BOOLEAN("bf16.bf16_optimizer_states", bf16_states),
                                     REAL("gradient_clipping", clip, 0, DBL_MAX, CLI_BOTH),
                                     COUNT("train_batch_size", train_batch, 1, 1e12),
                                     COUNT("train_micro_batch_size_per_gpu", micro_batch, 1, 1e12),
                                     COUNT("gradient_accumulation_steps", accumulation, 1, 1e12),
                                     NAME("optimizer.type", optimizer, "Adam|AdamW|SGD|RAdam"),
                                     REAL("optimizer.params.lr", lr, 0, DBL_MAX, CLI_BOTH),
                                     REAL("optimizer.params.betas.0", beta1, 0, 1, CLI_BELOW_HIGH),
                                     REAL("optimizer.params.betas.1", beta2, 0, 1, CLI_BELOW_HIGH),
                                     REAL("optimizer.params.eps", eps, 0, 1, CLI_ABOVE_LOW),
                                     REAL("optimizer.params.weight_decay", weight_decay, 0, DBL_MAX, CLI_BOTH),
                                     REAL("optimizer.params.momentum", momentum, 0, 1, CLI_BELOW_HIGH),
                                     BOOLEAN("optimizer.params.nesterov", nesterov),
                                     BOOLEAN("optimizer.params.torch_adam", torch_adam),
                                     BOOLEAN("optimizer.params.adam_w_mode", adam_w_mode),
                                     NAME("scheduler.type", scheduler, "WarmupLR|WarmupDecayLR|WarmupCosineLR"),
                                     REAL("scheduler.params.warmup_min_lr", warmup_min_lr, 0, DBL_MAX, CLI_BOTH),
                                     REAL("scheduler.params.warmup_max_lr", warmup_max_lr, 0, DBL_MAX, CLI_BOTH),
                                     COUNT("scheduler.params.warmup_num_steps", warmup_steps, 0, 1e12),
                                     NAME("scheduler.params.warmup_type", warmup_type, "log|linear"),
                                     COUNT("scheduler.params.total_num_steps", total_steps, 1, 1e12),
                                     REAL("scheduler.params.warmup_min_ratio", warmup_min_ratio, 0, 1, CLI_BOTH),
                                     REAL("scheduler.params.cos_min_ratio", cos_min_ratio, 0, 1, CLI_BOTH),
                                     {0}};

// What a file that says nothing else means, by DeepSpeed's documentation, PyTorch's for SGD and RAdam.
static const deepspeed defaults = {.check_overflow = true,
                                   .hysteresis = 2,
                                   .min_loss_scale = 1,
                                   .lr = 1e-3,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8,
                                   .adam_w_mode = true,
                                   .warmup_max_lr = 1e-3,
                                   .warmup_steps = 1000,
                                   .warmup_type = DEEPSPEED_LOG,
                                   .cos_min_ratio = 1e-4};

// ---- errors ----

static int find_key(const char *key) {
    int i = 0;
    while (deepspeed_keys[i].name && strcmp(deepspeed_keys[i].name, key) != 0) i++;
    return deepspeed_keys[i].name ? i : -1;
}

int deepspeed_line(const deepspeed *file, const char *key) { return file->lines[find_key(key)]; }

static bool refuse_at(deepspeed *file, int line, const char *key, const char *format, va_list arguments) {
    char what[512];
    vsnprintf(what, sizeof what, format, arguments);
    cli_error("%s: line %d: %s %s", file->path, line, key, what);
    file->code = CLI_INPUT;
    return false;
}

bool deepspeed_refuse(deepspeed *file, const char *key, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    refuse_at(file, deepspeed_line(file, key), key, format, arguments);
    va_end(arguments);
    return false;
}

static bool refuse_value(deepspeed *file, const json_value *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse_value(deepspeed *file, const json_value *value, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    refuse_at(file, value->line, value->depth ? value->path : "the configuration", format, arguments);
    va_end(arguments);
    return false;
}

// ---- values ----

// The value as the file has it, for messages.
static const char *shown(const json_value *value, char *buffer, size_t size) {
    const char *quote = value->kind == '"' ? "\"" : "";
    if (value->kind == '{' || value->kind == '[')
        snprintf(buffer, size, "%s", value->kind == '{' ? "an object" : "an array");
    else
        snprintf(buffer, size, "%s%.*s%s", quote, (int)fmin((double)value->part.length, 40), value->part.text, quote);
    return buffer;
}

static bool has_kind(const cli_option *key, const json_value *value) {
    bool boolean = key->choices && !strncmp(key->choices, "false", 5);
    return value->kind == (boolean ? 'b' : key->choices ? '"' : '0');
}

// Names are DeepSpeed's in any case.
static void find_spelling(const char *choices, char *text, size_t size) {
    for (; *choices; choices += strcspn(choices, "|"), choices += *choices == '|') {
        size_t length = strcspn(choices, "|");
        if (length == strlen(text) && !strncasecmp(choices, text, length))
            snprintf(text, size, "%.*s", (int)length, choices);
    }
}

static bool take_value(deepspeed *file, int i, const json_value *value) {
    const cli_option *key = &deepspeed_keys[i];
    char text[64], expected[192], found[64];
    if (file->lines[i]) return refuse_value(file, value, "was given in line %d already", file->lines[i]);
    file->lines[i] = value->line;
    bool fits = json_plain(value->part, text, sizeof text) < sizeof text && has_kind(key, value);
    if (fits && value->kind == '"') find_spelling(key->choices, text, sizeof text);
    if (fits && cli_set_value(key, file, text)) return true;
    return refuse_value(file, value, "must be %s, but is %s", cli_describe_type(key, expected, sizeof expected),
                        shown(value, found, sizeof found));
}

// ---- sections ----

static const char *const sections[] = {
    "fp16", "bf16", "optimizer", "optimizer.params", "scheduler", "scheduler.params", "optimizer.params.betas", NULL};

static bool is_section(const char *path) {
    int i = 0;
    while (sections[i] && strcmp(sections[i], path) != 0) i++;
    return sections[i] != NULL;
}

// The key of the section that the path goes to which is nearest to its own, or NULL.
static const char *find_nearest(const char *path) {
    const char *names[DEEPSPEED_KEYS], *last = strrchr(path, '.') + 1;
    size_t length = (size_t)(last - path);
    int count = 0;
    for (const cli_option *key = deepspeed_keys; key->name; key++)
        if (!strncmp(key->name, path, length) && !strchr(key->name + length, '.')) names[count++] = key->name + length;
    names[count] = NULL;
    return cli_nearest(last, names);
}

static bool refuse_unknown(deepspeed *file, const json_value *value) {
    const char *nearest = find_nearest(value->path);
    if (nearest) return refuse_value(file, value, "is no key that halfstep knows; did you mean %s?", nearest);
    return refuse_value(file, value, "is no key that halfstep knows; leave it out");
}

static void note_ignored(deepspeed *file, const char *key) {
    size_t length = strlen(file->ignored);
    snprintf(file->ignored + length, sizeof file->ignored - length, "%s%s", length ? ", " : "", key);
}

static bool visit(const json_value *value, void *user) {
    deepspeed *file = user;
    int i = find_key(value->path);
    bool betas = !strcmp(value->path, "optimizer.params.betas");
    if (i >= 0) return take_value(file, i, value);
    if (!value->depth || is_section(value->path))
        return value->kind == (betas ? '[' : '{') ||
               refuse_value(file, value, "must be %s", betas ? "an array of two numbers" : "an object");
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(value->path, "."), value->path);
    if (is_section(first)) return refuse_unknown(file, value);
    if (!strchr(value->path, '.')) note_ignored(file, value->path);
    return true;
}

// ---- the file ----

enum { MAX_SIZE = 1 << 20 };

// For free(); NULL after printing what is wrong.
static char *read_text(const char *path) {
    FILE *in = fopen(path, "re");
    char *text = in ? malloc(MAX_SIZE + 1) : NULL;
    size_t size = text ? fread(text, 1, MAX_SIZE + 1, in) : 0;
    bool failed = !text || ferror(in), binary = !failed && memchr(text, '\0', size);
    if (failed)
        cli_error("%s: %s", path, strerror(errno));
    else if (size > MAX_SIZE)
        cli_error("%s: is larger than a megabyte, so no configuration of DeepSpeed's", path);
    else if (binary)
        cli_error("%s: a byte in it is 0, which no JSON has", path);
    if (in) fclose(in);
    if (!failed && size <= MAX_SIZE && !binary) {
        text[size] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

int cli_deepspeed_read(cli_train_values *values) {
    deepspeed file = defaults;
    json_fault fault;
    if (!values->deepspeed) return CLI_DONE;
    file.path = values->deepspeed;
    file.options = values;
    char *text = read_text(file.path);
    if (!text) return CLI_INPUT;
    bool whole = json_walk(text, visit, &file, &fault);
    free(text);
    if (fault.what) cli_error("%s: line %d: %s", file.path, fault.line, fault.what);
    if (fault.what) return CLI_INPUT;
    if (!whole || !deepspeed_set_options(&file)) return file.code;
    if (*file.ignored && !values->quiet) fprintf(stderr, "note: %s: ignored: %s\n", file.path, file.ignored);
    return CLI_DONE;
}
