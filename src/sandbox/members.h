/*
 * The processes of a box, seen from outside through /proc: who they are and what they use.
 *
 * For where no control group counts, and for moving into one what has been forked before the move.
 * The children of a process are in /proc/PID/task/TID/children; a kernel without that file (it
 * needs CONFIG_PROC_CHILDREN, which every distribution sets) shows the first processes only.
 */
#ifndef FH_SANDBOX_MEMBERS_H
#define FH_SANDBOX_MEMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MEMBERS_MAX = 4096 }; /* more are not looked at */

struct members {
	pid_t *pids; /* owned */
	size_t count;
};

#define MEMBERS_INIT \
	{ \
		.pids = NULL, .count = 0 \
	}

struct members_usage {
	uint64_t memory_bytes;
	uint64_t cpu_us; /* with that of children that have ended and were waited for */
};

/* The roots (at most 8; those not above 0 are passed over) and all that descends from them. */
void members_find(struct members *members, const pid_t *roots, size_t root_count);
void members_release(struct members *members);

/* What they use together, with their memfds and `stored_bytes`, what lies in file systems of theirs
 * that are memory. Pages that several of them share, or that are stored and mapped too, count in
 * each; only where that makes more than `memory_max` (0: never, and nothing stored is counted) they
 * are counted once, which takes a millisecond for 100 MiB or so. The closer count leaves out what
 * is not sure: of what is shared and what is stored it takes the larger. */
void members_read(const struct members *members, uint64_t stored_bytes, uint64_t memory_max,
		  struct members_usage *usage);

#define cleanup_members __attribute__((cleanup(members_release)))

#endif
