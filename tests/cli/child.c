// child.c: see child.h. Output goes to files, not pipes, so that no child ever waits for its reader.
#include "tests/cli/child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HST_BINARY
#define HST_BINARY "build/halfstep"
#endif

static char binary[PATH_MAX], scratch[PATH_MAX], home[PATH_MAX];

const char *child_binary(void) { return binary; }

typedef struct contents {
    struct contents *next;
    char text[];
} contents;

static contents *all_contents; // of the files read; they go with the scratch folder

void scratch_enter(void) {
    const char *path = getenv("HST_BINARY") ? getenv("HST_BINARY") : HST_BINARY;
    const char *temporary = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    cr_assert(realpath(path, binary), "%s: build it first", path);
    cr_assert(getcwd(home, sizeof home));
    snprintf(scratch, sizeof scratch, "%s/halfstep-test-XXXXXX", temporary);
    cr_assert(mkdtemp(scratch) && chdir(scratch) == 0);
    unsetenv("HALFSTEP_ISA");
}

static int delete_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

void scratch_leave(void) {
    for (contents *next; all_contents; all_contents = next) {
        next = all_contents->next;
        free(all_contents);
    }
    if (chdir(home) == 0) nftw(scratch, delete_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_as(int fd, const char *path, int flags) {
    int opened = open(path, flags, 0600);
    if (opened < 0 || dup2(opened, fd) < 0) _exit(126);
    if (opened != fd) close(opened);
}

// In the child: the streams, no inherited habits about signals, and at most 30 seconds of processor time.
static void become(const char *const *arguments, void (*setup)(void)) {
    char *argv[64] = {(char *)"halfstep"};
    for (int i = 0; arguments[i] && i < 62; i++) argv[i + 1] = (char *)arguments[i];
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    open_as(STDIN_FILENO, "stdin.txt", O_RDONLY);
    open_as(STDOUT_FILENO, "stdout.txt", O_WRONLY | O_CREAT | O_TRUNC);
    open_as(STDERR_FILENO, "stderr.txt", O_WRONLY | O_CREAT | O_TRUNC);
    if (setup) setup();
    execv(binary, argv);
    _exit(127);
}

child child_start(const char *input, void (*setup)(void), const char *const *arguments) {
    write_file("stdin.txt", input ? input : "", input ? strlen(input) : 0);
    child c = {.pid = fork()};
    cr_assert(c.pid >= 0);
    if (c.pid == 0) become(arguments, setup);
    return c;
}

void child_finish(child *c) {
    int status;
    cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    c->out = read_file("stdout.txt", &c->out_size);
    c->err = read_file("stderr.txt", &c->err_size);
}

child child_run(const char *input, void (*setup)(void), const char *const *arguments) {
    child c = child_start(input, setup, arguments);
    child_finish(&c);
    return c;
}

static int terminal; // the other end of the child's stderr

static void on_terminal(void) {
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    int fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (fd < 0 || ioctl(fd, TIOCSWINSZ, &size) != 0) _exit(126);
    dup2(fd, STDERR_FILENO);
}

child child_on_terminal(const char *const *arguments, char *shown, size_t size) {
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    child c = child_start(NULL, on_terminal, arguments);
    size_t n = 0;
    for (ssize_t got; (got = read(terminal, shown + n, size - 1 - n)) > 0;) n += (size_t)got; // EIO: the child is gone
    shown[n] = '\0';
    close(terminal);
    child_finish(&c);
    return c;
}

// ---- files ----

void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, count, file) == count, "%s", path);
    fclose(file);
}

void write_text(const char *path, size_t count) {
    static const char *words[] = {"the", "river", "ran", "under", "a", "bridge", "and", "nobody", "saw", "it.\n"};
    char *text = malloc(count + 16);
    size_t n = 0;
    for (unsigned i = 1; n < count; i = i * 1103515245u + 12345u)
        n += (size_t)sprintf(text + n, "%s ", words[i >> 16 & 7]);
    write_file(path, text, count);
    free(text);
}

char *read_file(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    contents *c = NULL;
    size_t n = 0, got;
    do {
        c = realloc(c, sizeof *c + n + 65537);
        cr_assert(c);
        n += got = fread(c->text + n, 1, 65536, file);
    } while (got > 0);
    fclose(file);
    c->text[n] = '\0';
    c->next = all_contents;
    all_contents = c;
    if (count) *count = n;
    return c->text;
}

// ---- flat JSON ----

static const char *skip_string(const char *s) {
    if (*s++ != '"') return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20) return NULL;
        if (*s == '\\' && !strchr("\"\\/bfnrtu", *++s)) return NULL;
    }
    return s + 1;
}

static const char *skip_scalar(const char *s) {
    static const char *words[] = {"true", "false", "null"};
    char *end;
    if (*s == '"') return skip_string(s);
    for (int i = 0; i < 3; i++)
        if (strncmp(s, words[i], strlen(words[i])) == 0) return s + strlen(words[i]);
    if (!strchr("-0123456789", *s)) return NULL;
    strtod(s, &end);
    return end;
}

// The line's end, or NULL where it is no flat object. With a key, its value's start goes to *value.
static const char *skip_object(const char *s, const char *key, const char **value) {
    for (char before = '{'; *s == before; before = ',') {
        const char *name = s + 1, *end = skip_string(name);
        if (!end || *end != ':') return NULL;
        if (key && (size_t)(end - name) == strlen(key) + 2 && strncmp(name + 1, key, strlen(key)) == 0)
            *value = end + 1;
        s = skip_scalar(end + 1);
        if (!s) return NULL;
    }
    return s[0] == '}' && s[1] == '\n' ? s + 2 : NULL;
}

bool is_json_lines(const char *text) {
    const char *none;
    while (text && *text) text = skip_object(text, NULL, &none);
    return text != NULL;
}

const char *json_value(const char *lines, const char *event, const char *key) {
    static char copy[256];
    while (lines && *lines) {
        const char *value = NULL, *kind = NULL, *next = skip_object(lines, key, &value);
        skip_object(lines, "event", &kind);
        bool wanted =
            !event || (kind && strncmp(kind + 1, event, strlen(event)) == 0 && kind[1 + strlen(event)] == '"');
        if (next && wanted) {
            if (!value) return NULL;
            snprintf(copy, sizeof copy, "%.*s", (int)(skip_scalar(value) - value), value);
            return copy;
        }
        lines = next;
    }
    return NULL;
}

child train_tiny(void) {
    write_text("text.txt", 2000);
    child c = RUN("train", "text.txt", TINY, "--steps", "5");
    cr_assert_eq(c.code, 0, "%s", c.err);
    return c;
}

void expect_loadable(const char *model) {
    child c = RUN("info", model);
    cr_assert(c.code == 0 && strstr(c.out, "layers        1") && strstr(c.out, "embedding_layer.weight"), "%s", c.err);
}
