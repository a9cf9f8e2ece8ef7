// machine.c: see machine.h. Linux tells it in files; other systems are not asked.
#include "train/cli/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double system_memory(void) {
    FILE *in = fopen("/proc/meminfo", "re");
    char line[128];
    double kilobytes, available = INFINITY, swap = 0;
    while (in && fgets(line, sizeof line, in)) {
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) available = kilobytes * 1024;
        if (sscanf(line, "SwapFree: %lf", &kilobytes) == 1) swap = kilobytes * 1024;
    }
    if (in) fclose(in);
    return available + swap;
}

// A number from a file; `otherwise` where there is none ("max").
static double number_in(const char *path, double otherwise) {
    FILE *in = fopen(path, "re");
    double number;
    if (!in || fscanf(in, "%lf", &number) != 1) number = otherwise;
    if (in) fclose(in);
    return number;
}

double cli_available_memory(void) {
    double limit = number_in("/sys/fs/cgroup/memory.max", INFINITY),
           used = number_in("/sys/fs/cgroup/memory.current", 0);
    return fmin(system_memory(), fmax(limit - used, 0));
}
