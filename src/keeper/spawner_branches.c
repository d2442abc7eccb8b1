/*
 * What leads to a branch; see spawner_protocol.h and journal/branches.h.
 *
 * The order's words come from a keeper that may have been taken over. An id is looked at as one;
 * what is linked is always inside the session's own directory; a name that somebody has is not
 * given.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "journal/branches.h"
#include "keeper/spawner_protocol.h"

/* The folders of the store. */
struct folders {
	struct names_at names;
	char path[PATH_MAX]; /* of the sessions */
};

#define FOLDERS_INIT \
	{ \
		.names = {.root_fd = -1, .names_fd = -1, .sessions_fd = -1}, .path = "" \
	}

static void folders_close(struct folders *folders)
{
	const int fds[] = {folders->names.root_fd, folders->names.names_fd,
			   folders->names.sessions_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

#define cleanup_folders __attribute__((cleanup(folders_close)))

static int folders_open(struct folders *folders, struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	cleanup_free char *state = paths_state(err);
	cleanup_free char *sessions = state ? mem_format("%s/sessions", state) : NULL;
	struct names_at *names = &folders->names;

	if (!state)
		return -1;
	names->root_fd = open(state, flags);
	if (names->root_fd < 0)
		return err_sys(err, "cannot open %s", state);
	if (mkdirat(names->root_fd, "by-name", 0700) == 0 || errno == EEXIST)
		names->names_fd = openat(names->root_fd, "by-name", flags | O_NOFOLLOW);
	names->sessions_fd = openat(names->root_fd, "sessions", flags | O_NOFOLLOW);
	if (names->names_fd < 0 || names->sessions_fd < 0 || !realpath(sessions, folders->path))
		return err_sys(err, "cannot open the folders of %s", state);
	return 0;
}

/* The path of the session's directory beneath the sessions; NULL: it is elsewhere. */
static const char *path_beneath(const struct folders *folders, int dirfd,
				char path[static PATH_MAX])
{
	size_t len = strlen(folders->path);
	char link[64];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	got = readlink(link, path, PATH_MAX - 1);
	if (got < 0)
		return NULL;
	path[got] = '\0';
	return strncmp(path, folders->path, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static int check(const struct spawner_order *order, struct err *err)
{
	if (!memchr(order->id, '\0', sizeof(order->id)) || !hash_is_id(order->id) ||
	    !memchr(order->name, '\0', sizeof(order->name)))
		return err_set(err, ERR_INVALID, "this is no id of a branch");
	return order->name[0] ? names_check(order->name, err) : 0;
}

static char *find(struct spawner_branches *branches, const char *id)
{
	for (size_t i = 0; i < SPAWNER_BRANCHES_MAX; i++)
		if (strcmp(branches->ids[i], id) == 0)
			return branches->ids[i];
	return NULL;
}

static int listen_for(const char *id, struct err *err)
{
	cleanup_free char *runtime = paths_runtime(err);
	cleanup_free char *name = mem_format("%s.sock", id);

	return runtime ? socket_listen(runtime, name, SOCK_STREAM, err) : -1;
}

static void drop_socket(const char *id)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path = runtime ? mem_format("%s/%s.sock", runtime, id) : NULL;

	if (path)
		unlink(path);
}

int spawner_branch_begin(struct spawner_branches *branches, int dirfd,
			 const struct spawner_order *order, struct err *err)
{
	cleanup_folders struct folders folders = FOLDERS_INIT;
	char *slot = find(branches, ""), path[PATH_MAX];
	const char *directory;
	int fd = -1;

	if (check(order, err) != 0)
		return -1;
	if (!slot || find(branches, order->id))
		return err_set(err, ERR_LIMIT, "too many branches");
	if (folders_open(&folders, err) != 0)
		return -1;
	directory = path_beneath(&folders, dirfd, path);
	if (branches_link(folders.names.sessions_fd, directory ? directory : "", order->id, err) !=
	    0)
		return -1;
	if (order->name[0] && names_give(&folders.names, order->name, order->id, err) != 0) {
		branches_unlink(folders.names.sessions_fd, order->id);
		return -1;
	}
	fd = listen_for(order->id, err);
	if (fd >= 0) {
		memcpy(slot, order->id, HASH_ID_SIZE);
		return fd;
	}
	if (order->name[0])
		names_drop(&folders.names, order->name, order->id);
	branches_unlink(folders.names.sessions_fd, order->id);
	return -1;
}

int spawner_branch_end(struct spawner_branches *branches, const struct spawner_order *order,
		       struct err *err)
{
	cleanup_folders struct folders folders = FOLDERS_INIT;
	char *slot;

	if (check(order, err) != 0)
		return -1;
	slot = find(branches, order->id);
	if (!slot)
		return err_set(err, ERR_NOT_FOUND, "there is no such branch");
	memset(slot, 0, HASH_ID_SIZE);
	drop_socket(order->id);
	if (folders_open(&folders, err) != 0)
		return -1;
	if (!order->unborn)
		return branches_settle(folders.names.sessions_fd, order->id, err);
	if (order->name[0])
		names_drop(&folders.names, order->name, order->id);
	branches_unlink(folders.names.sessions_fd, order->id);
	return 0;
}

void spawner_branches_end(struct spawner_branches *branches)
{
	cleanup_folders struct folders folders = FOLDERS_INIT;
	bool open = false;

	for (size_t i = 0; i < SPAWNER_BRANCHES_MAX; i++) {
		if (!branches->ids[i][0])
			continue;
		if (!open && folders_open(&folders, NULL) != 0)
			return;
		open = true;
		drop_socket(branches->ids[i]);
		(void)branches_settle(folders.names.sessions_fd, branches->ids[i], NULL);
	}
}
