/*
 * Files: read with a limit, replace durably, open without being led astray, lock.
 *
 * file_replace(): a reader sees the old bytes or the new ones; so does whoever comes after a power
 * cut. The order is what makes it so: the temp file's bytes are on disk before the rename gives
 * them the name, and the directory is on disk before success is told. The directory is opened
 * first, so that nothing has happened yet when that fails.
 *
 * file_open_beneath() trusts the kernel (openat2(2), Linux 5.6) and not a walk of its own: a walk
 * can be raced by a guest that swaps a directory for a symlink.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
	READ_STEP = 64 << 10,
	LOCK_TRIES = 16,
	OPEN_TRIES = 16,
};

/* Reads to the end of the file into `out`, at most bytes_max bytes. */
static int read_all(int fd, const char *path, size_t bytes_max, size_t expected, struct buf *out,
		    struct err *err)
{
	size_t total = 0;

	for (;;) {
		/* One more than expected, so that the end shows in the same read. */
		size_t step = total < expected ? expected - total + 1 : READ_STEP;
		char *to;
		ssize_t count;

		if (step > bytes_max - total)
			step = bytes_max - total + 1;
		to = buf_reserve(out, step);
		count = read(fd, to, step);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return err_sys(err, "cannot read %s", path);
		if (count == 0)
			return 0;
		total += (size_t)count;
		buf_added(out, (size_t)count);
		if (total > bytes_max)
			return err_set(err, ERR_LIMIT, "%s is larger than %zu bytes", path,
				       bytes_max);
	}
}

int file_read(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *err)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its other end. */
	cleanup_fd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t old_len = out->len;
	struct stat st;

	if (fd < 0 && errno == ENXIO) /* a socket */
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if (fd < 0)
		return err_sys(err, "cannot open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot stat %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if ((uint64_t)st.st_size > bytes_max)
		return err_set(err, ERR_LIMIT, "%s is larger than %zu bytes", path, bytes_max);
	if (read_all(fd, path, bytes_max, (size_t)st.st_size, out, err) < 0) {
		buf_truncate(out, old_len);
		return -1;
	}
	return 0;
}

int file_write_all(int fd, const void *bytes, size_t len, struct err *err)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t count = write(fd, at, len);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return err_sys(err, "cannot write");
		at += count;
		len -= (size_t)count;
	}
	return 0;
}

/* Gives the temp file the mode and, as far as we may, the owner of the file that it will replace:
 * run as root, a user's notebook stays the user's. */
static int copy_mode(int fd, int dirfd, const char *name, struct err *err)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot stat %s", name);
	if (!S_ISREG(st.st_mode))
		return 0;
	if (fchown(fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
		return err_sys(err, "cannot give %s its owner back", name);
	if (fchmod(fd, st.st_mode & 0777) < 0)
		return err_sys(err, "cannot set the mode of %s", name);
	return 0;
}

/* Makes the rename itself durable. Some file systems (9p, FUSE) have no such thing and say
 * EINVAL. */
static int sync_directory(int fd, const char *name, struct err *err)
{
	if (fsync(fd) < 0 && errno != EINVAL)
		return err_sys(err, "cannot sync the directory of %s", name);
	return 0;
}

static int fill_and_rename(int fd, int dirfd, const char *temp, const char *name, const void *bytes,
			   size_t len, struct err *err)
{
	if (file_write_all(fd, bytes, len, err) < 0)
		return err_wrap(err, "%s", name);
	if (copy_mode(fd, dirfd, name, err) < 0)
		return -1;
	if (fsync(fd) < 0)
		return err_sys(err, "cannot sync %s", name);
	if (renameat(dirfd, temp, dirfd, name) < 0)
		return err_sys(err, "cannot replace %s", name);
	return 0;
}

int file_replace(int dirfd, const char *name, const void *bytes, size_t len, mode_t mode,
		 struct err *err)
{
	cleanup_fd int directory = -1;
	cleanup_fd int fd = -1;
	char id[HASH_ID_SIZE];
	char temp[HASH_ID_SIZE + sizeof(".fumehood-.tmp")];

	if (name[0] == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return err_set(err, ERR_INVALID, "\"%s\" is no plain file name", name);
	directory = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return err_sys(err, "cannot open the directory of %s", name);
	/* A name of its own length, so that a name of 255 bytes can be replaced too. */
	hash_random_id(id);
	snprintf(temp, sizeof(temp), ".fumehood-%s.tmp", id);
	fd = openat(directory, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(err, "cannot make a file beside %s", name);
	if (fill_and_rename(fd, directory, temp, name, bytes, len, err) < 0) {
		unlinkat(directory, temp, 0);
		return -1;
	}
	return sync_directory(directory, name, err);
}

static int open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode & 07777 : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = -1;

	/* O_NONBLOCK: opening a FIFO must not wait; O_PATH takes no such flags. */
	if (!(flags & O_PATH))
		how.flags |= O_NONBLOCK | O_NOCTTY;
	/* EAGAIN: something was renamed while ".." was looked at. */
	for (int i = 0; i < OPEN_TRIES && fd < 0; i++) {
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd < 0 && errno != EAGAIN && errno != EINTR)
			break;
	}
	return fd;
}

int file_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *err)
{
	cleanup_fd int fd = open_beneath(dirfd, path, flags, mode);
	struct stat st;

	if (fd < 0) {
		if (errno == EXDEV || errno == ELOOP)
			return err_set(err, ERR_DENIED,
				       "%s leads out of its directory or through a symlink", path);
		if (errno == ENXIO)
			return err_set(err, ERR_INVALID, "%s is not a regular file", path);
		if (errno == ENOSYS)
			return err_set(err, ERR_UNSUPPORTED,
				       "this kernel has no openat2 (Linux 5.6)");
		return err_sys(err, "cannot open %s", path);
	}
	if (flags & O_PATH)
		return fd_take(&fd);
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot stat %s", path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	return fd_take(&fd);
}

int file_make_dirs(const char *path, mode_t mode, struct err *err)
{
	cleanup_free char *part = mem_string(path);
	size_t i = 0;

	if (path[0] == '\0')
		return err_set(err, ERR_INVALID, "a directory wants a name");
	do {
		char c;
		struct stat st;

		while (part[i] == '/')
			i++;
		while (part[i] != '\0' && part[i] != '/')
			i++;
		c = part[i];
		part[i] = '\0';
		/* Whatever mkdir says (EEXIST, but also EROFS or EACCES above), a directory is
		 * good. */
		if (mkdir(part, mode) < 0) {
			int sys = errno;

			if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode)) {
				errno = sys == EEXIST ? ENOTDIR : sys;
				return err_sys(err, "cannot make directory %s", part);
			}
		}
		part[i] = c;
	} while (part[i] != '\0');
	return 0;
}

/* Whether dirfd/name still is the file open as `fd`: whoever removes a lock file does so while
 * holding the lock, and a lock on a file without a name excludes nobody. */
static bool is_still_named(int fd, int dirfd, const char *name)
{
	struct stat open_st, named_st;

	return fstat(fd, &open_st) == 0 &&
	       fstatat(dirfd, name, &named_st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       open_st.st_dev == named_st.st_dev && open_st.st_ino == named_st.st_ino;
}

int file_lock(int dirfd, const char *name, struct err *err)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		cleanup_fd int fd = openat(
			dirfd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		int result;

		if (fd < 0)
			return err_sys(err, "cannot open lock file %s", name);
		do {
			result = flock(fd, LOCK_EX | LOCK_NB);
		} while (result < 0 && errno == EINTR);
		if (result < 0 && errno == EWOULDBLOCK)
			return err_set(err, ERR_BUSY, "%s is locked by another process", name);
		if (result < 0)
			return err_sys(err, "cannot lock %s", name);
		if (is_still_named(fd, dirfd, name))
			return fd_take(&fd);
	}
	return err_set(err, ERR_BUSY, "%s is being replaced again and again", name);
}

int file_inherit(int fd, struct err *err)
{
	int flags = fcntl(fd, F_GETFD);

	if (flags < 0 || fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) < 0)
		return err_sys(err, "cannot let a child inherit descriptor %d", fd);
	return 0;
}
