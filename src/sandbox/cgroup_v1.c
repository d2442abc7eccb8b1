/*
 * Version 1: memory, pids, cpu and cpuacct, each with a hierarchy of its own, or two in one.
 *
 * The limit with swap (memsw) may never be below that without, so which of the two is written first
 * depends on whether they grow. Where swap is not counted there is no memsw; then the group is kept
 * from swapping.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/cgroup_arm.h"

enum { CPU_PERIOD_US = 100000, CPU_QUOTA_US_MIN = 1000 };
#define UNLIMITED "-1"

static const struct {
	const char *name;
	enum cgroup_controller controller;
} CONTROLLERS[] = {
	{"memory", CGROUP_MEMORY},
	{"pids", CGROUP_PIDS},
	{"cpu", CGROUP_CPU},
	{"cpuacct", CGROUP_CPUACCT},
};

enum { CONTROLLER_COUNT = sizeof(CONTROLLERS) / sizeof(*CONTROLLERS) };

static_assert((int)CONTROLLER_COUNT <= (int)CGROUP_ARMS_MAX, "an arm for each controller");

/* Two controllers may share a hierarchy: then they share an arm. */
static struct cgroup_arm *arm_of(struct cgroup_arm *arms, size_t *count,
				 char *paths[static CGROUP_ARMS_MAX], char *path)
{
	for (size_t i = 0; i < *count; i++) {
		if (strcmp(paths[i], path) == 0) {
			free(path);
			return &arms[i];
		}
	}
	arms[*count] = (struct cgroup_arm){.parent = cgroup_open(path, ""), .dir = -1, .procs = -1};
	if (arms[*count].parent < 0 || faccessat(arms[*count].parent, ".", W_OK, AT_EACCESS) < 0) {
		int sys = errno;

		if (arms[*count].parent >= 0)
			close(arms[*count].parent);
		free(path);
		errno = sys;
		return NULL;
	}
	paths[*count] = path;
	return &arms[(*count)++];
}

static size_t v1_parents(struct cgroup_arm arms[static CGROUP_ARMS_MAX], struct err *err)
{
	char *paths[CGROUP_ARMS_MAX] = {NULL};
	unsigned found = 0;
	size_t count = 0;

	for (size_t i = 0; i < CONTROLLER_COUNT; i++) {
		cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;
		struct cgroup_arm *arm;

		if (!cgroup_place_find(CONTROLLERS[i].name, &place)) {
			if (CONTROLLERS[i].controller == CGROUP_MEMORY)
				err_set(err, ERR_UNSUPPORTED,
					"no hierarchy with memory limits is mounted");
			continue;
		}
		arm = arm_of(arms, &count, paths, mem_format("%s%s", place.mount, place.path));
		if (arm) {
			arm->controllers |= (unsigned)CONTROLLERS[i].controller;
			found |= (unsigned)CONTROLLERS[i].controller;
		} else if (CONTROLLERS[i].controller == CGROUP_MEMORY) {
			err_set(err, ERR_UNSUPPORTED, "no group can be made in %.100s%.60s: %s",
				place.mount, place.path, strerror(errno));
		}
	}
	for (size_t i = 0; i < count; i++)
		free(paths[i]);
	if (found & CGROUP_MEMORY)
		return count;
	for (size_t i = 0; i < count; i++)
		close(arms[i].parent);
	return 0;
}

static int write_memory(int dir, const char *file, uint64_t bytes)
{
	return bytes ? cgroup_write_number(dir, file, bytes) : cgroup_write(dir, file, UNLIMITED);
}

static int limit_memory(int dir, uint64_t bytes, bool swap, struct err *err)
{
	const char *plain = "memory.limit_in_bytes", *both = "memory.memsw.limit_in_bytes";
	bool has_both = faccessat(dir, both, F_OK, 0) == 0;
	uint64_t bytes_both = swap ? 0 : bytes;
	int result = write_memory(dir, plain, bytes);

	if (result < 0 && errno == EINVAL && has_both && write_memory(dir, both, bytes_both) == 0)
		result = write_memory(dir, plain, bytes);
	if (result == 0 && has_both)
		result = write_memory(dir, both, bytes_both);
	else if (result == 0 && !swap)
		(void)cgroup_write(dir, "memory.swappiness", "0");
	if (result < 0 && errno == EBUSY)
		return err_set(err, ERR_BUSY, "more memory is in use than that");
	return result < 0 ? err_sys(err, "memory limit of a control group") : 0;
}

static int limit_cpus(int dir, double cpus, struct err *err)
{
	double quota = cpus * CPU_PERIOD_US;

	if (cpus <= 0)
		return cgroup_write(dir, "cpu.cfs_quota_us", UNLIMITED) < 0
			       ? err_sys(err, "processor limit of a control group")
			       : 0;
	if (quota < CPU_QUOTA_US_MIN)
		quota = CPU_QUOTA_US_MIN;
	if (cgroup_write_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US) < 0 ||
	    cgroup_write_number(dir, "cpu.cfs_quota_us", (uint64_t)quota) < 0)
		return err_sys(err, "processor limit of a control group");
	return 0;
}

static int v1_limit(const struct cgroup_arm *arm, const struct cgroup_limits *limits,
		    struct err *err)
{
	if ((arm->controllers & CGROUP_MEMORY) &&
	    limit_memory(arm->dir, limits->memory_bytes, limits->swap, err) < 0)
		return -1;
	if ((arm->controllers & CGROUP_CPU) && limit_cpus(arm->dir, limits->cpus, err) < 0)
		return -1;
	if (!(arm->controllers & CGROUP_PIDS))
		return 0;
	return (limits->processes ? cgroup_write_number(arm->dir, "pids.max", limits->processes)
				  : cgroup_write(arm->dir, "pids.max", "max")) < 0
		       ? err_sys(err, "process limit of a control group")
		       : 0;
}

static const char *v1_counter(const struct cgroup_arm *arm, enum cgroup_count count,
			      const char **word, uint64_t *per_us)
{
	static const struct {
		enum cgroup_controller controller;
		const char *file, *word;
		uint64_t per_us;
	} files[COUNTS] = {
		[COUNT_MEMORY] = {CGROUP_MEMORY, "memory.usage_in_bytes", "", 1},
		[COUNT_PEAK] = {CGROUP_MEMORY, "memory.max_usage_in_bytes", "", 1},
		[COUNT_KILLS] = {CGROUP_MEMORY, "memory.oom_control", "oom_kill ", 1},
		[COUNT_REFUSALS] = {CGROUP_PIDS, "pids.events", "max ", 1},
		[COUNT_CPU] = {CGROUP_CPUACCT, "cpuacct.usage", "", 1000},
	};

	*word = files[count].word;
	*per_us = files[count].per_us;
	return arm->controllers & (unsigned)files[count].controller ? files[count].file : NULL;
}

const struct cgroup_kind CGROUP_KIND_V1 = {
	.version = 1, .parents = v1_parents, .limit = v1_limit, .counter = v1_counter};
