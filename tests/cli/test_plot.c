// test_plot.c: what `halfstep plot` draws of logs that are written here by hand, where each point must be on the
// picture; and which files it writes.
#include "tests/cli/child.h"
#include "tests/cli/pictures.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(plot, .init = scratch_enter, .fini = scratch_leave, .timeout = 120);

#ifdef CAN_LOOK_AT_PICTURES

// ---- logs ----

static char text[1 << 16];
static size_t written;

static void add(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    written += (size_t)vsnprintf(text + written, sizeof text - written, format, arguments);
    va_end(arguments);
    cr_assert_lt(written, sizeof text);
}

static void start_log(void) {
    written = 0;
    add("{\"event\":\"start\",\"version\":\"1\",\"symbol\":\"byte\",\"tied\":false}\n");
}

static void add_step(int step, double seconds, double loss) {
    add("{\"event\":\"step\",\"step\":%d,\"seconds\":%.9g,\"epoch\":%.9g,\"loss\":7,\"smooth_loss\":%.9g}\n", step,
        seconds, step / 25.0, loss);
}

static void add_evaluation(int step, double seconds, double loss) {
    add("{\"event\":\"eval\",\"step\":%d,\"seconds\":%.9g,\"validation\":%.9g,\"best\":1}\n", step, seconds, loss);
}

static void end_log(const char *folder) {
    char path[64];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    write_file(path, text, written);
}

// 100 steps of 2 seconds along a straight line.
static double line_at(double step) { return 3 - 0.02 * step; }

static void write_line(const char *folder) {
    start_log();
    for (int step = 1; step <= 100; step++) add_step(step, 2 * step, line_at(step));
    end_log(folder);
}

// ---- what is drawn ----

static const unsigned BLUE = 0x2060b0, LIGHT_BLUE = 0x8fafd7,
                      RED = 0xd04040; // first run, its training loss, second run

// How far middle_of_column may be from the middle of the line. Across it, coverage is a box as wide as the line,
// smoothed with one that is a pixel wide; the centre of such a thing, sampled once a pixel, is wrong by at most sum(1 /
// (pi k)^2, k != 0) / 2 = 1/6 over the width (Poisson's formula). The line has 72 levels of colourfulness, each of its
// 4 pixels, at most 2 from the middle, is wrong by at most one of them: together less than 1/12 over the width.
static double centre_error(double width) { return 0.25 / width; }
static const double WIDTH = 1.65; // of a line, at 960 x 540

static void run_plot(const char *file, const char *more, const char *value) {
    child c = more ? RUN("plot", "run", "-o", file, "--low", "0", "--high", "4", more, value)
                   : RUN("plot", "run", "-o", file, "--low", "0", "--high", "4");
    cr_assert(c.code == 0 && c.err_size == 0 && c.out_size == 0, "%s", c.err);
}

Test(plot, a_straight_line_of_losses_is_a_straight_line_of_pixels) {
    static const char *const sizes[][2] = {{"960", "540"}, {"700", "900"}, {"481", "271"}};
    write_line("run");
    for (int i = 0; i < 3; i++) {
        child c = RUN("plot", "run", "--low", "0", "--high", "4", "--width", sizes[i][0], "--height", sizes[i][1]);
        cr_assert(c.code == 0 && c.err_size == 0 && c.out_size == 0, "%s", c.err);
        picture p = read_picture("run/loss.png");
        cr_assert(p.width == atoi(sizes[i][0]) && p.height == atoi(sizes[i][1]));
        int first = (int)ceil(x_at(&p, 1, 100)) + 2, full = 0;
        double width = WIDTH / 1.5 * fmax(1, 1.5 * fmin(p.width / 960.0, p.height / 540.0));
        for (int x = first; x < p.right - 2; x++) {
            double step = 100.0 * (x - p.left) / (p.right - p.left), y = y_at(&p, line_at(step), 4);
            double middle = middle_of_column(&p, x);
            cr_expect_float_eq(middle, y, centre_error(width), "%d x %d, column %d: %g, not %g", p.width, p.height, x,
                               middle, y);
            full += pixel(&p, x, (int)lrint(y)) == LIGHT_BLUE;
        }
        // A pixel is all of the colour where its centre is at least half a pixel inside: for two thirds of the columns.
        if (i == 0) cr_expect_gt(full, (p.right - first) / 2, "only %d columns have a pixel of the full colour", full);
        cr_expect(isnan(middle_of_column(&p, (int)x_at(&p, 1, 100) - 4)), "something is left of the first step");
        free_picture(p);
    }
}

// Without --low and --high the axis goes from tick to tick: 1 to 3, and 2.98 is not on a tick.
Test(plot, the_axis_of_losses_ends_at_round_numbers) {
    write_line("run");
    child c = RUN("plot", "run"), same = RUN("plot", "run", "--low", "1", "--high", "3", "-o", "same.png");
    cr_assert(c.code == 0 && same.code == 0, "%s%s", c.err, same.err);
    expect_same_picture("run/loss.png", "same.png");
}

Test(plot, each_run_has_its_colour_and_each_evaluation_a_dot) {
    for (int run = 0; run < 2; run++) {
        start_log();
        for (int step = 1; step <= 100; step++) {
            if (run == 1) add_step(step, step, 3.5);
            if (step % 20 == 0) add_evaluation(step, step, (run ? 2 : 1) + (step == 60 ? -0.5 : 0));
        }
        end_log(run ? "b" : "a");
    }
    child c = RUN("plot", "a/", "b/log.jsonl", "-o", "both.png", "--low", "0", "--high", "4");
    cr_assert_eq(c.code, 0, "%s", c.err);
    picture p = read_picture("both.png");
    for (int run = 0; run < 2; run++)
        for (int step = 20; step <= 100; step += 20) {
            unsigned color = run ? RED : BLUE;
            bool best = step == 60;
            int x = (int)lrint(x_at(&p, step, 100)), y = (int)lrint(y_at(&p, (run ? 2 : 1) - (best ? 0.5 : 0), 4));
            cr_expect_eq(pixel(&p, x, y), color, "run %d, step %d", run, step);
            cr_expect_eq(pixel(&p, x, y + 1), color, "a dot's radius is 3 pixels: run %d, step %d", run, step);
            int ring = colorfulness(pixel(&p, x, y + 5)); // it goes from 4.05 to 5.7 pixels from the middle
            cr_expect(best ? ring > colorfulness(color) / 2 : ring == 0, "run %d, step %d: %d", run, step, ring);
        }
    free_picture(p);
}

// An epoch is 25 steps and a step 2 seconds, so that the same points are at the same places; so they are in bits.
Test(plot, the_axes_have_a_choice) {
    static const char *const choices[][2] = {{NULL}, {"--x", "time"}, {"--x", "epochs"}, {"--unit", "bits"}};
    for (int i = 0; i < 4; i++) {
        double unit = i == 3 ? log(2) : 1;
        start_log();
        for (int step = 1; step <= 100; step++) {
            add_step(step, 2 * step, unit * line_at(step));
            if (step % 50 == 0) add_evaluation(step, 2 * step, unit * 0.5);
        }
        end_log("run");
        run_plot("loss.png", choices[i][0], choices[i][1]);
        picture p = read_picture("loss.png");
        for (int step = 10; step <= 40; step += 10) {
            int x = (int)lrint(x_at(&p, step, 100));
            double there = 100.0 * (x - p.left) / (p.right - p.left);
            cr_expect_float_eq(middle_of_column(&p, x), y_at(&p, line_at(there), 4), centre_error(WIDTH));
        }
        for (int step = 50; step <= 100; step += 50)
            cr_expect_eq(pixel(&p, (int)lrint(x_at(&p, step, 100)), (int)lrint(y_at(&p, 0.5, 4))), BLUE);
        free_picture(p);
    }
    write_line("run"); // whose steps have a loss of 7
    run_plot("smooth.png", NULL, NULL);
    child c = RUN("plot", "run", "-o", "raw.png", "--low", "0", "--high", "8", "--training", "raw");
    cr_assert_eq(c.code, 0, "%s", c.err);
    picture p = read_picture("raw.png");
    cr_expect_float_eq(middle_of_column(&p, (p.left + p.right) / 2), y_at(&p, 7, 8), centre_error(WIDTH));
    free_picture(p);
}

Test(plot, losses_that_were_not_finite_are_a_gap) {
    static const char *const spellings[] = {"null", "1e999", "NaN", "-1e300", "\"7\""};
    static const struct {
        int step;
        bool drawn;
    } cases[] = {{20, true}, {39, true}, {45, false}, {50, true}, {55, false}, {61, true}, {99, true}};
    for (int i = 0; i < 5; i++) {
        start_log();
        for (int step = 1; step <= 100; step++) {
            if (step < 40 || step > 60 || step == 50)
                add_step(step, step, 1);
            else
                add("{\"event\":\"step\",\"step\":%d,\"loss\":7,\"smooth_loss\":%s}\n", step, spellings[i]);
        }
        add("{\"event\":\"eval\",\"step\":100,\"seconds\":1,\"validation\":null,\"best\":null}\n");
        end_log("run");
        run_plot("loss.png", NULL, NULL);
        picture p = read_picture("loss.png");
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            double middle = middle_of_column(&p, (int)lrint(x_at(&p, cases[k].step, 100)));
            cr_expect_eq(!isnan(middle), cases[k].drawn, "%s, step %d", spellings[i], cases[k].step);
        }
        free_picture(p);
        child c = RUN("plot", "run", "-o", i ? "other.png" : "null.png"); // nor do they count for the axis
        cr_assert(c.code == 0, "%s: %s", spellings[i], c.err);
        if (i) expect_same_picture("null.png", "other.png");
    }
}

// A run that was killed after step 60 and goes on from its checkpoint of step 40: its seconds start again, and what it
// had logged beyond is void, however it was.
Test(plot, a_run_that_went_on_is_one_curve) {
    write_line("run");
    add_evaluation(100, 200, 0.5);
    end_log("run");
    run_plot("straight.png", "--x", "time");
    start_log();
    for (int step = 1; step <= 60; step++) add_step(step, 2 * step, step <= 40 ? line_at(step) : 9);
    add_evaluation(60, 120, 0.1);
    add("{\"event\":\"step\",\"step\":61,\"sec"); // it was killed here; --resume drops this, another program may not
    add("\n{\"event\":\"start\",\"symbol\":\"byte\"}\n");
    for (int step = 41; step <= 100; step++) add_step(step, 2 * (step - 40), line_at(step));
    add_evaluation(100, 120, 0.5);
    end_log("run");
    run_plot("resumed.png", "--x", "time");
    expect_same_picture("straight.png", "resumed.png");
}

// Such a line has the number of the step before it, which stays.
Test(plot, steps_that_were_skipped_are_no_points) {
    write_line("run");
    run_plot("straight.png", "--training", "raw");
    run_plot("smooth.png", NULL, NULL);
    char *log = read_file("run/log.jsonl", NULL);
    start_log();
    for (char *line = log; *line; line += strcspn(line, "\n") + 1) {
        const char *step = strstr(line, "\"step\":");
        int number = step ? atoi(step + 7) : 0, length = (int)strcspn(line, "\n");
        for (int i = 0; i < 3 && number % 10 == 1; i++)
            add("{\"event\":\"step\",\"step\":%d,\"seconds\":%d,\"epoch\":9,\"loss\":9,\"smooth_loss\":%s,"
                "\"result\":\"%s\",\"skipped\":1}\n",
                number - 1, 2 * number, number > 1 ? "9" : "null", i ? "overflow" : "nan_loss");
        if (step) add("%.*s,\"result\":\"stepped\"}\n", length - 1, line);
    }
    end_log("run");
    run_plot("skips.png", "--training", "raw");
    expect_same_picture("straight.png", "skips.png");
    run_plot("skips.png", NULL, NULL);
    expect_same_picture("smooth.png", "skips.png");
}

Test(plot, a_log_may_be_torn_and_may_have_been_written_by_another_program) {
    write_line("run");
    run_plot("whole.png", NULL, NULL);
    size_t before = written;
    add_step(101, 202, 0); // would bend the line
    size_t length = written - before;
    for (size_t torn = 1; torn < length - 1; torn += torn + 9 < length ? 8 : 1) {
        written = before + torn;
        end_log("run");
        run_plot("torn.png", NULL, NULL);
        expect_same_picture("whole.png", "torn.png");
    }
    start_log();
    for (int step = 1; step <= 100; step++)
        add(" { \"smooth_loss\" : %.9g , \"note\":\"\\\"}\",\"step\": %d.0, \"event\" :\"step\",\"epoch\":NaN}\r\n",
            line_at(step), step);
    add("[1,2]\n\n{\"event\":\"step\",\"step\":200,\"smooth_loss\":1,\"list\":[1]}\n{}\nnonsense\n{\"event\":\"step\"}"
        "\n");
    end_log("run");
    child c = RUN("plot", "run", "-o", "other.png");
    cr_assert(c.code == 3 && strstr(c.err, "has no losses"), "%s", c.err); // no "loss" at all
    add("{\"event\":\"step\",\"step\":100,\"loss\":1,\"smooth_loss\":1}\n");
    end_log("run");
    run_plot("other.png", NULL, NULL);
    expect_same_picture("whole.png", "other.png");
    c = RUN("plot", "run", "-o", "epochs.png", "--x", "epochs");
    cr_assert(c.code == 3 && strstr(c.err, "none that says its epoch"), "%s", c.err);
}

Test(plot, extreme_losses_and_axes_are_drawn) {
    static const double losses[] = {0, 1e-300, 1.5, 1e9, 1e38};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            start_log();
            add_step(1, 0, losses[i]);
            add_step(2000000000, 1e9, losses[k]);
            end_log("run");
            child c = RUN("plot", "run", "-o", "loss.png");
            cr_assert(c.code == 0 && c.err_size == 0, "%g and %g: %s", losses[i], losses[k], c.err);
            c = RUN("plot", "run", "-o", "loss.png", "--low", "1.25", "--high", "1.25001", "--x", "time");
            cr_assert(c.code == 0 && c.err_size == 0, "%g and %g: %s", losses[i], losses[k], c.err);
        }
    start_log();
    add_step(1, 1, 2);
    end_log("run");
    run_plot("one.png", NULL, NULL); // one step is a dot at the right end
    picture p = read_picture("one.png");
    cr_expect_gt(colorfulness(pixel(&p, p.right, (int)lrint(y_at(&p, 2, 4)))), colorfulness(LIGHT_BLUE) / 2);
    free_picture(p);
}

// ---- files ----

Test(plot, what_cannot_be_drawn_says_why) {
    write_line("run");
    mkdir("folder", 0700);
    mkdir("fresh", 0700);
    write_file("fresh/log.jsonl", "", 0);
    start_log();
    add("{\"event\":\"step\",\"step\":1,\"loss\":null,\"smooth_loss\":null}\n");
    end_log("early");
    write_text("book.txt", 500);
    const char *book = read_file("book.txt", NULL);
    static const struct {
        const char *arguments[12];
        int code;
        const char *words;
    } cases[] = {
        {{"missing"}, 3, "missing: No such file"},
        {{"folder"}, 3, "folder: holds no log.jsonl"},
        {{"fresh"}, 3, "fresh/log.jsonl: is empty, or not the log of a run"},
        {{"early"}, 3, "early/log.jsonl: has no losses yet"},
        {{"book.txt"}, 3, "book.txt: is empty, or not the log of a run"},
        {{"run", "folder", "-o", "both.png"}, 3, "folder: holds no log.jsonl"},
        {{"run", "run"}, 2, "-o says where it goes"},
        {{"run", "run", "run", "run", "run", "run", "run", "run", "run", "-ox.png"}, 2, "9 runs are too many"},
        {{"run", "-o", ""}, 2, "needs the name of a file"},
        {{"run", "--low", "2", "--high", "2"}, 2, "--low must be less than --high"},
        {{"run", "--width", "100"}, 2, "from 480 to 4096"},
        {{"run", "--x", "loss"}, 2, "one of steps|time|epochs"},
        {{"run", "-o", "book.txt"}, 2, "book.txt: is there and is no PNG"},
        {{"run", "-o", "run/log.jsonl"}, 2, "run/log.jsonl: is there and is no PNG"},
        {{"run", "-o", "/dev/full"}, 1, "No space left on device"},
        {{"run", "-o", "no/such/place.png"}, 1, "no/such/place.png: the picture could not be written: No such file"},
        {{"run", "-o", "folder"}, 1, "folder: the picture could not be written: Is a directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[16] = {"plot"};
        memcpy(arguments + 1, cases[i].arguments, sizeof cases[i].arguments);
        child c = child_run(NULL, NULL, arguments);
        cr_expect_eq(c.code, cases[i].code, "case %zu: %d %s", i, c.code, c.err);
        cr_expect(strncmp(c.err, "halfstep: error: ", 17) == 0 && strchr(c.err, '\n') == c.err + c.err_size - 1 &&
                      strstr(c.err, cases[i].words),
                  "case %zu: %s", i, c.err);
        cr_expect_eq(c.out_size, 0);
    }
    static const char *const none[] = {"folder/loss.png", "fresh/loss.png", "early/loss.png",
                                       "loss.png",        "both.png",       "run/loss.png"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) cr_expect(access(none[i], F_OK) != 0, "%s", none[i]);
    cr_expect_str_eq(read_file("book.txt", NULL), book);
}

static void limit_files(void) { setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000}); }

static int files_in(const char *folder) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    while (readdir(open_folder)) count++;
    closedir(open_folder);
    return count - 2; // . and ..
}

Test(plot, a_picture_is_replaced_whole_or_not_at_all) {
    write_line("run");
    child c = RUN("plot", "run");
    cr_assert(c.code == 0 && files_in("run") == 2, "%s", c.err);
    cr_assert_eq(rename("run/loss.png", "first.png"), 0);
    cr_assert_eq(symlink("../first.png", "run/loss.png"), 0);
    size_t size;
    const char *before = read_file("first.png", &size);
    write_file("copy.png", before, size);
    int files = files_in(".");
    c = child_run(NULL, limit_files, (const char *[]){"plot", "run", "--unit", "bits", NULL});
    cr_assert(c.code == 1 && strstr(c.err, "run/loss.png: the picture could not be written: File too large"), "%s",
              c.err);
    cr_expect_eq(files_in("."), files, "a piece is left");
    expect_same_picture("first.png", "copy.png");
    c = RUN("plot", "run", "--unit", "bits");
    cr_assert_eq(c.code, 0, "%s", c.err);
    const char *after = read_file("first.png", &size);
    cr_assert_neq(memcmp(before, after, 100), 0, "the picture behind the link is the new one");
    struct stat info;
    cr_assert(lstat("run/loss.png", &info) == 0 && S_ISLNK(info.st_mode) && files_in("run") == 2);
    write_file("empty.png", "", 0);
    c = RUN("plot", "run", "-o", "empty.png");
    cr_assert(c.code == 0 && files_in(".") == files + 1, "%s", c.err);
}

Test(plot, standard_output_may_be_the_file) {
    write_line("run");
    child c = RUN("plot", "run", "-o", "/dev/stdout");
    cr_assert(c.code == 0 && c.out_size > 1000 && memcmp(c.out, "\x89PNG", 4) == 0, "%s", c.err);
}

#endif
