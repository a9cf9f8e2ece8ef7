// test_bench.c: `halfstep bench` with sizes that take no time: every subject, as JSON and as a table.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(bench, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

// One thread, by default: two that start together wait long where others have the processors.
#define SMALL                                                                                                          \
    "--divide", "64", "--runs", "1", "--vocabulary", "100", "--hidden", "128", "--tokens", "64", "--length", "3",      \
        "--batch", "2", "--columns", "5", "--steps", "1", "--threads"

// A field of the JSON object that starts at `line`; NaN where it has none of that name.
static double number(const char *line, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    return at && at < strchr(line, '\n') ? strtod(at + strlen(key), NULL) : NAN;
}

// How many objects are of this kind. Each must have a field that is above 0.
static int count(const char *json, const char *what, const char *field) {
    char start[64];
    int found = 0;
    snprintf(start, sizeof start, "{\"what\":\"%s\",", what);
    for (const char *line = json; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, start, strlen(start)) == 0) {
            cr_expect(number(line, field) > 0, "no %s in %.400s", field, line);
            found++;
        }
    return found;
}

// 45 + 15 + 15 shapes of products and 8 of few rows in three dtypes; three models in two precisions; two models in
// three dtypes; a table of 100 rows and one of 8; three dtypes; two models in nine presets.
Test(bench, everything_is_measured_beside_what_limits_it) {
    child c = RUN("bench", "all", SMALL, "1", "--json");
    cr_assert(c.code == 0 && is_json_lines(c.out), "%s%s", c.out, c.err);
    cr_expect_eq(count(c.out, "machine", "multiply_f32"), 1);
    cr_expect_eq(count(c.out, "machine", "read_cache_least"), 1);
    cr_expect_eq(count(c.out, "gemm", "share_of_ceiling"), 3 * 75);
    cr_expect_eq(count(c.out, "gemm_mean", "share_of_ceiling"), 3 * 3);
    cr_expect_eq(count(c.out, "gemm_few_rows", "share_of_read"), 3 * 8);
    cr_expect_eq(count(c.out, "train", "share_of_ceiling"), 3 * 2);
    cr_expect_eq(count(c.out, "generate", "share_of_read"), 2 * 3);
    cr_expect_eq(count(c.out, "embedding", "share_of_copy"), 2);
    cr_expect_eq(count(c.out, "recurrence", "forward_share_of_copy"), 3);
    cr_expect_eq(count(c.out, "precision", "tokens_per_second"), 2 * 9);
}

// And with two, where it is measured with one thread and with all.
Test(bench, ceilings_are_those_of_each_number_of_threads) {
    static const char *const subjects[] = {"machine", "generate"};
    for (int i = 0; i < 2; i++) {
        child c = RUN("bench", subjects[i], SMALL, "2", "--json");
        cr_assert_eq(c.code, 0, "%s", c.err);
        int one = 0, two = 0;
        for (const char *line = c.out; *line; line = strchr(line, '\n') + 1) {
            one += number(line, "threads") == 1;
            two += number(line, "threads") == 2;
        }
        cr_expect(one > 0 && one == two, "%s", c.out);
    }
}

Test(bench, everything_is_printed_as_tables) {
    static const char *const words[] = {"the machine, 1 thread, ",
                                        "\n  multiply f32 ",
                                        "A^T B, bf16, 1 thread, ",
                                        "geometric mean of 45",
                                        "few rows, f16, 1 thread",
                                        "4 x   157 x    16, N x K",
                                        "  2 x 2        156  amp-bf16 ",
                                        "\n  6 x 4    bf16 ",
                                        "\n100 rows\n",
                                        "a copy",
                                        "3 steps of 2 x 5 columns, 1 thr",
                                        "of f32's, backward",
                                        "6 layers of 128, batch 4, length 6",
                                        "\nmxnet-amp "};
    child c = RUN("bench", "all", SMALL, "1");
    cr_assert_eq(c.code, 0, "%s", c.err);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(strstr(c.out, words[i]), "`%s` is not in: %s", words[i], c.out);
}

// A product of R rows, k and n has 2 R k n operations, with its gradients 6 R k n. 4 rows of symbols, and 256 symbols:
// the first of 2 layers multiplies 4 rows. 512 rows: it multiplies the 256 of the table.
Test(bench, the_operations_of_a_step_are_those_of_its_products) {
    static const struct {
        const char *length;
        double rows, first;
    } cases[] = {{"1", 4, 4}, {"128", 512, 256}};
    for (int i = 0; i < 2; i++) {
        child c = RUN("bench", "train", "--divide", "16", "--hidden", "128", "--batch", "4", "--length",
                      cases[i].length, "--runs", "1", "--json");
        cr_assert_eq(c.code, 0, "%s", c.err);
        double layer = 6 * 8 * (3 * 8), output = 6 * 8 * 256; // a row's
        cr_expect_eq(number(c.out, "hidden"), 8);
        cr_expect_eq(number(c.out, "flop"), cases[i].first * layer + cases[i].rows * (layer + output), "%s", c.out);
    }
}

Test(bench, a_text_that_cannot_be_learnt_exits_3) {
    write_text("text.txt", 100);
    child missing = RUN("bench", "precision", "--text", "nope"), small = RUN("bench", "train", "--text", "text.txt");
    cr_expect(missing.code == 3 && strstr(missing.err, "nope: cannot be opened"), "%d %s", missing.code, missing.err);
    cr_expect(small.code == 3 && strstr(small.err, "symbols"), "%d %s", small.code, small.err);
    child wrong = RUN("bench", "sorting");
    cr_expect(wrong.code == 2 && strstr(wrong.err, "|precision|all, not `sorting`"), "%d %s", wrong.code, wrong.err);
}
