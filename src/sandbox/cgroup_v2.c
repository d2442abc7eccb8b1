/*
 * Version 2: one hierarchy, in which a group hands on the controllers named in its
 * cgroup.subtree_control, and one that hands on any may hold no processes itself ("no internal
 * processes"). So our own group, which we are in, is seldom the one to make others in.
 *
 * Tried in this order: our own group; if it was delegated to us (systemd says so by an attribute),
 * after its processes have been moved to a group beneath it; then those above it, where they hand
 * on memory already. Nothing is changed in a group that is not ours: systemd is its only writer.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/cgroup_arm.h"

enum { CPU_PERIOD_US = 100000, CPU_QUOTA_US_MIN = 1000 };

/* Where processes of a delegated group go. */
#define LEAF "fumehood-processes"

static const struct {
	const char *name;
	unsigned controllers;
} CONTROLLERS[] = {
	{"memory", CGROUP_MEMORY},
	{"pids", CGROUP_PIDS},
	{"cpu", CGROUP_CPU},
};

enum { CONTROLLER_COUNT = sizeof(CONTROLLERS) / sizeof(*CONTROLLERS) };

/* The set of ours that a file lists. What processors were used for is counted without any. */
static unsigned listed(int dir, const char *file)
{
	cleanup_buf struct buf text = BUF_INIT;
	unsigned set = 0;

	if (cgroup_read_file(dir, file, &text) < 0)
		return 0;
	for (size_t i = 0; i < CONTROLLER_COUNT; i++)
		if (cgroup_has_word(buf_bytes(&text), CONTROLLERS[i].name))
			set |= CONTROLLERS[i].controllers;
	return set;
}

/* Lets the group hand on what it has. */
static void hand_on(int dir)
{
	unsigned missing =
		listed(dir, "cgroup.controllers") & ~listed(dir, "cgroup.subtree_control");

	for (size_t i = 0; i < CONTROLLER_COUNT; i++) {
		char word[16];

		if (!(missing & CONTROLLERS[i].controllers))
			continue;
		snprintf(word, sizeof(word), "+%s", CONTROLLERS[i].name);
		(void)cgroup_write(dir, "cgroup.subtree_control", word);
	}
}

static bool is_delegated(int dir)
{
	static const char *const names[] = {"user.delegate", "trusted.delegate"};
	char value[4];

	for (size_t i = 0; i < 2; i++)
		if (fgetxattr(dir, names[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return false;
}

/* Moves all that is in the group to one beneath it. */
static void make_room(int dir)
{
	cleanup_buf struct buf pids = BUF_INIT;
	cleanup_fd int leaf = -1;

	if (mkdirat(dir, LEAF, 0755) < 0 && errno != EEXIST)
		return;
	leaf = openat(dir, LEAF, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0 || cgroup_read_file(dir, "cgroup.procs", &pids) < 0)
		return;
	for (const char *at = buf_bytes(&pids); *at;) {
		char *end;
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		/* One that has ended, or is of another's pid namespace, is not there to move. */
		if (pid > 0)
			(void)cgroup_write_number(leaf, "cgroup.procs", (uint64_t)pid);
		at = end + (*end == '\n');
	}
}

/* What the groups made in `dir` could be limited by. */
static unsigned usable(int dir, bool own)
{
	if (faccessat(dir, ".", W_OK, AT_EACCESS) < 0)
		return 0;
	if (own)
		hand_on(dir);
	if (own && !(listed(dir, "cgroup.subtree_control") & CGROUP_MEMORY) && is_delegated(dir)) {
		make_room(dir);
		hand_on(dir);
	}
	return listed(dir, "cgroup.subtree_control");
}

/* Whether a file of limits has one, or what is not "max" for all that we know. */
static bool is_limit(int dir, const char *file)
{
	cleanup_buf struct buf text = BUF_INIT;

	return cgroup_read_file(dir, file, &text) == 0 && text.len > 0 &&
	       strncmp(buf_bytes(&text), "max", 3) != 0;
}

/* Whoever has put this group, and us in it, under a limit means our sessions as well: they must not
 * be taken out of it. Not pids.max: systemd sets that for every unit, and sessions have their own.
 */
static bool is_limited(int dir)
{
	static const char *const files[] = {"memory.max", "memory.high", "memory.swap.max",
					    "cpu.max"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (is_limit(dir, files[i]))
			return true;
	return false;
}

static size_t v2_parents(struct cgroup_arm arms[static CGROUP_ARMS_MAX], struct err *err)
{
	cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;

	if (!cgroup_place_find("", &place)) {
		err_set(err, ERR_UNSUPPORTED, "no hierarchy of version 2 is mounted");
		return 0;
	}
	for (bool own = true;; own = false) {
		cleanup_fd int dir = cgroup_open(place.mount, place.path);
		char *slash = strrchr(place.path, '/');
		unsigned set = dir < 0 ? 0 : usable(dir, own);

		if (set & CGROUP_MEMORY) {
			arms[0] = (struct cgroup_arm){.parent = fd_take(&dir),
						      .dir = -1,
						      .procs = -1,
						      .controllers = set | CGROUP_CPUACCT};
			return 1;
		}
		if (!slash)
			break;
		if (dir >= 0 && is_limited(dir)) {
			err_set(err, ERR_UNSUPPORTED,
				"version 2: our group %.40s has limits, which sessions must not "
				"leave, and is not delegated",
				slash + 1);
			return 0;
		}
		*slash = '\0';
	}
	err_set(err, ERR_UNSUPPORTED,
		"version 2: no group that we may write to has memory limits for others");
	return 0;
}

static int limit_cpus(int dir, double cpus)
{
	double quota = cpus * CPU_PERIOD_US;
	char text[64];

	if (cpus <= 0)
		return cgroup_write(dir, "cpu.max", "max");
	snprintf(text, sizeof(text), "%" PRIu64 " %d",
		 (uint64_t)(quota < CPU_QUOTA_US_MIN ? CPU_QUOTA_US_MIN : quota), CPU_PERIOD_US);
	return cgroup_write(dir, "cpu.max", text);
}

static int write_limit(int dir, const char *file, uint64_t value)
{
	return value ? cgroup_write_number(dir, file, value) : cgroup_write(dir, file, "max");
}

static int v2_limit(const struct cgroup_arm *arm, const struct cgroup_limits *limits,
		    struct err *err)
{
	if ((arm->controllers & CGROUP_MEMORY) &&
	    write_limit(arm->dir, "memory.max", limits->memory_bytes) < 0)
		return err_sys(err, "memory limit of a control group");
	/* Where swap is not counted there is no such file. */
	if (arm->controllers & CGROUP_MEMORY)
		(void)cgroup_write(arm->dir, "memory.swap.max",
				   limits->memory_bytes && !limits->swap ? "0" : "max");
	if ((arm->controllers & CGROUP_PIDS) &&
	    write_limit(arm->dir, "pids.max", limits->processes) < 0)
		return err_sys(err, "process limit of a control group");
	if ((arm->controllers & CGROUP_CPU) && limit_cpus(arm->dir, limits->cpus) < 0)
		return err_sys(err, "processor limit of a control group");
	return 0;
}

static const char *v2_counter(const struct cgroup_arm *arm, enum cgroup_count count,
			      const char **word, uint64_t *per_us)
{
	static const struct {
		enum cgroup_controller controller;
		const char *file, *word;
	} files[COUNTS] = {
		[COUNT_MEMORY] = {CGROUP_MEMORY, "memory.current", ""},
		[COUNT_PEAK] = {CGROUP_MEMORY, "memory.peak", ""},
		[COUNT_KILLS] = {CGROUP_MEMORY, "memory.events", "oom_kill "},
		[COUNT_REFUSALS] = {CGROUP_PIDS, "pids.events", "max "},
		[COUNT_CPU] = {CGROUP_CPUACCT, "cpu.stat", "usage_usec "},
	};

	*word = files[count].word;
	*per_us = 1;
	return arm->controllers & (unsigned)files[count].controller ? files[count].file : NULL;
}

const struct cgroup_kind CGROUP_KIND_V2 = {
	.version = 2, .parents = v2_parents, .limit = v2_limit, .counter = v2_counter};
