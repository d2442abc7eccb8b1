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
	TIER_DEGRADED, /* no namespaces: Landlock and a stricter filter */
	TIER_FULL,     /* seven namespaces, an own root, no privileges, a system call filter */
};

const char *tier_name(enum tier tier);
int tier_from_name(const char *name, enum tier *tier); /* -1: no such name */

enum workspace_mode {
	WORKSPACE_RW,
	WORKSPACE_RO,
	WORKSPACE_OVERLAY, /* as rw inside, but changes go to policy->overlay */
	WORKSPACE_MODES
};

const char *workspace_mode_name(enum workspace_mode mode); /* "rw", "ro", "overlay" */
int workspace_mode_from_name(const char *name, enum workspace_mode *mode); /* -1: no such name */

struct policy {
	enum tier floor;       /* below it a session is refused */
	const char *workspace; /* absolute host path of a directory; borrowed */
	enum workspace_mode workspace_mode;
	bool workspace_private; /* made for this session alone */
	/* Of an overlay: absolute host path of a directory that is the session's own, with the
	 * empty or once used directories `upper` and `work`, on a file system that can be the upper
	 * one of overlayfs (ext4, xfs, btrfs; tmpfs since Linux 6.6); borrowed */
	const char *overlay;
	/* What must not be changed in a workspace that is rw and not private (protect.h):
	 * NULL-terminated patterns; NULL: nothing is protected; borrowed */
	const char *const *protect;
	/* Degraded tier: an absolute host path for temporary files (in the other tiers /tmp is the
	 * box's own), or NULL; borrowed */
	const char *tmp;
	/* NULL-terminated absolute host paths, visible read-only at the same place (the Python
	 * environment); those under /usr are there anyway; what does not exist is left out;
	 * borrowed */
	const char *const *read;
	/* The same, visible read-write; what does not exist is an error */
	const char *const *write;
	/* The same, of folders that are Fumehood's own and have been made for this session alone */
	const char *const *own;
	/* Rules of hosts that may be reached (hosts.h); NULL, or none: no network. Borrowed */
	const char *const *net;
	/* "NAME=value" of what programs get besides their own; NULL: nothing. Borrowed */
	const char *const *env;
	uint64_t tmp_bytes_max; /* size of the private /tmp and /dev/shm, each */
	uint64_t tmp_inodes_max;
	/* rlimits of every process in the box; 0 leaves the caller's */
	uint64_t processes_max;  /* RLIMIT_NPROC: threads count */
	uint64_t files_max;      /* RLIMIT_NOFILE */
	uint64_t file_bytes_max; /* RLIMIT_FSIZE */
	/* of the box as a whole (cgroup.h, keeper/monitor.h); 0: no limit */
	uint64_t memory_bytes_max; /* all its processes, and what lies in its /tmp */
	bool swap; /* what exceeds it may be swapped out, instead of ending the session's code */
	uint64_t disk_bytes_max;  /* what a private workspace may take */
	uint64_t disk_inodes_max; /* files and directories in it */
	double cpus;              /* processors: 0.5 is half of one */
	double cpu_s_max;         /* seconds of processor time a cell may use */
};

/* The defaults of DESIGN §7: floor degraded, 512 + 4 x CPUs processes, 1,024 files, 256 MiB a file,
 * /tmp 1 GiB and 100,000 inodes, memory 2 GiB, private workspace 1 GiB and 200,000 inodes. */
void policy_init(struct policy *policy);

/* Refuses a workspace that is /, a home directory, a system directory, or no directory, unless
 * `named` (the user typed it). ERR_DENIED / ERR_NOT_FOUND with a sentence that says what to do. */
int policy_check_workspace(const char *path, bool named, struct err *err);

/* Refuses paths that cannot be shown as `read` and `write` ask (NULL: none): what is not there, or
 * is neither directory nor regular file, and of `write` also home directories, what belongs to the
 * system, and folders of Fumehood's own, by which a session could reach others. ERR_NOT_FOUND,
 * ERR_DENIED. What else may not be shown, the plan refuses. */
int policy_check_paths(const char *const *read, const char *const *write, struct err *err);

#endif
