/*
 * One directory of a group: of version 2 the only one, of version 1 that in one hierarchy.
 *
 * Shared by cgroup.c and the two versions. All names of files are theirs; cgroup.c knows only what
 * is common: making, locking, moving in, removing.
 */
#ifndef FH_SANDBOX_CGROUP_ARM_H
#define FH_SANDBOX_CGROUP_ARM_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/cgroup.h"
#include "sandbox/cgroup_find.h"

enum cgroup_count { COUNT_MEMORY, COUNT_PEAK, COUNT_KILLS, COUNT_REFUSALS, COUNT_CPU, COUNTS };

struct cgroup_arm {
	int parent;           /* owned, as all here; -1: not open */
	int dir;              /* locked */
	int procs;            /* its cgroup.procs */
	unsigned controllers; /* CGROUP_... that it limits */
};

enum { CGROUP_ARMS_MAX = CGROUP_TASKS_MAX, CGROUP_NUMBER_BYTES_MAX = 4096 };

/* How a version does what both do. */
struct cgroup_kind {
	int version;
	/* The directories to make groups in, and for which controllers. Returns how many; 0 with a
	 * reason. */
	size_t (*parents)(struct cgroup_arm arms[static CGROUP_ARMS_MAX], struct err *err);
	/* Writes the limits that this arm has the controller for. */
	int (*limit)(const struct cgroup_arm *arm, const struct cgroup_limits *limits,
		     struct err *err);
	/* The file with a count, and the word that stands before it ("": none); NULL: this arm has
	 * none. *per_us: so many of it are one microsecond (or unit). */
	const char *(*counter)(const struct cgroup_arm *arm, enum cgroup_count count,
			       const char **word, uint64_t *per_us);
};

extern const struct cgroup_kind CGROUP_KIND_V1, CGROUP_KIND_V2;

/* The arms of a group: how many. */
size_t cgroup_arms(const struct cgroup *group, const struct cgroup_arm **arms);

/* Writes a text to a file of the arm. 0, or -1 with errno. */
int cgroup_write(int dir, const char *file, const char *text);
int cgroup_write_number(int dir, const char *file, uint64_t number);

/* Appends what is in a file of the directory. 0, or -1. */
int cgroup_read_file(int dir, const char *file, struct buf *out);

/* Opens a group's directory below a mount. -1 with errno. */
int cgroup_open(const char *mount, const char *path);

#endif
