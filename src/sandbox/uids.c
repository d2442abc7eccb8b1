/*
 * A lease begins its search at a place that its pid chooses, so that sessions started one after the
 * other seldom meet at the same lock file.
 */
#include "sandbox/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define RANGE_FIRST UINT32_C(1895825408) /* 0x71000000 */

enum { MAP_BYTES_MAX = 64 * 1024, RESERVED = 65536 };

int uids_range(const char *map, uint32_t *first, uint32_t *count)
{
	uint64_t best = 0;

	for (const char *line = map; line && *line; line = strchr(line, '\n')) {
		uint64_t inside, outside, length;

		line += *line == '\n';
		if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &length) !=
		    3)
			continue;
		if (inside <= RANGE_FIRST && inside + length >= RANGE_FIRST + UIDS_COUNT) {
			*first = RANGE_FIRST;
			*count = UIDS_COUNT;
			return 0;
		}
		/* The highest ones: accounts are given from below. */
		if (length > RESERVED / 2 && inside + length > best &&
		    inside + length <= UINT32_MAX) {
			best = inside + length;
			*count = (uint32_t)(length / 4 < UIDS_COUNT ? length / 4 : UIDS_COUNT);
			*first = (uint32_t)(best - *count);
		}
	}
	return best ? 0 : -1;
}

static int open_directory(const char *dir, struct err *err)
{
	struct stat st;
	int fd;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "sandbox: %.150s", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "sandbox: %.150s", dir);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		return err_set(
			err, ERR_DENIED,
			"sandbox: %.150s belongs to someone else or can be written by others; "
			"remove it",
			dir);
	}
	return fd;
}

struct lock_name {
	char text[16];
};

static struct lock_name lock_name(uint32_t number)
{
	struct lock_name name;

	snprintf(name.text, sizeof(name.text), "%" PRIu32, number);
	return name;
}

/* -1 with EWOULDBLOCK when another holds it. A file that its holder has removed since it was opened
 * is no lock any more: whoever comes next makes a new one. */
static int take_lock(int dir, uint32_t number)
{
	for (;;) {
		struct stat st = {.st_nlink = 0};
		int fd = openat(dir, lock_name(number).text,
				O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			close(fd);
			errno = EWOULDBLOCK;
			return -1;
		}
		if (fstat(fd, &st) == 0 && st.st_nlink > 0)
			return fd;
		close(fd);
	}
}

int uids_of(enum uid_kind kind, uint32_t *first, uint32_t *count, struct err *err)
{
	cleanup_buf struct buf map = BUF_INIT;
	uint32_t zygotes;

	if (file_read(AT_FDCWD, "/proc/self/uid_map", MAP_BYTES_MAX, &map, err) < 0)
		return -1;
	if (uids_range(buf_bytes(&map), first, count) < 0)
		return err_set(err, ERR_UNSUPPORTED,
			       "sandbox: root has no other uids here; start Fumehood as an "
			       "ordinary user");
	zygotes = *count / UIDS_OF_ZYGOTES_PART;
	*count -= zygotes;
	if (kind == UID_OF_ZYGOTE) {
		*first += *count;
		*count = zygotes;
	}
	return 0;
}

int uid_lease_take(struct uid_lease *lease, enum uid_kind kind, const char *dir, struct err *err)
{
	cleanup_fd int fd = -1;
	uint32_t first, count, start;

	if (uids_of(kind, &first, &count, err) < 0)
		return -1;
	fd = open_directory(dir, err);
	if (fd < 0)
		return -1;
	start = (uint32_t)getpid() % count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = (start + i) % count;
		int lock = take_lock(fd, first + number);

		if (lock >= 0) {
			*lease = (struct uid_lease){.uid = first + number,
						    .lock = lock,
						    .dir = fd_take(&fd),
						    .number = first + number};
			return 0;
		}
		if (errno != EWOULDBLOCK)
			return err_sys(err, "sandbox: lock in %.150s", dir);
	}
	return err_set(err, ERR_LIMIT, "sandbox: all %" PRIu32 " uids for sessions are in use",
		       count);
}

void uid_lease_release(struct uid_lease *lease)
{
	if (lease->lock >= 0) {
		unlinkat(lease->dir, lock_name(lease->number).text, 0);
		close(lease->lock);
		close(lease->dir);
	}
	*lease = (struct uid_lease)UID_LEASE_INIT;
}
