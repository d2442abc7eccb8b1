/*
 * Opening and looking; see tree.h. Lists are in tree_list.c, changes in tree_write.c.
 *
 * setfsuid(2) changes one thread, and its failure shows only by asking again. When the thread is
 * not root it is never called.
 */
#include "files/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "base/text.h"

int tree_adopt(struct tree *tree, int fd, struct err *err)
{
	struct stat st;

	tree->root = fd;
	if (fstat(fd, &st) != 0)
		return err_sys(err, "the workspace");
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "the workspace is no folder");
	tree->uid = st.st_uid;
	tree->gid = st.st_gid;
	tree->acts = geteuid() == 0 && (st.st_uid != 0 || st.st_gid != getegid());
	return 0;
}

int tree_open(struct tree *tree, const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return tree_fail(path, err);
	return tree_adopt(tree, fd, err);
}

void tree_release(struct tree *tree)
{
	if (tree->root >= 0)
		close(tree->root);
	*tree = (struct tree)TREE_INIT;
}

struct tree_ids tree_enter(const struct tree *tree)
{
	struct tree_ids ids = {.changed = tree->acts};

	if (tree->acts) {
		ids.gid = (gid_t)setfsgid(tree->gid);
		ids.uid = (uid_t)setfsuid(tree->uid);
	}
	return ids;
}

void tree_leave(struct tree_ids *ids)
{
	int sys = errno;

	if (ids->changed) {
		setfsuid(ids->uid);
		setfsgid(ids->gid);
	}
	errno = sys;
}

int tree_fail(const char *path, struct err *err)
{
	int sys = errno;
	cleanup_buf struct buf shown = BUF_INIT;

	text_escape(&shown, path, strlen(path), false, false);
	errno = sys;
	switch (sys) {
	case ELOOP:
		return err_set(err, ERR_DENIED, "%.150s is a symlink, or its way leads over one",
			       buf_bytes(&shown));
	case EXDEV:
		return err_set(err, ERR_DENIED, "%.150s leads out of the workspace",
			       buf_bytes(&shown));
	case ENOTDIR:
		return err_set(err, ERR_INVALID, "%.150s: there is no such folder",
			       buf_bytes(&shown));
	case ENXIO: /* a socket, or a FIFO without reader */
		return err_set(err, ERR_INVALID, "%.150s is no file", buf_bytes(&shown));
	default:
		return err_sys(err, "%.150s", buf_bytes(&shown));
	}
}

static int check_component(const char *name, size_t len, struct err *err)
{
	if (len == 0)
		return err_set(
			err, ERR_INVALID,
			"a path is relative to the workspace, and has one '/' between names");
	if (len > TREE_NAME_BYTES_MAX)
		return err_set(err, ERR_INVALID, "a name has at most %d bytes",
			       TREE_NAME_BYTES_MAX);
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return err_set(err, ERR_INVALID, "a path has no \".\" or \"..\" in it");
	return 0;
}

int tree_check_path(const char *path, size_t len, struct err *err)
{
	const char *end = path + len;

	if (len == 0 || (len == 1 && path[0] == '.'))
		return 0;
	if (len > TREE_PATH_BYTES_MAX)
		return err_set(err, ERR_INVALID, "a path has at most %d bytes",
			       TREE_PATH_BYTES_MAX);
	if (memchr(path, '\0', len))
		return err_set(err, ERR_INVALID, "a path has no NUL in it");
	for (;;) {
		const char *slash = memchr(path, '/', (size_t)(end - path));
		const char *stop = slash ? slash : end;

		if (check_component(path, (size_t)(stop - path), err) != 0)
			return -1;
		if (!slash)
			return 0;
		path = slash + 1;
	}
}

int tree_open_at(const struct tree *tree, const char *path, int flags, mode_t mode)
{
	const struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	int fd;

	/* EAGAIN: something was renamed on the way, and the kernel cannot tell whether the way
	 * still lies beneath. A guest that does nothing else makes it fail for good. */
	for (int tries = 0; tries < 64; tries++) {
		fd = (int)syscall(SYS_openat2, tree->root, path[0] ? path : ".", &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd;
}

void tree_status_of(const struct stat *st, struct tree_status *status)
{
	*status = (struct tree_status){
		.kind = S_ISREG(st->st_mode)   ? TREE_FILE
			: S_ISDIR(st->st_mode) ? TREE_FOLDER
			: S_ISLNK(st->st_mode) ? TREE_LINK
					       : TREE_OTHER,
		.mode = st->st_mode & 07777,
		.bytes = S_ISREG(st->st_mode) && st->st_size > 0 ? (uint64_t)st->st_size : 0,
		/* A hostile time overflows; it is only ever compared and shown, so it may wrap. */
		.mtime_ns = (int64_t)((uint64_t)st->st_mtim.tv_sec * 1000000000u +
				      (uint64_t)st->st_mtim.tv_nsec),
		.ctime_ns = (int64_t)((uint64_t)st->st_ctim.tv_sec * 1000000000u +
				      (uint64_t)st->st_ctim.tv_nsec),
		.device = st->st_rdev,
		.is_device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode),
	};
}

int tree_look(const struct tree *tree, const char *path, struct tree_status *status,
	      struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int fd = -1;
	struct stat st;

	if (tree_check_path(path, strlen(path), err) != 0)
		return -1;
	/* Without NO_SYMLINKS for the last part: a symlink is something to look at. */
	fd = tree_open_at(tree, path, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0 || fstat(fd, &st) != 0)
		return tree_fail(path, err);
	tree_status_of(&st, status);
	return 0;
}

int tree_open_file(const struct tree *tree, const char *path, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int fd = -1;
	struct stat st;

	if (tree_check_path(path, strlen(path), err) != 0)
		return -1;
	fd = tree_open_at(tree, path, O_RDONLY, 0);
	if (fd < 0 || fstat(fd, &st) != 0)
		return tree_fail(path, err);
	if (!S_ISREG(st.st_mode)) {
		cleanup_buf struct buf shown = BUF_INIT;

		text_escape(&shown, path, strlen(path), false, false);
		return err_set(err, ERR_INVALID, "%.150s is %s", buf_bytes(&shown),
			       S_ISDIR(st.st_mode) ? "a folder" : "no file");
	}
	return fd_take(&fd);
}

int tree_read(const struct tree *tree, const char *path, uint64_t offset, size_t len,
	      struct buf *out, struct tree_status *status, struct err *err)
{
	cleanup_fd int fd = tree_open_file(tree, path, err);
	size_t done = 0;
	struct stat st;

	if (fd < 0)
		return -1;
	if (len > TREE_PART_BYTES_MAX)
		len = TREE_PART_BYTES_MAX;
	if (offset > INT64_MAX - (uint64_t)len)
		return err_set(err, ERR_INVALID, "no file is that long");
	while (done < len) {
		ssize_t got =
			pread(fd, buf_reserve(out, len - done), len - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tree_fail(path, err);
		if (got == 0)
			break;
		buf_added(out, (size_t)got);
		done += (size_t)got;
	}
	if (fstat(fd, &st) != 0)
		return tree_fail(path, err);
	tree_status_of(&st, status);
	return 0;
}
