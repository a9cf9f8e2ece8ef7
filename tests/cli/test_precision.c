// test_precision.c: mixed precision from the command line: presets, loss scalers, what the log says of skipped steps,
// and runs that go on, after a skip or in another precision.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(precision, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

// By scalers.md's table of presets: the profile, the first scale, the list of the region.
static const struct {
    const char *name, *scaler, *scale, *list; // list NULL: no region
} presets[] = {{"fp32", "none", "1", NULL},
               {"amp-fp16", "torch", "65536", "halfstep"},
               {"amp-bf16", "none", "1", "halfstep"},
               {"apex-O1", "apex", "65536", "apex_o1"},
               {"apex-O2", "apex", "65536", NULL},
               {"apex-O3", "static", "1", NULL},
               {"deepspeed-fp16", "deepspeed_zero", "65536", NULL},
               {"deepspeed-bf16", "none", "1", NULL},
               {"mxnet-amp", "mxnet", "65536", "mxnet_fp16"}};
enum { PRESETS = sizeof presets / sizeof *presets };

static void expect_value(const char *log, const char *event, const char *key, const char *text) {
    char quoted[64];
    const char *value = json_value(log, event, key);
    snprintf(quoted, sizeof quoted, "\"%s\"", text);
    cr_expect(value && (!strcmp(value, text) || !strcmp(value, quoted)), "%s: %s is %s instead of %s", event, key,
              value, text);
}

static int count(const char *text, const char *words) {
    int n = 0;
    for (; (text = strstr(text, words)); text++) n++;
    return n;
}

Test(precision, every_preset_trains) {
    static const char *const recurrences[] = {"on", "off"};
    write_text("text.txt", 2000);
    for (int i = 0; i < PRESETS; i++)
        for (int k = 0; k < 2; k++) {
            child c =
                RUN("train", "text.txt", "--layers", "2", "--hidden", "16", "--batch", "2", "--length", "8", "--steps",
                    "12", "--precision", presets[i].name, "--amp-recurrence-fp16", recurrences[k], "--force");
            cr_assert_eq(c.code, 0, "%s: %s", presets[i].name, c.err);
            char *log = read_file("text.run/log.jsonl", NULL), words[128];
            cr_assert(is_json_lines(log), "%s", log);
            expect_value(log, "start", "precision", presets[i].name);
            expect_value(log, "start", "scaler", presets[i].scaler);
            expect_value(log, "start", "op_list", presets[i].list ? presets[i].list : "halfstep");
            expect_value(log, "start", "amp_recurrence_fp16", recurrences[k]);
            expect_value(log, "step", "scale", presets[i].scale);
            expect_value(log, "end", "step", "12");
            cr_expect_eq(count(log, "\"result\":\"stepped\""), 12);
            cr_expect_eq(count(log, "\"result\":\"overflow\""), atoi(json_value(log, "end", "skipped")));
            cr_expect_eq(count(log, "\"scaler\":\"kept ") > 0, strcmp(presets[i].scaler, "none") != 0);
            snprintf(words, sizeof words, "\ntypes: %s%s", presets[i].name, i ? ", weights seen as " : "\n");
            cr_expect(strstr(c.err, words), "%s", c.err);
            snprintf(words, sizeof words, "\nscale: %s, %s", presets[i].scaler, presets[i].scale);
            cr_expect_eq(strstr(c.err, words) != NULL, strcmp(presets[i].scaler, "none") != 0, "%s", c.err);
            cr_expect_eq(strstr(c.err, " | scale ") != NULL, strcmp(presets[i].scaler, "none") != 0, "%s", c.err);
            cr_expect_eq(strstr(c.err, "note: --amp-recurrence-fp16 has no effect") == NULL, presets[i].list != NULL);
            c = RUN("info", "text.run/last.safetensors");
            snprintf(words, sizeof words, "\nprecision     %s", presets[i].name);
            cr_expect(strstr(c.out, words), "%s", c.out);
        }
}

Test(precision, every_preset_can_be_tried_and_timed) {
    write_text("text.txt", 2000);
    for (int i = 0; i < PRESETS; i++) {
        child c = RUN("train", "text.txt", TINY, "--precision", presets[i].name, "--dry-run", "--force");
        cr_expect(c.code == 0 && strstr(c.err, "steps would take about "), "%s: %s", presets[i].name, c.err);
        c = RUN("train", "text.txt", TINY, "--precision", presets[i].name, "--time", "0.3s", "--force");
        cr_expect(c.code == 0 && strstr(c.err, "repeats it"), "%s: %s", presets[i].name, c.err);
    }
}

Test(precision, every_op_list_runs_in_a_region) {
    static const char *const lists[] = {"halfstep", "torch_cuda", "torch_cpu", "mxnet_fp16", "mxnet_bf16", "apex_o1"};
    write_text("text.txt", 2000);
    for (int i = 0; i < PRESETS; i++)
        for (int k = 0; k < 6; k++) {
            child c = RUN("train", "text.txt", TINY, "--steps", "3", "--precision", presets[i].name, "--op-list",
                          lists[k], "--force");
            cr_expect_eq(c.code, presets[i].list ? 0 : 2, "%s, %s: %s", presets[i].name, lists[k], c.err);
            if (presets[i].list)
                expect_value(read_file("text.run/log.jsonl", NULL), "start", "op_list", lists[k]);
            else
                cr_expect(strstr(c.err, "--op-list is for a preset with an autocast region"), "%s", c.err);
        }
}

Test(precision, what_makes_no_sense_is_refused) {
    static const struct {
        const char *arguments[8], *words;
    } cases[] = {
        {{"--precision", "fp16"}, "one of fp32|amp-fp16|"},
        {{"--amp-recurrence-fp16", "yes"}, "one of on|off"},
        {{"--loss-scale", "0"}, "dynamic or a number above 0"},
        {{"--loss-scale", "inf"}, "dynamic or a number above 0"},
        {{"--growth-factor", "1"}, "a number above 1"},
        {{"--backoff-factor", "1"}, "to below 1"},
        {{"--growth-interval", "0"}, "an integer from 1"},
        {{"--growth-interval", "5"}, "--growth-interval is for a loss scale that changes, and the scaler is none"},
        {{"--init-scale", "5", "--precision", "amp-bf16"}, "the scaler is none; --scaler names one"},
        {{"--min-scale", "5", "--precision", "apex-O3"}, "the scaler is static, whose constant is --loss-scale"},
        {{"--init-scale", "5", "--scaler", "static"}, "the scaler is static, whose constant is --loss-scale"},
        {{"--loss-scale", "8", "--scaler", "torch"}, "--loss-scale 8 is a constant, and --scaler torch is not"},
        {{"--loss-scale", "dynamic"},
         "--loss-scale dynamic needs a scaler that changes it, and none is the one of fp32"},
        {{"--loss-scale", "dynamic", "--scaler", "static"}, "static is the one of --scaler"},
        {{"--hysteresis", "2", "--precision", "mxnet-amp"}, "--hysteresis is for the scalers torch, apex and deepsp"},
        {{"--consecutive-hysteresis", "--scaler", "deepspeed_fused"}, "--consecutive-hysteresis is for the scalers"},
        {{"--consecutive-hysteresis", "--scaler", "apex"}, "needs a --hysteresis above 1"},
        {{"--max-skips", "5"}, "--max-skips is for a loss scaler"},
        {{"--scaler", "torch", "--init-scale", "5", "--min-scale", "6"},
         "the first loss scale, 5, must be between --min-scale, 6, and --max-scale, 16777216"},
        {{"--scaler", "deepspeed_fused", "--max-scale", "8"}, "the first loss scale, 4.2949673e+09, must be"},
        {{"--op-list", "apex_o1"}, "fp32 has none"},
    };
    write_text("text.txt", 2000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[20] = {"train", "text.txt", TINY}; // the rest is NULL
        memcpy(arguments + 10, cases[i].arguments, sizeof cases[i].arguments);
        child c = child_run(NULL, NULL, arguments);
        cr_expect_eq(c.code, 2, "case %zu: %d %s", i, c.code, c.err);
        cr_expect(!strncmp(c.err, "halfstep: error: ", 17) && strstr(c.err, cases[i].words) &&
                      strchr(c.err, '\n') == c.err + c.err_size - 1,
                  "case %zu: %s", i, c.err);
    }
    cr_expect(access("text.run", F_OK) != 0);
}

Test(precision, scalers_go_with_every_preset) {
    static const struct {
        const char *arguments[8], *scaler, *scale;
    } cases[] = {
        {{"--loss-scale", "128"}, "static", "128"},
        {{"--loss-scale", "128", "--precision", "deepspeed-fp16"}, "static", "128"},
        {{"--scaler", "static", "--loss-scale", "2"}, "static", "2"},
        {{"--scaler", "deepspeed_fused", "--precision", "amp-bf16"}, "deepspeed_fused", "4.2949673e+09"},
        {{"--scaler", "none", "--precision", "amp-fp16"}, "none", "1"},
        {{"--scaler", "torch", "--init-scale", "0.25", "--loss-scale", "dynamic"}, "torch", "0.25"},
        {{"--precision", "apex-O1", "--hysteresis", "2", "--consecutive-hysteresis"}, "apex", "65536"},
        {{"--scaler", "mxnet", "--init-scale=1e9", "--max-scale=0", "--min-scale=0"}, "mxnet", "1e+09"},
    };
    write_text("text.txt", 2000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[24] = {"train", "text.txt", TINY, "--steps", "3", "-f"};
        memcpy(arguments + 13, cases[i].arguments, 6 * sizeof *arguments);
        child c = child_run(NULL, NULL, arguments);
        cr_assert(c.code == 0, "case %zu: %s", i, c.err);
        char *log = read_file("text.run/log.jsonl", NULL);
        expect_value(log, "start", "scaler", cases[i].scaler);
        expect_value(log, "start", "loss_scale",
                     strcmp(cases[i].scaler, "static") == 0 ? cases[i].scale
                     : strcmp(cases[i].scaler, "none") == 0 ? "1"
                                                            : "dynamic");
        expect_value(log, "step", "scale", cases[i].scale);
    }
}

// ---- skipped steps ----

#define SKIPPING "--precision", "amp-fp16", "--init-scale", "16777216", "--growth-interval", "4"

// The lines of steps are those of torch's machine: an overflow halves the scale, the fourth step in a row without one
// doubles it, and only a step that was one has a new number.
Test(precision, every_skipped_step_is_logged) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, SKIPPING, "--steps", "40", "--json");
    cr_assert_eq(c.code, 0, "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL), words[96];
    cr_assert(is_json_lines(log), "%s", log);
    double scale = 16777216, step = 0, skipped = 0, clean = 0;
    for (char *line = log; (line = strstr(line, "{\"event\":\"step\"")); line++) {
        char copy[1024];
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n") + 1, line);
        bool overflow = strstr(copy, "\"result\":\"overflow\"") != NULL;
        cr_assert(overflow || strstr(copy, "\"result\":\"stepped\""), "%s", copy);
        double next = overflow ? scale / 2 : clean == 3 ? fmin(2 * scale, 16777216) : scale;
        snprintf(words, sizeof words, "\"scaler\":\"%s %.9g%s%.9g\"",
                 next < scale   ? "lowered"
                 : next > scale ? "raised"
                                : "kept",
                 scale, " to ", next);
        if (next == scale) snprintf(words, sizeof words, "\"scaler\":\"kept %.9g", scale);
        cr_expect(strstr(copy, words), "%s is not in %s", words, copy);
        step += !overflow, skipped += overflow, clean = overflow || clean == 3 ? 0 : clean + 1;
        cr_expect_eq(atof(json_value(copy, "step", "step")), step, "%s", copy);
        cr_expect_eq(atof(json_value(copy, "step", "skipped")), skipped, "%s", copy);
        cr_expect_eq(atof(json_value(copy, "step", "scale")), scale, "%s", copy);
        cr_expect(!overflow || strstr(copy, "\"norm\":null"), "%s", copy);
        scale = next;
    }
    cr_expect(step == 40 && skipped > 5, "%g skipped", skipped);
    cr_expect_eq(atof(json_value(log, "end", "skipped")), skipped);
    cr_expect_eq(atof(json_value(c.out, NULL, "skipped")), skipped);
    snprintf(words, sizeof words, ", %g skipped | ", skipped);
    cr_expect(strstr(c.err, words), "no `%s` in the last line of progress: %s", words, c.err);
    snprintf(words, sizeof words, "; steps: 40, %g skipped, time: ", skipped);
    cr_expect(strstr(c.err, words), "%s", c.err);
}

Test(precision, too_many_skipped_steps_end_the_run) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "50", "--precision", "deepspeed-fp16", "--loss-scale", "1e30",
                  "--max-skips", "5");
    cr_expect(c.code == 4 && strstr(c.err, "is not finite at loss scale 1.0") &&
                  strstr(c.err, "the last of 5 steps skipped in a row; nothing was saved"),
              "%d %s", c.code, c.err);
    cr_expect(strstr(c.err, "step 0/50 0% | lr ") && !strstr(c.err, "|g|"), "a norm that is none: %s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    expect_value(log, "end", "result", "diverged");
    cr_expect_eq(count(log, "\"scaler\":\"kept 1.0"), 4, "the fifth is the error: %s", log);
}

// ---- going on ----

static void expect_same_file(const char *a, const char *b, const char *what) {
    size_t sizes[2];
    char *first = read_file(a, &sizes[0]), *second = read_file(b, &sizes[1]);
    cr_assert(first && second && sizes[0] == sizes[1] && !memcmp(first, second, sizes[0]), "%s: %s", what, b);
}

// Until the file has the words so many times, or 20 seconds.
static void await(const char *path, const char *words, int times) {
    for (int i = 0; i < 100000; i++) {
        char *text = read_file(path, NULL);
        if (text && count(text, words) >= times) return;
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    cr_assert_fail("%s: no %s", path, words);
}

#define LONG                                                                                                           \
    "--layers", "1", "--hidden", "24", "--batch", "2", "--length", "8", "--steps", "160", "--eval-every", "20",        \
        "--save-every", "7", "--dropout", "0.1", "--accumulate", "2", "--init-scale", "16777216", "--growth-interval", \
        "5"

// Killed when the log has so many skipped steps, that is right after one, and gone on with: the window of the scaler,
// its hysteresis and the place in the text have to be as they were.
Test(precision, a_run_killed_after_a_skip_goes_on_to_the_same_bytes) {
    static const char *const names[] = {"amp-fp16", "deepspeed-fp16", "mxnet-amp"};
    int running = 0;
    write_text("text.txt", 2000);
    for (int i = 0; i < 3; i++) {
        child c = RUN("train", "text.txt", LONG, "--precision", names[i], "-o", "straight", "--force");
        cr_assert_eq(c.code, 0, "%s", c.err);
        int skipped = atoi(json_value(read_file("straight/log.jsonl", NULL), "end", "skipped"));
        cr_assert_geq(skipped, 10, "%s: %d steps were skipped", names[i], skipped);
        for (int part = 1; part <= 4; part++) {
            remove("killed/log.jsonl");
            c = child_start(
                NULL, NULL,
                (const char *[]){"train", "text.txt", LONG, "--precision", names[i], "-o", "killed", "--force", NULL});
            await("killed/log.jsonl", "\"result\":\"overflow\"", part * skipped / 5);
            kill(c.pid, SIGKILL);
            child_finish(&c);
            running += c.code == 128 + SIGKILL;
            bool saved = read_file("killed/last.safetensors", NULL) != NULL;
            c = saved ? RUN("train", "text.txt", "--resume", "-o", "killed")
                      : RUN("train", "text.txt", LONG, "--precision", names[i], "-o", "killed", "--force");
            cr_assert_eq(c.code, 0, "%s: %s", names[i], c.err);
            expect_same_file("straight/model.safetensors", "killed/model.safetensors", names[i]);
            expect_same_file("straight/last.safetensors", "killed/last.safetensors", names[i]);
        }
    }
    cr_assert_geq(running, 9, "%d of 12 runs were still going on when they were killed", running);
}

// Starts or goes on, and is stopped by SIGINT a while after its log has so many start lines.
static child run_until_stopped(const char *const *arguments, int starts) {
    child c = child_start(NULL, NULL, arguments);
    await("text.run/log.jsonl", "\"event\":\"start\"", starts);
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    kill(c.pid, SIGINT);
    child_finish(&c);
    cr_assert_eq(c.code, 130, "%s", c.err);
    return c;
}

Test(precision, a_run_goes_on_in_another_precision) {
    write_text("text.txt", 2000);
    child c = run_until_stopped(
        (const char *[]){"train", "text.txt", TINY, "--steps", "100000000", "--precision", "amp-fp16", NULL}, 1);
    c = run_until_stopped((const char *[]){"train", "text.txt", "--resume", NULL}, 2);
    cr_expect(strstr(c.err, "\ntypes: amp-fp16, ") && !strstr(c.err, "goes on in"), "the run's own: %s", c.err);
    c = run_until_stopped((const char *[]){"train", "text.txt", "--resume", "--precision", "deepspeed-fp16",
                                           "--growth-interval", "9", NULL},
                          3);
    cr_expect(strstr(c.err, "note: text.run/last.safetensors: was trained in amp-fp16 and goes on in deepspeed-fp16"),
              "%s", c.err);
    cr_expect(strstr(c.err, "\nscale: deepspeed_zero, 65536 at first, x 2 after 9 steps"), "%s", c.err);
    c = run_until_stopped((const char *[]){"train", "text.txt", "--resume", "--precision", "fp32", NULL}, 4);
    cr_expect(strstr(c.err, "was trained in deepspeed-fp16 and goes on in fp32") && strstr(c.err, "\ntypes: fp32\n"),
              "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_expect_eq(count(log, "\"precision\":\"amp-fp16\""), 2);
    cr_expect_eq(count(log, "\"precision\":\"deepspeed-fp16\""), 1);
    cr_expect_eq(count(log, "\"precision\":\"fp32\""), 1);
    c = RUN("info", "text.run/last.safetensors");
    cr_expect(strstr(c.out, "\nprecision     fp32\n"), "%s", c.out);
    static const char *const wrong[][4] = {{"--lr", "1", "leave --lr out"},
                                           {"--init-scale", "8", "--init-scale with --resume needs --precision"},
                                           {"--batch", "16", "leave --batch out"}};
    for (int i = 0; i < 3; i++) {
        c = RUN("train", "text.txt", "--resume", wrong[i][0], wrong[i][1]);
        cr_expect(c.code == 2 && strstr(c.err, wrong[i][2]), "%s", c.err);
    }
}

Test(precision, masters_from_weights_of_16_bits_are_told_of) {
    train_tiny();
    child c = RUN("convert", "text.run", "-o", "small.safetensors", "--dtype", "bf16");
    cr_assert_eq(c.code, 0, "%s", c.err);
    for (int i = 0; i < PRESETS; i++) {
        c = RUN("train", "text.txt", "--from", "small.safetensors", "--batch", "2", "--length", "8", "--steps", "3",
                "--precision", presets[i].name, "-o", "on", "--force");
        cr_expect(c.code == 0 && strstr(c.err, "warning: small.safetensors: its weights are bf16; the f32 masters were "
                                               "made from them\n"),
                  "%s", c.err);
        c = RUN("train", "text.txt", "--from", "text.run", "--batch", "2", "--length", "8", "--steps", "3",
                "--precision", presets[i].name, "-o", "on", "--force");
        cr_expect(c.code == 0 && !strstr(c.err, "masters were made"), "%s", c.err);
    }
}
