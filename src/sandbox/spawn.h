/*
 * Spawn: one process, cloned into the namespaces of a plan, that runs the plan.
 *
 * Used for the box (the process then becomes its init) and for probes (it then ends).
 */
#ifndef FH_SANDBOX_SPAWN_H
#define FH_SANDBOX_SPAWN_H

#include <sys/types.h>

#include "sandbox/init.h"
#include "sandbox/plan.h"

struct spawned {
	pid_t pid; /* as this process sees it */
	int pidfd;
	int socket;  /* our end */
	int ruleset; /* Landlock's, after spawn_wait(); -1: none */
};

#define SPAWNED_INIT \
	{ \
		.pid = -1, .pidfd = -1, .socket = -1, .ruleset = -1 \
	}

/* Clones and returns at once; the plan and the setup must stay as they are until the first report.
 * Without `setup` the process reports READY and ends. It is not noticed by wait() for any child nor
 * by SIGCHLD (its exit signal is 0): only spawn_end() reaps it. PDEATHSIG follows the calling
 * thread, which must live as long as the box. 0, or -1 with errno: that of clone3, unless the
 * socket pair failed. */
int spawn_plan(const struct plan *plan, struct init_setup *setup, struct spawned *spawned);

/* Waits for the first report, READY or FAILED. 0, or -1: ETIMEDOUT, or ECHILD when it ended without
 * one. */
int spawn_wait(struct spawned *spawned, struct init_report *report);

/* Kills it, and with a pid namespace all in it, waits until it is reaped, closes. A PID 1 cannot
 * end before all members of its namespace are reaped, also those whose parent is outside and
 * asleep; so the wait is bounded (10 s), after which the dying process is left to the kernel. */
void spawn_end(struct spawned *spawned);

#endif
