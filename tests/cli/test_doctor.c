// test_doctor.c: `halfstep doctor accumulate` shows the numbers of apache/mxnet#17703, `info --ops` the sums, and
// `train
// --unsafe-accumulation` says what it does.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
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

Test(doctor, info_prints_operations_and_sums) {
    child c = RUN("info", "--ops");
    cr_assert(c.code == 0 && c.err_size == 0, "%s", c.err);
    cr_expect(
        strstr(c.out, "\n\noperation        halfstep    torch_cuda  torch_cpu   mxnet_fp16  mxnet_bf16  apex_o1 "),
        "%s", c.out);
    cr_expect(strstr(c.out,
                     "\nmatmul           lower       lower       lower       lower       none        lower       "
                     "(a, b) -> y\n"),
              "%s", c.out);
    cr_expect(strstr(c.out, "\nembedding          dtable                            (a) dy of every id"), "%s", c.out);
}

// Training warns, the log and the checkpoint say so, and so does whoever goes on without it.
Test(doctor, unsafe_training_says_so) {
    write_text("text.txt", 1000);
    child c = RUN("train", "text.txt", "--unsafe-accumulation", "--layers", "1", "--hidden", "8", "--batch", "2",
                  "--length", "8", "--steps", "4", "-q");
    cr_assert_eq(c.code, 0, "%s", c.err);
    cr_expect(strstr(c.err, "warning: --unsafe-accumulation rounds after each addition"), "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_expect_str_eq(json_value(log, "start", "unsafe_accumulation"), "true");
    cr_expect_str_eq(json_value(log, "start", "isa"), "\"unsafe\"");
    cr_expect(strstr(json_value(log, "warn", "message"), "--unsafe-accumulation"));
    child on = RUN("train", "text.txt", "--resume", "-q");
    cr_expect(strstr(on.err, "was made with unsafe accumulation; this run goes on with safe"), "%s", on.err);
}
