// values.c: the text of an option's value to its target and back. Strict: the whole text is a value in range, or it is
// none. The command never calls setlocale, so that strtod and printf keep the "C" locale's point.
#include "train/cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_range(const cli_option *option, double x) {
    bool above = option->ends == CLI_ABOVE_LOW ? x > option->low : x >= option->low;
    bool below = option->ends == CLI_BELOW_HIGH ? x < option->high : x <= option->high;
    return above && below; // NaN is in no range
}

// A decimal number at the start of text; *rest is what follows it. strtod alone would also take " 1", "0x1p3", "inf"
// and "nan".
static bool read_number(const char *text, double *x, const char **rest) {
    const char *digits = text + (*text == '-' || *text == '+');
    if (strspn(digits, "0123456789.") == 0 || digits[strspn(digits, "0")] == 'x' || digits[strspn(digits, "0")] == 'X')
        return false;
    char *end;
    *x = strtod(text, &end);
    *rest = end;
    return end != text && isfinite(*x);
}

// "90", "90s", "3m", "1h30m", "1.5h": units from large to small, each at most once.
static bool read_duration(const char *text, double *seconds) {
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'h', 3600}, {'m', 60}, {'s', 1}};
    size_t next = 0;
    *seconds = 0;
    do {
        double x;
        if (!read_number(text, &x, &text)) return false;
        if (!*text && next == 0) text = "s"; // a number alone
        while (next < 3 && units[next].unit != *text) next++;
        if (next == 3) return false;
        *seconds += x * units[next++].seconds;
        text++;
    } while (*text);
    return true;
}

static bool read_integer(const char *text, int64_t *x) {
    const char *digits = text + (*text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")]) return false;
    errno = 0;
    *x = strtoll(text, NULL, 10);
    return errno == 0;
}

static bool read_unsigned(const char *text, uint64_t *x) {
    if (!*text || text[strspn(text, "0123456789")]) return false;
    errno = 0;
    *x = strtoull(text, NULL, 10);
    return errno == 0;
}

// Which of "a|b|c" text is, or -1.
static int read_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int i = 0;; i++) {
        size_t end = strcspn(choices, "|");
        if (end == length && strncmp(choices, text, end) == 0) return i;
        if (!choices[end]) return -1;
        choices += end + 1;
    }
}

static bool set_real(const cli_option *option, double *target, double x) {
    if (!in_range(option, x)) return false;
    *target = x;
    return true;
}

static bool set_integer(const cli_option *option, void *target, int64_t x) {
    if (!in_range(option, (double)x)) return false;
    if (option->type == CLI_INT)
        *(int *)target = (int)x;
    else
        *(int64_t *)target = x;
    return true;
}

bool cli_set_value(const cli_option *option, void *values, const char *text) {
    void *target = (char *)values + option->offset;
    const char *rest = "";
    int64_t integer;
    double real;
    int choice;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)target = true;
        return true;
    case CLI_TEXT:
    case CLI_FILE:
    case CLI_FOLDER:
        *(const char **)target = text;
        return true;
    case CLI_SEED:
        return read_unsigned(text, target);
    case CLI_INT:
    case CLI_INT64:
        return read_integer(text, &integer) && set_integer(option, target, integer);
    case CLI_SWITCH:
        choice = read_choice(option->choices, text);
        if (choice >= 0) *(bool *)target = choice == 1;
        return choice >= 0;
    case CLI_REAL:
        if (option->choices && !strcmp(text, option->choices)) return *(double *)target = 0, true;
        return read_number(text, &real, &rest) && !*rest && set_real(option, target, real);
    case CLI_SECONDS:
        return read_duration(text, &real) && set_real(option, target, real);
    case CLI_CHOICE:
        choice = read_choice(option->choices, text);
        if (choice >= 0) memcpy(target, &choice, sizeof choice); // an enum or an int
        return choice >= 0;
    }
    return false;
}

const char *cli_describe_range(const cli_option *option, char *buffer, size_t size) {
    const char *from = option->ends == CLI_ABOVE_LOW ? "above" : isinf(option->high) ? "at least" : "from";
    const char *to = option->ends == CLI_ABOVE_LOW ? ", at most" : option->ends == CLI_BELOW_HIGH ? " to below" : " to";
    bool number =
        option->type == CLI_INT || option->type == CLI_INT64 || option->type == CLI_REAL || option->type == CLI_SECONDS;
    if (!number)
        snprintf(buffer, size, "%s", "");
    else if (isinf(option->high))
        snprintf(buffer, size, "%s %.10g", from, option->low);
    else
        snprintf(buffer, size, "%s %.10g%s %.10g", from, option->low, to, option->high);
    return buffer;
}

const char *cli_describe_type(const cli_option *option, char *buffer, size_t size) {
    char range[64];
    cli_describe_range(option, range, sizeof range);
    switch (option->type) {
    case CLI_INT:
    case CLI_INT64:
        snprintf(buffer, size, "an integer %s", range);
        break;
    case CLI_REAL:
        snprintf(buffer, size, "%s%sa number %s", option->choices ? option->choices : "", option->choices ? " or " : "",
                 range);
        break;
    case CLI_SECONDS:
        snprintf(buffer, size, "a duration like 90s, 3m or 1h30m, %s seconds", range);
        break;
    case CLI_SEED:
        snprintf(buffer, size, "an integer from 0 to %" PRIu64, UINT64_MAX);
        break;
    case CLI_SWITCH:
    case CLI_CHOICE:
        snprintf(buffer, size, "one of %s", option->choices);
        break;
    case CLI_TEXT:
        snprintf(buffer, size, "a text");
        break;
    case CLI_FILE:
        snprintf(buffer, size, "a file");
        break;
    case CLI_FOLDER:
        snprintf(buffer, size, "a folder");
        break;
    case CLI_FLAG:
        snprintf(buffer, size, "nothing");
        break;
    }
    return buffer;
}

// The nth of "a|b|c"
static const char *format_choice(const char *choices, int n, char *buffer, size_t size) {
    for (; n > 0; n--) choices += strcspn(choices, "|") + 1;
    snprintf(buffer, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return buffer;
}

const char *cli_format_value(const cli_option *option, const void *values, char *buffer, size_t size) {
    const void *source = (const char *)values + option->offset;
    switch (option->type) {
    case CLI_FLAG:
        snprintf(buffer, size, "%s", *(const bool *)source ? "true" : "false");
        break;
    case CLI_TEXT:
    case CLI_FILE:
    case CLI_FOLDER:
        snprintf(buffer, size, "%s", *(const char *const *)source ? *(const char *const *)source : "");
        break;
    case CLI_INT:
        snprintf(buffer, size, "%d", *(const int *)source);
        break;
    case CLI_INT64:
        snprintf(buffer, size, "%" PRId64, *(const int64_t *)source);
        break;
    case CLI_SEED:
        snprintf(buffer, size, "%" PRIu64, *(const uint64_t *)source);
        break;
    case CLI_REAL:
        if (option->choices && *(const double *)source == 0) return format_choice(option->choices, 0, buffer, size);
        // fallthrough
    case CLI_SECONDS:
        snprintf(buffer, size, "%.10g", *(const double *)source);
        break;
    case CLI_SWITCH:
        return format_choice(option->choices, *(const bool *)source, buffer, size);
    case CLI_CHOICE:
        return format_choice(option->choices, *(const int *)source, buffer, size);
    }
    return buffer;
}

static void write_field(json_object *json, const cli_option *option, const void *values) {
    const void *source = (const char *)values + option->offset;
    char key[64], text[32];
    snprintf(key, sizeof key, "%s", option->name);
    for (char *c = key; *c; c++)
        if (*c == '-') *c = '_';
    switch (option->type) {
    case CLI_FLAG:
        json_bool(json, key, *(const bool *)source);
        break;
    case CLI_TEXT:
    case CLI_FILE:
    case CLI_FOLDER:
        json_text(json, key, *(const char *const *)source);
        break;
    case CLI_INT:
        json_integer(json, key, *(const int *)source);
        break;
    case CLI_INT64:
        json_integer(json, key, *(const int64_t *)source);
        break;
    case CLI_SEED:
        json_unsigned(json, key, *(const uint64_t *)source);
        break;
    case CLI_REAL:
    case CLI_SECONDS:
        if (!option->choices || *(const double *)source != 0) {
            json_real(json, key, *(const double *)source);
            break;
        }
        // fallthrough
    case CLI_SWITCH:
    case CLI_CHOICE:
        json_text(json, key, cli_format_value(option, values, text, sizeof text));
        break;
    }
}

void cli_options_json(json_object *json, const cli_option *table, const void *values) {
    for (; cli_table_goes_on(table); table++)
        if (table->name) write_field(json, table, values);
}
