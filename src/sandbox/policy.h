/*
 * Policy: what a sandbox permits, as data. A policy is compiled to a plan (plan.h), and only
 * plans run.
 */
#ifndef FH_SANDBOX_POLICY_H
#define FH_SANDBOX_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum tier {
	TIER_NONE,     /* no containment; only when asked for by name */
	TIER_DEGRADED, /* no user namespace: a later version */
	TIER_PARTIAL,  /* all seven namespaces and an own root, but not yet every layer of `full` */
	TIER_FULL,
};

const char *tier_name(enum tier tier);
int tier_from_name(const char *name, enum tier *tier); /* -1: no such name */

enum workspace_mode { WORKSPACE_RW, WORKSPACE_RO };

struct policy {
	enum tier floor;       /* below it a session is refused */
	const char *workspace; /* absolute host path of a directory; borrowed */
	enum workspace_mode workspace_mode;
	/* NULL-terminated absolute host paths, visible read-only at the same place (the Python
	 * environment); those under /usr are there anyway; what does not exist is left out;
	 * borrowed */
	const char *const *read;
	uint64_t tmp_bytes_max; /* size of the private /tmp and /dev/shm, each */
	uint64_t tmp_inodes_max;
	/* rlimits of every process in the box; 0 leaves the caller's */
	uint64_t processes_max;    /* RLIMIT_NPROC: threads count */
	uint64_t files_max;        /* RLIMIT_NOFILE */
	uint64_t file_bytes_max;   /* RLIMIT_FSIZE */
	uint64_t memory_bytes_max; /* RLIMIT_DATA-like per-process bound is not exact; 0 for now */
};

/* The defaults of DESIGN §7: floor partial, 512 + 4 x CPUs processes, 1,024 files, 256 MiB a file,
 * /tmp 1 GiB and 100,000 inodes. */
void policy_init(struct policy *policy);

/* Refuses a workspace that is /, a home directory, a system directory, or no directory, unless
 * `named` (the user typed it). ERR_DENIED / ERR_NOT_FOUND with a sentence that says what to do. */
int policy_check_workspace(const char *path, bool named, struct err *err);

#endif
