// machine.h: what the machine has left.
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

// Bytes of memory that a program can still take: what the system says is available, swap included, or what the control
// group leaves, if that is less. INFINITY where neither can be read.
double cli_available_memory(void);

#endif
