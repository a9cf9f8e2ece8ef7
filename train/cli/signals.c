// signals.c: see signals.h.
#include "train/cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void note(const char *message, size_t length) { (void)!write(STDERR_FILENO, message, length); }

static void on_stop(int number) {
    static const char message[] = "\nstopping after this step and saving; a second signal leaves at once\n";
    int saved = errno;
    if (stop && number != SIGHUP) _exit(128 + number);
    if (!stop) note(message, sizeof message - 1);
    if (!stop) stop = number;
    errno = saved;
}

void cli_guard_run(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART}, inherited;
        if (numbers[i] == SIGHUP && sigaction(SIGHUP, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN)
            continue;
        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

int cli_stop_signal(void) { return stop; }
