/* The places of branches; see branches.h. */
#include "journal/branches.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

static const char BETWEEN[] = "/" BRANCHES_FOLDER "/";
enum { ID_LEN = HASH_ID_SIZE - 1, BETWEEN_LEN = sizeof(BETWEEN) - 1, TRIES = 3 };

/* "<id>", "<id>/branches/<id>" and so on. *last is its last id. */
static bool is_path(const char *path, const char **last)
{
	for (;;) {
		char id[HASH_ID_SIZE];

		snprintf(id, sizeof(id), "%.*s", ID_LEN, path);
		*last = path;
		if (!hash_is_id(id))
			return false;
		path += ID_LEN;
		if (!*path)
			return true;
		if (strncmp(path, BETWEEN, BETWEEN_LEN) != 0)
			return false;
		path += BETWEEN_LEN;
	}
}

/* Where the link leads, if it is one of ours. */
static bool read_link(int sessions_fd, const char *id, char target[static PATH_MAX])
{
	ssize_t len = readlinkat(sessions_fd, id, target, PATH_MAX - 1);
	const char *last;

	if (len < 0)
		return false;
	target[len] = '\0';
	return is_path(target, &last) && strcmp(last, id) == 0 && last != target;
}

enum { OPEN_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };

/* Opens one part of the path after another; -1 with errno. Changes the path. */
static int walk(int sessions_fd, char *path)
{
	int at = sessions_fd;

	for (char *part = path; part;) {
		char *slash = strchr(part, '/');
		int next;

		if (slash)
			*slash = '\0';
		next = openat(at, part, OPEN_FLAGS);
		if (at != sessions_fd)
			close(at);
		if (next < 0)
			return -1;
		at = next;
		part = slash ? slash + 1 : NULL;
	}
	return at;
}

int branches_open(int sessions_fd, const char *id)
{
	char target[PATH_MAX];
	int fd = -1;

	/* Again where the two have just changed places. */
	for (int i = 0; i < TRIES && fd < 0; i++) {
		fd = openat(sessions_fd, id, OPEN_FLAGS);
		if (fd < 0 && read_link(sessions_fd, id, target))
			fd = walk(sessions_fd, target);
	}
	return fd;
}

int branches_link(int sessions_fd, const char *directory, const char *id, struct err *err)
{
	cleanup_free char *target = mem_format("%s%s%s", directory, BETWEEN, id);
	const char *last;

	if (!is_path(target, &last) || strcmp(last, id) != 0)
		return err_set(err, ERR_INVALID,
			       "the directory of this session is not among those "
			       "of the others: it can have no branches");
	if (symlinkat(target, sessions_fd, id) != 0)
		return err_sys(err, "cannot make the link of a branch");
	return 0;
}

int branches_settle(int sessions_fd, const char *id, struct err *err)
{
	char target[PATH_MAX];

	if (!read_link(sessions_fd, id, target))
		return 0;
	if (renameat2(sessions_fd, id, sessions_fd, target, RENAME_EXCHANGE) != 0)
		return err_sys(err, "cannot put the directory of a branch in its place");
	return 0;
}

void branches_unlink(int sessions_fd, const char *id)
{
	char target[PATH_MAX];

	if (read_link(sessions_fd, id, target))
		unlinkat(sessions_fd, id, 0);
}

bool branches_any(int dirfd)
{
	return faccessat(dirfd, BRANCHES_FOLDER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool branches_inside(int dirfd)
{
	int fd = openat(dirfd, BRANCHES_FOLDER, OPEN_FLAGS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (struct dirent *item; !found && (item = readdir(dir));)
		found = hash_is_id(item->d_name) &&
			fstatat(fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(st.st_mode);
	closedir(dir);
	return found;
}
