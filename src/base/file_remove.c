/*
 * Removing a tree that a guest may have made as nasty as it could.
 *
 * - Deeper than descriptors or stack last: there is one open directory at a time and a list on the
 *   heap of the directories above it. The way up is "..", taken only if it is the directory we came
 *   from.
 * - Symlinks: names are removed, never followed (unlinkat removes a link itself; directories are
 *   opened by openat2(2) with RESOLVE_NO_SYMLINKS).
 * - Mounts, also bind mounts of the same file system: RESOLVE_NO_XDEV refuses to enter.
 * - Directories without permissions (mode 000): opened as O_PATH, which needs none, and made 0700.
 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

/* A directory above the open one. */
struct level {
	dev_t dev;
	ino_t ino;
	char *child; /* the name by which we went down from it */
};

struct walk {
	DIR *dir; /* the open directory */
	struct level *levels;
	size_t depth;
	size_t capacity;
};

static void walk_release(struct walk *walk)
{
	if (walk->dir)
		closedir(walk->dir);
	while (walk->depth > 0)
		free(walk->levels[--walk->depth].child);
	free(walk->levels);
}

#define cleanup_walk __attribute__((cleanup(walk_release)))

/* The directory dirfd/name, readable. `top` may be on a mount of its own and named by a path. */
static DIR *open_directory(int dirfd, const char *name, bool top)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};
	cleanup_fd int path_fd = -1;
	cleanup_fd int fd = -1;
	struct stat st;
	DIR *dir;

	path_fd = top ? openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		      : (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
	if (path_fd < 0 || fstat(path_fd, &st) < 0)
		return NULL;
	if ((st.st_mode & 0700) != 0700) {
		char link[sizeof("/proc/self/fd/-2147483648")];

		/* fchmod refuses O_PATH descriptors. If this fails, the open below says why. */
		snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
		if (chmod(link, 0700) < 0)
			errno = 0;
	}
	fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	dir = fdopendir(fd);
	if (dir)
		fd = -1;
	return dir;
}

static int go_down(struct walk *walk, const char *name, struct err *err)
{
	DIR *child = open_directory(dirfd(walk->dir), name, false);
	struct level *level;
	struct stat st;

	if (!child && errno == EXDEV)
		return err_set(err, ERR_DENIED, "cannot remove %s: something is mounted on it",
			       name);
	if (!child)
		return err_sys(err, "cannot open directory %s", name);
	if (fstat(dirfd(walk->dir), &st) < 0) {
		closedir(child);
		return err_sys(err, "cannot stat the directory of %s", name);
	}
	if (walk->depth == walk->capacity) {
		walk->capacity = walk->capacity > 0 ? 2 * walk->capacity : 16;
		walk->levels = mem_resize(walk->levels, walk->capacity, sizeof(*walk->levels));
	}
	level = &walk->levels[walk->depth++];
	level->dev = st.st_dev;
	level->ino = st.st_ino;
	level->child = mem_string(name);
	closedir(walk->dir);
	walk->dir = child;
	return 0;
}

/* Goes up one level and removes the directory that it came from, which is empty. */
static int go_up(struct walk *walk, struct err *err)
{
	struct level *level = &walk->levels[walk->depth - 1];
	cleanup_fd int fd = openat(dirfd(walk->dir), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	DIR *parent;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot go up from directory %s", level->child);
	if (st.st_dev != level->dev || st.st_ino != level->ino)
		return err_set(err, ERR_BUSY, "directory %s was moved while it was removed",
			       level->child);
	if (unlinkat(fd, level->child, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, "cannot remove directory %s", level->child);
	parent = fdopendir(fd);
	if (!parent)
		return err_sys(err, "cannot read the directory of %s", level->child);
	fd = -1;
	closedir(walk->dir);
	walk->dir = parent;
	free(level->child);
	walk->depth--;
	return 0;
}

/* Removes what is in the open directory until it is empty (1) or until it meets a directory with
 * something in it, which it enters (0). */
static int clear_directory(struct walk *walk, struct err *err)
{
	for (;;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(walk->dir);
		if (!entry)
			return errno == 0 ? 1 : err_sys(err, "cannot read a directory");
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(walk->dir), entry->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR)
			return err_sys(err, "cannot remove %s", entry->d_name);
		if (unlinkat(dirfd(walk->dir), entry->d_name, AT_REMOVEDIR) == 0)
			continue;
		return go_down(walk, entry->d_name, err);
	}
}

int file_remove_tree(int dirfd, const char *name, struct err *err)
{
	cleanup_walk struct walk walk = {.dir = NULL};
	int result;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return err_sys(err, "cannot remove %s", name);
	walk.dir = open_directory(dirfd, name, true);
	if (!walk.dir)
		return err_sys(err, "cannot open directory %s", name);
	for (;;) {
		result = clear_directory(&walk, err);
		if (result > 0 && walk.depth == 0)
			break;
		if (result > 0)
			result = go_up(&walk, err);
		if (result < 0)
			return err_wrap(err, "%s", name);
	}
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, "cannot remove directory %s", name);
	return 0;
}
