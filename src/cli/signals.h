/*
 * Signals of run and pipe: read from a descriptor, so that a Ctrl-C is one more thing the loop
 * waits for.
 */
#ifndef FH_CLI_SIGNALS_H
#define FH_CLI_SIGNALS_H

#include "base/err.h"

/*
 * Blocks SIGINT, SIGTERM and SIGHUP (those that are not ignored) and returns a descriptor
 * (signalfd(2)) that reads them, owned by the caller. SIGPIPE is ignored from now on: a write gives
 * EPIPE.
 */
int signals_open(struct err *err);

/* The next signal, 0 when there is none. Does not wait. */
int signals_next(int fd);

/* Ends this process by the signal, so that the caller sees how it ended. Does not return. */
_Noreturn void signals_die(int signal);

#endif
