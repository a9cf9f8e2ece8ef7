// test_runs.c: whole runs of the command: what train leaves behind, and what eval, generate and info make of it.
// test_stopping.c has runs that are stopped, test_cli.c the command line.
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

Test(cli_runs, a_text_of_its_own_to_evaluate_on) {
    write_text("text.txt", 2000);
    write_text("other.txt", 300);
    child c = RUN("train", "text.txt", TINY, "--steps", "5", "--val", "other.txt");
    cr_assert(c.code == 0 && strstr(c.err, "2000 bytes to learn from, 300 held out"), "%s", c.err);
    c = RUN("train", "text.txt", TINY, "--steps", "5", "--val", "missing.txt", "-o", "elsewhere");
    cr_assert(c.code == 3 && strstr(c.err, "missing.txt"), "%s", c.err);
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

// The names of the command are those of the library, in its order.
Test(cli_runs, every_optimizer_and_every_schedule) {
    static const char *const names[][3] = {{"adamw", "cosine", "0.3"},
                                           {"sgd", "linear", "0"},
                                           {"adam", "constant", "0"},
                                           {"radam", "invsqrt", "0"},
                                           {"adamw", "step", "0.3"}};
    write_text("text.txt", 2000);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        child c = RUN("train", "text.txt", TINY, "--steps", "5", "--optimizer", names[i][0], "--schedule", names[i][1],
                      "--accumulate", "3", "--ema", "0.9", "--force");
        cr_assert(c.code == 0 && strstr(c.err, "5 steps of 3 x 2 x 8 bytes, 0.133 epochs"), "%s", c.err);
        char quoted[2][16], *log = read_file("text.run/log.jsonl", NULL);
        for (int k = 0; k < 2; k++) snprintf(quoted[k], sizeof *quoted, "\"%s\"", names[i][k]);
        cr_assert_str_eq(json_value(log, "start", "optimizer"), quoted[0]);
        cr_assert_str_eq(json_value(log, "start", "schedule"), quoted[1]);
        cr_assert_str_eq(json_value(log, "start", "weight_decay"), names[i][2]); // what it was
        for (int k = 0; k < 2; k++) {
            char escaped[2][40], *last = read_file("text.run/last.safetensors", NULL);
            snprintf(escaped[k], sizeof *escaped, "\\\"%s\\\":\\\"%s\\\"", k ? "schedule" : "optimizer", names[i][k]);
            cr_assert(strstr(last + 8, escaped[k]), "%s", escaped[k]);
        }
        expect_loadable("text.run");
        c = RUN("train", "text.txt", "--resume");
        cr_assert_eq(c.code, 0, "%s", c.err);
    }
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

Test(cli_runs, characters_are_symbols_where_they_are_asked_for) {
    static const char line[] = "Übergröße – naïve 日本\n"; // 21 characters, 16 of them different, 31 bytes
    char text[100 * sizeof line] = "";
    for (int i = 0; i < 100; i++) strcat(text, line);
    write_file("text.txt", text, strlen(text));
    child c = RUN("train", "text.txt", TINY, "--steps", "5", "--tokenizer", "characters");
    cr_assert(c.code == 0 && strstr(c.err, "16 characters, seed 1") && strstr(c.err, "nats per character"), "%s",
              c.err);
    c = RUN("info", "text.run");
    cr_assert(strstr(c.out, "vocabulary    16\n") && strstr(c.out, "symbols       characters\n"), "%s", c.out);
    c = RUN("eval", "text.run", "text.txt", "--json");
    cr_assert_str_eq(json_value(c.out, NULL, "predictions"), "2099");
    double nats = atof(json_value(c.out, NULL, "nats_per_character")); // the first character has two bytes
    cr_assert_float_eq(atof(json_value(c.out, NULL, "bits_per_byte")), nats * 2099 / log(2) / 3098, 1e-6);
    c = RUN("generate", "text.run", "--prompt", "größe", "--tokens", "9");
    cr_assert(c.code == 0 && !strncmp(c.out, "größe", 7), "%s", c.err);
    int characters = 0;
    for (const char *p = c.out; *p; p++) characters += (*p & 0xc0) != 0x80;
    cr_assert_eq(characters, 5 + 9);
    c = RUN("generate", "text.run", "--prompt", "Quiz");
    cr_assert(c.code == 3 &&
                  strstr(c.err, "4 of the text's characters are not in the vocabulary, the first at byte 0: 'Q' "
                                "(U+0051)"),
              "%s", c.err);
    c = RUN("generate", "text.run", "--prompt", "Quiz größe", "--unknown", "skip", "--tokens", "0");
    cr_assert(c.code == 0 && strstr(c.err, "warning") && !strcmp(c.out, " größe"), "%s", c.err);
    c = RUN("train", "text.txt", "--resume");
    cr_assert_eq(c.code, 0, "%s", c.err);
    c = RUN("train", "text.txt", "--resume", "--tokenizer", "characters");
    cr_assert(c.code == 2 && strstr(c.err, "leave --tokenizer out"), "%s", c.err);
    write_file("latin.txt", "caf\xe9 caf\xe9", 9);
    c = RUN("train", "latin.txt", "--tokenizer", "characters");
    cr_assert(c.code == 3 && strstr(c.err, "not UTF-8 at byte 3"), "%s", c.err);
}

Test(cli_runs, a_model_is_trained_further) {
    train_tiny();
    write_text("other.txt", 700);
    child c =
        RUN("train", "other.txt", "--from", "text.run", "--batch", "2", "--length", "8", "--steps", "3", "--json");
    cr_assert(c.code == 0 && strstr(c.err, "1 layers of 16"), "%s", c.err);
    child fresh = RUN("train", "other.txt", TINY, "--steps", "3", "-o", "fresh", "--json");
    cr_assert_lt(atof(json_value(c.out, NULL, "training_nats_per_symbol")),
                 atof(json_value(fresh.out, NULL, "training_nats_per_symbol")));
    c = RUN("train", "other.txt", "--from", "text.run", "--hidden", "8", "-o", "x");
    cr_assert(c.code == 2 && strstr(c.err, "leave --hidden"), "%s", c.err);
    c = RUN("train", "other.txt", "--from", "missing", "-o", "x");
    cr_assert(c.code == 3 && strstr(c.err, "missing"), "%s", c.err);
    c = RUN("train", "other.txt", "--from", "text.run", "--resume", "-o", "text.run");
    cr_assert(c.code == 2 && strstr(c.err, "exclude each other"), "%s", c.err);
}

Test(cli_runs, patience_ends_a_run_that_does_not_get_better) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "4000", "--eval-every", "5", "--patience", "2", "--lr", "0.5");
    cr_assert(c.code == 0 && strstr(c.err, "ended after 2 evaluations without a new best"), "%s", c.err);
    char *log = read_file("text.run/log.jsonl", NULL);
    cr_assert_str_eq(json_value(log, "end", "result"), "\"done\"");
    cr_assert_lt(atof(json_value(log, "end", "step")), 4000);
    c = RUN("train", "text.txt", "--resume"); // is at its end
    cr_assert(c.code == 0 && strstr(c.err, "ended after 2 evaluations") && !strstr(c.err, " | loss "), "%s", c.err);
    c = RUN("train", "text.txt", TINY, "--patience", "2", "--val-split", "0", "-o", "x");
    cr_assert(c.code == 2 && strstr(c.err, "--patience needs a held-out text"), "%s", c.err);
}

// What --time chose and what was given, as options: they give the same model.
Test(cli_runs, a_duration_is_printed_as_the_options_that_repeat_it) {
    write_text("text.txt", 4000);
    child c = RUN("train", "text.txt", "--time", "0.3s", "--hidden", "16", "--precision", "amp-fp16");
    const char *from = c.code == 0 ? strstr(c.err, "(--layers") : NULL,
               *end = from ? strstr(from, " repeats it)") : NULL;
    cr_assert(end && strstr(from, "--hidden 16 "), "%s", c.err);
    char options[512], *rest = options;
    const char *arguments[32] = {"train", "text.txt", "-o", "again.run"};
    snprintf(options, sizeof options, "%.*s", (int)(end - from - 1), from + 1);
    for (int n = 4; n < 31 && (arguments[n] = strtok_r(rest, " ", &rest)); n++) {
    }
    c = child_run(NULL, NULL, arguments);
    size_t sizes[2];
    char *models[2] = {read_file("text.run/model.safetensors", &sizes[0]),
                       read_file("again.run/model.safetensors", &sizes[1])};
    cr_assert(c.code == 0 && models[0] && models[1], "%s: %s", options, c.err);
    cr_expect(sizes[0] == sizes[1] && memcmp(models[0], models[1], sizes[0]) == 0, "%s", options);
}

Test(cli_runs, a_dry_run_writes_nothing) {
    write_text("text.txt", 2000);
    static const char *const lengths[][2] = {{"--steps", "500"}, {"--time", "1s"}};
    for (int i = 0; i < 2; i++) {
        child c = RUN("train", "text.txt", TINY, lengths[i][0], lengths[i][1], "--dry-run");
        cr_assert(c.code == 0 && strstr(c.err, " MB of memory") && strstr(c.err, "steps would take about "), "%s",
                  c.err);
        cr_assert(access("text.run", F_OK) != 0);
    }
    child c = RUN("train", "text.txt", TINY, "-n", "--steps", "40", "--json", "--quiet");
    cr_assert(c.code == 0 && c.err_size == 0 && is_json_lines(c.out), "%s", c.err);
    cr_assert_str_eq(json_value(c.out, NULL, "steps_left"), "40");
    cr_assert(atof(json_value(c.out, NULL, "seconds")) > 0 && atof(json_value(c.out, NULL, "memory_bytes")) > 1e5);
    c = RUN("train", "text.txt", TINY, "--steps", "3");
    c = RUN("train", "text.txt", "--resume", "-n");
    cr_assert(c.code == 0 && strstr(c.err, "the run is at its end"), "%s", c.err);
    c = RUN("train", "text.txt", TINY, "-n", "-o", "no/such/place");
    cr_assert(c.code == 1 && strstr(c.err, "no/such"), "%s", c.err);
    c = RUN("train", "text.txt", "--hidden", "65536", "--layers", "256", "-n", "-o", "other.run");
    cr_assert(c.code == 1 && strstr(c.err, "GB of memory"), "%s", c.err); // 256 * 3 * 65536^2 * 16 bytes: 53 TB
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
    snprintf(line, sizeof line, "nats per byte      %.4f\n", nats);
    cr_assert(strstr(plain.out, line) && strstr(plain.out, "predictions        1999\n"), "%s", plain.out);
}

// The losses of single predictions have the mean that eval prints, and say where they are.
Test(cli_runs, eval_prints_each_prediction) {
    train_tiny();
    char *text = read_file("text.txt", NULL);
    child mean = RUN("eval", "text.run", "text.txt", "--json", "--reset", "100");
    child each = RUN("eval", "text.run", "text.txt", "--per-token", "--reset", "100");
    child json = RUN("eval", "text.run", "text.txt", "--per-token", "--reset", "100", "--json");
    cr_assert(each.code == 0 && json.code == 0 && is_json_lines(json.out), "%s%s", each.err, json.err);
    double sum = 0, loss;
    int count = 0;
    for (char *line = each.out, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        int at = (int)strtol(line, &line, 10);
        cr_assert(at == count + 1 && *line++ == '\t');
        cr_assert(text[at] == '\n' ? !strncmp(line++, "\\n", 2) : *line == text[at], "%.9s", line);
        sum += loss = strtod(line + 1, NULL);
        cr_assert(line[1] == '\t' && loss > 0);
    }
    cr_assert_eq(count, 1999);
    cr_assert_float_eq(sum / count, atof(json_value(mean.out, NULL, "nats_per_byte")), 1e-5); // six digits each
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

// Rounding the weights of products is most of what rounding a file is, and changes the loss; a file that is rounded has
// the loss of its f32 to the last digit, since widening is exact.
Test(cli_runs, eval_reads_weights_in_the_dtype_asked_for) {
    train_tiny();
    RUN("convert", "text.run", "-o", "half.safetensors", "--dtype", "bf16");
    child f32 = RUN("eval", "text.run", "text.txt", "--json"),
          bf16 = RUN("eval", "text.run", "text.txt", "--json", "--weights", "bf16"),
          stored = RUN("eval", "half.safetensors", "text.txt", "--json"),
          widened = RUN("eval", "half.safetensors", "text.txt", "--json", "--weights=f32");
    cr_assert(f32.code == 0 && bf16.code == 0 && stored.code == 0 && widened.code == 0, "%s", bf16.err);
    cr_expect_str_eq(stored.out, widened.out);
    cr_expect_str_neq(bf16.out, f32.out);
    cr_expect_str_neq(stored.out, f32.out);
    child wrong = RUN("eval", "text.run", "text.txt", "--weights", "f64");
    cr_expect(wrong.code == 2 && strstr(wrong.err, "one of stored|f32|f16|bf16"), "%s", wrong.err);
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

// A file of 16-bit weights is read as what it is; what its weights are rounded to anyhow changes nothing.
Test(cli_runs, generate_reads_weights_as_they_are_stored) {
    train_tiny();
    RUN("convert", "text.run", "-o", "half.safetensors", "--dtype", "f16");
    child stored = RUN("generate", "half.safetensors", "-n", "40"),
          f16 = RUN("generate", "text.run", "-n", "40", "--weights", "f16"),
          f32 = RUN("generate", "half.safetensors", "-n", "40", "--weights=f32");
    cr_assert(stored.code == 0 && f16.code == 0 && f32.code == 0, "%s", stored.err);
    cr_expect(stored.out_size == 40 && memcmp(stored.out, f32.out, 40) == 0);
}

Test(cli_runs, generate_into_a_full_disk_or_a_closed_pipe_ends) {
    train_tiny();
    child full = child_run(NULL, full_output, (const char *[]){"generate", "text.run", "--tokens", "100000000", NULL});
    cr_assert(full.code == 1 && strstr(full.err, "No space left on device"), "%d %s", full.code, full.err);
    child dead = child_run(NULL, dead_output, (const char *[]){"generate", "text.run", "--tokens", "100000000", NULL});
    cr_assert(dead.code == 128 + SIGPIPE && !strstr(dead.err, "error"), "%d %s", dead.code, dead.err);
}
