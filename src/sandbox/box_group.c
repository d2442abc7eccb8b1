/*
 * A guest was forked from a zygote outside, so it begins in the zygote's group. Code that ran at
 * import may have left a handler that forks in each new guest; so after the guest has been moved,
 * all that descends from it or from the init is looked for and moved, until a round finds all of
 * them inside. From then on the kernel puts every child where its parent is.
 */
#include "sandbox/box_group.h"

#include "sandbox/members.h"

enum { ROUNDS_MAX = 64 };

static struct cgroup_limits limits_of(const struct policy *policy)
{
	return (struct cgroup_limits){
		.memory_bytes = policy->memory_bytes_max,
		.swap = policy->swap,
		.processes = policy->processes_max,
		.cpus = policy->cpus,
	};
}

void box_group_open(struct box_group *group, const struct policy *policy)
{
	struct cgroup_limits limits = limits_of(policy);

	group->memory_bytes_max = policy->memory_bytes_max;
	group->group = cgroup_new(&limits, &group->why);
	if (group->group)
		cgroup_sweep_beside(group->group);
}

void box_group_close(struct box_group *group)
{
	cgroup_free(group->group);
	*group = (struct box_group)BOX_GROUP_INIT;
}

/* Not being let is no error: then the box goes on without. */
static int move(struct box_group *group, pid_t pid, struct err *err)
{
	struct err why = ERR_INIT;

	if (cgroup_add(group->group, pid, &why) == 0)
		return 0;
	if (why.code == ERR_GONE) {
		if (err)
			*err = why;
		return -1;
	}
	group->lost = true;
	group->why = why;
	return 0;
}

int box_group_move_init(struct box_group *group, struct err *err)
{
	if (!group->group || group->lost || group->init_moved)
		return 0;
	group->init_moved = true;
	return move(group, group->init, err);
}

/* Moves those of the box that are outside. Returns how many there were. */
static size_t move_others(struct box_group *group)
{
	cleanup_members struct members members = MEMBERS_INIT;
	const pid_t roots[] = {group->init, group->guest};
	size_t outside = 0;

	members_find(&members, roots, 2);
	for (size_t i = 0; i < members.count; i++) {
		if (members.pids[i] == group->init || members.pids[i] == group->guest ||
		    cgroup_has(group->group, members.pids[i]))
			continue;
		if (move(group, members.pids[i], NULL) == 0)
			outside++;
	}
	return outside;
}

int box_group_move(struct box_group *group, pid_t guest, struct err *err)
{
	group->guest = guest;
	if (!group->group || group->lost)
		return 0;
	if (box_group_move_init(group, err) < 0 || group->lost || move(group, guest, err) < 0)
		return group->lost ? 0 : -1;
	for (int round = 0; !group->lost && move_others(group) > 0; round++)
		if (round == ROUNDS_MAX)
			return err_set(err, ERR_LIMIT,
				       "what is imported forks faster than it can be put under "
				       "the limits of the session");
	return 0;
}

bool box_group_holds(const struct box_group *group, enum cgroup_controller controller)
{
	return group->group && !group->lost &&
	       (cgroup_controllers(group->group) & (unsigned)controller);
}

static void poll_members(const struct box_group *group, struct box_usage *usage)
{
	cleanup_members struct members members = MEMBERS_INIT;
	const pid_t roots[] = {group->init, group->guest};
	struct members_usage used;

	members_find(&members, roots, 2);
	members_read(&members, group->memory_bytes_max, &used);
	*usage = (struct box_usage){.memory_bytes = used.memory_bytes, .cpu_us = used.cpu_us};
}

void box_group_read(const struct box_group *group, struct box_usage *usage)
{
	bool counts_memory = box_group_holds(group, CGROUP_MEMORY);
	bool counts_cpu = box_group_holds(group, CGROUP_CPUACCT);
	struct cgroup_usage used = {.memory_bytes = 0};

	*usage = (struct box_usage){.memory_bytes = 0};
	if (!counts_memory || !counts_cpu)
		poll_members(group, usage);
	if (counts_memory || counts_cpu)
		cgroup_read(group->group, &used);
	if (counts_memory)
		usage->memory_bytes = used.memory_bytes;
	if (counts_cpu)
		usage->cpu_us = used.cpu_us;
	usage->memory_kills = used.memory_kills;
	usage->refusals = used.refusals;
}

int box_group_change(struct box_group *group, const struct policy *policy, struct err *err)
{
	struct cgroup_limits limits = limits_of(policy);

	group->memory_bytes_max = policy->memory_bytes_max;
	return group->group ? cgroup_change(group->group, &limits, err) : 0;
}
