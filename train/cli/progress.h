// progress.h: a run's progress on stderr. On a terminal one line, rewritten at most ten times a second and never wider
// than the terminal; elsewhere plain lines, one every ten seconds, during a long evaluation too. Fields, always in this
// order:
//
//     step 1200/5000 24% | loss 1.532 (bpc 2.210) | val 1.611 | lr 3.0e-3 | |g| 0.82 | scale 65536, 2 skipped |
//     41.2k tok/s | eta 1m32s
//
// loss is the running mean in nats per symbol (bpc: in bits), val the last evaluation's, |g| the gradient's norm before
// clipping, scale what the loss of the last step was multiplied by, where there is a loss scaler.
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "train/halfstep.h"

typedef struct cli_progress {
    bool quiet, terminal;
    double tokens; // a step
    double shown;  // when the last line was, in seconds of the run
    int drawn;     // columns of the line that waits to be rewritten; 0: none
} cli_progress;

void cli_progress_begin(cli_progress *progress, bool quiet);
// Shows the state if it is time to, or in any case if it is `lasting`: such a line stays.
void cli_progress_show(cli_progress *progress, const hst_progress *now, bool lasting);
// Leaves the line that waits, so that a message gets one of its own.
void cli_progress_leave(cli_progress *progress);

// "1h05m", "1m32s", "12s" into buffer[size]; returns buffer.
const char *cli_format_duration(double seconds, char *buffer, size_t size);

#endif
