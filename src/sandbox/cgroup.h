/*
 * Control groups: limits that the kernel enforces for a box as a whole, cgroups(7).
 *
 * A group "fumehood-<random>" is made below the one that this process is in, so that a limit round
 * Fumehood (a container's, a service's) stays one round its sessions: of version 2 where its
 * controllers are there and delegated to us, else of version 1, where it has a directory in each
 * hierarchy. What is possible is found by doing it.
 *
 * Processes are moved in: init and guest, before either runs anything foreign; what they start is
 * then in it as well. To be moved by another process takes 5 to 15 ms (the kernel waits for a grace
 * period of RCU, measured on Linux 6.18), those that follow at once 0.03 ms each. A task of one
 * thread that moves itself in version 1 waits for nothing (0.1 ms for the first): cgroup_join.c.
 *
 * A group is its keeper's as long as that holds a flock(2) on its directory. Whoever meets one that
 * is not locked removes it.
 *
 * memory.oom.group is left off: it would kill the init of the box with the guest, and one day the
 * checkpoints. The kernel takes the largest process, and the others are told of.
 */
#ifndef FH_SANDBOX_CGROUP_H
#define FH_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum cgroup_controller {
	CGROUP_MEMORY = 1,
	CGROUP_PIDS = 2,
	CGROUP_CPU = 4,     /* how much at a time */
	CGROUP_CPUACCT = 8, /* how much was used */
};

struct cgroup_limits {
	uint64_t memory_bytes; /* 0 anywhere: no limit */
	bool swap;             /* what exceeds it may be swapped out */
	uint64_t processes;    /* threads count */
	double cpus;
};

struct cgroup_usage {
	uint64_t memory_bytes; /* with the page cache of its files and what lies in its tmpfs */
	uint64_t memory_peak_bytes;
	uint64_t memory_kills; /* processes killed for want of memory */
	uint64_t refusals;     /* times that no process or thread could be made */
	uint64_t cpu_us;
};

struct cgroup; /* opaque */

enum { CGROUP_TASKS_MAX = 4 };

/* Opens the files through which a task of one thread joins the group by writing "0" to each,
 * without the wait. They move nothing but tasks of `uid`, whoever holds them: not 0 when we are
 * root, else our own. *count of them, owned by the caller. ERR_UNSUPPORTED where there is no such
 * way: version 2, and root without CAP_SETPCAP. */
int cgroup_open_tasks(const struct cgroup *group, uid_t uid, int fds[static CGROUP_TASKS_MAX],
		      size_t *count, struct err *err);

/* Lets the wait begin now, in a thread of its own: a move made within some 15 ms of its end takes
 * no time (measured on Linux 6.18: 6 to 8 ms for the first, 0.05 ms for a second up to 15 ms
 * later). To be called when somebody will have to be moved soon, and when the group has been made:
 * meanwhile the kernel makes no other. Changes nothing; a failure is of no consequence. */
void cgroup_prepare(void);

/* Makes a group with these limits. NULL and ERR_UNSUPPORTED with the reason where memory cannot be
 * limited. */
struct cgroup *cgroup_new(const struct cgroup_limits *limits, struct err *err);

/* Kills what is still in it and removes it; waits for at most two seconds, after which the next
 * sweep will find it. NULL is fine. */
void cgroup_free(struct cgroup *group);

int cgroup_version(const struct cgroup *group);          /* 1 or 2 */
unsigned cgroup_controllers(const struct cgroup *group); /* a set of CGROUP_... */
const char *cgroup_name(const struct cgroup *group);     /* of its directory */

/* Moves a process into it, with all its threads. ERR_GONE when there is none of this pid,
 * ERR_DENIED when the kernel does not let us take it from where it is. */
int cgroup_add(struct cgroup *group, pid_t pid, struct err *err);

/* Whether the process is in the group in all hierarchies; false also when it is gone. */
bool cgroup_has(const struct cgroup *group, pid_t pid);

/* Puts other limits in force. ERR_BUSY when more memory is used than the new limit (version 1):
 * then the old one stays. */
int cgroup_change(struct cgroup *group, const struct cgroup_limits *limits, struct err *err);

/* Reads the counters, through descriptors that are kept open: about 3 us each. What cannot be read
 * is 0. */
void cgroup_read(const struct cgroup *group, struct cgroup_usage *usage);
uint64_t cgroup_memory(const struct cgroup *group); /* only memory_bytes */

/* Removes the groups beside this one whose keepers are dead. Returns how many. */
unsigned cgroup_sweep_beside(const struct cgroup *group);

/* As cgroup_sweep_beside(), in all of the hierarchies, as far as this user may. */
unsigned cgroup_sweep_all(void);

/* Appends what cgroup_new() achieves here, or why it does not; for people. */
bool cgroup_try(struct buf *detail);

#endif
