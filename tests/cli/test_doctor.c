// test_doctor.c: `halfstep doctor accumulate` shows the numbers of apache/mxnet#17703, `doctor precision` what it finds
// in a model, `info --ops` the sums, and `train --unsafe-accumulation` says what it does.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(doctor, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

// The rows of the report: fp32 as it prints them, and 1 + n times 0.01 rounded once to fp16 and bf16.
Test(doctor, accumulate_shows_the_report) {
    static const char *const rows[] = {
        "row 0     12574   126.739997       126.74866              32          126.75               4             "
        "127\n",
        "row 7     12401   125.009997        125.0183              32        125.0625               4             "
        "125\n",
        "row 0     12444   125.439997       125.44839              32        125.4375               4           "
        "125.5\n",
        "row 5     12538   126.379997       126.38859              32        126.4375               4           "
        "126.5\n",
        "fp16     0.0100021362             32       1001.21362  stops after 2697 additions\n",
        "bf16     0.0100097656              4       1001.97656  stops after 256 additions\n"};
    child c = RUN("doctor", "accumulate");
    cr_assert(c.code == 0 && c.err_size == 0, "%s", c.err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(strstr(c.out, rows[i]), "%s\nin\n%s", rows[i], c.out);
}

// Counting by ones stops at 2^11 and 2^8, the numbers of significand bits; 30000 + 30000 + 30000 is more than f16 has.
Test(doctor, accumulate_adds_what_it_is_told) {
    child c = RUN("doctor", "accumulate", "--json", "--term", "1", "--start", "0", "--count", "5000");
    cr_assert(c.code == 0 && is_json_lines(c.out), "%s%s", c.out, c.err);
    cr_expect(strstr(c.out, "{\"dtype\":\"fp16\",\"term\":1,\"start\":0,\"count\":5000,\"sum\":2048,\"stopped\":true,"
                            "\"additions\":2048,\"exact\":5000}\n"),
              "%s", c.out);
    cr_expect(strstr(c.out, "\"dtype\":\"bf16\",\"term\":1,\"start\":0,\"count\":5000,\"sum\":256,\"stopped\":true,"
                            "\"additions\":256,"),
              "%s", c.out);
    cr_expect(strstr(c.out, "\"dtype\":\"fp32\",\"term\":1,\"start\":0,\"count\":5000,\"sum\":5000,\"stopped\":false"),
              "%s", c.out);
    child infinite = RUN("doctor", "accumulate", "--term", "30000", "--count", "9");
    cr_expect(strstr(infinite.out, "infinite after 3 additions"), "%s", infinite.out);
}

Test(doctor, refuses_what_it_does_not_know) {
    child topic = RUN("doctor", "gallbladder"), none = RUN("doctor"), term = RUN("doctor", "accumulate", "--term", "x");
    cr_expect(topic.code == 2 && strstr(topic.err, "not `gallbladder`"), "%s", topic.err);
    cr_expect(none.code == 2 && strstr(none.err, "accumulate"), "%s", none.err);
    cr_expect(term.code == 2 && strstr(term.err, "--term"), "%s", term.err);
}

// ---- precision ----

// The value of a key, as text, on line `number` (from 0) of those that have "row":"<row>"; NULL: there are fewer.
static const char *row_value(const char *lines, const char *row, int number, const char *key) {
    static char value[256];
    char wanted[64], name[64];
    snprintf(wanted, sizeof wanted, "{\"row\":\"%s\"", row);
    snprintf(name, sizeof name, "\"%s\":", key);
    for (const char *line = lines; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, wanted, strlen(wanted)) != 0 || number-- > 0) continue;
        const char *at = strstr(line, name);
        cr_assert(at && at < strchr(line, '\n'), "no %s in %.200s", key, line);
        at += strlen(name);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, *at == '"' ? "\n" : ",}\n"), at);
        return value;
    }
    return NULL;
}
static double row_number(const char *lines, const char *row, int number, const char *key) {
    const char *text = row_value(lines, row, number, key);
    return !text || !strcmp(text, "null") ? INFINITY : atof(text);
}

// Worst first; every weight of the model, and what operations made of it, is there; and so is each sum.
static void check_findings(const char *lines) {
    cr_assert(is_json_lines(lines), "%s", lines);
    int tensors = 0, sums = 0;
    for (; row_value(lines, "tensor", tensors, "name"); tensors++) {
        static const char *const keys[] = {"fp16_infinite", "fp16_zero", "fp16_subnormal"};
        for (int k = 0; tensors > 0 && k < 3; k++) {
            double before = row_number(lines, "tensor", tensors - 1, keys[k]),
                   now = row_number(lines, "tensor", tensors, keys[k]);
            cr_expect_leq(now, before, "row %d: %s", tensors, keys[k]);
            if (now < before) break;
        }
        for (int k = 0; k < 3; k++) {
            double share = row_number(lines, "tensor", tensors, keys[k]);
            cr_expect(share >= 0 && share <= 1);
        }
    }
    for (; row_value(lines, "sum", sums, "name"); sums++) {
        double now = fmax(row_number(lines, "sum", sums, "fp16_added"), row_number(lines, "sum", sums, "bf16_added"));
        if (sums > 0)
            cr_expect_leq(now, fmax(row_number(lines, "sum", sums - 1, "fp16_added"),
                                    row_number(lines, "sum", sums - 1, "bf16_added")));
    }
    cr_assert(tensors > 20 && sums > 10, "%d tensors, %d sums", tensors, sums);
    cr_expect(strstr(lines, "\"name\":\"rnn.rnn_lst.0.weight\",\"kind\":\"weight\",\"dtype\":\"f32\""), "%s", lines);
    cr_expect(strstr(lines, "\"name\":\"rnn.rnn_lst.0 matmul\",\"kind\":\"result_gradient\""), "%s", lines);
    cr_expect(
        strstr(lines, "\"name\":\"rnn.rnn_lst.0 sru_recurrence dbias\",\"kind\":\"c\",\"terms\":\"dU1, dU2 over"));
}

// With a loss scale, a power of two, all gradients are so much larger: the scales that it should lie between stay, and
// what is said of it changes.
Test(doctor, precision_examines_a_model) {
    train_tiny();
    child one = RUN("doctor", "precision", "text.run", "text.txt", "--json", "--batch", "2", "--length", "8");
    cr_assert(one.code == 0 && one.err_size == 0, "%s", one.err);
    check_findings(one.out);
    double least = row_number(one.out, "model", 0, "least_loss_scale"),
           most = row_number(one.out, "model", 0, "most_loss_scale");
    cr_expect(row_number(one.out, "model", 0, "loss_scale") == 1 && least > 0 && most > least, "%g %g", least, most);
    for (int high = 0; high < 2; high++) {
        char scale[32], says[64];
        snprintf(scale, sizeof scale, "%.10g", high ? 2 * most : least / 2);
        snprintf(says, sizeof says, "loss scale %s is %s", scale, high ? "too high" : "too low");
        child c = RUN("doctor", "precision", "text.run", "text.txt", "--json", "--batch", "2", "--length", "8",
                      "--loss-scale", scale);
        cr_assert_eq(c.code, 0, "%s", c.err);
        cr_expect(strstr(c.out, says), "%s in %.500s", says, c.out);
        cr_expect_eq(row_number(c.out, "model", 0, "loss"), row_number(one.out, "model", 0, "loss"));
        cr_expect_eq(row_number(c.out, "model", 0, "least_loss_scale"), least);
        cr_expect_eq(row_number(c.out, "model", 0, "most_loss_scale"), most);
    }
    child table = RUN("doctor", "precision", "text.run", "text.txt", "--batch", "2", "--length", "8");
    cr_assert_eq(table.code, 0, "%s", table.err);
    cr_expect(strstr(table.out, "text.run on 8 x 2 symbols of text.txt: ") && strstr(table.out, "\nAdvice\n"), "%s",
              table.out);
}

// Every form of the model that train makes.
Test(doctor, precision_takes_what_train_makes) {
    static const char *const forms[][4] = {{"--tied", "--tanh", NULL},
                                           {"--projection", "4", "--layer-norm", "after"},
                                           {"--layer-norm", "none", "--tanh", "--tied"}};
    write_text("text.txt", 1000);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        child made =
            RUN("train", "text.txt", "-o", "a.run", "--force", "--layers", "2", "--hidden", "8", "--batch", "2",
                "--length", "8", "--steps", "2", "-q", forms[i][0], forms[i][1], forms[i][2], forms[i][3]);
        cr_assert_eq(made.code, 0, "%s", made.err);
        child c = RUN("doctor", "precision", "a.run", "text.txt", "--json", "--batch", "1", "--length", "8");
        cr_assert(c.code == 0 && c.err_size == 0, "form %zu: %s", i, c.err);
        check_findings(c.out);
    }
}

Test(doctor, precision_refuses_what_it_cannot_read) {
    train_tiny();
    write_file("empty.txt", "", 0);
    child model = RUN("doctor", "precision", "no.run", "text.txt"),
          text = RUN("doctor", "precision", "text.run", "no.txt"),
          empty = RUN("doctor", "precision", "text.run", "empty.txt"),
          small = RUN("doctor", "precision", "text.run", "text.txt", "--length", "100000"),
          alone = RUN("doctor", "precision", "text.run"), more = RUN("doctor", "accumulate", "text.run");
    cr_expect(model.code == 3 && strstr(model.err, "no.run"), "%d %s", model.code, model.err);
    cr_expect(text.code == 3 && strstr(text.err, "no.txt"), "%d %s", text.code, text.err);
    cr_expect(empty.code == 3 && strstr(empty.err, "empty.txt"), "%d %s", empty.code, empty.err);
    cr_expect(small.code == 3 && *small.err, "%d %s", small.code, small.err);
    cr_expect(alone.code == 2 && strstr(alone.err, "MODEL TEXT"), "%d %s", alone.code, alone.err);
    cr_expect(more.code == 2 && strstr(more.err, "nothing more"), "%d %s", more.code, more.err);
}

Test(doctor, info_prints_operations_and_sums) {
    child c = RUN("info", "--ops");
    cr_assert(c.code == 0 && c.err_size == 0, "%s", c.err);
    cr_expect(strstr(c.out, "halfstep    torch_cuda  torch_cpu   mxnet_fp16  mxnet_bf16  apex_o1 "), "%s", c.out);
    cr_expect(strstr(c.out, "\nlinear                           lower       lower "), "%s", c.out);
    cr_expect(strstr(c.out, "\nbinary_cross_entropy_with_logits f32         f32 "), "%s", c.out);
    cr_expect(strstr(c.out, "\nembedding          dtable                            (a) dy of every id"), "%s", c.out);
}

// Training warns, the log and the checkpoint say so, and the run goes on in the same way; a safe one goes on so only if
// it is told to, with a warning.
Test(doctor, unsafe_training_says_so) {
    write_text("text.txt", 1000);
    child c = RUN("train", "text.txt", "--unsafe-accumulation", "--layers", "1", "--hidden", "8", "--batch", "2",
                  "--length", "8", "--steps", "4", "--save-every", "2", "-q");
    cr_assert_eq(c.code, 0, "%s", c.err);
    cr_expect(strstr(c.err, "warning: --unsafe-accumulation rounds after each addition"), "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_expect_str_eq(json_value(log, "start", "unsafe_accumulation"), "true");
    cr_expect_str_eq(json_value(log, "start", "isa"), "\"unsafe\"");
    cr_expect(strstr(json_value(log, "warn", "message"), "--unsafe-accumulation"));
    write_file("text.run/last.safetensors", "damaged", 7); // the one before it knows as well
    child on = RUN("train", "text.txt", "--resume", "-q");
    cr_assert_eq(on.code, 0, "%s", on.err);
    cr_expect(strstr(on.err, "--unsafe-accumulation rounds") && !strstr(on.err, "goes on with"), "%s", on.err);
    log = strchr(strstr(read_file("text.run/log.jsonl", NULL), "\"event\":\"end\""), '\n') + 1;
    cr_expect_str_eq(json_value(log, "start", "unsafe_accumulation"), "true");
    cr_expect_str_eq(json_value(log, "start", "isa"), "\"unsafe\"");
    RUN("train", "text.txt", TINY, "--steps", "5", "--force");
    on = RUN("train", "text.txt", "--resume", "-q");
    cr_expect(on.code == 0 && on.err_size == 0, "%s", on.err);
    on = RUN("train", "text.txt", "--resume", "-q", "--unsafe-accumulation");
    cr_expect(strstr(on.err, "was made with safe accumulation; this run goes on with unsafe"), "%s", on.err);
}
