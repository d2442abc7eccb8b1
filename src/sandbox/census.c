/*
 * /proc is read with getdents64(2), each process by its stat file (proc_pid_stat(5): pid, name in
 * parentheses, state, parent). The kernel lists pids in ascending order, so finding one is a binary
 * search.
 */
#include "sandbox/census.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sandbox/kernel.h"

/* As the kernel lays it out (getdents(2)). */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

int census_init(struct census *census)
{
	void *memory = mmap(NULL, CENSUS_MAX * sizeof(*census->entries), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -1;
	*census = (struct census){.entries = memory, .count = 0};
	return 0;
}

/* A decimal number at *at; moves *at behind it. -1 when there is none. */
static int32_t read_number(const char **at)
{
	int64_t value = 0;
	const char *start = *at;

	while (**at >= '0' && **at <= '9' && value < INT32_MAX / 10)
		value = value * 10 + (*(*at)++ - '0');
	return *at == start ? -1 : (int32_t)value;
}

/* Fills in the state and the parent. -1 when the process has gone meanwhile. */
static int read_stat(int proc, const char *name, struct census_entry *entry)
{
	size_t len = strlen(name);
	char path[32];
	char text[512];
	const char *at;
	ssize_t size;
	int fd;

	if (len + sizeof("/stat") > sizeof(path))
		return -1;
	memcpy(path, name, len);
	memcpy(path + len, "/stat", sizeof("/stat"));
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size <= 0)
		return -1;
	text[size] = '\0';
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || at[2] == '\0' || at[3] != ' ')
		return -1;
	entry->dead = at[2] == 'Z' || at[2] == 'X';
	at += 4;
	entry->parent = read_number(&at);
	return 0;
}

static void note(struct census *census, int proc, const char *name)
{
	struct census_entry entry = {.pid = 0};
	const char *at = name;

	entry.pid = read_number(&at);
	if (entry.pid <= 0 || *at != '\0' || census->count == CENSUS_MAX)
		return;
	if (read_stat(proc, name, &entry) == 0)
		census->entries[census->count++] = entry;
}

int census_take(struct census *census)
{
	_Alignas(struct directory_entry) char buffer[32768];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long size;

	if (proc < 0)
		return -1;
	census->count = 0;
	while ((size = syscall(SYS_getdents64, proc, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < size;) {
			const struct directory_entry *entry = (const void *)(buffer + at);

			note(census, proc, entry->name);
			at += entry->size;
		}
	}
	close(proc);
	return size < 0 ? -1 : 0;
}

struct census_entry *census_find(const struct census *census, int32_t pid)
{
	size_t low = 0;
	size_t high = census->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (census->entries[middle].pid == pid)
			return &census->entries[middle];
		if (census->entries[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool census_descends(const struct census *census, const struct census_entry *entry,
		     int32_t ancestor)
{
	/* Bounded: /proc is no snapshot, so the parents could form a circle when pids are used
	 * again. */
	for (size_t depth = 0; entry && depth < census->count; depth++) {
		if (entry->parent == ancestor)
			return true;
		entry = census_find(census, entry->parent);
	}
	return false;
}
