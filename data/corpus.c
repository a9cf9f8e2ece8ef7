// corpus.c: text from files, folders and standard input, as one array of bytes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "data/corpus.h"
#include "models/file.h"
#include "models/json.h"
#include "models/sha256.h"
#include "tensor/context.h"

enum { CHUNK = 1 << 20 };

hst_corpus *hst_corpus_new(hst_context *ctx) {
    hst_corpus *corpus = hst_get_status(ctx) == HST_OK ? hst_workspace(ctx, sizeof *corpus) : NULL;
    if (corpus) *corpus = (hst_corpus){.ctx = ctx};
    return corpus;
}

void hst_corpus_free(hst_corpus *corpus) {
    if (!corpus) return;
    hst_context *ctx = corpus->ctx;
    hst_workspace_free(ctx, corpus->symbols);
    hst_workspace_free(ctx, corpus->bytes);
    hst_workspace_free(ctx, corpus);
}

const uint8_t *hst_corpus_bytes(const hst_corpus *corpus) {
    if (!corpus) return NULL;
    return corpus->bytes;
}
int64_t hst_corpus_size(const hst_corpus *corpus) {
    if (!corpus) return 0;
    return (int64_t)corpus->size;
}
hst_context *hst_corpus_context(const hst_corpus *corpus) {
    if (!corpus) return NULL;
    return corpus->ctx;
}

void hst_corpus_sha256(const hst_corpus *corpus, char text[65]) {
    hst_sha256 hash = hst_sha256_begin();
    if (corpus) hst_sha256_add(&hash, corpus->bytes, corpus->size);
    hst_sha256_end(&hash, text);
}

// Room for `more` bytes behind the text: exactly that for the first file, at least half as much again later, so that
// many small files do not copy the text each time.
static bool reserve(hst_corpus *corpus, size_t more) {
    if (more <= corpus->capacity - corpus->size) return true;
    size_t need, larger = corpus->capacity + corpus->capacity / 2;
    if (__builtin_add_overflow(corpus->size, more, &need) || need > PTRDIFF_MAX) need = PTRDIFF_MAX;
    if (larger < need) larger = need;
    uint8_t *bytes = hst_workspace(corpus->ctx, larger);
    if (!bytes) return false;
    if (corpus->size > 0) memcpy(bytes, corpus->bytes, corpus->size);
    hst_workspace_free(corpus->ctx, corpus->bytes);
    corpus->bytes = bytes;
    corpus->capacity = larger;
    return true;
}

hst_status hst_corpus_add_bytes(hst_corpus *corpus, const void *bytes, size_t count) {
    if (!corpus) return HST_ERROR_STATE;
    if (hst_get_status(corpus->ctx) != HST_OK || !reserve(corpus, count)) return hst_get_status(corpus->ctx);
    if (count > 0) memcpy(corpus->bytes + corpus->size, bytes, count);
    corpus->size += count;
    return HST_OK;
}

// Records "path: what" or "path: what: why"; returns false.
static bool fail(hst_corpus *corpus, hst_status status, const char *path, const char *what, const char *why) {
    char shown[HST_SHOWN_PATH];
    hst_fail(corpus->ctx, status, "%s: %s%s%s", hst_shown_path(path, shown), what, why ? ": " : "", why ? why : "");
    return false;
}

// ---- one file ----

// Appends all that fd gives, which for a pipe is known only at its end. A signal is a chance to cancel.
static bool read_all(hst_corpus *corpus, const char *path, int fd, size_t expected) {
    const hst_options *options = &corpus->ctx->options;
    if (!reserve(corpus, expected)) return false;
    for (ssize_t got = 1; got != 0;) {
        if (corpus->size == corpus->capacity && !reserve(corpus, CHUNK)) return false;
        got = read(fd, corpus->bytes + corpus->size, corpus->capacity - corpus->size);
        if (got > 0) corpus->size += (size_t)got;
        if (got < 0 && errno != EINTR) return fail(corpus, HST_ERROR_IO, path, "cannot be read", strerror(errno));
        if (got < 0 && options->cancel && options->cancel(options->user))
            return fail(corpus, HST_CANCELLED, path, "reading was cancelled", NULL);
    }
    return true;
}

static void skip_mark(hst_corpus *corpus, const char *path, size_t start) {
    if (corpus->size - start < 3 || memcmp(corpus->bytes + start, "\xEF\xBB\xBF", 3) != 0) return;
    corpus->size -= 3;
    memmove(corpus->bytes + start, corpus->bytes + start + 3, corpus->size - start);
    hst_log_message(corpus->ctx, HST_LOG_INFO, "%s: its UTF-8 byte-order mark was skipped", path);
}

// Bytes take any text; what may surprise is said.
static void note_form(const hst_corpus *corpus, const char *path, size_t start) {
    const char *text = (const char *)corpus->bytes + start;
    size_t size = corpus->size - start, at = hst_utf8_prefix(text, size), first = at, count = 0;
    for (; at < size; at += 1 + hst_utf8_prefix(text + at + 1, size - at - 1)) count++;
    if (count > 0)
        hst_log_message(corpus->ctx, HST_LOG_INFO, "%s: %zu of its bytes are not UTF-8, the first at byte %zu", path,
                        count, first);
    if (size > 0 && memmem(text, size, "\r\n", 2))
        hst_log_message(corpus->ctx, HST_LOG_INFO, "%s: CRLF line ends found; the CRs are symbols like others", path);
}

// In a folder a file with a NUL byte is taken for something else than text; one that was named is used as it is.
static bool add_open_file(hst_corpus *corpus, const char *path, int fd, bool in_folder) {
    struct stat info;
    size_t start = corpus->size;
    bool sized = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (!read_all(corpus, path, fd, sized ? (size_t)info.st_size + 1 : CHUNK)) return false; // + 1: to see its end
    skip_mark(corpus, path, start);
    if (!in_folder) note_form(corpus, path, start);
    if (corpus->size == start || !memchr(corpus->bytes + start, 0, corpus->size - start)) return true;
    if (in_folder) {
        corpus->size = start;
        corpus->left_out++;
    } else {
        hst_log_message(corpus->ctx, HST_LOG_WARNING,
                        "%s: has NUL bytes, which text has not; they are used as they are", path);
    }
    return true;
}

static bool add_file(hst_corpus *corpus, const char *path, bool in_folder) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(corpus, HST_ERROR_IO, path, "cannot be opened", strerror(errno));
    bool ok = add_open_file(corpus, path, fd, in_folder);
    close(fd);
    return ok;
}

// ---- folders ----

// Paths, those of folders with a '/' at the end: reading a folder appends to the list that is being walked, which
// visits a whole tree without recursion and with one folder open at a time.
typedef struct list {
    char **paths;
    size_t count, capacity;
} list;

static bool append(hst_context *ctx, list *l, const char *folder, const char *name, const char *slash) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        char **paths = hst_workspace(ctx, capacity * sizeof *paths);
        if (!paths) return false;
        if (l->count > 0) memcpy(paths, l->paths, l->count * sizeof *paths);
        hst_workspace_free(ctx, l->paths);
        l->paths = paths;
        l->capacity = capacity;
    }
    size_t size = strlen(folder) + strlen(name) + strlen(slash) + 1;
    char *path = hst_workspace(ctx, size);
    if (!path) return false;
    snprintf(path, size, "%s%s%s", folder, name, slash);
    l->paths[l->count++] = path;
    return true;
}

// Links to files are followed, links to folders are not: they may lead in a circle.
static bool append_entry(hst_corpus *corpus, list *l, const char *folder, DIR *open_folder, const char *name) {
    struct stat info;
    bool known = fstatat(dirfd(open_folder), name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    bool link = known && S_ISLNK(info.st_mode);
    if (link) known = fstatat(dirfd(open_folder), name, &info, 0) == 0;
    if (known && S_ISREG(info.st_mode)) return append(corpus->ctx, l, folder, name, "");
    if (known && S_ISDIR(info.st_mode) && !link) return append(corpus->ctx, l, folder, name, "/");
    corpus->left_out++; // a socket, a link to a folder
    return true;
}

// Whether it is the folder of a run, whose log is no text; one that has not saved yet is known by its log.
static bool is_run_folder(int folder) {
    static const char first[] = "{\"event\":\"start\"";
    char start[sizeof first - 1];
    if (faccessat(folder, "last.safetensors", F_OK, 0) == 0) return true;
    int log = openat(folder, "log.jsonl", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (log < 0) return false;
    bool starts = read(log, start, sizeof start) == (ssize_t)sizeof start && !memcmp(start, first, sizeof start);
    close(log);
    return starts;
}

static bool read_folder(hst_corpus *corpus, list *l, const char *folder) {
    DIR *open_folder = opendir(folder);
    if (!open_folder) return fail(corpus, HST_ERROR_IO, folder, "cannot be opened", strerror(errno));
    bool ok = true;
    if (is_run_folder(dirfd(open_folder))) {
        corpus->left_out++;
        closedir(open_folder);
        return true;
    }
    for (struct dirent *entry; ok;) {
        errno = 0;
        entry = readdir(open_folder);
        if (!entry && errno) ok = fail(corpus, HST_ERROR_IO, folder, "cannot be read", strerror(errno));
        if (!entry) break;
        if (entry->d_name[0] != '.') ok = append_entry(corpus, l, folder, open_folder, entry->d_name);
    }
    closedir(open_folder);
    return ok;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_folder(const char *path) { return path[strlen(path) - 1] == '/'; }

static bool add_folder(hst_corpus *corpus, const char *path) {
    list l = {NULL, 0, 0};
    corpus->left_out = 0;
    bool ok = append(corpus->ctx, &l, path, "", is_folder(path) ? "" : "/");
    for (size_t i = 0; i < l.count && ok; i++)
        if (is_folder(l.paths[i])) ok = read_folder(corpus, &l, l.paths[i]);
    if (ok) qsort(l.paths, l.count, sizeof *l.paths, by_bytes);
    for (size_t i = 0; i < l.count && ok; i++)
        if (!is_folder(l.paths[i])) ok = add_file(corpus, l.paths[i], true);
    for (size_t i = 0; i < l.count; i++) hst_workspace_free(corpus->ctx, l.paths[i]);
    hst_workspace_free(corpus->ctx, l.paths);
    if (ok && corpus->left_out > 0)
        hst_log_message(corpus->ctx, HST_LOG_INFO,
                        "%s: left out %d of its entries: not text (a NUL byte), the folder of a run, or no file", path,
                        corpus->left_out);
    return ok;
}

// ---- all of them ----

hst_status hst_corpus_add(hst_corpus *corpus, const char *path) {
    if (!corpus) return HST_ERROR_STATE;
    if (hst_get_status(corpus->ctx) != HST_OK) return hst_get_status(corpus->ctx);
    if (!path) return hst_fail(corpus->ctx, HST_ERROR_VALUE, "hst_corpus_add: path is NULL; \"-\" is standard input");
    static const char input[] = "standard input", no_text[] = "it is empty; a text is expected",
                      no_files[] =
                          "no text in it; hidden files, files with NUL bytes and the folders of runs do not count";
    struct stat info = {0};
    size_t before = corpus->size;
    bool ok, standard_input = !strcmp(path, "-");
    if (standard_input)
        ok = add_open_file(corpus, path = input, STDIN_FILENO, false);
    else if (stat(path, &info) != 0)
        ok = fail(corpus, HST_ERROR_IO, path, "cannot be opened", strerror(errno));
    else
        ok = S_ISDIR(info.st_mode) ? add_folder(corpus, path) : add_file(corpus, path, false);
    if (ok && corpus->size == before)
        ok = fail(corpus, HST_ERROR_FORMAT, path, S_ISDIR(info.st_mode) ? no_files : no_text, NULL);
    if (!ok) corpus->size = before; // all of it or nothing
    return hst_get_status(corpus->ctx);
}

hst_corpus *hst_corpus_split(hst_corpus *corpus, double share) {
    if (!corpus) return NULL;
    if (hst_get_status(corpus->ctx) != HST_OK) return NULL;
    if (corpus->tokenizer) {
        hst_fail(corpus->ctx, HST_ERROR_STATE, "hst_corpus_split: the text is encoded already; split it before");
        return NULL;
    }
    if (!(share >= 0 && share < 1)) {
        hst_fail(corpus->ctx, HST_ERROR_VALUE, "hst_corpus_split: share %g; it must be at least 0 and below 1", share);
        return NULL;
    }
    hst_corpus *last = hst_corpus_new(corpus->ctx);
    size_t stay = (size_t)floor((double)corpus->size * (1 - share));
    for (int i = 0; i < 3 && stay > 0 && stay < corpus->size && (corpus->bytes[stay] & 0xc0) == 0x80; i++) stay--;
    const uint8_t *end = stay < corpus->size ? corpus->bytes + stay : NULL;
    if (last && hst_corpus_add_bytes(last, end, corpus->size - stay) == HST_OK) {
        corpus->size = stay;
        return last;
    }
    hst_corpus_free(last);
    return NULL;
}
