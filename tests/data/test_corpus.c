// test_corpus.c: what of files, folders and standard input becomes text, and what is said about the rest.
#include <fcntl.h>
#include <math.h>
#include "data/data.h"
#include "tests/temporary.h"

static void text_file(const char *name, const char *content) { put_file(in_folder(name), content, strlen(content)); }

static void expect_text(hst_corpus *corpus, const char *text) {
    cr_assert_eq(hst_get_status(ctx), HST_OK, "%s", hst_error(ctx));
    int size = (int)hst_corpus_size(corpus);
    const char *bytes = (const char *)hst_corpus_bytes(corpus);
    cr_assert_eq(size, (int)strlen(text), "\"%.*s\" is not \"%s\"", size, bytes, text);
    cr_expect(memcmp(bytes, text, strlen(text)) == 0, "\"%.*s\" is not \"%s\"", size, bytes, text);
}

Test(data, corpus_appends_files_and_bytes, .init = set_up, .fini = tear_down) {
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_size(corpus), 0);
    text_file("a", "one ");
    text_file(".hidden", "two ");
    cr_expect_eq(hst_corpus_add(corpus, in_folder("a")), HST_OK);
    cr_expect_eq(hst_corpus_add(corpus, in_folder(".hidden")), HST_OK); // named: wanted
    cr_expect_eq(hst_corpus_add_bytes(corpus, "three", 5), HST_OK);
    cr_expect_eq(hst_corpus_add_bytes(corpus, NULL, 0), HST_OK);
    expect_text(corpus, "one two three");
    cr_expect_eq(hst_corpus_context(corpus), ctx);
    hst_corpus_free(corpus);
    hst_corpus_free(NULL);
}

// Byte order of whole paths: '-' and '.' come before '/', capitals before small letters.
Test(data, corpus_reads_folders_in_the_order_of_paths, .init = set_up, .fini = tear_down) {
    static const char *const names[] = {"texts/a/z",   "texts/a.txt",    "texts/a-b", "texts/B",
                                        "texts/a/b/c", "texts/\xc3\xa9", "texts/a0",  "texts/z"};
    for (int i = 0; i < 8; i++) text_file(names[i], strrchr(names[i], '/'));
    text_file("texts/.hidden", "no");
    text_file("texts/.git/config", "no");
    text_file("texts/empty", "");
    mkdir(in_folder("texts/nothing"), 0777);
    cr_assert_eq(symlink("z", in_folder("texts/zz")), 0); // a link to a file is followed
    cr_assert(symlink("..", in_folder("texts/circle")) == 0 && symlink("gone", in_folder("texts/dangling")) == 0);
    cr_assert_eq(mkfifo(in_folder("texts/pipe"), 0666), 0);
    for (int slash = 0; slash < 2; slash++) {
        hst_corpus *corpus = hst_corpus_new(ctx);
        cr_expect_eq(hst_corpus_add(corpus, in_folder(slash ? "texts/" : "texts")), HST_OK);
        expect_text(corpus, "/B/a-b/a.txt/c/z/a0/z/z/\xc3\xa9");
        cr_expect(strstr(logged, "left out 3 of its entries"), "%s", logged); // circle, dangling, pipe
        hst_corpus_free(corpus);
    }
}

Test(data, corpus_leaves_binary_files_of_folders_out, .init = set_up, .fini = tear_down) {
    text_file("texts/a", "text");
    put_file(in_folder("texts/b"), "bin\0ary", 7);
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("texts")), HST_OK);
    expect_text(corpus, "text");
    cr_expect(strstr(logged, "/texts: left out 1 of its entries"), "%s", logged);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("texts/b")), HST_OK); // named: as it is, with a warning
    cr_expect_eq(hst_corpus_size(corpus), 11);
    cr_expect(strstr(logged, "warning: ") && strstr(logged, "/texts/b: has NUL bytes"), "%s", logged);
    hst_corpus_free(corpus);
}

Test(data, corpus_leaves_the_folders_of_runs_out, .init = set_up, .fini = tear_down) {
    text_file("texts/a", "text");
    text_file("texts/run/log.jsonl", "{}");
    put_file(in_folder("texts/run/last.safetensors"), "\0", 1);
    text_file("texts/unsaved/log.jsonl", "{\"event\":\"start\",\"steps\":1}\n");
    text_file("texts/z/log.jsonl", "{\"event\":\"door\"}"); // somebody else's
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("texts")), HST_OK);
    expect_text(corpus, "text{\"event\":\"door\"}");
    hst_corpus_free(corpus);
}

Test(data, corpus_skips_a_byte_order_mark_at_the_start_of_a_file, .init = set_up, .fini = tear_down) {
    text_file("texts/a", "\xef\xbb\xbfone");
    text_file("texts/b", "\xef\xbb\xbf two\xef\xbb\xbf");
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("texts")), HST_OK);
    expect_text(corpus, "one two\xef\xbb\xbf");
    cr_expect(strstr(logged, "/texts/a: its UTF-8 byte-order mark was skipped\n"), "%s", logged);
    text_file("mark", "\xef\xbb\xbf");
    hst_corpus_add(corpus, in_folder("mark"));
    expect_failure(HST_ERROR_FORMAT, "/mark: it is empty");
    cr_expect_eq(hst_corpus_add_bytes(corpus, "\xef\xbb\xbf", 3), HST_OK); // bytes are bytes
    cr_expect_eq(hst_corpus_size(corpus), 13);
    hst_corpus_free(corpus);
}

Test(data, corpus_says_what_is_wrong_and_keeps_what_it_has, .init = set_up, .fini = tear_down) {
    hst_corpus *corpus = hst_corpus_new(ctx);
    hst_corpus_add_bytes(corpus, "kept", 4);
    text_file("empty", "");
    text_file("hidden/.a", "x");
    put_file(in_folder("binary/a"), "\0", 1);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("missing")), HST_ERROR_IO);
    expect_failure(HST_ERROR_IO, "/missing: cannot be opened: No such file");
    cr_expect_eq(hst_corpus_add(corpus, in_folder("empty")), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "/empty: it is empty");
    cr_expect_eq(hst_corpus_add(corpus, in_folder("hidden")), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "/hidden: no text in it");
    cr_expect_eq(hst_corpus_add(corpus, in_folder("binary")), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "/binary: no text in it");
    hst_corpus_add(corpus, in_folder("empty"));
    cr_expect_eq(hst_corpus_add_bytes(corpus, "lost", 4), HST_ERROR_FORMAT); // the first error stays
    cr_expect_null(hst_corpus_new(ctx));
    cr_expect_null(hst_corpus_split(corpus, 0.5));
    hst_clear_error(ctx);
    expect_text(corpus, "kept");
    hst_corpus_free(corpus);
}

Test(data, corpus_reads_standard_input, .init = set_up, .fini = tear_down) {
    int ends[2];
    cr_assert(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    cr_assert_eq(write(ends[1], "piped text", 10), 10);
    close(ends[1]);
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_add(corpus, "-"), HST_OK);
    expect_text(corpus, "piped text");
    cr_expect_eq(hst_corpus_add(corpus, "-"), HST_ERROR_FORMAT);
    expect_failure(HST_ERROR_FORMAT, "standard input: it is empty");
    hst_corpus_free(corpus);
}

// Larger than any buffer, from a file and, without a size known before, from a pipe that another process fills.
Test(data, corpus_reads_large_inputs, .init = set_up, .fini = tear_down) {
    enum { SIZE = 5000011 };
    char *bytes = malloc(SIZE);
    for (int i = 0; i < SIZE; i++) bytes[i] = (char)(1 + i % 251);
    put_file(in_folder("large"), bytes, SIZE);
    cr_assert_eq(mkfifo(in_folder("pipe"), 0666), 0);
    hst_corpus *corpus = hst_corpus_new(ctx);
    cr_expect_eq(hst_corpus_add(corpus, in_folder("large")), HST_OK);
    if (fork() == 0) {
        int fd = open(in_folder("pipe"), O_WRONLY);
        for (size_t done = 0; done < SIZE;) done += (size_t)write(fd, bytes + done, SIZE - done);
        _exit(0);
    }
    cr_expect_eq(hst_corpus_add(corpus, in_folder("pipe")), HST_OK);
    cr_assert_eq(hst_corpus_size(corpus), 2 * SIZE);
    cr_expect(memcmp(hst_corpus_bytes(corpus), bytes, SIZE) == 0);
    cr_expect(memcmp(hst_corpus_bytes(corpus) + SIZE, bytes, SIZE) == 0);
    hst_corpus_free(corpus);
    free(bytes);
}

static int allocations_left;
static void *limited(size_t bytes, void *user) { return (void)user, allocations_left-- > 0 ? malloc(bytes) : NULL; }
static void give_back(void *memory, size_t bytes, void *user) { (void)bytes, (void)user, free(memory); }

// Every allocation of reading a folder and splitting the text is made to fail once.
Test(data, corpus_survives_every_failed_allocation, .init = set_up, .fini = tear_down) {
    hst_options options = {.size = sizeof options, .threads = 1, .allocate = limited, .deallocate = give_back};
    int failures = 0;
    for (int i = 0; i < 70; i++) { // more paths than the list of them starts with
        char name[32];
        snprintf(name, sizeof name, "texts/%d/a", i);
        text_file(name, "text");
    }
    for (bool done = false; !done; failures++) {
        allocations_left = 1000;
        hst_context *poor = hst_open(&options);
        hst_corpus *corpus = hst_corpus_new(poor), *last = NULL;
        cr_assert(corpus && hst_corpus_add_bytes(corpus, "x", 1) == HST_OK);
        allocations_left = failures;
        hst_corpus_add(corpus, in_folder("texts"));
        if (hst_get_status(poor) == HST_OK) last = hst_corpus_split(corpus, 0.5);
        done = hst_get_status(poor) == HST_OK;
        cr_expect(done || hst_get_status(poor) == HST_ERROR_MEMORY, "%s", hst_error(poor));
        cr_expect(!done || hst_corpus_size(last) == 141);
        hst_corpus_free(last);
        hst_corpus_free(corpus);
        hst_close(poor);
    }
    cr_expect_gt(failures, 100);
}

Test(data, corpus_splits_off_its_end, .init = set_up, .fini = tear_down) {
    static const struct {
        int64_t size;
        double share;
        int64_t stay;
    } cases[] = {{10, 0, 10}, {10, 0.1, 9}, {11, 0.1, 9},  {10, 0.5, 5},
                 {1, 0.5, 0}, {0, 0.1, 0},  {3, 0.999, 0}, {1115394, 0.1, 1003854}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hst_corpus *corpus = hst_corpus_new(ctx);
        for (int64_t j = 0; j < cases[i].size; j++) hst_corpus_add_bytes(corpus, &(char){(char)(j * 7 >> 2)}, 1);
        hst_corpus *last = hst_corpus_split(corpus, cases[i].share);
        cr_assert(last);
        cr_expect_eq(hst_corpus_size(corpus), cases[i].stay, "%d", (int)hst_corpus_size(corpus));
        cr_expect_eq(hst_corpus_size(last), cases[i].size - cases[i].stay);
        for (int64_t j = 0; j < hst_corpus_size(last); j++)
            cr_assert_eq(hst_corpus_bytes(last)[j], (uint8_t)((cases[i].stay + j) * 7 >> 2));
        hst_corpus_free(last);
        hst_corpus_free(corpus);
    }
    static const double shares[] = {-0.1, 1, NAN, INFINITY};
    hst_corpus *corpus = hst_corpus_new(ctx);
    for (int i = 0; i < 4; i++) {
        cr_expect_null(hst_corpus_split(corpus, shares[i]));
        expect_failure(HST_ERROR_VALUE, "at least 0 and below 1");
    }
    hst_corpus_free(corpus);
}
