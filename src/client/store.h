/*
 * The store: the directory of all sessions, and their names.
 *
 *	<state>/sessions/<id>/           one session: session.json, lock, journal.ndjson,
 *	                                 notebook.ipynb, blobs/, images/, keeper.log, and
 *	                                 workspace/ if it is private
 *	                                 Without session.json and any event it is no session yet:
 *	                                 a spare that waits for its client (journal/unborn.h)
 *	<state>/sessions/.removing-<id>  one that is being removed
 *	<state>/by-name/<name>           symlink to ../sessions/<id>
 *	<state>/names.lock               held while a name is given or taken away
 *
 * <state> is paths_state(). There is no index file: the directories are the truth, so nothing can
 * disagree with them. A name is given last, when the session is whole, and by symlink(2), which
 * fails if the name exists: two clients cannot both get it.
 */
#ifndef FH_CLIENT_STORE_H
#define FH_CLIENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "client/config.h"
#include "journal/names.h"

enum { STORE_NAME_BYTES_MAX = NAMES_BYTES_MAX, STORE_PREFIX_MIN = 4 };

struct store {
	char *root; /* absolute path of <state> */
	int root_fd;
	int sessions_fd;
	int names_fd;
};

#define STORE_INIT \
	{ \
		.root = NULL, .root_fd = -1, .sessions_fd = -1, .names_fd = -1 \
	}

/* Opens it, making what is missing (0700). The caller releases it, also after failure. */
int store_open(struct store *store, struct err *err);
void store_release(struct store *store);
#define cleanup_store __attribute__((cleanup(store_release)))

struct store_entry {
	struct config config; /* only `id` and `created_us` (from the file system) when damaged */
	char *directory;      /* absolute path */
	bool damaged;         /* session.json is missing or unreadable */
	bool unborn;          /* it is no session yet: see journal/unborn.h */
};

#define STORE_ENTRY_INIT \
	{ \
		.config = CONFIG_INIT, .directory = NULL, .damaged = false, .unborn = false \
	}

void store_entry_release(struct store_entry *entry);
#define cleanup_entry __attribute__((cleanup(store_entry_release)))

/* Gives a session its name. ERR_DUPLICATE when another has it. */
int store_give_name(const struct store *store, const char *name, const char *id, struct err *err);

/* ERR_INVALID with the rule when `name` cannot be a session's name (see fumehood.h). */
int store_check_name(const char *name, struct err *err);

/*
 * Makes a session's directory. `config` gives all but id and created_us, which are chosen here;
 * with workspace NULL a private one is made. Fills *entry. ERR_DUPLICATE when the name is taken.
 */
int store_create(struct store *store, const struct config *config, struct store_entry *entry,
		 struct err *err);

/* The session with this name, id, or unique beginning of an id. ERR_NOT_FOUND, or ERR_INVALID when
 * several ids begin so. */
int store_find(struct store *store, const char *text, struct store_entry *entry, struct err *err);

struct store_list {
	struct store_entry *entries;
	size_t count;
};

#define STORE_LIST_INIT \
	{ \
		.entries = NULL, .count = 0 \
	}

/* All sessions, newest first, without the unborn. The caller releases the list. */
int store_list(struct store *store, struct store_list *list, struct err *err);
void store_list_release(struct store_list *list);
#define cleanup_list __attribute__((cleanup(store_list_release)))

/* Opens the session's directory; the caller owns the descriptor. */
int store_open_directory(struct store *store, const char *id, struct err *err);

/* --- sweep.c: removing ------------------------------------------------------------------------ */

/* Disk space of a session's directory in bytes, symlinks not followed; 0 when it is gone. */
uint64_t store_bytes(struct store *store, const char *id);

/* Likewise of any directory, whose descriptor is taken over. */
uint64_t store_tree_bytes(int fd);

/*
 * Removes a session and its name. Waits at most `wait_ms` for its keeper to let go of it, then
 * ERR_BUSY. A workspace outside the directory is not touched.
 */
int store_remove(struct store *store, const char *id, int wait_ms, struct err *err);

struct store_sweep {
	int64_t age_us_max; /* remove what nobody has touched for longer; < 0: no limit */
	uint64_t bytes_max; /* then the least recently used until all fit; UINT64_MAX: no limit */
	bool dry_run;       /* only tell */
	/* Instead of bytes_max: how much the sessions may take, asked once it is known how much
	 * those do that are not too old. May be NULL. */
	uint64_t (*room)(void *data, uint64_t bytes);
	/* Told of each session that is removed (or would be). May be NULL. */
	void (*removed)(void *data, const struct store_entry *entry, uint64_t bytes,
			const char *why);
	void *data;
};

/* Removes old sessions, leftovers of killed one-shot runs (older than an hour), half-removed
 * directories, and names that point nowhere. Running sessions are left alone. */
int store_sweep(struct store *store, const struct store_sweep *sweep, struct err *err);

#endif
