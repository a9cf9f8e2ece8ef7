// test_ladder.c: the folders are a ladder, and each includes only itself and those above it in the list. The command
// includes nothing of the library but <halfstep.h>.
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

static const char *const ladder[] = {"tensor", "autograd", "ops", "amp", "optim", "models", "data", "train"};
enum { RUNGS = sizeof ladder / sizeof *ladder };

// The rung of a path such as "ops/cpu/gemm.c", or -1.
static int rung_of(const char *path) {
    size_t length = strcspn(path, "/");
    for (int i = 0; i < RUNGS; i++)
        if (path[length] == '/' && strlen(ladder[i]) == length && !strncmp(path, ladder[i], length)) return i;
    return -1;
}

// The path of an #include "..." line, or NULL.
static const char *included(const char *line, char path[256]) {
    return sscanf(line, " # include \"%255[^\"]\"", path) == 1 ? path : NULL;
}

static void check_file(const char *file, int *includes) {
    char line[1024], path[256];
    FILE *in = fopen(file, "r");
    cr_assert(in, "%s cannot be read", file);
    bool command = !strncmp(file, "train/cli/", 10);
    while (fgets(line, sizeof line, in)) {
        if (!included(line, path)) continue;
        ++*includes;
        cr_expect(rung_of(path) >= 0, "%s includes \"%s\", which is not in a folder of the library", file, path);
        cr_expect(rung_of(path) <= rung_of(file), "%s includes \"%s\", which is further down the ladder", file, path);
        if (command)
            cr_expect(!strncmp(path, "train/cli/", 10) || !strcmp(path, "train/halfstep.h"),
                      "%s includes \"%s\"; the command uses the public API only", file, path);
    }
    fclose(in);
}

Test(tree, folders_are_a_ladder) {
    static const char *const patterns[] = {"%s/*.[ch]", "%s/*/*.[ch]"};
    int files = 0, includes = 0;
    for (int i = 0; i < RUNGS; i++)
        for (int p = 0; p < 2; p++) {
            char pattern[64];
            snprintf(pattern, sizeof pattern, patterns[p], ladder[i]);
            glob_t found;
            if (glob(pattern, 0, NULL, &found)) continue;
            for (size_t f = 0; f < found.gl_pathc; f++, files++) check_file(found.gl_pathv[f], &includes);
            globfree(&found);
        }
    cr_expect(files > 60 && includes > 150, "only %d files and %d includes were looked at", files, includes);
}

Test(tree, the_check_finds_an_include_that_goes_down) {
    cr_expect(rung_of("tensor/pool.c") < rung_of("ops/cpu/gemm.c") &&
              rung_of("models/sru.c") < rung_of("train/cli/main.c"));
    cr_expect(rung_of("elsewhere/x.h") == -1 && rung_of("tensor") == -1);
    char path[256];
    cr_expect_str_eq(included("#include \"ops/ops.h\" // why", path), "ops/ops.h");
    cr_expect_null(included("#include <stdio.h>", path));
}
