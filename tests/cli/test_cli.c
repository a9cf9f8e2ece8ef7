// test_cli.c: the command's promises about its command line: exit codes, messages, help, numbers, streams. Each test
// runs the real program in a scratch folder; test_runs.c has the runs and what they leave behind.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(cli, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

#define TINY "--layers", "1", "--hidden", "16", "--batch", "2", "--length", "8"

// One line, the last, "halfstep: error: ..." with the words in it; nothing on stdout; no colour.
static void expect_error(const child *c, int code, const char *words) {
    static const char start[] = "halfstep: error: ";
    const char *line = strstr(c->err, start);
    cr_assert_eq(c->code, code, "exit code %d instead of %d: %s", c->code, code, c->err);
    cr_assert_eq(c->out_size, 0, "standard output: %s", c->out);
    cr_assert(line && (line == c->err || line[-1] == '\n'), "%s", c->err);
    cr_assert_eq(strchr(line, '\n'), c->err + c->err_size - 1, "not the last line: %s", c->err);
    cr_assert(strstr(line, words), "`%s` is not in: %s", words, line);
    cr_assert_null(strchr(c->err, '\033'));
}

Test(cli, wrong_command_lines_exit_2_and_say_why) {
    static const struct {
        const char *arguments[8], *words;
    } cases[] = {
        {{"trian", "x"}, "did you mean `train`?"},
        {{"evaluate"}, "did you mean `eval`?"},
        {{"zzzzzzzz"}, "halfstep help"},
        {{"train", "x", "--bathc", "4"}, "did you mean `--batch`?"},
        {{"train", "x", "--batchsize=4"}, "did you mean `--batch`?"},
        {{"train", "x", "--temp", "4"}, "no option `--temp`"},
        {{"train", "x", "-z"}, "no option `-z`"},
        {{"generate", "x", "--temp=4"}, "did you mean `--temperature`?"},
        {{"eval", "x", "y", "--rounding"}, "halfstep help eval"},
        {{"train"}, "TEXT..."},
        {{"eval", "x"}, "MODEL TEXT..."},
        {{"generate", "x", "y"}, "MODEL"},
        {{"train", "x", "--steps"}, "needs a value: an integer from 1"},
        {{"train", "x", "--steps", "--force"}, "needs a value"},
        {{"train", "x", "--quiet=yes"}, "takes no value"},
        {{"train", "x", "--steps=5", "--time=5s"}, "exclude each other"},
        {{"generate", "x", "--prompt=a", "--prompt-file=b"}, "exclude each other"},
        {{"train", "x", "--optimizer", "adagrad"}, "one of adamw|sgd|adam|radam"},
        {{"train", "x", "--schedule", "cos"}, "one of cosine|linear|constant|invsqrt|step"},
        {{"train", "x", "--momentum", "0.5"}, "--momentum is sgd's"},
        {{"train", "x", "--nesterov", "--optimizer", "radam"}, "--nesterov is sgd's"},
        {{"train", "x", "--nesterov", "--optimizer", "sgd", "--momentum", "0"}, "needs a --momentum above 0"},
        {{"train", "x", "--eps", "1e-6", "--optimizer", "sgd"}, "sgd has none"},
        {{"train", "x", "--beta1", "0.5", "--optimizer", "sgd"}, "sgd has none"},
        {{"train", "x", "--lr-step-every", "0.5"}, "are for --schedule step"},
        {{"train", "x", "--floor", "0.5", "--schedule", "constant"}, "means nothing with --schedule constant"},
        {{"info", "--isa", "pdp11"}, "pdp11"},
        {{"help", "me"}, "no command `me`"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = child_run(NULL, NULL, cases[i].arguments);
        expect_error(&c, 2, cases[i].words);
    }
}

Test(cli, numbers_are_whole_and_in_range) {
    static const char *wrong[] = {"--lr=",
                                  "--lr=1e-3x",
                                  "--lr= 1",
                                  "--lr=1 ",
                                  "--lr=0x10",
                                  "--lr=inf",
                                  "--lr=nan",
                                  "--lr=1,5",
                                  "--lr=-1",
                                  "--lr=1e999",
                                  "--lr=.",
                                  "--lr=e5",
                                  "--layers=1.5",
                                  "--layers=0",
                                  "--layers=+",
                                  "--layers=257",
                                  "--dropout=1",
                                  "--dropout=-0.1",
                                  "--time=3x",
                                  "--time=",
                                  "--time=5s3m",
                                  "--time=0",
                                  "--time=3m3m",
                                  "--time=-5",
                                  "--seed=-1",
                                  "--seed=1.0",
                                  "--epochs=0",
                                  "--steps=0",
                                  "--warmup=1.01",
                                  "--beta1=1",
                                  "--beta2=-0.5",
                                  "--eps=0",
                                  "--ema=1",
                                  "--accumulate=0",
                                  "--lr-step-every=0",
                                  "--lr-step-factor=2",
                                  "--color=red",
                                  "--seed=18446744073709551616",
                                  "--steps=99999999999999999999",
                                  "--layers=4294967297"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        child c = RUN("train", "missing.txt", wrong[i]);
        expect_error(&c, 2, " must be ");
    }
    // The next thing to go wrong with a right command line is the missing text.
    static const char *right[] = {"--lr=1e-3",       "--lr=.5",        "--lr=0",       "--layers=256",
                                  "--dropout=0.999", "--warmup=1",     "--time=90",    "--time=90s",
                                  "--time=1.5h",     "--time=1h30m5s", "--epochs=0.5", "--seed=18446744073709551615"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        child c = RUN("train", "missing.txt", right[i]);
        expect_error(&c, 3, "missing.txt");
    }
}

Test(cli, wrong_inputs_exit_3_and_name_the_file) {
    write_file("empty.txt", "", 0);
    write_file("small.txt", "too small", 9);
    write_file("garbage.safetensors", "\377\377\377\377\377\377\377\177{}", 10);
    cr_assert_eq(mkdir("folder", 0700), 0);
    static const struct {
        const char *arguments[8], *words;
    } cases[] = {
        {{"train", "missing.txt"}, "missing.txt"},
        {{"train", "empty.txt"}, "empty.txt"},
        {{"train", "folder"}, "folder"},
        {{"train", "small.txt"}, "would fit"},
        {{"train", "-"}, "empty"},
        {{"eval", "missing.safetensors", "small.txt"}, "missing.safetensors"},
        {{"eval", "garbage.safetensors", "small.txt"}, "garbage.safetensors"},
        {{"generate", "small.txt"}, "small.txt"},
        {{"generate", "folder"}, "folder/model.safetensors"},
        {{"info", "empty.txt"}, "empty.txt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = child_run(NULL, NULL, cases[i].arguments);
        expect_error(&c, 3, cases[i].words);
    }
    cr_assert_neq(access("small.run", F_OK), 0, "a text that does not fit leaves no folder behind");
}

Test(cli, an_unreadable_file_exits_3) {
    write_text("secret.txt", 1000);
    cr_assert_eq(chmod("secret.txt", 0), 0);
    if (access("secret.txt", R_OK) == 0) return; // root reads everything
    child c = RUN("train", "secret.txt");
    expect_error(&c, 3, "secret.txt: Permission denied");
}

Test(cli, help_and_version_go_to_stdout) {
    static const char *const helps[][4] = {{"help"}, {"--help"}, {"-h"}};
    for (int i = 0; i < 3; i++) {
        child c = child_run(NULL, NULL, helps[i]);
        cr_assert(c.code == 0 && c.err_size == 0);
        static const char *commands[] = {"train TEXT...", "eval MODEL TEXT...", "generate MODEL", "info [MODEL]",
                                         "|precision|all\n"};
        for (int k = 0; k < 5; k++) cr_assert(strstr(c.out, commands[k]), "%s", c.out);
    }
    child version = RUN("version"), option = RUN("--version"), nothing = child_run(NULL, NULL, (const char *[]){NULL});
    cr_assert(version.code == 0 && strncmp(version.out, "halfstep ", 9) == 0);
    cr_assert_str_eq(version.out, option.out);
    cr_assert(nothing.code == 2 && nothing.out_size == 0 && strstr(nothing.err, "Usage"));
}

// Every line of help that shows an option shows one that exists, the help of `help X` and of `X --help` is the same,
// and each line fits a terminal of 100 columns.
Test(cli, help_lists_options_that_exist) {
    static const char *commands[] = {"train", "eval", "generate", "info", "plot", "bench", "doctor"};
    for (int i = 0; i < 7; i++) {
        child c = RUN("help", commands[i]), same = RUN(commands[i], "--help");
        cr_assert(c.code == 0 && same.code == 0 && c.err_size == 0);
        cr_assert_str_eq(c.out, same.out);
        for (char *line = strtok(c.out, "\n"); line; line = strtok(NULL, "\n")) {
            char option[64], unknown[96];
            cr_assert_leq(strlen(line), 100, "%s", line);
            if (sscanf(line, " --%60[a-z0-9-]", option + 2) != 1 &&
                sscanf(line, " -%*c, --%60[a-z0-9-]", option + 2) != 1)
                continue;
            memcpy(option, "--", 2);
            child used = RUN(commands[i], option, "--no-such-option");
            snprintf(unknown, sizeof unknown, "no option `%s`", option);
            cr_assert_null(strstr(used.err, unknown), "%s", used.err); // the error, if any, is about what follows
        }
    }
}

// The log's start line is written from the same table.
Test(cli, help_lists_every_option) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "1"), help = RUN("help", "train");
    cr_assert_eq(c.code, 0, "%s", c.err);
    static const char *options[] = {
        "layers",      "hidden", "batch",         "length",         "steps",        "epochs",    "time",
        "lr",          "warmup", "dropout",       "clip",           "weight-decay", "optimizer", "momentum",
        "fresh-share", "tied",   "val-split",     "eval-every",     "save-every",   "seed",      "output",
        "force",       "quiet",  "json",          "nesterov",       "beta1",        "beta2",     "eps",
        "schedule",    "floor",  "lr-step-every", "lr-step-factor", "accumulate",   "ema"};
    char *log = read_file("text.run/log.jsonl", NULL), *start = strtok(log, "\n");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char option[64], key[64];
        snprintf(option, sizeof option, "--%s ", options[i]);
        snprintf(key, sizeof key, "\"%s\":", options[i]);
        for (char *k = key; *k; k++)
            if (*k == '-') *k = '_';
        cr_assert(strstr(help.out, option), "%s", option);
        cr_assert(strstr(start, key), "%s", key);
    }
}

Test(cli, options_and_operands_mix) {
    write_text("a.txt", 1000);
    write_text("-b.txt", 1000);
    child c = RUN("train", "--steps=2", "a.txt", TINY, "-q", "-omix", "--steps", "3", "--", "-b.txt");
    cr_assert(c.code == 0 && c.err_size == 0, "%s", c.err);
    char *log = read_file("mix/log.jsonl", NULL);
    cr_assert_str_eq(json_value(log, "start", "steps"), "3", "the last one counts");
    cr_assert_str_eq(json_value(log, "start", "output"), "\"mix\"");
    cr_assert_str_eq(json_value(log, "start", "text"), "\"a.txt -b.txt\"");
    cr_assert_str_eq(json_value(log, "start", "text_bytes"), "1800"); // 2000 less the held-out tenth
}

// Where stderr is a terminal: TERM, NO_COLOR, --color, and whether the message has a colour. The option beats the
// environment, also for what is wrong in the command line after it.
Test(cli, colour_only_where_it_is_wanted) {
    static const struct {
        const char *term, *no_color, *color;
        bool terminal, colored;
    } cases[] = {
        {"xterm", NULL, "auto", false, false}, {"xterm", NULL, "always", false, true},
        {"xterm", NULL, "auto", true, true},   {"xterm", "", "auto", true, true},
        {"xterm", "1", "auto", true, false},   {"xterm", "0", "always", true, true},
        {"dumb", NULL, "auto", true, false},   {"dumb", NULL, "always", true, true},
        {NULL, NULL, "auto", true, false},     {"xterm", NULL, "never", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].term)
            setenv("TERM", cases[i].term, 1);
        else
            unsetenv("TERM");
        if (cases[i].no_color)
            setenv("NO_COLOR", cases[i].no_color, 1);
        else
            unsetenv("NO_COLOR");
        const char *const arguments[] = {"train", "x", "--color", cases[i].color, "--no-such-option", NULL};
        char shown[1024] = "";
        child c =
            cases[i].terminal ? child_on_terminal(arguments, shown, sizeof shown) : child_run(NULL, NULL, arguments);
        const char *text = cases[i].terminal ? shown : c.err;
        cr_expect(c.code == 2 && strstr(text, "error:"), "case %zu: %s", i, text);
        cr_expect_eq(strchr(text, '\033') != NULL, cases[i].colored, "case %zu: %s", i, text);
        if (cases[i].colored) cr_expect(strstr(text, "halfstep: \033[1;31merror:\033[0m train has"), "%s", text);
    }
}

Test(cli, isa_comes_from_the_option_then_the_environment) {
    setenv("HALFSTEP_ISA", "naive", 1);
    child environment = RUN("info"), option = RUN("info", "--isa", "portable", "--threads", "3");
    cr_assert(strstr(environment.out, "isa       naive"), "%s%s", environment.out, environment.err);
    cr_assert(strstr(option.out, "isa       portable"), "%s%s", option.out, option.err);
    cr_assert(strstr(option.out, "threads   3"));
}

static void full_output(void) { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); }
static void closed_output(void) { close(STDOUT_FILENO); }

Test(cli, output_that_cannot_be_written_exits_1) {
    child full = child_run(NULL, full_output, (const char *[]){"help", NULL});
    expect_error(&full, 1, "standard output could not be written: No space left on device");
    child closed = child_run(NULL, closed_output, (const char *[]){"info", NULL});
    expect_error(&closed, 1, "standard output could not be written");
}
