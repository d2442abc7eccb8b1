/*
 * The nursery: what a zygote may see and reach.
 *
 * A zygote imports the packages of an environment, and whatever they (and .pth files) do while they
 * are imported runs in it. It holds no session's data, but without walls it could read the user's
 * home, reach the network, and signal the user's processes. So it lives in six namespaces of its
 * own (user, mount, net, ipc, uts, cgroup): its root has the system directories and the
 * environment, read-only, and a private /tmp; its network has only its own loopback. It has no
 * capability, and the filter of a session less setns(2).
 *
 * Not in a pid namespace of its own: the pid namespaces of the boxes, which its guests enter, would
 * have to descend from it, and would all die with it. Instead Landlock keeps its signals and its
 * abstract sockets to itself (ABI 6), and of /proc it has its own directory and what says nothing
 * about others.
 *
 * Its guests enter boxes by setns(2), for which the boxes' user namespaces must be children of the
 * nursery's: so each keeper is given that one (host.family). doc/decisions has the figures.
 */
#ifndef FH_SANDBOX_NURSERY_H
#define FH_SANDBOX_NURSERY_H

#include <stddef.h>

#include "base/child.h"
#include "base/err.h"
#include "sandbox/uids.h"

struct nursery_params {
	const char *const *read; /* as in struct policy: what is visible beyond the system */
	const char *path;        /* the program, absolute */
	const char *const *argv, *const *envp;
	const int *fds; /* fds[i] becomes descriptor i; -1: /dev/null */
	size_t fd_count;
};

struct nursery {
	struct child child;     /* the program, a child of ours with SIGCHLD; owned */
	int user_ns;            /* owned */
	struct uid_lease lease; /* when root has started it */
	int landlock_abi;
};

#define NURSERY_INIT \
	{ \
		.child = {.pid = -1, .pidfd = -1}, .user_ns = -1, .lease = UID_LEASE_INIT, \
		.landlock_abi = 0 \
	}

/* Starts the program in a nursery. ERR_SANDBOX, with the step and the cure, where none can be
 * built; ERR_ENGINE when the program cannot be executed. */
int nursery_start(struct nursery *nursery, const struct nursery_params *params, struct err *err);

/* Closes what is left; the child must have been waited for (child_wait). */
void nursery_release(struct nursery *nursery);

/* For a keeper: makes the boxes of *host children of the nursery (`user_ns`, borrowed, stays in
 * *host). To be called when box_uid is settled. */
struct host;
int nursery_adopt(struct host *host, int user_ns, struct err *err);

#endif
