/*
 * Removing sessions: one, or those that are old.
 *
 * A session is removed under its own lock, the one its keeper holds, so a running session cannot be
 * removed and one that is being removed cannot be reopened. It is first renamed to .removing-<id>:
 * from that moment nobody finds it, and what a crash leaves behind is swept later.
 */
#include "client/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "journal/branches.h"
#include "journal/unborn.h"

static const char REMOVING[] = ".removing-";
enum { SIZE_DEPTH_MAX = 64 };
#define LEFTOVER_AGE_US ((int64_t)3600 * 1000000)

static uint64_t directory_bytes(int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	uint64_t bytes = 0;

	if (!dir) {
		close(fd);
		return 0;
	}
	for (struct dirent *item; (item = readdir(dir));) {
		struct stat st;
		int below;

		if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), item->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		bytes += (uint64_t)st.st_blocks * 512;
		if (!S_ISDIR(st.st_mode) || depth >= SIZE_DEPTH_MAX)
			continue;
		below = openat(dirfd(dir), item->d_name,
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (below >= 0)
			bytes += directory_bytes(below, depth + 1);
	}
	closedir(dir);
	return bytes;
}

uint64_t store_tree_bytes(int fd)
{
	return directory_bytes(fd, 0);
}

uint64_t store_bytes(struct store *store, const char *id)
{
	int fd = store_open_directory(store, id, NULL);

	return fd < 0 ? 0 : directory_bytes(fd, 0);
}

/* Takes the session's lock, trying for `wait_ms`: a keeper that was told to stop needs a moment to
 * end. */
static int lock_session(int fd, int wait_ms, struct err *err)
{
	int64_t until = clock_monotonic_us() + (int64_t)wait_ms * 1000;
	struct timespec pause = {.tv_sec = 0, .tv_nsec = 500000};

	for (;;) {
		struct err why = ERR_INIT;
		int lock = file_lock(fd, "lock", &why);

		if (lock >= 0)
			return lock;
		if (why.code != ERR_BUSY || clock_monotonic_us() >= until)
			return err_set(err, why.code, "%s",
				       why.code == ERR_BUSY
					       ? "the session is running (fumehood stop ends it)"
					       : why.text);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 16000000)
			pause.tv_nsec *= 2;
	}
}

/* Takes away every name that points to `id`. */
static void drop_names(struct store *store, const char *id)
{
	cleanup_fd int lock =
		openat(store->root_fd, "names.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int fd = openat(store->names_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (lock >= 0)
		(void)flock(lock, LOCK_EX);
	for (struct dirent *item; (item = readdir(dir));) {
		char target[128];
		ssize_t len = readlinkat(store->names_fd, item->d_name, target, sizeof(target) - 1);
		const char *base;

		if (len < 0)
			continue;
		target[len] = '\0';
		base = strrchr(target, '/');
		if (base && strcmp(base + 1, id) == 0)
			unlinkat(store->names_fd, item->d_name, 0);
	}
	closedir(dir);
}

/* A keeper that was killed has left its socket. */
static void drop_socket(const char *id)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path = runtime ? mem_format("%s/%s.sock", runtime, id) : NULL;

	if (path)
		unlink(path);
}

/* A branch goes on in the workspace of the session that it was made of. */
static int check_branches(struct store *store, const char *id, int dirfd, struct err *err)
{
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_free char *inside = mem_format("%s/sessions/%s/", store->root, id);

	if (!branches_any(dirfd))
		return 0;
	if (branches_inside(dirfd))
		return err_set(err, ERR_BUSY,
			       "branches of it are in its directory, as long as they "
			       "run: stop or remove those first");
	if (store_list(store, &list, err) != 0)
		return -1;
	for (size_t i = 0; i < list.count; i++) {
		const struct config *config = &list.entries[i].config;

		if (strcmp(config->id, id) != 0 && config->workspace &&
		    strncmp(config->workspace, inside, strlen(inside)) == 0)
			return err_set(err, ERR_BUSY,
				       "%s, a branch of it, uses its workspace: remove that first",
				       config->name ? config->name : config->id);
	}
	return 0;
}

int store_remove(struct store *store, const char *id, int wait_ms, struct err *err)
{
	cleanup_fd int fd = store_open_directory(store, id, err);
	cleanup_fd int lock = -1;
	cleanup_free char *gone = mem_format("%s%s", REMOVING, id);

	if (fd < 0)
		return -1;
	lock = lock_session(fd, wait_ms, err);
	if (lock < 0 || check_branches(store, id, fd, err) != 0 ||
	    branches_settle(store->sessions_fd, id, err) != 0)
		return -1;
	if (renameat(store->sessions_fd, id, store->sessions_fd, gone) != 0)
		return err_sys(err, "cannot remove %s/sessions/%s", store->root, id);
	drop_names(store, id);
	drop_socket(id);
	return file_remove_tree(store->sessions_fd, gone, err);
}

/* --- sweeping --------------------------------------------------------------------------------- */

struct candidate {
	const struct store_entry *entry;
	int64_t used_us; /* last change of the journal, else its birth */
	uint64_t bytes;
	bool running;
	bool gone;
};

static void look_at(struct store *store, const struct store_entry *entry,
		    struct candidate *candidate)
{
	cleanup_fd int fd = store_open_directory(store, entry->config.id, NULL);
	cleanup_fd int lock = -1;
	struct err why = ERR_INIT;
	struct stat st;

	*candidate = (struct candidate){.entry = entry, .used_us = entry->config.created_us};
	if (fd < 0) {
		candidate->gone = true;
		return;
	}
	lock = file_lock(fd, "lock", &why);
	candidate->running = lock < 0 && why.code == ERR_BUSY;
	if (fstatat(fd, "journal.ndjson", &st, AT_SYMLINK_NOFOLLOW) == 0)
		candidate->used_us = (int64_t)st.st_mtim.tv_sec * 1000000;
	candidate->bytes = store_bytes(store, entry->config.id);
}

static void remove_candidate(struct store *store, const struct store_sweep *sweep,
			     struct candidate *candidate, const char *why)
{
	if (!sweep->dry_run && store_remove(store, candidate->entry->config.id, 0, NULL) != 0)
		return; /* it was started or removed in this moment */
	candidate->gone = true;
	if (sweep->removed)
		sweep->removed(sweep->data, candidate->entry, candidate->bytes, why);
}

/* What was left half-removed. A remover that is still at work holds its lock, and the worst that
 * happens when both unlink is that one of them finds nothing. */
static void sweep_halves(struct store *store)
{
	int fd = openat(store->sessions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *item; (item = readdir(dir));) {
		const char *id = item->d_name + sizeof(REMOVING) - 1;

		if (strncmp(item->d_name, REMOVING, sizeof(REMOVING) - 1) != 0 || !config_is_id(id))
			continue;
		file_remove_tree(store->sessions_fd, item->d_name, NULL);
		drop_names(store, id);
	}
	closedir(dir);
}

static int oldest_first(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return a->used_us < b->used_us ? -1 : a->used_us > b->used_us;
}

int store_sweep(struct store *store, const struct store_sweep *sweep, struct err *err)
{
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_free struct candidate *candidates = NULL;
	int64_t now = clock_wall_us();
	uint64_t total = 0, most = sweep->bytes_max;

	if (store_list(store, &list, err) != 0)
		return -1;
	candidates = mem_zalloc((list.count + 1) * sizeof(*candidates));
	for (size_t i = 0; i < list.count; i++)
		look_at(store, &list.entries[i], &candidates[i]);
	qsort(candidates, list.count, sizeof(*candidates), oldest_first);
	for (size_t i = 0; i < list.count; i++) {
		struct candidate *candidate = &candidates[i];
		int64_t age = now - candidate->used_us;
		bool leftover =
			candidate->entry->config.ends_with_client || candidate->entry->damaged;

		if (!candidate->running && leftover && age > LEFTOVER_AGE_US)
			remove_candidate(store, sweep, candidate, "left over");
		else if (!candidate->running && sweep->age_us_max >= 0 && age > sweep->age_us_max)
			remove_candidate(store, sweep, candidate, "old");
		if (!candidate->gone)
			total += candidate->bytes;
	}
	if (sweep->room)
		most = sweep->room(sweep->data, total);
	for (size_t i = 0; i < list.count && total > most; i++) {
		if (candidates[i].running || candidates[i].gone)
			continue;
		remove_candidate(store, sweep, &candidates[i], "size");
		if (candidates[i].gone)
			total -= candidates[i].bytes;
	}
	if (!sweep->dry_run) {
		unborn_sweep(store->sessions_fd);
		sweep_halves(store);
	}
	return 0;
}
