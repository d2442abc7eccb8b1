/*
 * Making, locking, moving in, counting, removing: what both versions do alike.
 *
 * Between mkdir(2) and flock(2) a sweeper can have taken the directory for a dead keeper's. So a
 * group is ours only if the lock was to be had and a file in it is still there afterwards; else
 * another is made.
 */
#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/cgroup_arm.h"
#include "sandbox/cgroup_find.h"

#define NAME_PREFIX "fumehood-"

enum {
	NAME_SIZE = 32,
	NAME_DIGITS = 16,
	MAKE_TRIES_MAX = 8,
	REMOVE_TRIES_MAX = 400,
	REMOVE_WAIT_NS = 5000000,
	SWEEP_DEPTH_MAX = 16,
};

struct counter {
	int fd; /* -1: it is not counted here */
	const char *word;
	uint64_t per_us;
};

struct cgroup {
	const struct cgroup_kind *kind;
	struct cgroup_arm arms[CGROUP_ARMS_MAX];
	size_t arm_count;
	struct counter counters[COUNTS];
	char name[NAME_SIZE];
};

/* --- files ------------------------------------------------------------------------------------ */

int cgroup_write(int dir, const char *file, const char *text)
{
	cleanup_fd int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);
	ssize_t put;

	if (fd < 0)
		return -1;
	do
		put = write(fd, text, len);
	while (put < 0 && errno == EINTR);
	return put == (ssize_t)len ? 0 : -1;
}

int cgroup_write_number(int dir, const char *file, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return cgroup_write(dir, file, text);
}

int cgroup_read_file(int dir, const char *file, struct buf *out)
{
	cleanup_fd int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0) {
		got = read(fd, buf_reserve(out, CGROUP_NUMBER_BYTES_MAX), CGROUP_NUMBER_BYTES_MAX);
		if (got > 0)
			buf_added(out, (size_t)got);
	}
	return got < 0 ? -1 : 0;
}

int cgroup_open(const char *mount, const char *path)
{
	cleanup_free char *whole = mem_format("%s%s", mount, path);

	return open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* --- making ----------------------------------------------------------------------------------- */

/* -1 with errno: EWOULDBLOCK when a sweeper was faster. */
static int make_arm(struct cgroup_arm *arm, const char *name)
{
	/* Others may not open it, and so not lock it. */
	if (mkdirat(arm->parent, name, 0700) < 0)
		return -1;
	arm->dir = openat(arm->parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (arm->dir < 0) {
		if (errno == ENOENT)
			errno = EWOULDBLOCK;
		return -1;
	}
	if (flock(arm->dir, LOCK_EX | LOCK_NB) < 0)
		return -1;
	arm->procs = openat(arm->dir, "cgroup.procs", O_RDWR | O_CLOEXEC);
	if (arm->procs >= 0)
		return 0;
	if (errno == ENOENT || errno == ENODEV)
		errno = EWOULDBLOCK;
	return -1;
}

static void drop_arm(struct cgroup_arm *arm, const char *name)
{
	int *const fds[] = {&arm->procs, &arm->dir};

	for (size_t i = 0; i < 2; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	(void)unlinkat(arm->parent, name, AT_REMOVEDIR);
}

static int make_name(struct cgroup *group)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -1;
	snprintf(group->name, sizeof(group->name), NAME_PREFIX "%0*" PRIx64, NAME_DIGITS, number);
	return 0;
}

static int make_arms(struct cgroup *group)
{
	if (make_name(group) < 0)
		return -1;
	for (size_t i = 0; i < group->arm_count; i++) {
		if (make_arm(&group->arms[i], group->name) < 0) {
			int sys = errno;

			for (size_t j = 0; j <= i; j++)
				drop_arm(&group->arms[j], group->name);
			errno = sys;
			return -1;
		}
	}
	return 0;
}

static void open_counters(struct cgroup *group)
{
	for (size_t i = 0; i < COUNTS; i++) {
		struct counter *counter = &group->counters[i];

		counter->fd = -1;
		for (size_t arm = 0; arm < group->arm_count && counter->fd < 0; arm++) {
			const char *file =
				group->kind->counter(&group->arms[arm], (enum cgroup_count)i,
						     &counter->word, &counter->per_us);

			if (file)
				counter->fd =
					openat(group->arms[arm].dir, file, O_RDONLY | O_CLOEXEC);
		}
	}
}

static int make_group(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	int made = -1;

	for (int tries = 0; made < 0 && tries < MAKE_TRIES_MAX; tries++) {
		made = make_arms(group);
		if (made < 0 && errno != EWOULDBLOCK)
			break;
	}
	if (made < 0)
		return err_set(err, ERR_UNSUPPORTED, "a group of version %d cannot be made: %s",
			       group->kind->version, strerror(errno));
	for (size_t i = 0; i < group->arm_count; i++) {
		struct err why = ERR_INIT;

		if (group->kind->limit(&group->arms[i], limits, &why) < 0)
			return err_set(err, ERR_UNSUPPORTED, "%.200s", why.text);
	}
	open_counters(group);
	return 0;
}

static struct cgroup *make_kind(const struct cgroup_kind *kind, const struct cgroup_limits *limits,
				struct err *err)
{
	struct cgroup *group = mem_zalloc(sizeof(*group));

	group->kind = kind;
	for (size_t i = 0; i < COUNTS; i++)
		group->counters[i].fd = -1;
	group->arm_count = kind->parents(group->arms, err);
	if (group->arm_count == 0 || make_group(group, limits, err) < 0) {
		cgroup_free(group);
		return NULL;
	}
	return group;
}

struct cgroup *cgroup_new(const struct cgroup_limits *limits, struct err *err)
{
	struct err newer = ERR_INIT, older = ERR_INIT;
	struct cgroup *group = make_kind(&CGROUP_KIND_V2, limits, &newer);

	if (!group)
		group = make_kind(&CGROUP_KIND_V1, limits, &older);
	if (!group)
		err_set(err, ERR_UNSUPPORTED, "%.110s; version 1: %.110s", newer.text, older.text);
	return group;
}

int cgroup_version(const struct cgroup *group)
{
	return group->kind->version;
}

const char *cgroup_name(const struct cgroup *group)
{
	return group->name;
}

size_t cgroup_arms(const struct cgroup *group, const struct cgroup_arm **arms)
{
	*arms = group->arms;
	return group->arm_count;
}

unsigned cgroup_controllers(const struct cgroup *group)
{
	unsigned set = 0;

	for (size_t i = 0; i < group->arm_count; i++)
		set |= group->arms[i].controllers;
	return set;
}

/* --- use -------------------------------------------------------------------------------------- */

int cgroup_add(struct cgroup *group, pid_t pid, struct err *err)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", (int)pid);

	for (size_t i = 0; i < group->arm_count; i++) {
		ssize_t put;

		do
			put = write(group->arms[i].procs, text, (size_t)len);
		while (put < 0 && errno == EINTR);
		if (put < 0 && errno == ESRCH)
			return err_set(err, ERR_GONE, "process %d is gone", (int)pid);
		if (put != len)
			return err_sys(err, "process %d cannot be moved into a control group",
				       (int)pid);
	}
	return 0;
}

bool cgroup_has(const struct cgroup *group, pid_t pid)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *path = mem_format("/proc/%d/cgroup", (int)pid);
	/* A name of ours is no one else's. */
	cleanup_free char *end = mem_format("/%s\n", group->name);
	size_t found = 0;

	if (cgroup_read_file(AT_FDCWD, path, &text) < 0)
		return false;
	for (const char *at = strstr(buf_bytes(&text), end); at; at = strstr(at + 1, end))
		found++;
	return found == group->arm_count;
}

int cgroup_change(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	int result = 0;

	for (size_t i = 0; i < group->arm_count; i++)
		if (group->kind->limit(&group->arms[i], limits, err) < 0)
			result = -1;
	return result;
}

static uint64_t read_counter(const struct counter *counter)
{
	char text[CGROUP_NUMBER_BYTES_MAX];
	const char *at = text;
	ssize_t got = counter->fd < 0 ? -1 : pread(counter->fd, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return 0;
	text[got] = '\0';
	/* "oom_kill " must not be found in "group_oom_kill ": the word begins a line. */
	while (at && strncmp(at, counter->word, strlen(counter->word)) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoull(at + strlen(counter->word), NULL, 10) / counter->per_us : 0;
}

void cgroup_read(const struct cgroup *group, struct cgroup_usage *usage)
{
	*usage = (struct cgroup_usage){
		.memory_bytes = read_counter(&group->counters[COUNT_MEMORY]),
		.memory_peak_bytes = read_counter(&group->counters[COUNT_PEAK]),
		.memory_kills = read_counter(&group->counters[COUNT_KILLS]),
		.refusals = read_counter(&group->counters[COUNT_REFUSALS]),
		.cpu_us = read_counter(&group->counters[COUNT_CPU]),
	};
}

uint64_t cgroup_memory(const struct cgroup *group)
{
	return read_counter(&group->counters[COUNT_MEMORY]);
}

/* --- removing --------------------------------------------------------------------------------- */

static void kill_members(int dir)
{
	cleanup_buf struct buf pids = BUF_INIT;

	if (cgroup_write(dir, "cgroup.kill", "1") == 0 ||
	    cgroup_read_file(dir, "cgroup.procs", &pids) < 0)
		return;
	for (const char *at = buf_bytes(&pids); *at;) {
		char *end;
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		if (pid > 1) /* 0: of another's pid namespace */
			kill((pid_t)pid, SIGKILL);
		at = end + (*end == '\n');
	}
}

/* A process that has ended is a member until the kernel has let go of it. */
static bool remove_group(int parent, int dir, const char *name, int tries)
{
	const struct timespec wait = {.tv_nsec = REMOVE_WAIT_NS};

	for (int i = 0; i < tries; i++) {
		if (i > 0) {
			kill_members(dir);
			nanosleep(&wait, NULL);
		}
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return true;
		if (errno != EBUSY)
			return false;
	}
	return false;
}

static void close_all(struct cgroup *group)
{
	for (size_t i = 0; i < COUNTS; i++)
		if (group->counters[i].fd >= 0)
			close(group->counters[i].fd);
	for (size_t i = 0; i < group->arm_count; i++) {
		int fds[] = {group->arms[i].procs, group->arms[i].dir, group->arms[i].parent};

		for (size_t j = 0; j < 3; j++)
			if (fds[j] >= 0)
				close(fds[j]);
	}
}

void cgroup_free(struct cgroup *group)
{
	if (!group)
		return;
	for (size_t i = 0; i < group->arm_count; i++)
		if (group->arms[i].dir >= 0)
			(void)remove_group(group->arms[i].parent, group->arms[i].dir, group->name,
					   REMOVE_TRIES_MAX);
	close_all(group);
	free(group);
}

/* --- what dead keepers have left -------------------------------------------------------------- */

static bool is_our_name(const char *name)
{
	size_t len = strlen(NAME_PREFIX);

	return strncmp(name, NAME_PREFIX, len) == 0 &&
	       strspn(name + len, "0123456789abcdef") == NAME_DIGITS &&
	       strlen(name) == len + NAME_DIGITS;
}

/* What is in it may still be dying: then it is for the next one. */
static bool sweep_one(int parent, const char *name)
{
	cleanup_fd int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
		return false;
	return remove_group(parent, dir, name, 2);
}

static unsigned sweep_in(int parent, int depth)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	unsigned count = 0;

	if (!dir && fd >= 0)
		close(fd);
	for (struct dirent *item; dir && (item = readdir(dir));) {
		cleanup_fd int below = -1;

		if (item->d_type != DT_DIR || item->d_name[0] == '.')
			continue;
		if (is_our_name(item->d_name)) {
			count += sweep_one(parent, item->d_name);
			continue;
		}
		below = depth > 0 ? openat(parent, item->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
				  : -1;
		if (below >= 0)
			count += sweep_in(below, depth - 1);
	}
	if (dir)
		closedir(dir);
	return count;
}

/* A group has a directory in each hierarchy of version 1: it is counted once. */
unsigned cgroup_sweep_beside(const struct cgroup *group)
{
	unsigned most = 0;

	for (size_t i = 0; i < group->arm_count; i++) {
		unsigned count = sweep_in(group->arms[i].parent, 0);

		most = count > most ? count : most;
	}
	return most;
}

unsigned cgroup_sweep_all(void)
{
	static const char *const controllers[] = {"", "memory", "pids", "cpu", "cpuacct"};
	unsigned most = 0;

	for (size_t i = 0; i < sizeof(controllers) / sizeof(*controllers); i++) {
		cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;
		cleanup_fd int dir = -1;
		unsigned count;

		if (!cgroup_place_find(controllers[i], &place))
			continue;
		dir = cgroup_open(place.mount, "");
		count = dir < 0 ? 0 : sweep_in(dir, SWEEP_DEPTH_MAX);
		most = count > most ? count : most;
	}
	return most;
}

bool cgroup_try(struct buf *detail)
{
	const struct cgroup_limits limits = {.memory_bytes = UINT64_C(1) << 30, .processes = 100};
	struct err err = ERR_INIT;
	struct cgroup *group = cgroup_new(&limits, &err);
	unsigned set;

	if (!group) {
		buf_append_string(detail, err.text);
		return false;
	}
	set = cgroup_controllers(group);
	buf_printf(detail, "version %d: sessions get groups with limits of memory%s%s",
		   cgroup_version(group), set & CGROUP_PIDS ? ", processes" : "",
		   set & CGROUP_CPU ? ", processors" : "");
	cgroup_free(group);
	return true;
}
