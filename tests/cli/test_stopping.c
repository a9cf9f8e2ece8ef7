// test_stopping.c: runs that are stopped, by a signal, by SIGKILL, by diverging, and go on.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(stopping, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

// Waits until the run's log has a step, or 20 seconds.
static void await_steps(const char *path) {
    for (int i = 0; i < 2000; i++) {
        char *log = read_file(path, NULL);
        bool stepped = log && strstr(log, "\"event\":\"step\"");
        if (stepped) return;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    cr_assert_fail("%s: no step", path);
}

// One step of far more batches than the test has patience for: stopped between two of them, and tried by a dry run.
Test(stopping, a_step_of_many_batches_can_be_stopped) {
    write_text("text.txt", 2000);
    child c = child_start(NULL, NULL,
                          (const char *[]){"train", "text.txt", TINY, "--steps", "1", "--accumulate", "65536", NULL});
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(c.pid, SIGINT);
    child_finish(&c);
    cr_assert(c.code == 130 && strstr(c.err, "stopped by SIGINT"), "%d: %s", c.code, c.err);
    c = RUN("train", "text.txt", "--layers", "2", "--hidden", "64", "--steps", "1", "--accumulate", "65536", "-n",
            "-f");
    cr_assert(c.code == 0 && strstr(c.err, "1 steps would take about ") && !strstr(c.err, "a second"), "%s", c.err);
}

// A second run in the same folder, at the same time, is refused, whatever it is told.
Test(stopping, a_folder_takes_one_run_at_a_time) {
    write_text("text.txt", 2000);
    child first = child_start(NULL, NULL, (const char *[]){"train", "text.txt", TINY, "--steps", "100000000", NULL});
    await_steps("text.run/log.jsonl");
    child second = RUN("train", "text.txt", TINY, "--steps", "5", "--force");
    kill(first.pid, SIGTERM);
    child_finish(&first);
    cr_assert(second.code == 1 && strstr(second.err, "text.run: another run is using this folder"), "%s", second.err);
    cr_assert_eq(first.code, 143, "%s", first.err);
    second = RUN("train", "text.txt", TINY, "--steps", "5", "--force");
    cr_assert_eq(second.code, 0, "%s", second.err);
}

Test(stopping, a_signal_saves_and_exits_with_its_number) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static const char *const names[] = {"SIGINT", "SIGTERM", "SIGHUP"};
    write_text("text.txt", 2000);
    for (int i = 0; i < 3; i++) {
        child c = child_start(NULL, NULL,
                              (const char *[]){"train", "text.txt", TINY, "--steps", "100000000", "--val-split", "0.25",
                                               "--force", NULL});
        await_steps("text.run/log.jsonl");
        cr_assert_eq(kill(c.pid, numbers[i]), 0);
        child_finish(&c);
        cr_assert_eq(c.code, 128 + numbers[i], "%s", c.err);
        cr_assert(strstr(c.err, names[i]) && strstr(c.err, "saved in text.run/last.safetensors"), "%s", c.err);
        cr_assert(strstr(c.err, " train text.txt --val-split 0.25 --resume -o text.run\n"), "%s", c.err);
        expect_loadable("text.run/last.safetensors");
        char *log = read_file("text.run/log.jsonl", NULL);
        cr_assert(is_json_lines(log));
        cr_assert_str_eq(json_value(log, "end", "result"), "\"stopped\"");
        cr_assert_eq(remove("text.run/log.jsonl"), 0);
    }
}

static void ignore_hang_ups(void) { signal(SIGHUP, SIG_IGN); }

// A terminal that is closed may send SIGHUP twice, from the kernel and from the shell: nobody asks to leave at once.
// Under nohup it is nothing at all.
Test(stopping, a_closed_terminal_saves_and_nohup_goes_on) {
    const char *const arguments[] = {"train", "text.txt", TINY, "--steps", "100000000", "--force", NULL};
    write_text("text.txt", 2000);
    for (int nohup = 0; nohup < 2; nohup++) {
        child c = child_start(NULL, nohup ? ignore_hang_ups : NULL, arguments);
        await_steps("text.run/log.jsonl");
        for (int i = 0; i < 3; i++) kill(c.pid, SIGHUP);
        if (nohup) kill(c.pid, SIGTERM);
        child_finish(&c);
        cr_assert_eq(c.code, 128 + (nohup ? SIGTERM : SIGHUP), "%d: %s", c.code, c.err);
        cr_assert(strstr(c.err, "saved in text.run/last.safetensors"), "%s", c.err);
        cr_assert_eq(remove("text.run/log.jsonl"), 0);
    }
}

#define KILLED                                                                                                         \
    "--layers", "1", "--hidden", "24", "--batch", "2", "--length", "8", "--steps", "260", "--eval-every", "20",        \
        "--save-every", "15", "--dropout", "0.1"

static int lines_of(const char *path) {
    char *text = read_file(path, NULL);
    int lines = 0;
    for (const char *p = text; p && (p = strchr(p, '\n')); p++) lines++;
    return lines;
}

static void expect_same_file(const char *a, const char *b, int trial) {
    size_t sizes[2];
    char *first = read_file(a, &sizes[0]), *second = read_file(b, &sizes[1]);
    cr_assert(first && second && sizes[0] == sizes[1] && !memcmp(first, second, sizes[0]), "trial %d: %s", trial, b);
}

// Twenty runs, each killed without a chance to save when its log has got to some line, be it of a step, an evaluation
// or a save, and resumed. An epoch is 112 steps: they end every now and then between two saves, and so do new bests.
Test(stopping, a_killed_run_goes_on_to_the_same_bytes) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", KILLED, "-o", "straight");
    cr_assert_eq(c.code, 0, "%s", c.err);
    int lines = lines_of("straight/log.jsonl"), running = 0;
    for (int trial = 0; trial < 20; trial++) {
        int line = 2 + (int)((unsigned)trial * 2654435761u % (unsigned)(lines - 4)); // spread over the run, in no order
        const char *const start[] = {"train", "text.txt", KILLED, "-o", "killed", "--force", NULL};
        remove("killed/log.jsonl");
        c = child_start(NULL, NULL, start);
        while (lines_of("killed/log.jsonl") < line && kill(c.pid, 0) == 0)
            nanosleep(&(struct timespec){0, 200000}, NULL);
        kill(c.pid, SIGKILL);
        child_finish(&c);
        running += c.code == 128 + SIGKILL;
        bool saved = read_file("killed/last.safetensors", NULL) != NULL;
        c = saved ? RUN("train", "text.txt", "--resume", "-o", "killed")
                  : RUN("train", "text.txt", KILLED, "-o", "killed", "--force");
        cr_assert_eq(c.code, 0, "trial %d: %s", trial, c.err);
        expect_same_file("straight/model.safetensors", "killed/model.safetensors", trial);
        expect_same_file("straight/last.safetensors", "killed/last.safetensors", trial);
    }
    cr_assert_geq(running, 15, "%d of 20 runs were still going on when they were killed", running);
}

Test(stopping, a_torn_last_line_of_the_log_goes_when_the_run_goes_on) {
    train_tiny();
    size_t size;
    char *log = read_file("text.run/log.jsonl", &size);
    write_file("text.run/log.jsonl", log, size - 7);
    child c = RUN("train", "text.txt", "--resume");
    cr_assert_eq(c.code, 0, "%s", c.err);
    log = read_file("text.run/log.jsonl", NULL);
    cr_assert(is_json_lines(log) && strstr(log, "\"event\":\"end\""), "%s", log);
    write_file("text.run/log.jsonl", "{\"event", 7);
    RUN("train", "text.txt", "--resume");
    cr_assert_eq(strncmp(read_file("text.run/log.jsonl", NULL), "{\"event\":\"start\"", 16), 0);
}

// A damaged newest checkpoint is not kept as the previous one, which the run goes on from: that stays readable.
Test(stopping, a_damaged_checkpoint_replaces_no_good_one) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "6", "--eval-every", "2", "--save-every", "2");
    cr_assert_eq(c.code, 0, "%s", c.err);
    size_t size, half;
    char *whole = read_file("text.run/last.safetensors", &size), *last;
    write_file("text.run/last.safetensors", whole, size / 2);
    c = RUN("train", "text.txt", "--resume");
    cr_assert(c.code == 0 && strstr(c.err, "warning: text.run/last.safetensors") &&
                  strstr(c.err, "; the run goes on from text.run/previous.safetensors"),
              "%s", c.err);
    expect_loadable("text.run/previous.safetensors");
    last = read_file("text.run/last.safetensors", &half);
    cr_assert(half == size && !memcmp(last, whole, size), "the run did not end as it had");
}

// What a killed process was writing is taken away by the next one, and nothing else.
Test(stopping, what_was_never_finished_goes) {
    train_tiny();
    write_file("text.run/next.safetensors.tmp.123", "half", 4);
    write_file("text.run/notes.tmp", "mine", 4);
    child c = RUN("train", "text.txt", "--resume");
    cr_assert_eq(c.code, 0, "%s", c.err);
    cr_expect(!read_file("text.run/next.safetensors.tmp.123", NULL) && read_file("text.run/notes.tmp", NULL));
}

// A run that was killed before its first save is no part of the text that a folder is.
Test(stopping, the_log_of_an_unsaved_run_is_no_text) {
    cr_assert(mkdir("texts", 0700) == 0);
    write_text("texts/a.txt", 2000);
    child c = RUN("train", "texts", "-o", "texts/x", TINY, "--steps", "5");
    cr_assert(c.code == 0 && unlink("texts/x/last.safetensors") == 0, "%s", c.err);
    c = RUN("train", "texts", "-o", "texts/x", "-f", TINY, "--steps", "5");
    cr_assert(c.code == 0 && strstr(c.err, "1800 bytes to learn from"), "%s", c.err);
}

Test(stopping, what_does_not_go_on_says_why) {
    train_tiny();
    child c = RUN("train", "text.txt", "--resume", "--lr", "1");
    cr_assert(c.code == 2 && strstr(c.err, "leave --lr out"), "%s", c.err);
    c = RUN("train", "text.txt", "--resume", "-o", "elsewhere");
    cr_assert(c.code == 2 && strstr(c.err, "holds no run"), "%s", c.err);
    write_text("other.txt", 1000);
    c = RUN("train", "other.txt", "--resume", "-o", "text.run");
    cr_assert(c.code == 3 && strstr(c.err, "not the one that its run learns from"), "%s", c.err);
    write_file("text.run/last.safetensors", "damaged", 7);
    write_file("text.run/previous.safetensors", "damaged", 7);
    c = RUN("train", "text.txt", "--resume");
    cr_assert(c.code == 3 && strstr(c.err, "warning: text.run/last.safetensors") &&
                  strstr(c.err, "error: text.run/previous.safetensors"),
              "%s", c.err);
}

Test(stopping, a_duration_becomes_a_number_of_steps) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--time", "1s");
    cr_assert_eq(c.code, 0, "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL), steps[32];
    snprintf(steps, sizeof steps, "%s", json_value(log, "start", "steps"));
    cr_assert_gt(atoll(steps), 0);
    cr_assert_str_eq(json_value(log, "end", "step"), steps);
    cr_assert(strstr(c.err, "repeats it"), "%s", c.err);
}

Test(stopping, divergence_exits_4) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "50", "--lr", "1e6", "--clip", "0", "--warmup", "0");
    cr_assert(c.code == 4 && strstr(c.err, "diverged"), "%d %s", c.code, c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_assert(is_json_lines(log), "%s", log);
    cr_assert_str_eq(json_value(log, "end", "result"), "\"diverged\"");
    c = RUN("train", "text.txt", "-f", TINY, "--steps", "30", "--lr", "1000"); // losses of many digits
    for (const char *at = c.err; (at = strstr(at, "(bpc ")); at++)
        cr_expect(strcspn(at, ")") < strcspn(at, "|\n"), "%.80s", at);
}
