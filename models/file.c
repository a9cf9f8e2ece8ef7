// file.c: reading and replacing whole files (file.h).
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/file.h"
#include "tensor/context.h"

const char *hst_shown_path(const char *path, char text[HST_SHOWN_PATH]) {
    size_t length = strlen(path), most = HST_SHOWN_PATH - 4;
    snprintf(text, HST_SHOWN_PATH, "%s%s", length > most ? "..." : "", length > most ? path + length - most : path);
    return text;
}

static hst_status fail(hst_context *ctx, const char *path, const char *what, int error) {
    char shown[HST_SHOWN_PATH];
    return hst_fail(ctx, HST_ERROR_IO, "%s: %s: %s", hst_shown_path(path, shown), what, strerror(error));
}

// ---- reading ----

int hst_open_file(hst_context *ctx, const char *path, uint64_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // does not wait for the other end of a pipe
    if (fd < 0 || fstat(fd, &info) != 0) {
        fail(ctx, path, "cannot be opened", errno);
    } else if (!S_ISREG(info.st_mode)) {
        fail(ctx, path, "not a regular file", S_ISDIR(info.st_mode) ? EISDIR : ESPIPE);
    } else {
        *size = (uint64_t)info.st_size;
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

bool hst_read_file(hst_context *ctx, const char *path, int fd, void *to, uint64_t bytes) {
    for (char *p = to; bytes > 0;) {
        ssize_t got = read(fd, p, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            fail(ctx, path, got < 0 ? "reading failed" : "it was cut while it was read", got < 0 ? errno : EIO);
            return false;
        }
        p += got;
        bytes -= (uint64_t)got;
    }
    return true;
}

// ---- replacing: these return 0 or an errno ----

static int write_span(int fd, hst_span span) {
    for (const char *p = span.data; span.bytes > 0;) {
        ssize_t put = write(fd, p, span.bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : EIO;
        p += put;
        span.bytes -= (size_t)put;
    }
    return 0;
}

static int write_and_rename(const char *path, const char *temporary, const hst_span *spans, int count) {
    int error = 0, fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return errno;
    for (int i = 0; i < count && !error; i++) error = write_span(fd, spans[i]);
    if (!error && fsync(fd) != 0) error = errno;
    if (close(fd) != 0 && !error) error = errno;
    if (!error && rename(temporary, path) != 0) error = errno;
    if (error) unlink(temporary);
    return error;
}

// The folder of path; buffer has room for path and a terminator.
static int open_folder(const char *path, char *buffer) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(buffer, path, length);
    buffer[length] = 0;
    return open(length ? buffer : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Until its folder is on the disk too, a power cut can undo a rename. Opened first: a missing folder must fail before.
hst_status hst_replace_file(hst_context *ctx, const char *path, const hst_span *spans, int count) {
    if (hst_get_status(ctx) != HST_OK) return hst_get_status(ctx);
    size_t size = strlen(path) + 32;
    char *buffer = hst_workspace(ctx, size);
    if (!buffer) return hst_get_status(ctx);
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)) {
        char shown[HST_SHOWN_PATH];
        hst_workspace_free(ctx, buffer);
        return hst_fail(ctx, HST_ERROR_IO, "%s: is a device or a pipe, which a file cannot take the place of",
                        hst_shown_path(path, shown));
    }
    int folder = open_folder(path, buffer), error = folder < 0 ? errno : 0;
    if (!error) {
        snprintf(buffer, size, "%s.tmp.%ld", path, (long)getpid());
        error = write_and_rename(path, buffer, spans, count);
    }
    if (error)
        fail(ctx, path, "cannot be written", error);
    else if (fsync(folder) != 0 && errno != EINVAL) // EINVAL: a file system that does not sync folders
        fail(ctx, path, "was written, but its folder could not be synced", errno);
    if (folder >= 0) close(folder);
    hst_workspace_free(ctx, buffer);
    return hst_get_status(ctx);
}
