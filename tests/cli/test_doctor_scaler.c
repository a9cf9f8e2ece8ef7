// test_doctor_scaler.c: `halfstep doctor scaler` shows the golden traces, and those of patterns that are typed.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(doctor_scaler, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

// From the systems' own sources; the numbers of tests/amp/test_scaler.c.
Test(doctor_scaler, shows_the_golden_traces) {
    static const char *const rows[] = {
        "torch                           65536  32768  16384  16384  16384  16384  32768  32768  16384  16384   8192   "
        "8192   8192   8192  16384  16384\n",
        "apex                            65536  32768  16384  16384  16384  16384  32768  32768  16384  16384   8192   "
        "8192   8192   8192  16384  16384\n",
        "deepspeed_zero h=2              65536  65536  32768  32768  32768  32768  32768  65536  65536  65536  32768  "
        "32768  32768  32768  32768  65536\n",
        "deepspeed_zero h=2 consecutive  65536  65536  32768  32768  32768  32768  32768  65536  65536  65536  65536  "
        "65536  65536  65536  65536 131072\n",
        "deepspeed_fused                 65536  32768  16384  16384  16384  16384  16384  32768  16384  16384   8192   "
        "8192   8192   8192   8192  16384\n",
        "mxnet                           65536  65536  32768  16384  16384  16384  16384  32768  32768  16384  16384   "
        "8192   8192   8192   8192  16384\n",
        "apex h=2 consecutive            65536  65536  32768  32768  32768  32768  65536  65536  65536  65536  65536  "
        "65536  65536  65536 131072 131072\n",
        "none                                1 ends\n"};
    child c = RUN("doctor", "scaler");
    cr_assert(c.code == 0 && c.err_size == 0, "%s", c.err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(strstr(c.out, rows[i]), "%s\nin\n%s", rows[i], c.out);
}

Test(doctor_scaler, says_what_each_step_does) {
    child c = RUN("doctor", "scaler", "--profile", "deepspeed_zero", "--pattern", "OLOON", "--init-scale", "1024",
                  "--growth-interval", "1", "--hysteresis", "3");
    cr_assert_eq(c.code, 0, "%s", c.err);
    cr_expect(strstr(c.out, "\ndeepspeed_zero h=3\n"
                            "    1  O         1024  kept 1024, hysteresis 1 of 3 used\n"
                            "    2  L         1024  kept 1024, the loss is not finite\n"
                            "    3  O         1024  kept 1024, hysteresis 2 of 3 used\n"
                            "    4  O         1024  lowered 1024 to 512\n"
                            "    5  N          512  kept 512\n"),
              "%s", c.out);
    child none = RUN("doctor", "scaler", "--profile", "none", "--pattern", "NOO");
    cr_expect(
        strstr(none.out,
               "    2  O            1  training diverged at the scaler's update 2: the gradient of a parameter is not "
               "finite at loss scale 1, from where it is not lowered\n\n"),
        "%s", none.out);
}

// Each profile by the name that the library has for it.
Test(doctor_scaler, json_has_an_object_an_iteration) {
    static const char *const names[] = {"none",           "static",          "torch", "apex",
                                        "deepspeed_zero", "deepspeed_fused", "mxnet"};
    for (int i = 0; i < 7; i++) {
        char line[128];
        child c = RUN("doctor", "scaler", "--json", "--pattern", "NN", "--profile", names[i]);
        cr_assert(c.code == 0 && is_json_lines(c.out), "%s%s", c.out, c.err);
        snprintf(line, sizeof line, "{\"profile\":\"%s\",\"hysteresis\":%d,\"consecutive\":false,\"iteration\":1,",
                 names[i], i == 4 ? 2 : 1);
        cr_expect(strstr(c.out, line), "%s", c.out);
    }
    child c = RUN("doctor", "scaler", "--json", "--pattern", "ON", "--profile", "mxnet");
    cr_expect_str_eq(c.out,
                     "{\"profile\":\"mxnet\",\"hysteresis\":1,\"consecutive\":false,\"iteration\":1,\"event\":\"O\","
                     "\"scale\":65536,\"action\":\"lowered 65536 to 32768 for the step after the next\"}\n"
                     "{\"profile\":\"mxnet\",\"hysteresis\":1,\"consecutive\":false,\"iteration\":2,\"event\":\"N\","
                     "\"scale\":65536,\"action\":\"kept 32768\"}\n");
}

Test(doctor_scaler, refuses_what_it_does_not_know) {
    child letters = RUN("doctor", "scaler", "--pattern", "ONX"), empty = RUN("doctor", "scaler", "--pattern", ""),
          profile = RUN("doctor", "scaler", "--profile", "amp"), scale = RUN("doctor", "scaler", "--init-scale", "0");
    cr_expect(letters.code == 2 && strstr(letters.err, "letters O (a gradient overflows)"), "%s", letters.err);
    cr_expect(empty.code == 2 && strstr(empty.err, "--pattern"), "%s", empty.err);
    cr_expect(profile.code == 2 && strstr(profile.err, "--profile"), "%s", profile.err);
    cr_expect(scale.code == 2 && strstr(scale.err, "--init-scale"), "%s", scale.err);
}
