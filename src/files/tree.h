/*
 * A tree of files that someone else may change at any time: reading, writing and removing in it by
 * paths that come from outside.
 *
 * The tree is a workspace: code in a session may replace any part of it by a symlink, a FIFO or
 * another file between two of our calls. Therefore:
 * - Every path is walked by openat2(2) from the descriptor of the root, beneath it, without
 *   symlinks, magic links and other mounts. What leads elsewhere is refused by the kernel, however
 *   it came to be there.
 * - Nothing but regular files is read, and opening never waits (O_NONBLOCK).
 * - A file is written under another name beside its place and renamed, so that nobody sees half of
 *   it, and whatever had the name is replaced, never written through.
 * - Where the caller is root, all this is done with the file system ids of the root's owner
 *   (setfsuid(2)): what is made belongs to whom the rest belongs to, and nothing can be done there
 *   that the owner could not do.
 * - Sizes and numbers are bounded by the names below.
 *
 * A path is relative, of components between '/', none of them empty, "." or ".."; "" and "." are
 * the root. Any bytes but NUL.
 *
 * Sources: openat2(2), setfsuid(2), rename(2).
 */
#ifndef FH_FILES_TREE_H
#define FH_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	TREE_PATH_BYTES_MAX = 4095,
	TREE_NAME_BYTES_MAX = 255,
	TREE_NAMES_MAX = 100000,       /* of one folder that are looked at */
	TREE_LIST_MAX = 10000,         /* entries in one answer */
	TREE_PART_BYTES_MAX = 1 << 20, /* read or written at once */
	TREE_MODE_MASK = 0777,         /* of a file's mode; never setuid, setgid or sticky */
};

struct tree {
	int root;  /* owned */
	uid_t uid; /* of the root folder */
	gid_t gid;
	bool acts; /* for another user: the caller is root */
};

#define TREE_INIT \
	{ \
		.root = -1, .uid = 0, .gid = 0, .acts = false \
	}

/* Opens the folder at a host path that the user has chosen. The caller releases *tree, also after
 * failure. */
int tree_open(struct tree *tree, const char *path, struct err *err);

/* The same with a descriptor of the folder, which is taken. */
int tree_adopt(struct tree *tree, int fd, struct err *err);
void tree_release(struct tree *tree);
#define cleanup_tree __attribute__((cleanup(tree_release)))

/* Whether `path` has the form above. ERR_INVALID says what is wrong. Pure. */
int tree_check_path(const char *path, size_t len, struct err *err);

enum tree_kind { TREE_FILE, TREE_FOLDER, TREE_LINK, TREE_OTHER };

struct tree_status {
	enum tree_kind kind;
	mode_t mode; /* & 07777 */
	uint64_t bytes;
	int64_t mtime_ns, ctime_ns;
	dev_t device; /* of a TREE_OTHER that is a device: its number */
	bool is_device;
};

/* What is at `path`, itself and not what it leads to. ERR_NOT_FOUND. */
int tree_look(const struct tree *tree, const char *path, struct tree_status *status,
	      struct err *err);

/* --- folders --- */

struct tree_entry {
	char *name;
	size_t len;
	struct tree_status status;
};

struct tree_listing {
	struct tree_entry *entries; /* in the order of the bytes of their names */
	size_t count;
	bool more;       /* there are others after the last one */
	bool incomplete; /* the folder has more than TREE_NAMES_MAX names: some were not looked at
			  */
};

#define TREE_LISTING_INIT \
	{ \
		.entries = NULL, .count = 0, .more = false, .incomplete = false \
	}

/* The first `max` (at most TREE_LIST_MAX) entries of a folder whose names come after `after` (NULL:
 * from the first). Our own temporary files are left out. */
int tree_list(const struct tree *tree, const char *path, const char *after, size_t max,
	      struct tree_listing *listing, struct err *err);
void tree_listing_release(struct tree_listing *listing);
#define cleanup_listing __attribute__((cleanup(tree_listing_release)))

/* Makes a folder and those above it; one that is there is fine. */
int tree_make_folder(const struct tree *tree, const char *path, struct err *err);

/* --- files --- */

/* Opens a regular file for reading. ERR_DENIED for a symlink or a way out, ERR_INVALID for anything
 * else that is no file. Returns a descriptor owned by the caller, or -1. */
int tree_open_file(const struct tree *tree, const char *path, struct err *err);

/* Appends up to `len` (at most TREE_PART_BYTES_MAX) bytes from `offset`. *status is the file's, of
 * the same moment. */
int tree_read(const struct tree *tree, const char *path, uint64_t offset, size_t len,
	      struct buf *out, struct tree_status *status, struct err *err);

/*
 * Adds a part to a file that is on its way: `upload` (a random id of the caller's, [a-z0-9], at
 * most 64) names it until tree_commit(). Parts come in order, the first with offset 0, which also
 * makes the folders above. ERR_INVALID when `offset` is not where the last part ended. Whatever
 * fails, the part's file is removed, and so the upload begins anew.
 */
int tree_write(const struct tree *tree, const char *path, const char *upload, uint64_t offset,
	       const void *bytes, size_t len, struct err *err);

/* Gives the upload its name, replacing a regular file; ERR_DENIED when something else has it. */
int tree_commit(const struct tree *tree, const char *path, const char *upload, mode_t mode,
		struct err *err);

/* Removes an upload that will not be committed. Nothing there is fine. */
void tree_abandon(const struct tree *tree, const char *path, const char *upload);

/* Removes what is at `path`; a folder with something in it only when `whole`. Never the root. */
int tree_remove(const struct tree *tree, const char *path, bool whole, struct err *err);

/* Makes a symlink with this text. ERR_DUPLICATE when the name is taken. */
int tree_link(const struct tree *tree, const char *path, const char *text, struct err *err);

/* --- for the other files of this folder --- */

/* The ids of this thread before tree_enter(). */
struct tree_ids {
	uid_t uid;
	gid_t gid;
	bool changed;
};

/* Between these two the thread has the file system ids of the tree's owner. */
struct tree_ids tree_enter(const struct tree *tree);
void tree_leave(struct tree_ids *ids);
#define cleanup_ids __attribute__((cleanup(tree_leave), unused))

/* openat2(2) beneath the root; -1 with errno. */
int tree_open_at(const struct tree *tree, const char *path, int flags, mode_t mode);

/* The folder that holds `path`, and its last component in *name (borrowed from path). With `make`,
 * folders that are missing are made. */
int tree_open_parent(const struct tree *tree, const char *path, bool make, const char **name,
		     struct err *err);

/* Fills *err with what errno says of `path`. Returns -1. */
int tree_fail(const char *path, struct err *err);

/* What statx(2) or fstatat(2) found. */
struct stat;
void tree_status_of(const struct stat *st, struct tree_status *status);

#endif
