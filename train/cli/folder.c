// folder.c: see folder.h.
#include "train/cli/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

const cli_term cli_run_files[] = {
    {"model.safetensors", "the model, the best by the held-out text; without one, the newest"},
    {"last.safetensors", "the newest checkpoint: the model and all that --resume needs"},
    {"previous.safetensors", "the checkpoint before it"},
    {"next.safetensors", "a checkpoint on its way to the place of the last, while both are moved"},
    {"log.jsonl", "the run's record, one JSON object a line"},
    {"loss.png", "its loss curves; not from a halfstep that was built without stb_image_write.h"},
    {NULL, NULL}};

const char *cli_default_folder(const char *text, char *buffer, size_t size) {
    char resolved[PATH_MAX];
    if (strcmp(text, "-") == 0)
        text = "stdin";
    else if (realpath(text, resolved))
        text = resolved; // "." and "books/" have a name too
    const char *slash = strrchr(text, '/'), *base = slash ? slash + 1 : text;
    if (!*base) base = "root";
    const char *dot = strrchr(base, '.');
    int length = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    snprintf(buffer, size, "%.*s.run", length, base);
    return buffer;
}

bool cli_folder_in_use(const char *folder) {
    char path[PATH_MAX];
    for (const cli_term *file = cli_run_files; file->name; file++) {
        snprintf(path, sizeof path, "%s/%s", folder, file->name);
        if (access(path, F_OK) == 0) return true;
    }
    return false;
}

static bool refuse(const char *path, const char *what) {
    cli_error("%s: %s: %s", path, what, strerror(errno));
    return false;
}

bool cli_prepare_folder(const char *folder) {
    char probe[PATH_MAX];
    struct stat info;
    snprintf(probe, sizeof probe, "%s/.probe.%ld", folder, (long)getpid());
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return refuse(folder, "the run folder cannot be made");
    if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode)) {
        cli_error("%s: is a file, not a folder for the run", folder);
        return false;
    }
    int fd = open(probe, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) return refuse(folder, "the run folder cannot be written to");
    bool written = write(fd, "x", 1) == 1;
    int error = errno;
    close(fd);
    unlink(probe);
    errno = error;
    return written || refuse(folder, "the run folder cannot be written to");
}

// The lock is the system's and goes with the process, however it ends. Where folders cannot be locked there is none.
bool cli_lock_folder(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true; // fd stays open
    close(fd);
    cli_error("%s: another run is using this folder", folder);
    return false;
}

bool cli_folder_can_be_used(const char *folder) {
    struct stat info;
    char parent[PATH_MAX];
    bool there = stat(folder, &info) == 0;
    if (there && !S_ISDIR(info.st_mode)) return cli_error("%s: is a file, not a folder for the run", folder), false;
    snprintf(parent, sizeof parent, "%s", folder);
    const char *place = there ? folder : dirname(parent);
    return access(place, W_OK | X_OK) == 0 || refuse(place, "the run folder cannot be made here, or written to");
}

bool cli_folder_has_room(const char *folder, int64_t bytes) {
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) return true; // no answer is no reason to stop
    double available = (double)disk.f_bavail * (double)disk.f_frsize;
    if (available >= (double)bytes) return true;
    cli_error("%s: the run's files need %.0f MB, but only %.0f MB are free", folder, (double)bytes / 1e6,
              available / 1e6);
    return false;
}

// Whether a run, or one that was killed while it saved, made a file of this name: last.safetensors.tmp.123.
static bool is_of_a_run(const char *name) {
    for (const cli_term *file = cli_run_files; file->name; file++) {
        size_t length = strlen(file->name);
        if (!strncmp(name, file->name, length) && (!name[length] || !strncmp(name + length, ".tmp", 4))) return true;
    }
    return false;
}

bool cli_clear_folder(const char *folder, bool unfinished) {
    DIR *open_folder = opendir(folder);
    if (!open_folder) return refuse(folder, "the run folder cannot be read");
    bool cleared = true;
    for (struct dirent *entry; cleared && (entry = readdir(open_folder));)
        if (is_of_a_run(entry->d_name) && (!unfinished || strstr(entry->d_name, ".tmp")) &&
            unlinkat(dirfd(open_folder), entry->d_name, 0) != 0)
            cleared = refuse(entry->d_name, "is in the way of the run and cannot be removed");
    closedir(open_folder);
    return cleared;
}
