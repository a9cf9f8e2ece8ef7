// signals.h: stopping a run in good order.
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

// From now on the first SIGINT, SIGTERM or SIGHUP, a closed terminal, is only noted, and a second one leaves at once:
// but not a SIGHUP, which kernel and shell may both send. A shell's background job, which starts with SIGINT ignored,
// is stopped by it as well: `kill -INT` means it. SIGHUP stays ignored where it was, by nohup. A dead pipe behind
// stderr (SIGPIPE) no longer ends the run.
void cli_guard_run(void);
int cli_stop_signal(void); // the noted signal, or 0

#endif
