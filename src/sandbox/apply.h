/*
 * Apply: runs a plan in the process that clone3 has just made.
 *
 * Only raw system calls, no allocation, no stdio, no lock: the process is a copy of one that may
 * have had other threads, any of which may have held any lock. All it needs is in the plan.
 */
#ifndef FH_SANDBOX_APPLY_H
#define FH_SANDBOX_APPLY_H

#include <stddef.h>

#include "sandbox/plan.h"

/* What a plan leaves behind. */
struct applied {
	size_t failed; /* index of the step that failed */
	int ruleset;   /* descriptor of the Landlock ruleset, -1: none */
};

/* Runs all steps in order. `socket` stays open when STEP_CLOSE closes everything else; on it the
 * keeper says (one byte) that it has written the id maps, if it is to write them. 0, or -1 with
 * errno; the process is then of no use but to report and exit. */
int apply_plan(const struct plan *plan, int socket, struct applied *applied);

#endif
