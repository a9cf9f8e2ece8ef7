// test_runs.c: whole runs of the command: what train leaves behind, when it is stopped too, and what eval, generate and
// info make of it. test_cli.c has the command line.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(cli_runs, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

#define TINY "--layers", "1", "--hidden", "16", "--batch", "2", "--length", "8"

static child train_tiny(void) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "5");
    cr_assert_eq(c.code, 0, "%s", c.err);
    return c;
}

Test(cli_runs, a_text_of_its_own_to_evaluate_on) {
    write_text("text.txt", 2000);
    write_text("other.txt", 300);
    child c = RUN("train", "text.txt", TINY, "--steps", "5", "--val", "other.txt");
    cr_assert(c.code == 0 && strstr(c.err, "2000 bytes to learn from, 300 held out"), "%s", c.err);
    c = RUN("train", "text.txt", TINY, "--steps", "5", "--val", "missing.txt", "-o", "elsewhere");
    cr_assert(c.code == 3 && strstr(c.err, "missing.txt"), "%s", c.err);
}

static void expect_loadable(const char *model) {
    child c = RUN("info", model);
    cr_assert(c.code == 0 && strstr(c.out, "layers        1") && strstr(c.out, "embedding_layer.weight"), "%s", c.err);
}

Test(cli_runs, train_leaves_models_and_a_log) {
    child c = train_tiny();
    cr_assert_eq(c.out_size, 0);
    cr_assert(!strchr(c.err, '\r') && !strchr(c.err, '\033'), "no terminal, no rewriting");
    cr_assert(strstr(c.err, "1800 bytes to learn from, 200 held out") && strstr(c.err, "step 5/5 100% | loss "), "%s",
              c.err);
    cr_assert(strstr(c.err, "held-out loss: ") && strstr(c.err, "generate text.run\n"), "%s", c.err);
    expect_loadable("text.run");
    expect_loadable("text.run/last.safetensors");

    char *log = read_file("text.run/log.jsonl", NULL);
    cr_assert(is_json_lines(log), "%s", log);
    cr_assert_eq(strncmp(log, "{\"event\":\"start\"", 16), 0);
    static const char *const fields[][2] = {{"start", "version"},    {"start", "seed"},   {"start", "threads"},
                                            {"start", "parameters"}, {"step", "loss"},    {"step", "lr"},
                                            {"step", "norm"},        {"step", "seconds"}, {"eval", "validation"},
                                            {"save", "path"},        {"end", "best"},     {"end", "smooth_loss"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        cr_assert(json_value(log, fields[i][0], fields[i][1]), "%s %s: %s", fields[i][0], fields[i][1], log);
    cr_assert_str_eq(json_value(log, "end", "result"), "\"done\"");
    cr_assert_str_eq(json_value(log, "end", "step"), "5");
}

Test(cli_runs, a_run_is_not_overwritten_unasked) {
    train_tiny();
    child again = RUN("train", "text.txt", TINY, "--steps", "5");
    cr_assert(again.code == 2 && strstr(again.err, "text.run: holds a run already; --resume"), "%s", again.err);
    child forced = RUN("train", "text.txt", TINY, "--steps", "4", "--force", "--quiet", "--json");
    cr_assert(forced.code == 0 && forced.err_size == 0, "%s", forced.err);
    cr_assert(is_json_lines(forced.out), "%s", forced.out);
    cr_assert_str_eq(json_value(forced.out, NULL, "steps"), "4");
    write_file("file", "x", 1);
    child file = RUN("train", "text.txt", TINY, "-o", "file");
    cr_assert(file.code == 1 && strstr(file.err, "file: is a file"), "%s", file.err);
    child deep = RUN("train", "text.txt", TINY, "-o", "no/such/place");
    cr_assert(deep.code == 1 && strstr(deep.err, "no/such/place"), "%s", deep.err);
}

Test(cli_runs, the_same_seed_gives_the_same_model) {
    write_text("text.txt", 2000);
    static const char *const seeds[] = {"7", "7", "8"}, *const threads[] = {"1", "2", "2"},
                             *const folders[] = {"a", "b", "c"};
    char *models[3], path[64];
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        RUN("train", "text.txt", TINY, "--steps", "5", "--seed", seeds[i], "--threads", threads[i], "-o", folders[i]);
        snprintf(path, sizeof path, "%s/model.safetensors", folders[i]);
        models[i] = read_file(path, &sizes[i]);
        cr_assert(models[i]);
    }
    cr_assert(sizes[0] == sizes[1] && memcmp(models[0], models[1], sizes[0]) == 0);
    cr_assert(sizes[0] != sizes[2] || memcmp(models[0], models[2], sizes[0]) != 0);
}

// ---- stopping ----

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

Test(cli_runs, a_signal_saves_and_exits_with_its_number) {
    static const int numbers[] = {SIGINT, SIGTERM};
    static const char *const names[] = {"SIGINT", "SIGTERM"};
    write_text("text.txt", 2000);
    for (int i = 0; i < 2; i++) {
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

#define KILLED                                                                                                         \
    "--layers", "1", "--hidden", "24", "--batch", "2", "--length", "8", "--steps", "2500", "--eval-every", "400"

// Killed again and again without a chance to save, at whatever moment it is; what was saved before is enough.
Test(cli_runs, a_killed_run_goes_on_to_the_same_bytes) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", KILLED, "-o", "straight");
    cr_assert_eq(c.code, 0, "%s", c.err);
    c = RUN("train", "text.txt", KILLED, "--save-every", "50", "-o", "killed");
    cr_assert_eq(c.code, 0, "%s", c.err); // its length is known now: about ten kills are spread over it
    int kills = 0;
    for (bool resume = false; kills < 12; kills++, resume = true) {
        const char *const first[] = {"train",  "text.txt", KILLED, "--save-every", "50", "-o",
                                     "killed", "--force",  NULL};
        const char *const next[] = {"train", "text.txt", "--resume", "-o", "killed", NULL};
        c = child_start(NULL, NULL, resume ? next : first);
        if (!resume)
            await_steps("killed/log.jsonl");
        else
            nanosleep(&(struct timespec){.tv_nsec = (20 + kills * 37 % 60) * 1000000L}, NULL);
        kill(c.pid, SIGKILL);
        child_finish(&c);
        if (!read_file("killed/last.safetensors", NULL)) break; // killed before its first save
    }
    c = kills > 0 ? RUN("train", "text.txt", "--resume", "-o", "killed")
                  : RUN("train", "text.txt", KILLED, "--save-every", "50", "-o", "killed", "--force");
    cr_assert_eq(c.code, 0, "%s", c.err);
    size_t sizes[2];
    char *straight = read_file("straight/model.safetensors", &sizes[0]),
         *killed = read_file("killed/model.safetensors", &sizes[1]);
    cr_assert(sizes[0] == sizes[1] && !memcmp(straight, killed, sizes[0]), "after %d kills", kills);
}

Test(cli_runs, a_torn_last_line_of_the_log_goes_when_the_run_goes_on) {
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

Test(cli_runs, what_does_not_go_on_says_why) {
    train_tiny();
    child c = RUN("train", "text.txt", "--resume", "--lr", "1");
    cr_assert(c.code == 2 && strstr(c.err, "leave the others out"), "%s", c.err);
    c = RUN("train", "text.txt", "--resume", "-o", "elsewhere");
    cr_assert(c.code == 2 && strstr(c.err, "holds no run"), "%s", c.err);
    write_text("other.txt", 1000);
    c = RUN("train", "other.txt", "--resume", "-o", "text.run");
    cr_assert(c.code == 3 && strstr(c.err, "1800 bytes, the text given has 900"), "%s", c.err);
    write_file("text.run/last.safetensors", "damaged", 7);
    write_file("text.run/previous.safetensors", "damaged", 7);
    c = RUN("train", "text.txt", "--resume");
    cr_assert(c.code == 3 && strstr(c.err, "warning: text.run/last.safetensors") &&
                  strstr(c.err, "error: text.run/previous.safetensors"),
              "%s", c.err);
}

Test(cli_runs, a_duration_becomes_a_number_of_steps) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--time", "1s");
    cr_assert_eq(c.code, 0, "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL), steps[32];
    snprintf(steps, sizeof steps, "%s", json_value(log, "start", "steps"));
    cr_assert_gt(atoll(steps), 0);
    cr_assert_str_eq(json_value(log, "end", "step"), steps);
    cr_assert(strstr(c.err, "repeats it"), "%s", c.err);
}

Test(cli_runs, divergence_exits_4) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "50", "--lr", "1e6", "--clip", "0", "--warmup", "0");
    cr_assert(c.code == 4 && strstr(c.err, "diverged"), "%d %s", c.code, c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_assert(is_json_lines(log), "%s", log);
    cr_assert_str_eq(json_value(log, "end", "result"), "\"diverged\"");
}

// ---- streams that break ----

static void limit_files(void) { setrlimit(RLIMIT_FSIZE, &(struct rlimit){8000, 8000}); }

Test(cli_runs, a_save_that_fails_exits_1_and_leaves_no_pieces) {
    write_text("text.txt", 2000); // the model is larger than the limit, the log smaller
    child c = child_run(NULL, limit_files, (const char *[]){"train", "text.txt", TINY, "--steps", "2", NULL});
    cr_assert(c.code == 1 && strstr(c.err, "File too large"), "%d %s", c.code, c.err);
    cr_assert_neq(access("text.run/model.safetensors", F_OK), 0);
}

static void dead_pipe(void) {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
}
static void closed_streams(void) {
    for (int fd = 0; fd < 3; fd++) close(fd);
}

Test(cli_runs, training_outlives_whoever_reads_its_messages) {
    write_text("text.txt", 2000);
    static void (*const setups[])(void) = {dead_pipe, closed_streams};
    for (int i = 0; i < 2; i++) {
        child c =
            child_run(NULL, setups[i], (const char *[]){"train", "text.txt", TINY, "--steps", "5", "--force", NULL});
        cr_assert_eq(c.code, 0, "%d", c.code);
        expect_loadable("text.run");
    }
}

// The terminal's driver adds a '\r' before each '\n'; every piece between them has to fit the 60 columns.
Test(cli_runs, on_a_terminal_one_line_is_rewritten_and_fits) {
    write_text("text.txt", 2000);
    setenv("TERM", "xterm", 1);
    char shown[16384];
    child c =
        child_on_terminal((const char *[]){"train", "text.txt", TINY, "--steps", "300", "--eval-every", "100", NULL},
                          shown, sizeof shown);
    cr_assert(c.code == 0 && strstr(shown, "\rstep 300/300 100% | loss "), "%s", shown);
    for (char *piece = strtok(shown, "\r\n"); piece; piece = strtok(NULL, "\r\n"))
        if (strncmp(piece, "step", 4) == 0) cr_assert_lt(strlen(piece), 60, "%s", piece);
}

// ---- eval ----

Test(cli_runs, eval_prints_one_result_in_several_units) {
    train_tiny();
    child plain = RUN("eval", "text.run", "text.txt"),
          json = RUN("eval", "text.run/model.safetensors", "text.txt", "--json");
    cr_assert(plain.code == 0 && plain.err_size == 0 && json.code == 0 && json.err_size == 0, "%s%s", plain.err,
              json.err);
    cr_assert(is_json_lines(json.out), "%s", json.out);
    double nats = atof(json_value(json.out, NULL, "nats_per_byte"));
    cr_assert(nats > 0 && nats < 10);
    // nine digits are printed
    cr_assert_float_eq(atof(json_value(json.out, NULL, "bits_per_byte")), nats / log(2), 1e-7);
    cr_assert_float_eq(atof(json_value(json.out, NULL, "perplexity")), exp(nats), 1e-6 * exp(nats));
    cr_assert_str_eq(json_value(json.out, NULL, "predictions"), "1999");
    char line[64];
    snprintf(line, sizeof line, "nats per byte  %.4f\n", nats);
    cr_assert(strstr(plain.out, line) && strstr(plain.out, "predictions    1999\n"), "%s", plain.out);
}

Test(cli_runs, eval_reads_the_same_text_in_any_form) {
    train_tiny();
    char *text = read_file("text.txt", NULL);
    write_file("a.txt", text, 700);
    write_file("b.txt", text + 700, 1300);
    child whole = RUN("eval", "text.run", "text.txt", "--reset", "100");
    child parts = RUN("eval", "text.run", "a.txt", "b.txt", "--reset=100");
    child piped = child_run(text, NULL, (const char *[]){"eval", "text.run", "-", "--reset", "100", NULL});
    child carried = RUN("eval", "text.run", "text.txt");
    cr_assert(whole.code == 0 && *whole.out);
    cr_assert_str_eq(whole.out, parts.out);
    cr_assert_str_eq(whole.out, piped.out);
    cr_assert_str_neq(whole.out, carried.out);
    write_file("tail.txt", text + 1800, 200); // what train held out
    child split = RUN("eval", "text.run", "text.txt", "--val-split", "0.1"), tail = RUN("eval", "text.run", "tail.txt");
    cr_assert_str_eq(split.out, tail.out);
    write_file("one.txt", "x", 1);
    child one = RUN("eval", "text.run", "one.txt");
    cr_assert(one.code == 3 && strstr(one.err, "1 byte"), "%s", one.err);
}

// ---- generate ----

Test(cli_runs, generate_prints_prompt_and_continuation) {
    train_tiny();
    child a = RUN("generate", "text.run", "--prompt", "the river", "--tokens", "40", "--seed", "3");
    child b =
        RUN("generate", "text.run/model.safetensors", "-p", "the river", "-n", "40", "--seed=3", "--threads", "1");
    child other = RUN("generate", "text.run", "--prompt", "the river", "--tokens", "40", "--seed", "4");
    cr_assert(a.code == 0 && a.out_size == 9 + 40 && memcmp(a.out, "the river", 9) == 0, "%s%s", a.out, a.err);
    cr_assert_str_eq(a.err, "seed 3\n");
    cr_assert(b.out_size == a.out_size && memcmp(a.out, b.out, a.out_size) == 0);
    cr_assert(other.out_size == a.out_size && memcmp(a.out, other.out, a.out_size) != 0);
    write_file("prompt.txt", "the river", 9);
    child file = RUN("generate", "text.run", "--prompt-file", "prompt.txt", "--tokens", "40", "--seed", "3");
    cr_assert(file.out_size == a.out_size && memcmp(a.out, file.out, a.out_size) == 0);
    child none = RUN("generate", "text.run", "--tokens", "25"), nothing = RUN("generate", "text.run", "--tokens", "0");
    cr_assert(none.code == 0 && none.out_size == 25 && nothing.code == 0 && nothing.out_size == 0);
}

Test(cli_runs, temperature_0_ignores_the_seed) {
    train_tiny();
    child a = RUN("generate", "text.run", "-t", "0", "--seed", "1"),
          b = RUN("generate", "text.run", "-t", "0", "--seed", "2");
    child top = RUN("generate", "text.run", "-t", "1", "--top-k", "1", "--seed", "3");
    cr_assert(a.code == 0 && a.out_size == 500);
    cr_assert_arr_eq(a.out, b.out, 500);
    cr_assert_arr_eq(a.out, top.out, 500);
}

static void full_output(void) { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); }
static void dead_output(void) {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_IGN); // as a parent in Python leaves it
}

Test(cli_runs, generate_into_a_full_disk_or_a_closed_pipe_ends) {
    train_tiny();
    child full = child_run(NULL, full_output, (const char *[]){"generate", "text.run", "--tokens", "100000000", NULL});
    cr_assert(full.code == 1 && strstr(full.err, "No space left on device"), "%d %s", full.code, full.err);
    child dead = child_run(NULL, dead_output, (const char *[]){"generate", "text.run", "--tokens", "100000000", NULL});
    cr_assert(dead.code == 128 + SIGPIPE && !strstr(dead.err, "error"), "%d %s", dead.code, dead.err);
}
