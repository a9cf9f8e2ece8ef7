// png.c: see png.h. The encoder writes into memory: its own file functions do not check what they write.
#include "train/cli/png.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(CLI_WITHOUT_STB)
#define HAVE_STB 0
#elif __has_include(<stb/stb_image_write.h>)
#define HAVE_STB 1
#define STB_HEADER <stb/stb_image_write.h>
#elif __has_include(<stb_image_write.h>)
#define HAVE_STB 1
#define STB_HEADER <stb_image_write.h>
#else
#define HAVE_STB 0
#endif

const bool cli_has_png = HAVE_STB;

#if HAVE_STB
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic ignored "-Wunused-function" // the other formats; gcc says it at the end of the file
#include STB_HEADER

typedef struct bytes {
    char *data; // NULL: none, or no memory
    size_t size;
} bytes;

static void collect(void *user, void *data, int size) {
    bytes *all = user;
    char *grown = realloc(all->data, all->size + (size_t)size);
    if (!grown) {
        free(all->data);
        *all = (bytes){0};
        return;
    }
    memcpy(grown + all->size, data, (size_t)size);
    *all = (bytes){grown, all->size + (size_t)size};
}

static bool write_all(int fd, const bytes *b) {
    for (size_t done = 0; done < b->size;) {
        ssize_t n = write(fd, b->data + done, b->size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        done += (size_t)n;
    }
    return true;
}

// Opens, writes, closes; `flush`: to the disk.
static bool write_to(const char *path, int flags, bool flush, const bytes *b) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0) return false;
    bool written = write_all(fd, b) && (!flush || fsync(fd) == 0);
    int error = errno;
    if (close(fd) != 0 && written) return false;
    errno = error;
    return written;
}

static bool write_whole(const char *path, const bytes *b) {
    char target[PATH_MAX], temporary[PATH_MAX + 32];
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return write_to(path, 0, false, b);
    if (!realpath(path, target)) snprintf(target, sizeof target, "%s", path); // a link stays one
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", target, (long)getpid());
    if (write_to(temporary, O_CREAT | O_EXCL, true, b) && rename(temporary, target) == 0) return true;
    int error = errno;
    if (error != EEXIST) unlink(temporary);
    errno = error;
    return false;
}

bool canvas_write_png(const canvas *c, const char *path) {
    bytes file = {0};
    bool encoded = stbi_write_png_to_func(collect, &file, c->width, c->height, 3, c->pixels, 3 * c->width) != 0;
    errno = ENOMEM;
    bool written = encoded && file.data && write_whole(path, &file);
    int error = errno;
    free(file.data);
    errno = error;
    return written;
}
#else
bool canvas_write_png(const canvas *c, const char *path) {
    (void)c, (void)path;
    errno = ENOSYS;
    return false;
}
#endif
