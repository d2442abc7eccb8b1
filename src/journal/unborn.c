/* Directories of sessions that are none yet; unborn.h says which. */
#include "journal/unborn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"

bool unborn_is(int dirfd)
{
	struct stat st;

	if (fstatat(dirfd, "session.json", &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return false;
	if (fstatat(dirfd, "journal.ndjson", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return st.st_size == 0;
	return errno == ENOENT;
}

int unborn_remove(int sessions_fd, const char *id, struct err *err)
{
	cleanup_free char *gone = mem_format(".removing-%s", id);

	if (renameat(sessions_fd, id, sessions_fd, gone) != 0)
		return err_sys(err, "cannot remove the session %s", id);
	return file_remove_tree(sessions_fd, gone, err);
}

enum { ABANDONED_S = 3600 };

/* A keeper has had it, or the client that began to make it must be dead by now. */
static bool is_abandoned(int dirfd)
{
	struct stat st;

	if (faccessat(dirfd, "lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	return fstat(dirfd, &st) == 0 && time(NULL) - st.st_mtim.tv_sec > ABANDONED_S;
}

/* A keeper that was killed has left its socket. */
static void drop_socket(const char *id)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path = runtime ? mem_format("%s/%s.sock", runtime, id) : NULL;

	if (path)
		unlink(path);
}

static void sweep_one(int sessions_fd, const char *id)
{
	cleanup_fd int fd =
		openat(sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_fd int lock = -1;

	if (fd < 0 || !unborn_is(fd) || !is_abandoned(fd))
		return;
	lock = file_lock(fd, "lock", NULL);
	/* Its keeper may have found its client and ended between the two looks. */
	if (lock < 0 || !unborn_is(fd))
		return;
	drop_socket(id);
	(void)unborn_remove(sessions_fd, id, NULL);
}

void unborn_sweep(int sessions_fd)
{
	int fd = openat(sessions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *item; (item = readdir(dir));) {
		if (item->d_name[0] != '.')
			sweep_one(sessions_fd, item->d_name);
	}
	closedir(dir);
}
