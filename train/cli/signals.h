// signals.h: stopping a run in good order.
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

// From now on the first SIGINT or SIGTERM is only noted, and a second one leaves at once. One that the parent process had
// ignored (nohup, a shell's background job) stays ignored. A dead pipe behind stderr (SIGPIPE) no longer ends the run.
void cli_guard_run(void);
int cli_stop_signal(void); // the noted signal, or 0

#endif
