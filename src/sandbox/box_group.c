/*
 * A guest was forked from a zygote outside, so it begins in the zygote's group. Code that ran at
 * import may have left a handler that forks in each new guest; so after the guest is in the group,
 * all that descends from it or from the init is looked for and moved, until a round finds all of
 * them inside. From then on the kernel puts every child where its parent is.
 *
 * Where nothing counts but we, what lies in the box's own /tmp and /dev/shm is asked of these file
 * systems, by descriptors from before the seal: no process has to live, or be dumpable, for that.
 */
#include "sandbox/box_group.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/box_elsewhere.h"
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

/* A zygote gets descriptors only if they are good for nothing but this box: those of an ordinary
 * user would move all that this user runs. */
static void open_tasks(struct box_group *group, uid_t uid)
{
	group->for_guests = uid != 0;
	if (cgroup_open_tasks(group->group, uid ? uid : geteuid(), group->tasks,
			      &group->tasks_count, NULL) < 0 ||
	    !group->for_guests)
		cgroup_prepare();
}

void box_group_open(struct box_group *group, const struct policy *policy, uid_t uid)
{
	struct cgroup_limits limits = limits_of(policy);

	group->memory_bytes_max = policy->memory_bytes_max;
	group->group = cgroup_new(&limits, &group->why);
	if (!group->group)
		return;
	cgroup_sweep_beside(group->group);
	open_tasks(group, uid);
}

void box_group_close(struct box_group *group)
{
	for (size_t i = 0; i < BOX_GROUP_STORES; i++)
		if (group->stores[i] >= 0)
			close(group->stores[i]);
	for (size_t i = 0; i < group->tasks_count; i++)
		close(group->tasks[i]);
	cgroup_free(group->group);
	*group = (struct box_group)BOX_GROUP_INIT;
}

/* -1 unless it is memory, and not what is there outside, which a policy may have let in. */
static int open_store(pid_t init, const char *folder)
{
	char path[64];
	cleanup_fd int fd = -1;
	struct statfs fs;
	struct stat inside, outside;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)init, folder);
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC || fstat(fd, &inside) < 0 ||
	    (stat(folder, &outside) == 0 && outside.st_dev == inside.st_dev))
		return -1;
	return fd_take(&fd);
}

void box_group_open_stores(struct box_group *group)
{
	static const char *const folders[BOX_GROUP_STORES] = {"/tmp", "/dev/shm"};

	for (size_t i = 0; i < BOX_GROUP_STORES; i++)
		group->stores[i] = open_store(group->init, folders[i]);
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
	/* One that was born inside is where its parent is, and so is all that it forks. */
	if (!group->group || group->lost || cgroup_has(group->group, guest))
		return 0;
	if (box_group_move_init(group, err) < 0 || group->lost ||
	    (!cgroup_has(group->group, guest) && move(group, guest, err) < 0))
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

const char *box_group_how(const struct box_group *group, enum box_limit limit)
{
	static const enum cgroup_controller controllers[BOX_LIMITS] = {[BOX_MEMORY] = CGROUP_MEMORY,
								       [BOX_PROCESSES] =
									       CGROUP_PIDS,
								       [BOX_CPUS] = CGROUP_CPU};

	if (group->elsewhere)
		return group->how[limit];
	if (!box_group_holds(group, controllers[limit]))
		return NULL;
	return cgroup_version(group->group) == 2 ? "hard: cgroup v2" : "hard: cgroup v1";
}

static uint64_t stored_bytes(const struct box_group *group)
{
	uint64_t bytes = 0;
	struct statfs fs;

	for (size_t i = 0; i < BOX_GROUP_STORES; i++)
		if (group->stores[i] >= 0 && fstatfs(group->stores[i], &fs) == 0)
			bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	return bytes;
}

static void poll_members(const struct box_group *group, struct box_usage *usage)
{
	cleanup_members struct members members = MEMBERS_INIT;
	const pid_t roots[] = {group->init, group->guest};
	struct members_usage used;

	members_find(&members, roots, 2);
	members_read(&members, stored_bytes(group), group->memory_bytes_max, &used);
	*usage = (struct box_usage){.memory_bytes = used.memory_bytes, .cpu_us = used.cpu_us};
}

void box_group_read(const struct box_group *group, struct box_usage *usage)
{
	bool counts_memory = box_group_holds(group, CGROUP_MEMORY);
	bool counts_cpu = box_group_holds(group, CGROUP_CPUACCT);
	struct cgroup_usage used = {.memory_bytes = 0};

	*usage = (struct box_usage){.memory_bytes = 0};
	if (group->elsewhere) {
		group->elsewhere->read_usage(group->elsewhere_data, usage);
		return;
	}
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
	if (group->elsewhere)
		return group->elsewhere->change_limits(group->elsewhere_data, policy, err);
	return group->group ? cgroup_change(group->group, &limits, err) : 0;
}
