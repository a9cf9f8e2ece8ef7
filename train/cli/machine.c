// machine.c: see machine.h. Linux tells it in files; other systems are not asked.
#include "train/cli/machine.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// The number behind `name` in a file of lines "name number", in units of `unit`; `otherwise` where there is none. An
// empty name takes the first number.
static double number_in(const char *path, const char *name, double unit, double otherwise) {
    FILE *in = fopen(path, "re");
    char line[256];
    double number = otherwise;
    size_t length = strlen(name);
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, name, length) && sscanf(line + length, "%lf", &number) == 1) {
            number *= unit;
            break;
        }
    if (in) fclose(in);
    return number;
}

// What a control group leaves: its limit, less what it holds but for files that it could drop.
static double left_in(const char *group) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/memory.max", group);
    double limit = number_in(path, "", 1, INFINITY);
    snprintf(path, sizeof path, "%s/memory.current", group);
    double used = number_in(path, "", 1, 0);
    snprintf(path, sizeof path, "%s/memory.stat", group);
    return limit - used + number_in(path, "inactive_file ", 1, 0);
}

// The least that this process's group and those above it leave (version 2 of control groups).
static double group_memory(void) {
    char path[PATH_MAX + 32] = "", line[PATH_MAX];
    FILE *in = fopen("/proc/self/cgroup", "re");
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, "0::", 3))
            snprintf(path, sizeof path, "/sys/fs/cgroup%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (in) fclose(in);
    double least = INFINITY;
    for (char *slash = path + strlen(path); *path && strlen(path) >= strlen("/sys/fs/cgroup");
         slash = strrchr(path, '/')) {
        if (slash) *slash = '\0';
        least = fmin(least, left_in(path));
    }
    return fmax(least, 0);
}

double cli_available_memory(void) {
    double system = number_in("/proc/meminfo", "MemAvailable:", 1024, INFINITY);
    return fmin(system + number_in("/proc/meminfo", "SwapFree:", 1024, 0), group_memory());
}
