// temporary.h: a context and an empty folder for each test of files, both gone after it.
//
//     Test(suite, name, .init = set_up, .fini = tear_down) { put_file(in_folder("a/b.txt"), "text", 4); ... ctx ... }
#ifndef TESTS_TEMPORARY_H
#define TESTS_TEMPORARY_H

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tensor/tensor.h"

static hst_context *ctx;
static char folder[64];
static char logged[2048]; // what the context has logged, a line each

static void log_line(int level, const char *message, void *user) {
    (void)user;
    size_t length = strlen(logged);
    snprintf(logged + length, sizeof logged - length, "%s%s\n", level == HST_LOG_WARNING ? "warning: " : "", message);
}

static void set_up(void) {
    ctx = hst_open(&(hst_options){.size = sizeof(hst_options), .threads = 1, .log = log_line});
    snprintf(folder, sizeof folder, "%s/halfstep-XXXXXX", P_tmpdir);
    cr_assert(ctx && mkdtemp(folder));
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void tear_down(void) {
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    hst_close(ctx);
}

// The path of a name in the folder, until the fourth call after this one. Folders in it are made.
static inline const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        cr_assert(mkdir(path, 0777) == 0 || errno == EEXIST);
    }
    return path;
}

static inline void put_file(const char *path, const void *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, count, f) == count && fclose(f) == 0, "%s", path);
}

static inline size_t get_file(const char *path, void *bytes, size_t size) {
    FILE *f = fopen(path, "rb");
    cr_assert(f, "%s", path);
    size_t count = fread(bytes, 1, size, f);
    fclose(f);
    return count;
}

// The context has failed with this status and a line that holds the phrase; clears the error.
static inline void expect_failure(hst_status status, const char *phrase) {
    const char *message = hst_error(ctx);
    cr_expect_eq(hst_get_status(ctx), status, "status %d: %s", hst_get_status(ctx), message);
    cr_expect(strstr(message, phrase), "\"%s\" does not say \"%s\"", message, phrase);
    cr_expect(!strchr(message, '\n'), "more than one line: %s", message);
    hst_clear_error(ctx);
}

#endif
