// file.h: reading and replacing whole files so that a failure never loses one.
#ifndef HST_FILE_H
#define HST_FILE_H

#include "tensor/tensor.h"

typedef struct hst_span {
    const void *data;
    size_t bytes;
} hst_span;

// Opens a regular file for reading; *size gets its size. -1 after recording HST_ERROR_IO with the path and the reason.
int hst_open_file(hst_context *ctx, const char *path, uint64_t *size);

// Reads `bytes` bytes, or records HST_ERROR_IO: a failure, or a file that has become shorter.
bool hst_read_file(hst_context *ctx, const char *path, int fd, void *to, uint64_t bytes);

// Makes the spans, one after the other, the contents of the file at path: a temporary file beside it (path.tmp.<pid>),
// every write checked, fsync, close checked, rename, fsync of the folder. On an error the old file is intact and the
// temporary one gone; only where the folder itself cannot be synced is the new file in place already.
// A file-size limit (RLIMIT_FSIZE) is an error like a full disk only where the program ignores SIGXFSZ.
hst_status hst_replace_file(hst_context *ctx, const char *path, const hst_span *spans, int count);

// A path for messages, of which the end matters: "path" up to 200 bytes, else "...end of path". Returns text.
enum { HST_SHOWN_PATH = 204 };
const char *hst_shown_path(const char *path, char text[HST_SHOWN_PATH]);

#endif
