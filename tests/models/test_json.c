// test_json.c: the JSON reader and writer. What hostile headers do to the reader is in test_safetensors.c.
#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/json.h"

static char text[512];

static hst_json open_text(const char *json) {
    snprintf(text, sizeof text, "%s", json);
    return hst_json_open(text, strlen(text));
}

Test(models, json_reads_what_its_writer_writes) {
    char line[256];
    hst_json_writer out = hst_json_into(line, sizeof line);
    hst_json_put_open(&out, '{');
    hst_json_put_key(&out, "a\"b"), hst_json_put_string(&out, "\x01\t\\/\xe2\x82\xac\xf0\x9f\x98\x80");
    hst_json_put_key(&out, "list"), hst_json_put_open(&out, '[');
    hst_json_put_integer(&out, INT64_MIN), hst_json_put_unsigned(&out, UINT64_MAX), hst_json_put_number(&out, NAN);
    hst_json_put_open(&out, '{'), hst_json_put_close(&out, '}');
    hst_json_put_close(&out, ']');
    hst_json_put_key(&out, "on"), hst_json_put_boolean(&out, true);
    hst_json_put_close(&out, '}');
    cr_assert_str_eq(line, "{\"a\\\"b\":\"\\u0001\\t\\\\/\xe2\x82\xac\xf0\x9f\x98\x80\","
                           "\"list\":[-9223372036854775808,18446744073709551615,null,{}],\"on\":true}");
    cr_assert_eq(out.length, strlen(line));

    hst_json in = hst_json_open(line, out.length);
    cr_assert(hst_json_enter(&in, '{') && hst_json_next(&in));
    cr_expect_str_eq(in.key, "a\"b");
    cr_expect_str_eq(hst_json_string(&in), "\x01\t\\/\xe2\x82\xac\xf0\x9f\x98\x80");
    cr_assert(hst_json_next(&in) && !strcmp(in.key, "list") && hst_json_enter(&in, '['));
    cr_assert(hst_json_next(&in));
    cr_expect_eq(hst_json_number(&in), -0x1p63);
    cr_assert(hst_json_next(&in));
    cr_expect_eq(hst_json_unsigned(&in), UINT64_MAX);
    while (hst_json_next(&in)) hst_json_skip(&in);
    cr_assert(hst_json_next(&in));
    cr_expect(hst_json_boolean(&in));
    cr_expect_not(hst_json_next(&in));
    cr_expect(hst_json_end(&in));
}

Test(models, json_decodes_escapes) {
    hst_json in = open_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\uDE00\"");
    cr_expect_str_eq(hst_json_string(&in), "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    cr_expect(hst_json_end(&in));
}

// The writer measures, cuts off where there is no room, and makes valid JSON of any bytes.
Test(models, json_writer_keeps_to_its_buffer) {
    char line[32];
    for (size_t size = 0; size < sizeof line; size++) {
        memset(line, '#', sizeof line);
        hst_json_writer out = hst_json_into(line, size);
        hst_json_put_open(&out, '[');
        hst_json_put_string(&out, "a\xffz\xe2\x82");
        hst_json_put_close(&out, ']');
        static const char whole[] = "[\"a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\"]";
        cr_expect_eq(out.length, sizeof whole - 1);
        size_t fits = size > out.length ? out.length : size ? size - 1 : 0;
        cr_expect(memcmp(line, whole, fits) == 0 && (size == 0 || line[fits] == 0) && line[size] == '#', "%zu", size);
    }
}

Test(models, json_numbers_are_exact_in_any_locale) {
    static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8"};
    static const double values[] = {0,      -0.0,    1,       0.1,         -1.25, 1e22, 1e23,
                                    5e-324, DBL_MIN, DBL_MAX, DBL_EPSILON, M_PI,  1e-7, 123456789012345680};
    for (size_t l = 0; l < sizeof locales / sizeof *locales; l++) {
        if (!setlocale(LC_ALL, locales[l])) continue; // not on this machine
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            char number[64];
            hst_json_writer out = hst_json_into(number, sizeof number);
            hst_json_put_number(&out, values[i]);
            cr_expect_eq(strspn(number, "0123456789.e+-"), out.length, "%s", number);
            hst_json in = hst_json_open(number, out.length);
            double back = hst_json_number(&in);
            cr_expect(hst_json_end(&in) && back == values[i] && signbit(back) == signbit(values[i]), "%a", values[i]);
        }
        static const struct {
            const char *json;
            double value;
        } given[] = {{"1.5", 1.5},
                     {"-12.25e2", -1225},
                     {"1E+2", 100},
                     {"2.5e-1", 0.25},
                     {"0.000", 0},
                     {"1e-9999", 0},
                     {"9007199254740993", 9007199254740992},
                     {"0.1e99999999999999999999", -1},
                     {"1e400", -1}};
        for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
            hst_json in = open_text(given[i].json);
            double value = hst_json_number(&in);
            bool in_range = given[i].value != -1;
            cr_expect_eq(hst_json_end(&in), in_range, "%s", given[i].json);
            cr_expect_eq(value, in_range ? given[i].value : 0, "%s", given[i].json);
        }
        hst_json_writer out = hst_json_into(text, sizeof text);
        hst_json_put_number(&out, 0.1);
        cr_expect_str_eq(text, "0.1"); // the fewest digits
    }
}

Test(models, json_depth_is_bounded) {
    for (int depth = HST_JSON_DEPTH - 1; depth <= HST_JSON_DEPTH + 1; depth++) {
        for (int i = 0; i < depth; i++) text[i] = '[', text[2 * depth - 1 - i] = ']';
        hst_json in = hst_json_open(text, (size_t)(2 * depth));
        hst_json_skip(&in);
        cr_expect_eq(hst_json_end(&in), depth <= HST_JSON_DEPTH, "%d", depth);
    }
}

Test(models, json_problem_says_where_and_what) {
    static const struct {
        const char *json, *problem;
    } cases[] = {
        {"[1", "byte 2: ',' or ']' is expected, the end found"},
        {"[1 x", "byte 3: ',' or ']' is expected, 'x' found"},
        {"[tru]", "byte 1: a value is expected, 't' found"},
        {"[\"\n\"]", "byte 2: an escape for the control character is expected, byte 0x0A found"},
        {"1 2", "byte 2: the end is expected, '2' found"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[HST_JSON_PROBLEM];
        hst_json in = open_text(cases[i].json);
        hst_json_skip(&in);
        cr_expect_not(hst_json_end(&in));
        cr_expect_str_eq(hst_json_problem(&in, message), cases[i].problem);
    }
}

// A value of another kind is an error, 0 or false, and so is everything after it.
Test(models, json_values_of_another_kind) {
    static const char *const not_booleans[] = {"[null,true]", "[1,true]", "[tru,true]", "[falsee,true]", "[]"};
    for (size_t i = 0; i < sizeof not_booleans / sizeof *not_booleans; i++) {
        hst_json in = open_text(not_booleans[i]);
        hst_json_enter(&in, '['), hst_json_next(&in);
        cr_expect_not(hst_json_boolean(&in));
        hst_json_next(&in);
        cr_expect_not(hst_json_boolean(&in), "%s", not_booleans[i]);
        cr_expect_not(hst_json_end(&in));
    }
    hst_json in = open_text("true");
    cr_expect(hst_json_number(&in) == 0 && !hst_json_string(&in) && hst_json_unsigned(&in) == 0 && !hst_json_end(&in));
    in = open_text(
        "0.1234567890123456789012345678901234567890123456789012345678901234567890"); // no double needs so many
    cr_expect(hst_json_number(&in) == 0 && !hst_json_end(&in));
}

// RFC 3629's boundaries: the first and last character of each length, and what lies just outside.
Test(models, utf8_is_checked) {
    static const struct {
        const char *text;
        size_t valid;
    } cases[] = {{"\x7f", 1},
                 {"\x80", 0},
                 {"\xc1\xbf", 0},
                 {"\xc2\x80", 2},
                 {"\xdf\xbf", 2},
                 {"\xe0\x9f\xbf", 0},
                 {"\xe0\xa0\x80", 3},
                 {"\xed\x9f\xbf", 3},
                 {"\xed\xa0\x80", 0},
                 {"\xee\x80\x80", 3},
                 {"\xef\xbf\xbf", 3},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xf0\x90\x80\x80", 4},
                 {"\xf4\x8f\xbf\xbf", 4},
                 {"\xf4\x90\x80\x80", 0},
                 {"\xf5\x80\x80\x80", 0},
                 {"\xc2", 0},
                 {"\xe2\x82", 0},
                 {"\xf0\x90\x80", 0},
                 {"\xc2\x41", 0},
                 {"ab\xff", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(hst_utf8_prefix(cases[i].text, strlen(cases[i].text)), cases[i].valid, "case %zu", i);
}
