/*
 * Doctor: limits of the user, of the kernel and of the control group.
 *
 * What can be tried is: watches are made, memory is asked for. Of the rest the limit and what is
 * used of it are shown. Use is counted from /proc, where only one's own processes show all, and
 * only those count towards a user's limit.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "cli/doctor_cgroup.h"
#include "sandbox/cgroup.h"

enum {
	FILES_WANTED = 1024, /* what a session's code may open at a time */
	FILES_NEEDED = 32,   /* a keeper with a client */
	TASKS_WANTED = 64,   /* a session with a few threads and children */
	WATCHES_WANTED = 8,  /* each keeper holds one instance of inotify */
	NAMESPACES_WANTED = 64,
	PROC_BYTES_MAX = 1 << 20,
};
#define MEMORY_WANTED ((uint64_t)512 << 20) /* Python with pandas and matplotlib, and some data */

/* --- what this user uses ---------------------------------------------------------------------- */

struct use {
	uint64_t tasks, instances, watches;
};

static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void count_watches(int process, const char *fd, struct use *use)
{
	cleanup_free char *path = mem_format("fdinfo/%s", fd);
	cleanup_buf struct buf info = BUF_INIT;

	use->instances++;
	if (file_read(process, path, PROC_BYTES_MAX, &info, NULL) != 0)
		return;
	for (const char *at = buf_bytes(&info); (at = strstr(at, "inotify wd:")); at++)
		use->watches++;
}

static void count_descriptors(int process, struct use *use)
{
	int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *item; (item = readdir(dir));) {
		char target[32];
		ssize_t len = readlinkat(fd, item->d_name, target, sizeof(target));

		if (len == 18 && memcmp(target, "anon_inode:inotify", 18) == 0)
			count_watches(process, item->d_name, use);
	}
	closedir(dir);
}

static void count_process(int proc, const char *pid, struct use *use)
{
	cleanup_fd int process = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf status = BUF_INIT;

	if (process < 0 || file_read(process, "status", PROC_BYTES_MAX, &status, NULL) != 0 ||
	    field(buf_bytes(&status), "\nUid:\t") != getuid())
		return;
	use->tasks += field(buf_bytes(&status), "\nThreads:\t");
	count_descriptors(process, use);
}

static struct use count_use(void)
{
	struct use use = {.tasks = 0};
	DIR *dir = opendir("/proc");

	if (!dir)
		return use;
	for (struct dirent *item; (item = readdir(dir));)
		if (isdigit((unsigned char)item->d_name[0]))
			count_process(dirfd(dir), item->d_name, &use);
	closedir(dir);
	return use;
}

/* --- the user's limits ------------------------------------------------------------------------ */

static void put_limit(struct buf *out, rlim_t limit)
{
	if (limit == RLIM_INFINITY)
		buf_append_string(out, "unlimited");
	else
		buf_printf(out, "%llu", (unsigned long long)limit);
}

static void check_files(struct doctor *doctor)
{
	cleanup_buf struct buf detail = BUF_INIT;
	enum doctor_status status = DOCTOR_OK;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	put_limit(&detail, limit.rlim_cur);
	buf_append_string(&detail, " a process, can be raised to ");
	put_limit(&detail, limit.rlim_max);
	if (limit.rlim_cur < FILES_WANTED)
		status = DOCTOR_WARNING;
	if (limit.rlim_cur < FILES_NEEDED)
		status = DOCTOR_FAILED;
	doctor_note(doctor, status, "open files", buf_bytes(&detail),
		    status == DOCTOR_FAILED
			    ? "no session can start"
			    : "code that opens many files or connections fails early, and a "
			      "session has fewer clients",
		    "ulimit -n 4096; for good: nofile in /etc/security/limits.conf, or "
		    "LimitNOFILE= of the service");
}

static void check_tasks(struct doctor *doctor, const struct use *use)
{
	cleanup_buf struct buf detail = BUF_INIT;
	struct rlimit limit;
	bool bound, few;

	if (getrlimit(RLIMIT_NPROC, &limit) != 0)
		return;
	bound = limit.rlim_cur != RLIM_INFINITY && geteuid() != 0;
	few = bound && limit.rlim_cur < use->tasks + TASKS_WANTED;
	buf_printf(&detail, "%" PRIu64 " used of ", use->tasks);
	put_limit(&detail, limit.rlim_cur);
	if (limit.rlim_cur != RLIM_INFINITY && !bound)
		buf_append_string(&detail, ", which does not bind root");
	doctor_note(doctor, few ? DOCTOR_WARNING : DOCTOR_OK, "processes of the user",
		    buf_bytes(&detail), "sessions cannot start threads and programs",
		    "ulimit -u unlimited; for good: nproc in /etc/security/limits.conf, or "
		    "TasksMax= of the service");
}

/* --- the kernel's limits ---------------------------------------------------------------------- */

/* Processes and threads of the whole machine: the fourth word of /proc/loadavg is "2/345". */
static uint64_t tasks_of_machine(void)
{
	cleanup_buf struct buf load = BUF_INIT;
	const char *slash;

	if (file_read(AT_FDCWD, "/proc/loadavg", 256, &load, NULL) != 0)
		return 0;
	slash = strchr(buf_bytes(&load), '/');
	return slash ? strtoull(slash + 1, NULL, 10) : 0;
}

static void check_process_ids(struct doctor *doctor)
{
	int64_t pid_max = doctor_number("/proc/sys/kernel/pid_max", INT64_MAX);
	int64_t threads_max = doctor_number("/proc/sys/kernel/threads-max", INT64_MAX);
	int64_t most = pid_max < threads_max ? pid_max : threads_max;
	int64_t used = (int64_t)tasks_of_machine();
	uint64_t group_max = cgroup_number("pids", "pids.max", "pids.max");
	cleanup_buf struct buf detail = BUF_INIT;
	bool few = most - used < 1000 || group_max < TASKS_WANTED;

	buf_printf(&detail, "%" PRId64 " used of %" PRId64, used, most);
	if (group_max != UINT64_MAX)
		buf_printf(&detail, "; the control group allows %" PRIu64, group_max);
	doctor_note(doctor, few ? DOCTOR_WARNING : DOCTOR_OK, "processes of the machine",
		    buf_bytes(&detail), "no process can be started when they are used up",
		    "sysctl kernel.pid_max=4194304; in a container: raise its pids limit");
}

/* Makes instances of inotify with one watch each. Returns how many; errno says why no more. */
static unsigned try_watches(void)
{
	int fds[WATCHES_WANTED];
	unsigned made = 0;
	int why = 0;

	while (made < WATCHES_WANTED) {
		int fd = inotify_init1(IN_CLOEXEC);

		if (fd < 0) {
			why = errno;
			break;
		}
		fds[made++] = fd;
		if (inotify_add_watch(fd, "/proc/self", IN_MODIFY) < 0) {
			why = errno;
			close(fds[--made]);
			break;
		}
	}
	for (unsigned i = 0; i < made; i++)
		close(fds[i]);
	errno = why;
	return made;
}

static void check_watches(struct doctor *doctor, const struct use *use)
{
	unsigned made = try_watches();
	cleanup_buf struct buf detail = BUF_INIT;

	if (made < WATCHES_WANTED)
		buf_printf(&detail, "%u more could be had, then: %s; ", made, strerror(errno));
	buf_printf(&detail, "%" PRIu64 " used of %" PRId64 ", watches %" PRIu64 " of %" PRId64,
		   use->instances, doctor_number("/proc/sys/fs/inotify/max_user_instances", -1),
		   use->watches, doctor_number("/proc/sys/fs/inotify/max_user_watches", -1));
	doctor_note(doctor, made < WATCHES_WANTED ? DOCTOR_WARNING : DOCTOR_OK, "inotify",
		    buf_bytes(&detail),
		    "further sessions go through their whole workspace after each cell, and log -f "
		    "fails",
		    "sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288 "
		    "user.max_inotify_instances=1024");
}

static void check_namespaces(struct doctor *doctor)
{
	static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	int64_t least = INT64_MAX;
	const char *which = "";
	cleanup_free char *detail = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cleanup_free char *path = mem_format("/proc/sys/user/max_%s_namespaces", kinds[i]);
		int64_t most = doctor_number(path, INT64_MAX);

		if (most < least) {
			least = most;
			which = kinds[i];
		}
	}
	if (least == INT64_MAX)
		detail = mem_string("no limit is known");
	else
		detail = mem_format("at most %" PRId64 " of kind %s, the scarcest", least, which);
	doctor_note(doctor,
		    least == 0                  ? DOCTOR_FAILED
		    : least < NAMESPACES_WANTED ? DOCTOR_WARNING
						: DOCTOR_OK,
		    "namespaces", detail,
		    least == 0 ? "no session can start" : "only so many sessions run at a time",
		    "sysctl user.max_user_namespaces=65536 user.max_mnt_namespaces=65536 "
		    "user.max_pid_namespaces=65536 user.max_net_namespaces=65536 "
		    "user.max_ipc_namespaces=65536 user.max_uts_namespaces=65536 "
		    "user.max_cgroup_namespaces=65536");
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Whether memory is given when it is asked for; it is not touched, so this costs nothing. Refused
 * by a limit of address space, or where vm.overcommit_memory is 2. */
static bool memory_is_given(void)
{
	void *memory = mmap(NULL, MEMORY_WANTED, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	munmap(memory, MEMORY_WANTED);
	return true;
}

static void check_memory(struct doctor *doctor)
{
	cleanup_buf struct buf info = BUF_INIT;
	cleanup_buf struct buf detail = BUF_INIT;
	uint64_t group_max = cgroup_number("memory", "memory.max", "memory.limit_in_bytes");
	int64_t overcommit = doctor_number("/proc/sys/vm/overcommit_memory", 0);
	uint64_t total, available;
	bool given = memory_is_given();

	if (file_read(AT_FDCWD, "/proc/meminfo", PROC_BYTES_MAX, &info, NULL) != 0)
		return;
	total = field(buf_bytes(&info), "MemTotal:") * 1024;
	available = field(buf_bytes(&info), "MemAvailable:") * 1024;
	doctor_put_size(&detail, available);
	buf_append_string(&detail, " of ");
	doctor_put_size(&detail, total);
	buf_append_string(&detail, " available");
	if (group_max < total) {
		buf_append_string(&detail, ", the control group allows ");
		doctor_put_size(&detail, group_max);
	}
	if (overcommit == 2)
		buf_append_string(&detail, ", vm.overcommit_memory is 2");
	if (!given)
		buf_append_string(&detail, "; 512 MiB are refused");
	doctor_note(doctor,
		    !given || available < MEMORY_WANTED || group_max < MEMORY_WANTED
			    ? DOCTOR_WARNING
			    : DOCTOR_OK,
		    "memory", buf_bytes(&detail),
		    "cells fail with MemoryError, or their interpreter is killed",
		    !given ? "ulimit -v unlimited; sysctl vm.overcommit_memory=0"
			   : "end other programs, add swap, or raise the limit of the container");
}

static void check_cgroup(struct doctor *doctor)
{
	cleanup_buf struct buf detail = BUF_INIT;
	bool writable = cgroup_try(&detail);

	doctor_note(doctor, writable ? DOCTOR_OK : DOCTOR_WARNING, "control groups",
		    buf_bytes(&detail),
		    "the memory of a session is looked at a few times a second, not held by the "
		    "kernel: for that long, code can take more (a soft limit)",
		    "start Fumehood in a group of its own: systemd-run --user --scope -p "
		    "Delegate=yes fumehood ...");
}

void doctor_limits(struct doctor *doctor)
{
	struct use use = count_use();

	check_files(doctor);
	check_tasks(doctor, &use);
	check_process_ids(doctor);
	check_watches(doctor, &use);
	check_namespaces(doctor);
	check_memory(doctor);
	check_cgroup(doctor);
}
