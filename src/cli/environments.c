/*
 * Finding, locking and removing environments of --with. See environments.h.
 *
 * One is removed from its end: made.json first, and from that moment it is not whole and nobody
 * uses it; what a crash leaves behind is cleared away by the next maker or sweep.
 */
#include "cli/environments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"

#define LEFTOVER_AGE_US ((int64_t)3600 * 1000000)
enum { MADE_BYTES_MAX = 1 << 20, ENVIRONMENTS_MAX = 100000 };

int environments_open(char **path, struct err *err)
{
	cleanup_free char *data = paths_data(err);
	int fd;

	*path = data ? mem_format("%s/environments", data) : NULL;
	if (!*path || file_make_dirs(*path, 0755, err) != 0)
		return -1;
	fd = open(*path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(err, "cannot open %s", *path) : fd;
}

/* Whether the name still stands for this file: whoever removes an environment removes its lock. */
static bool is_still(int folder, const char *name, int fd)
{
	struct stat now, ours;

	return fstat(fd, &ours) == 0 && fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       now.st_dev == ours.st_dev && now.st_ino == ours.st_ino;
}

int environments_lock(int folder, const char *hash, int operation, struct err *err)
{
	cleanup_free char *name = mem_format("%s.lock", hash);

	for (;;) {
		cleanup_fd int fd =
			openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0)
			return err_sys(err, "cannot open the lock of an environment, %s", name);
		while (flock(fd, operation) != 0) {
			if (errno == EWOULDBLOCK)
				return err_set(err, ERR_BUSY, "the environment is in use");
			if (errno != EINTR)
				return err_sys(err, "cannot lock an environment, %s", name);
		}
		if (is_still(folder, name, fd))
			return fd_take(&fd);
	}
}

/* --- looking ---------------------------------------------------------------------------------- */

struct found {
	char hash[HASH_HEX_SIZE];
	struct json *packages; /* NULL: it is not whole */
	int64_t used_us;
	uint64_t bytes;
	bool gone;
};

struct sweeping {
	int folder;
	char *path;
	struct store *store;
	const struct environments_sweep *how;
	struct found *found;
	size_t count;
};

static void sweeping_release(struct sweeping *sweeping)
{
	for (size_t i = 0; i < sweeping->count; i++)
		json_free(sweeping->found[i].packages);
	free(sweeping->found);
	free(sweeping->path);
	if (sweeping->folder >= 0)
		close(sweeping->folder);
}

static bool is_hash(const char *name)
{
	return strlen(name) == HASH_HEX_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

static void look_at(int folder, const char *hash, struct found *found)
{
	cleanup_fd int fd = openat(folder, hash, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *made = NULL;
	struct stat st;

	memcpy(found->hash, hash, HASH_HEX_SIZE);
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	if (fstatat(fd, PYTHON_MADE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    file_read(fd, PYTHON_MADE, MADE_BYTES_MAX, &text, NULL) == 0)
		made = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	if (json_type_of(json_get(made, "packages")) == JSON_ARRAY)
		found->packages = json_keep(json_get(made, "packages"));
	found->used_us = (int64_t)st.st_mtim.tv_sec * 1000000;
	found->bytes = store_tree_bytes(fd_take(&fd));
}

static int by_use(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	return a->used_us < b->used_us ? -1 : a->used_us > b->used_us;
}

/* 0 when there is no folder, too. */
static int look(struct sweeping *sweeping, struct err *err)
{
	cleanup_free char *data = paths_data(err);
	DIR *dir;
	int fd;

	if (!data)
		return -1;
	sweeping->path = mem_format("%s/environments", data);
	sweeping->folder = open(sweeping->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sweeping->folder < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot open %s", sweeping->path);
	fd = openat(sweeping->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return err_sys(err, "cannot read %s", sweeping->path);
	}
	for (struct dirent *item; (item = readdir(dir)) && sweeping->count < ENVIRONMENTS_MAX;) {
		if (!is_hash(item->d_name))
			continue;
		sweeping->found =
			mem_resize(sweeping->found, sweeping->count + 1, sizeof(*sweeping->found));
		sweeping->found[sweeping->count] = (struct found){.packages = NULL};
		look_at(sweeping->folder, item->d_name, &sweeping->found[sweeping->count++]);
	}
	closedir(dir);
	qsort(sweeping->found, sweeping->count, sizeof(*sweeping->found), by_use);
	return 0;
}

/* --- removing --------------------------------------------------------------------------------- */

/* Whether a session has this one as its Python. When it cannot be told, it is. */
static bool is_used(const struct sweeping *sweeping, const char *hash)
{
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_free char *inside = mem_format("%s/%s/", sweeping->path, hash);

	if (store_list(sweeping->store, &list, NULL) != 0)
		return true;
	for (size_t i = 0; i < list.count; i++) {
		const struct config *config = &list.entries[i].config;

		if (config->python && strncmp(config->python, inside, strlen(inside)) == 0 &&
		    !(sweeping->how->is_gone &&
		      sweeping->how->is_gone(sweeping->how->data, config->id)))
			return true;
	}
	return false;
}

static int remove_one(const struct sweeping *sweeping, const char *hash)
{
	cleanup_free char *made = mem_format("%s/" PYTHON_MADE, hash);
	cleanup_free char *lock = mem_format("%s.lock", hash);

	if (unlinkat(sweeping->folder, made, 0) != 0 && errno != ENOENT)
		return -1;
	if (file_remove_tree(sweeping->folder, hash, NULL) != 0)
		return -1;
	return unlinkat(sweeping->folder, lock, 0);
}

static void try_one(const struct sweeping *sweeping, struct found *found, const char *why)
{
	cleanup_fd int lock =
		environments_lock(sweeping->folder, found->hash, LOCK_EX | LOCK_NB, NULL);

	if (lock < 0 || is_used(sweeping, found->hash))
		return;
	if (!sweeping->how->dry_run && remove_one(sweeping, found->hash) != 0)
		return;
	found->gone = true;
	if (sweeping->how->removed)
		sweeping->how->removed(sweeping->how->data, found->packages, found->bytes, why);
}

int environments_sweep(struct store *store, const struct environments_sweep *sweep, uint64_t *bytes,
		       struct err *err)
{
	__attribute__((cleanup(sweeping_release))) struct sweeping sweeping = {
		.folder = -1, .store = store, .how = sweep};
	int64_t now = clock_wall_us();

	*bytes = 0;
	if (look(&sweeping, err) != 0)
		return -1;
	for (size_t i = 0; i < sweeping.count; i++) {
		struct found *found = &sweeping.found[i];
		int64_t age = now - found->used_us;

		if (!found->packages && age > LEFTOVER_AGE_US)
			try_one(&sweeping, found, "left over");
		else if (found->packages && sweep->age_us_max >= 0 && age > sweep->age_us_max)
			try_one(&sweeping, found, "old");
		*bytes += found->gone ? 0 : found->bytes;
	}
	for (size_t i = 0; i<sweeping.count && * bytes> sweep->bytes_max; i++) {
		struct found *found = &sweeping.found[i];

		if (found->gone || !found->packages)
			continue;
		try_one(&sweeping, found, "size");
		*bytes -= found->gone ? found->bytes : 0;
	}
	return 0;
}
