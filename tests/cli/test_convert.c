// test_convert.c: `halfstep convert` as a command: its files, its line on stderr, its exit codes.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(convert, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

static void train(void) {
    write_text("book.txt", 3000);
    child c = RUN("train", "book.txt", "-q", "--steps", "2", "--layers", "2", "--hidden", "16", "--projection", "6",
                  "--layer-norm", "after", "--tanh");
    cr_assert_eq(c.code, 0, "%s", c.err);
}

static void expect(const child *c, int code, const char *words) {
    cr_assert_eq(c->code, code, "exit code %d instead of %d: %s", c->code, code, c->err);
    cr_assert_eq(c->out_size, 0, "standard output: %s", c->out);
    cr_assert(strstr(c->err, words), "`%s` is not in: %s", words, c->err);
    cr_assert_eq(strchr(c->err, '\n'), c->err + c->err_size - 1, "more than one line: %s", c->err);
}

static bool same_files(const char *one, const char *other) {
    size_t a, b;
    const char *x = read_file(one, &a), *y = read_file(other, &b);
    cr_assert(x && y);
    return a == b && !memcmp(x, y, a);
}

Test(convert, there_and_back_is_the_same_model) {
    train();
    child c = RUN("convert", "book.run", "-o", "third.safetensors", "--format", "3");
    expect(&c, 0, "third.safetensors: a language model, 2 layers of 16, ");
    cr_expect(strstr(c.err, "f32 with SRU 2.x's names became f32 with 3.x's"), "%s", c.err);
    c = RUN("convert", "third.safetensors", "--format=2", "--output=back.safetensors");
    expect(&c, 0, "f32 with SRU 3.x's names became f32 with 2.x's");
    cr_expect(same_files("back.safetensors", "book.run/model.safetensors"));
    c = RUN("convert", "book.run/last.safetensors", "-o", "half.safetensors", "--dtype", "bf16");
    expect(&c, 0, "f32 with SRU 2.x's names became bf16 with 2.x's; 35 tensors of book.run/last.safetensors left out");
    child full = RUN("eval", "third.safetensors", "book.txt"), plain = RUN("eval", "book.run", "book.txt");
    cr_assert_eq(full.code, 0, "%s", full.err);
    cr_expect_str_eq(full.out, plain.out);
    child half = RUN("eval", "half.safetensors", "book.txt");
    cr_expect_eq(half.code, 0, "%s", half.err);
}

Test(convert, files_are_replaced_only_when_asked) {
    train();
    child c = RUN("convert", "book.run", "-o", "book.run/model.safetensors");
    expect(&c, 2, "book.run/model.safetensors: is there already; --force replaces it");
    c = RUN("convert", "book.run", "-o", "book.run/model.safetensors", "--force", "--dtype", "f16");
    expect(&c, 0, "became f16");
    c = RUN("convert", "book.run", "-o", "f32.safetensors", "--dtype", "f32");
    expect(&c, 0, "f16 with SRU 2.x's names became f32");
}

Test(convert, wrong_uses_say_what_is_wrong) {
    train();
    write_file("garbage.safetensors", "\377\377\377\377\377\377\377\177{}", 10);
    cr_assert_eq(mkdir("folder", 0700), 0);
    static const struct {
        int code;
        const char *arguments[8], *words;
    } cases[] = {
        {2, {"convert"}, "convert [options] IN"},
        {2, {"convert", "book.run"}, "convert needs --output"},
        {2, {"convert", "book.run", "-o", "x", "--dtype", "f64"}, "one of same|f32|f16|bf16"},
        {2, {"convert", "book.run", "-o", "x", "--format", "4"}, "one of same|2|3"},
        {3, {"convert", "missing", "-o", "x"}, "missing"},
        {3, {"convert", "folder", "-o", "x"}, "folder/model.safetensors"},
        {3, {"convert", "garbage.safetensors", "-o", "x"}, "garbage.safetensors"},
        {3, {"convert", "book.run", "-o", "x", "--bidirectional"}, "bidirectional is asked for"},
        {3, {"convert", "book.run", "-o", "x", "--no-skip"}, "has_skip_term=False is asked for"},
        {3,
         {"convert", "book.run", "-o", "x", "--prefix", "encoder."},
         "has its model under no prefix, 'encoder.' is given"},
        {1, {"convert", "book.run", "-o", "nowhere/x"}, "nowhere/x: cannot be written"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child c = child_run(NULL, NULL, cases[i].arguments);
        expect(&c, cases[i].code, cases[i].words);
        cr_expect_neq(access("x", F_OK), 0);
    }
}

// Two stacks in one state_dict: which one is asked for as a module is named, with or without the dot behind it.
Test(convert, a_prefix_needs_no_dot) {
    static const char header[] =
        "{\"a.rnn_lst.0.weight\":{\"dtype\":\"F32\",\"shape\":[3,9],\"data_offsets\":[0,108]},"
        "\"a.rnn_lst.0.weight_c\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[108,132]},"
        "\"a.rnn_lst.0.bias\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[132,156]},"
        "\"ab.rnn_lst.0.bias\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[156,180]}}";
    enum { LENGTH = sizeof header - 1 };
    char file[8 + LENGTH + 180] = {(char)(LENGTH & 255), LENGTH >> 8}; // the numbers are 0
    memcpy(file + 8, header, LENGTH);
    write_file("two.safetensors", file, sizeof file);
    child c = RUN("convert", "two.safetensors", "-o", "dot.safetensors", "--prefix", "a.");
    expect(&c, 0, "dot.safetensors: a stack, 1 layers of 3, 39 parameters");
    c = RUN("convert", "two.safetensors", "-o", "none.safetensors", "--prefix", "a");
    expect(&c, 0, "1 tensors of two.safetensors left out");
    cr_expect(same_files("dot.safetensors", "none.safetensors"));
    c = RUN("convert", "two.safetensors", "-o", "x", "--prefix", "");
    expect(&c, 3, "two.safetensors: has no tensor rnn_lst.0.bias, so no stack of SRU layers of this prefix");
}

// A pipe, and so a device, stays what it is, even with --force.
Test(convert, a_pipe_is_not_replaced) {
    train();
    cr_assert_eq(mkfifo("pipe", 0600), 0);
    child c = RUN("convert", "book.run", "-o", "pipe", "--force");
    expect(&c, 1, "pipe: is a device or a pipe, which a file cannot take the place of");
    struct stat info;
    cr_assert(stat("pipe", &info) == 0 && S_ISFIFO(info.st_mode));
}
