/*
 * A process can end, and its number become another's, between any two looks: what is read of it
 * then is wrong by one process, once. That is good enough for a limit that is looked at again and
 * again, and no signal is ever sent to a number found here.
 *
 * What is written to a memfd is memory that no process has mapped, so it is looked for among the
 * open files: each is counted once, however many descriptors name it. One that is mapped is counted
 * with the process as well; in the closer look the larger of the two sums is taken, so nothing is
 * counted twice and no code is ended for what it has not taken. Not found is what no descriptor of
 * a process that may be looked into names: a memfd that is mapped and then closed, or that waits
 * in a socket, as far as no process has touched its pages.
 */
#include "sandbox/members.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { ROOTS_MAX = 8, FILE_BYTES_MAX = 64 * 1024, FIELD_UTIME = 14, FIELD_RSS = 24 };

/* Descriptors that are looked at each time, of all processes together: some 20 ms at most. */
enum { LOOKS_MAX = 16 * 1024 };

static const char MEMFD_LINK[] = "/memfd:";

struct memfd {
	dev_t dev;
	ino_t ino;
	uint64_t bytes;
};

struct memfds {
	struct memfd *items; /* owned; one for each descriptor */
	size_t count, room;
	size_t looks;
};

void members_release(struct members *members)
{
	free(members->pids);
	*members = (struct members)MEMBERS_INIT;
}

/* Reads what fits into `text`; NUL-terminated. False when there is nothing. */
static bool read_text(const char *path, char *text, size_t size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0 && len < size - 1) {
		got = read(fd, text + len, size - 1 - len);
		if (got > 0)
			len += (size_t)got;
	}
	text[len] = '\0';
	return len > 0;
}

static void add(struct members *members, pid_t pid, size_t root_count)
{
	/* A root can be a child of another one. */
	for (size_t i = 0; i < root_count && i < members->count; i++)
		if (members->pids[i] == pid)
			return;
	if (pid > 0 && members->count < MEMBERS_MAX)
		members->pids[members->count++] = pid;
}

static void add_children(struct members *members, pid_t pid, size_t root_count)
{
	cleanup_free char *tasks = mem_format("/proc/%d/task", (int)pid);
	cleanup_free char *text = mem_resize(NULL, FILE_BYTES_MAX, 1);
	DIR *dir = opendir(tasks);

	for (struct dirent *item; dir && (item = readdir(dir));) {
		char path[320];

		if (!isdigit((unsigned char)item->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%s/children", tasks, item->d_name);
		if (!read_text(path, text, FILE_BYTES_MAX))
			continue;
		for (char *at = text, *end; *at; at = end) {
			long child = strtol(at, &end, 10);

			if (end == at)
				break;
			add(members, (pid_t)child, root_count);
		}
	}
	if (dir)
		closedir(dir);
}

void members_find(struct members *members, const pid_t *roots, size_t root_count)
{
	*members = (struct members){.pids = mem_resize(NULL, MEMBERS_MAX, sizeof(pid_t))};
	for (size_t i = 0; i < root_count && i < ROOTS_MAX; i++)
		add(members, roots[i], i);
	root_count = members->count;
	for (size_t i = 0; i < members->count; i++)
		add_children(members, members->pids[i], root_count);
}

/* Field 2 of /proc/PID/stat is the name in parentheses and may hold anything. */
static void add_stat(pid_t pid, struct members_usage *usage)
{
	char path[40], text[2048];
	uint64_t ticks = 0, pages = 0;
	long per_second = sysconf(_SC_CLK_TCK);
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	at = read_text(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	for (int field = 3; at && field <= FIELD_RSS; field++) {
		at = strchr(at + 1, ' ');
		if (at && field >= FIELD_UTIME && field < FIELD_UTIME + 4)
			ticks += strtoull(at, NULL, 10);
		if (at && field == FIELD_RSS)
			pages = strtoull(at, NULL, 10);
	}
	usage->cpu_us += ticks * 1000000 / (uint64_t)(per_second > 0 ? per_second : 100);
	usage->memory_bytes += pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_memfd(struct memfds *memfds, int directory, const char *name)
{
	char link[sizeof(MEMFD_LINK) - 1]; /* no more of it matters */
	ssize_t len = readlinkat(directory, name, link, sizeof(link));
	struct stat st;

	if (len != (ssize_t)sizeof(link) || memcmp(link, MEMFD_LINK, sizeof(link)) != 0 ||
	    fstatat(directory, name, &st, 0) < 0)
		return;
	if (memfds->count == memfds->room) {
		memfds->room = memfds->room ? memfds->room * 2 : 64;
		memfds->items = mem_resize(memfds->items, memfds->room, sizeof(*memfds->items));
	}
	memfds->items[memfds->count++] = (struct memfd){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.bytes = (uint64_t)st.st_blocks * 512, /* stat(2): the unit, whatever the disk's */
	};
}

static void add_memfds(struct memfds *memfds, pid_t pid)
{
	char path[40];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	for (struct dirent *item; dir && memfds->looks < LOOKS_MAX && (item = readdir(dir));) {
		if (!isdigit((unsigned char)item->d_name[0]))
			continue;
		memfds->looks++;
		add_memfd(memfds, dirfd(dir), item->d_name);
	}
	if (dir)
		closedir(dir);
}

static int compare_memfds(const void *a, const void *b)
{
	const struct memfd *left = a, *right = b;

	if (left->dev != right->dev)
		return left->dev < right->dev ? -1 : 1;
	return (left->ino > right->ino) - (left->ino < right->ino);
}

static uint64_t memfd_bytes(const struct members *members)
{
	struct memfds memfds = {.items = NULL};
	uint64_t bytes = 0;

	for (size_t i = 0; i < members->count; i++)
		add_memfds(&memfds, members->pids[i]);
	if (memfds.count > 0)
		qsort(memfds.items, memfds.count, sizeof(*memfds.items), compare_memfds);
	for (size_t i = 0; i < memfds.count; i++)
		if (i == 0 || compare_memfds(&memfds.items[i - 1], &memfds.items[i]) != 0)
			bytes += memfds.items[i].bytes;
	free(memfds.items);
	return bytes;
}

/* Its part of what it shares; where that is not told, what it does not share. `*files` becomes what
 * of it may be pages of memfds and of files in memory (before Linux 5.3 that is not told apart). */
static uint64_t own_bytes(pid_t pid, uint64_t *files)
{
	char path[40], text[2048];
	const char *line = NULL, *files_line;
	uint64_t resident, shared;

	*files = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	if (read_text(path, text, sizeof(text)))
		line = strstr(text, "\nPss:");
	if (line) {
		files_line = strstr(text, "\nPss_Shmem:");
		*files = strtoull(files_line ? files_line + 11 : line + 5, NULL, 10) * 1024;
		return strtoull(line + 5, NULL, 10) * 1024;
	}
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (!read_text(path, text, sizeof(text)) ||
	    sscanf(text, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2 || shared > resident)
		return 0;
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void members_read(const struct members *members, uint64_t stored_bytes, uint64_t memory_max,
		  struct members_usage *usage)
{
	uint64_t own = 0, mapped = 0;

	*usage = (struct members_usage){.memory_bytes = 0};
	for (size_t i = 0; i < members->count; i++)
		add_stat(members->pids[i], usage);
	if (memory_max == 0)
		return;
	stored_bytes += memfd_bytes(members);
	usage->memory_bytes += stored_bytes;
	if (usage->memory_bytes <= memory_max)
		return;
	for (size_t i = 0; i < members->count; i++) {
		uint64_t files, bytes = own_bytes(members->pids[i], &files);

		mapped += files < bytes ? files : bytes;
		own += bytes - (files < bytes ? files : bytes);
	}
	usage->memory_bytes = own + (mapped > stored_bytes ? mapped : stored_bytes);
}
