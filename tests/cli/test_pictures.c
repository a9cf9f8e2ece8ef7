// test_pictures.c: the pictures that `train` leaves behind, and that a command which cannot draw says so.
#include "tests/cli/child.h"
#include "tests/cli/pictures.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TestSuite(pictures, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

#ifdef CAN_LOOK_AT_PICTURES

Test(pictures, train_leaves_a_picture) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "40", "--eval-every", "10");
    cr_assert_eq(c.code, 0, "%s", c.err);
    picture p = read_picture("text.run/loss.png");
    cr_expect(p.width == 960 && p.height == 540);
    free_picture(p);
    c = RUN("plot", "text.run", "-o", "again.png");
    cr_assert_eq(c.code, 0, "%s", c.err);
    expect_same_picture("text.run/loss.png", "again.png");
    cr_assert(remove("text.run/loss.png") == 0 && mkdir("text.run/loss.png", 0700) == 0);
    c = RUN("train", "text.txt", "--resume");
    cr_expect(c.code == 0 && strstr(c.err, "warning: text.run/loss.png: the picture could not be written"), "%s",
              c.err);
    cr_assert_eq(rmdir("text.run/loss.png"), 0);
    c = RUN("train", "text.txt", "--resume", "-q");
    cr_expect(c.code == 0 && c.err_size == 0 && access("text.run/loss.png", F_OK) == 0, "%s", c.err);
    c = RUN("train", "text.txt", TINY, "--steps", "0x1", "--force"); // a wrong command line deletes nothing
    cr_expect(c.code == 2 && access("text.run/loss.png", F_OK) == 0, "%s", c.err);
    c = RUN("train", "text.txt", TINY, "--steps", "50", "--lr", "1e6", "--clip", "0", "--warmup", "0", "--force");
    cr_expect(c.code == 4 && access("text.run/loss.png", F_OK) == 0, "%s", c.err); // how it diverged
}

Test(pictures, a_run_that_is_stopped_leaves_a_picture) {
    write_text("text.txt", 2000);
    child c = child_start(NULL, NULL, (const char *[]){"train", "text.txt", TINY, "--steps", "100000000", NULL});
    for (int i = 0; i < 2000; i++) {
        const char *log = read_file("text.run/log.jsonl", NULL);
        if (log && strstr(log, "\"event\":\"step\"")) break;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    cr_assert_eq(kill(c.pid, SIGINT), 0);
    child_finish(&c);
    cr_assert_eq(c.code, 128 + SIGINT, "%s", c.err);
    free_picture(read_picture("text.run/loss.png"));
}

#else

Test(pictures, without_stb_plot_says_what_is_missing_and_train_draws_nothing) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "5", "-q");
    cr_assert(c.code == 0 && c.err_size == 0 && access("text.run/loss.png", F_OK) != 0, "%s", c.err);
    c = RUN("plot", "text.run");
    cr_assert(c.code == 1 && strstr(c.err, "built without stb_image_write.h"), "%s", c.err);
    c = RUN("info");
    cr_assert(strstr(c.out, "pictures  no"), "%s", c.out);
}

#endif
