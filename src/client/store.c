/*
 * The store: making, finding and listing sessions. See store.h for the layout.
 *
 * Directories come from the disk: an entry of sessions/ counts only if it has the form of an id.
 */
#include "client/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/text.h"
#include "journal/branches.h"
#include "journal/names.h"
#include "journal/unborn.h"

void store_release(struct store *store)
{
	free(store->root);
	if (store->root_fd >= 0)
		close(store->root_fd);
	if (store->sessions_fd >= 0)
		close(store->sessions_fd);
	if (store->names_fd >= 0)
		close(store->names_fd);
	*store = (struct store)STORE_INIT;
}

/* Makes and opens root/name. */
static int open_part(const struct store *store, const char *name, struct err *err)
{
	int fd;

	if (mkdirat(store->root_fd, name, 0700) != 0 && errno != EEXIST)
		return err_sys(err, "cannot make %s/%s", store->root, name);
	fd = openat(store->root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(err, "cannot open %s/%s", store->root, name);
	return fd;
}

int store_open(struct store *store, struct err *err)
{
	*store = (struct store)STORE_INIT;
	store->root = paths_state(err);
	if (!store->root)
		return -1;
	store->root_fd = open(store->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->root_fd < 0)
		return err_sys(err, "cannot open %s", store->root);
	store->sessions_fd = open_part(store, "sessions", err);
	if (store->sessions_fd < 0)
		return -1;
	store->names_fd = open_part(store, "by-name", err);
	return store->names_fd < 0 ? -1 : 0;
}

void store_entry_release(struct store_entry *entry)
{
	config_release(&entry->config);
	free(entry->directory);
	*entry = (struct store_entry)STORE_ENTRY_INIT;
}

void store_list_release(struct store_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		store_entry_release(&list->entries[i]);
	free(list->entries);
	*list = (struct store_list)STORE_LIST_INIT;
}

/* --- names ------------------------------------------------------------------------------------ */

static struct names_at names_of(const struct store *store)
{
	return (struct names_at){.root_fd = store->root_fd,
				 .names_fd = store->names_fd,
				 .sessions_fd = store->sessions_fd};
}

int store_check_name(const char *name, struct err *err)
{
	return names_check(name, err);
}

static int read_name(const struct store *store, const char *name, char id[static HASH_ID_SIZE])
{
	const struct names_at names = names_of(store);

	return names_read(&names, name, id);
}

static bool session_exists(const struct store *store, const char *id)
{
	cleanup_fd int fd = branches_open(store->sessions_fd, id);

	return fd >= 0;
}

int store_give_name(const struct store *store, const char *name, const char *id, struct err *err)
{
	const struct names_at names = names_of(store);

	return names_give(&names, name, id, err);
}

/* --- making ----------------------------------------------------------------------------------- */

/* A copy of `config` with the id, the time and a workspace. */
static void fill_entry(const struct store *store, const struct config *config,
		       struct store_entry *entry)
{
	struct config *made = &entry->config;

	hash_random_id(made->id);
	entry->directory = mem_format("%s/sessions/%s", store->root, made->id);
	made->name = mem_string(config->name);
	made->created_us = clock_wall_us();
	made->python = mem_string(config->python);
	made->workspace_private = !config->workspace;
	made->workspace = config->workspace ? mem_string(config->workspace)
					    : mem_format("%s/workspace", entry->directory);
	made->workspace_read_only = config->workspace_read_only;
	made->workspace_overlay = config->workspace_overlay;
	made->tier = config->tier;
	made->wall_s_max = config->wall_s_max;
	made->output_bytes_max = config->output_bytes_max;
	made->limits = config->limits;
	made->ends_with_client = config->ends_with_client;
	made->durability_power = config->durability_power;
	made->keeps_rolled_back = config->keeps_rolled_back;
	if (config->policy)
		made->policy = json_keep(config->policy);
	if (config->notebook_metadata)
		made->notebook_metadata = json_keep(config->notebook_metadata);
}

/*
 * Fills the directory that was made for the entry. Nothing is synced: a start waits for no disk,
 * and until the keeper syncs its journal (and this file with it) there is nothing that a power cut
 * could lose.
 */
static int fill_directory(int fd, const struct store_entry *entry, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int file = -1;

	if (entry->config.workspace_private && mkdirat(fd, "workspace", 0700) != 0)
		return err_sys(err, "cannot make %s/workspace", entry->directory);
	config_write(&text, &entry->config);
	file = openat(fd, "session.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(err, "cannot make %s/session.json", entry->directory);
	return file_write_all(file, buf_bytes(&text), text.len, err);
}

int store_create(struct store *store, const struct config *config, struct store_entry *entry,
		 struct err *err)
{
	cleanup_fd int fd = -1;
	cleanup_entry struct store_entry made = STORE_ENTRY_INIT;

	if (config->name && store_check_name(config->name, err) != 0)
		return -1;
	fill_entry(store, config, &made);
	if (mkdirat(store->sessions_fd, made.config.id, 0700) != 0)
		return err_sys(err, "cannot make %s", made.directory);
	fd = openat(store->sessions_fd, made.config.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		err_sys(err, "cannot open %s", made.directory);
		goto undo;
	}
	if (fill_directory(fd, &made, err) != 0)
		goto undo;
	if (config->name && store_give_name(store, config->name, made.config.id, err) != 0)
		goto undo;
	*entry = made;
	made = (struct store_entry)STORE_ENTRY_INIT;
	return 0;
undo:
	file_remove_tree(store->sessions_fd, made.config.id, NULL);
	return -1;
}

/* --- finding ---------------------------------------------------------------------------------- */

int store_open_directory(struct store *store, const char *id, struct err *err)
{
	int fd = branches_open(store->sessions_fd, id);

	if (fd < 0)
		err_sys(err, "cannot open %s/sessions/%s", store->root, id);
	return fd;
}

/* Fills *entry for a directory that is there. A damaged session.json is told by a flag, because
 * such a session must still be seen and removed. */
static int read_entry(struct store *store, const char *id, struct store_entry *entry,
		      struct err *err)
{
	cleanup_fd int fd = store_open_directory(store, id, err);
	cleanup_buf struct buf text = BUF_INIT;
	struct config *config = &entry->config;
	char owner[HASH_ID_SIZE];
	struct stat st;

	if (fd < 0)
		return -1;
	entry->directory = mem_format("%s/sessions/%s", store->root, id);
	if (file_read(fd, "session.json", CONFIG_BYTES_MAX, &text, NULL) != 0 ||
	    config_read(buf_bytes(&text), text.len, config, NULL) != 0 ||
	    strcmp(config->id, id) != 0) {
		config_release(config);
		memcpy(config->id, id, HASH_ID_SIZE);
		entry->damaged = true;
		entry->unborn = unborn_is(fd);
	}
	if (config->created_us == 0 && fstat(fd, &st) == 0)
		config->created_us = (int64_t)st.st_mtim.tv_sec * 1000000;
	if (config->name &&
	    (read_name(store, config->name, owner) != 0 || strcmp(owner, id) != 0)) {
		free(config->name);
		config->name = NULL;
	}
	return 0;
}

/* A fresh stream over sessions/; the caller closes it. */
static DIR *scan(const struct store *store, struct err *err)
{
	int fd = openat(store->sessions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		return dir;
	err_sys(err, "cannot read %s/sessions", store->root);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* Completes the beginning of an id. */
static int complete_id(const struct store *store, const char *prefix, char id[static HASH_ID_SIZE],
		       struct err *err)
{
	size_t len = strlen(prefix);
	unsigned found = 0;
	DIR *dir = scan(store, err);

	if (!dir)
		return -1;
	for (struct dirent *item; (item = readdir(dir));) {
		if (!config_is_id(item->d_name) || strncmp(item->d_name, prefix, len) != 0)
			continue;
		memcpy(id, item->d_name, HASH_ID_SIZE);
		found++;
	}
	closedir(dir);
	if (found > 1)
		return err_set(err, ERR_INVALID,
			       "%u sessions have an id that begins with %s; "
			       "give more of it",
			       found, prefix);
	if (found == 0)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no session %s (fumehood ls shows them)", prefix);
	return 0;
}

/* Whether a keeper has the session's lock. */
static bool is_held(struct store *store, const char *id)
{
	cleanup_fd int fd = store_open_directory(store, id, NULL);
	cleanup_fd int lock = -1;
	struct err why = ERR_INIT;

	if (fd < 0 || faccessat(fd, "lock", F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	lock = file_lock(fd, "lock", &why);
	return lock < 0 && why.code == ERR_BUSY;
}

int store_find(struct store *store, const char *text, struct store_entry *entry, struct err *err)
{
	char id[HASH_ID_SIZE];
	size_t len = strlen(text);
	bool may_be_id = len >= STORE_PREFIX_MIN && len < HASH_ID_SIZE &&
			 strspn(text, "abcdefghijklmnopqrstuvwxyz234567") == len;

	if (read_name(store, text, id) == 0 && session_exists(store, id))
		return read_entry(store, id, entry, err);
	if (!may_be_id)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no session %s (fumehood ls shows them)", text);
	if (complete_id(store, text, id, err) != 0 || read_entry(store, id, entry, err) != 0)
		return -1;
	if (entry->unborn && is_held(store, id))
		return err_set(err, ERR_NOT_FOUND, "the session %s is not begun yet", id);
	return 0;
}

static int newest_first(const void *left, const void *right)
{
	const struct store_entry *a = left, *b = right;

	if (a->config.created_us != b->config.created_us)
		return a->config.created_us < b->config.created_us ? 1 : -1;
	return strcmp(a->config.id, b->config.id);
}

int store_list(struct store *store, struct store_list *list, struct err *err)
{
	size_t room = 0;
	DIR *dir = scan(store, err);

	if (!dir)
		return -1;
	for (struct dirent *item; (item = readdir(dir));) {
		struct store_entry entry = STORE_ENTRY_INIT;

		if (!config_is_id(item->d_name))
			continue;
		if (read_entry(store, item->d_name, &entry, NULL) != 0 || entry.unborn) {
			store_entry_release(&entry); /* removed meanwhile, or not yet there */
			continue;
		}
		if (list->count == room) {
			room = room ? room * 2 : 16;
			list->entries = mem_resize(list->entries, room, sizeof(*list->entries));
		}
		list->entries[list->count++] = entry;
	}
	closedir(dir);
	if (list->count)
		qsort(list->entries, list->count, sizeof(*list->entries), newest_first);
	return 0;
}
