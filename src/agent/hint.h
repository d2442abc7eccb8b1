/*
 * What a model is told of a program that failed: short, because a small model loses its way in a
 * whole traceback. The failing line, the exception's last line, and one hint by the class of the
 * error.
 */
#ifndef FH_AGENT_HINT_H
#define FH_AGENT_HINT_H

#include "agent/attempt.h"

/* What is known of where the program runs. */
struct hint_place {
	const char
		*modules;  /* third-party packages that are installed, "numpy, pandas"; "": none */
	const char *files; /* names in the workspace, "a.csv, b.txt"; "": none */
	double timeout_s;
	bool input; /* there is something to read */
};

/* Appends what went wrong, in a few lines. The attempt has finished, and not well: or a check does
 * not hold, or it is doubtful. Pure. */
void hint_failure(struct buf *out, const struct attempt *attempt);

/* Appends what to do about it, one or two sentences; nothing when there is nothing to say. Pure. */
void hint_advice(struct buf *out, const struct attempt *attempt, const struct hint_place *place);

#endif
