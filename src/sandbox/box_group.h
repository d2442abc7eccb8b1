/*
 * The control group of a box, and what is done where there is none: reading what its processes use.
 *
 * Part of box.c. Where the kernel lets a task join by itself (cgroup.h), the init does so when it
 * is ready, and a guest before it is let go; whether it has, is looked at. Else the init is moved
 * in with the first guest, or before the first program that it starts, whichever comes first: one
 * move costs as much as many.
 */
#ifndef FH_SANDBOX_BOX_GROUP_H
#define FH_SANDBOX_BOX_GROUP_H

#include "sandbox/box.h"
#include "sandbox/cgroup.h"

enum { BOX_GROUP_STORES = 2 };

struct box_group {
	struct cgroup *group; /* NULL: none can be made here */
	bool lost;            /* the group is there, but the guest could not be moved into it */
	bool init_moved;
	int tasks[CGROUP_TASKS_MAX]; /* owned: to join by, tasks_count of them; 0: no such way */
	size_t tasks_count;
	bool for_guests; /* ... and they move nothing but tasks of this box, whoever has them */
	pid_t init;      /* host pids; 0: not yet */
	pid_t guest;     /* the last one that came from outside */
	uint64_t memory_bytes_max;
	int stores[BOX_GROUP_STORES]; /* owned: the box's /tmp and /dev/shm, or -1 */
	struct err why;               /* there is none, or it is lost */
	/* Somebody else has the group, and does what is asked (box_elsewhere.h); NULL: we do */
	const struct box_elsewhere *elsewhere;
	void *elsewhere_data;
	const char *how[BOX_LIMITS]; /* of that one; constant, or NULL */
};

#define BOX_GROUP_INIT \
	{ \
		.group = NULL, .lost = false, .init_moved = false, .tasks_count = 0, .init = 0, \
		.guest = 0, .memory_bytes_max = 0, .stores = {-1, -1}, .why = ERR_INIT, \
		.elsewhere = NULL \
	}

/* Makes the group if one can be made. `uid` is the box's own, 0: it has the caller's. */
void box_group_open(struct box_group *group, const struct policy *policy, uid_t uid);
void box_group_close(struct box_group *group);

/* Once the init's own root is in place, before it is sealed and before anything foreign runs: takes
 * hold of the file systems in it that are memory, for box_group_read(). One that cannot be had is
 * not counted. */
void box_group_open_stores(struct box_group *group);

/* Before anything foreign runs: the init, whose pid has been set by now; a guest and what it has
 * forked. ERR_GONE when the guest has ended, ERR_LIMIT when it forks faster than it can be moved.
 * Where moving is not allowed the group is lost, and that is no error. */
int box_group_move_init(struct box_group *group, struct err *err);
int box_group_move(struct box_group *group, pid_t guest, struct err *err);

/* Whether the group limits by this controller. */
bool box_group_holds(const struct box_group *group, enum cgroup_controller controller);

/* As box_limit_how(). */
const char *box_group_how(const struct box_group *group, enum box_limit limit);

void box_group_read(const struct box_group *group, struct box_usage *usage);
int box_group_change(struct box_group *group, const struct policy *policy, struct err *err);

#endif
