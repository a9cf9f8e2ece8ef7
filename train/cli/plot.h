// plot.h: the loss curves of runs as a picture.
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "train/cli/cli.h"

// Draws RUN/loss.png as `halfstep plot RUN` does. CLI_DONE, or an exit code and in why[size] the sentence that says
// why.
int cli_plot_run(const char *folder, char *why, size_t size);

#endif
