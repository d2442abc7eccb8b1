/*
 * Manifests: what lies in a workspace, and how two of them differ.
 *
 * A manifest is a tree of folders, breadth first, so that a look that is cut short has seen what
 * lies on top. It holds names and figures of files, never their content. A look is bounded by
 * entries, depth and time, and says where it stopped. It follows no symlink, opens nothing but
 * folders, never leaves the file system of the root, and takes whatever a guest does to the tree
 * meanwhile.
 *
 * A folder of the manifest before that has not changed since (whoever watches it says so) is not
 * read again: its part is copied. So the cost of a look is that of the folders in which something
 * happened.
 *
 * Not looked into, and not told of (unless the look is at `everything`: snapshot.h): the folders
 * `__pycache__`, `.ipynb_checkpoints`, `.git`, `.hg`,
 * `.svn`, `.mypy_cache`, `.pytest_cache`, `.ruff_cache`, and files `.fumehood-*.tmp` (ours, about
 * to get their name).
 */
#ifndef FH_FILES_MANIFEST_H
#define FH_FILES_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { MANIFEST_ENTRIES_MAX = 20000, MANIFEST_DEPTH_MAX = 64, CHANGES_MAX = 200 };
#define MANIFEST_NONE UINT32_MAX

enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_LINK, ENTRY_OTHER };

/* How much is known of a folder. */
enum folder_known {
	FOLDER_UNKNOWN, /* not read */
	FOLDER_PART,    /* a limit came in the middle */
	FOLDER_WHOLE,
};

/* Why a manifest does not hold everything, the weakest reason first; the strongest one met is
 * kept. */
enum manifest_stop {
	STOP_NOTHING,
	STOP_UNREADABLE, /* a folder may not be read, or reading it failed */
	STOP_MOUNT,      /* another file system is mounted there */
	STOP_DEPTH,
	STOP_ENTRIES,
	STOP_TIME,
	STOP_UNWATCHED, /* watch.h: nobody looked: that takes longer than the cell did */
	STOP_BASELINE,  /* watch.h: the first manifest came after the cell had begun */
	STOP_COUNT
};

struct manifest_entry {
	uint32_t name;   /* offset in names */
	uint32_t folder; /* of an ENTRY_FOLDER: its index; MANIFEST_NONE: not entered */
	uint16_t name_len;
	uint8_t kind;
	uint16_t mode;  /* 07777; not of an ENTRY_FOLDER */
	uint16_t links; /* names of the same file, at most UINT16_MAX */
	uint64_t inode;
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
	int64_t btime_ns; /* birth; 0 where the file system does not know */
};

struct manifest_folder {
	uint32_t parent;       /* MANIFEST_NONE: the root */
	uint32_t entry;        /* in entries: its name in its parent */
	uint32_t first, count; /* its own entries, sorted by the bytes of their names */
	uint32_t before;       /* the same path in the manifest before, or MANIFEST_NONE */
	uint64_t inode;
	int64_t mtime_ns; /* this and the mode: when it was read */
	uint16_t mode;    /* 07777 */
	int watch;        /* what `enter` gave, or -1 */
	unsigned depth;
	enum folder_known known;
	bool copied; /* from the manifest before: nothing has changed in it */
};

struct manifest {
	struct manifest_folder *folders; /* [0] is the root; a parent comes before its children */
	uint32_t folder_count, folder_cap;
	struct manifest_entry *entries;
	uint32_t entry_count, entry_cap;
	struct buf names;
	uint32_t unwatched; /* folders that were read but not watched */
	enum manifest_stop stop;
};

struct manifest_params {
	int root; /* descriptor of the folder; borrowed */
	size_t entries_max;
	unsigned depth_max;  /* folders below the root */
	int64_t deadline_us; /* by clock_us; then the look ends */
	int64_t (*clock_us)(void *data);
	/* Called with each folder before it is read; gives the number (>= 0) under which it is
	 * watched, or -1. May be NULL. */
	int (*enter)(void *data, int fd);
	/* Whether nothing has happened in the folder with this number since the manifest before.
	 * May be NULL: never. */
	bool (*is_unchanged)(void *data, int watch);
	const struct manifest *before; /* may be NULL */
	/* Look into the folders that are passed over otherwise, and tell of them. */
	bool everything;
	void *data;
};

/* Looks. Never fails: a manifest of nothing says why. The caller owns it. */
struct manifest *manifest_scan(const struct manifest_params *params);
void manifest_free(struct manifest *manifest); /* NULL is fine */

/* "entries", "time" ... as the protocol has them; NULL for STOP_NOTHING. */
const char *manifest_stop_name(enum manifest_stop stop);

/* Appends the path of an entry in a folder, relative to the root, any bytes but NUL. */
void manifest_path(const struct manifest *manifest, uint32_t folder,
		   const struct manifest_entry *entry, struct buf *path);

/* The entry of that name in the folder, or NULL. */
const struct manifest_entry *manifest_find(const struct manifest *manifest, uint32_t folder,
					   const char *name, size_t len);

/* The name of an entry (entry->name_len bytes, not ended by NUL), and the order of names. */
const char *manifest_name(const struct manifest *manifest, const struct manifest_entry *entry);
int manifest_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* Whether files and folders of this name are passed over (unless `everything` is looked at). */
bool manifest_ignores(const char *name, size_t len);

/* For each folder of `manifest` (in its order) the one at the same path in `other`, or
 * MANIFEST_NONE. The caller frees it. */
uint32_t *manifest_pair(const struct manifest *manifest, const struct manifest *other);

/* --- differences
 * --------------------------------------------------------------------------------- */

enum change_kind { CHANGE_CREATED, CHANGE_CHANGED, CHANGE_DELETED };

struct change {
	enum change_kind kind;
	enum entry_kind entry;
	bool background; /* not while the cell ran (watch.h) */
	char *path;
	size_t path_len;
	uint64_t bytes; /* of a deleted file: what it had */
};

/* The first CHANGES_MAX of them; of the rest only the number is known. */
struct changes {
	struct change *list;
	size_t count;
	uint64_t more;
	enum manifest_stop stop; /* why there may be others */
};

#define CHANGES_INIT \
	{ \
		.list = NULL, .count = 0, .more = 0, .stop = STOP_NOTHING \
	}

void changes_release(struct changes *changes);

/* Appends a change of an entry in a folder, or counts it when the list is full. `bytes`: struct
 * change. */
void changes_add(struct changes *changes, enum change_kind kind, const struct manifest *manifest,
		 uint32_t folder, const struct manifest_entry *entry, uint64_t bytes);

/* Moves what is in `from` to the end of `to`, as far as it fits, and leaves `from` empty. */
void changes_append(struct changes *to, struct changes *from);

struct diff_params {
	const struct manifest *old; /* NULL: nothing is known of before */
	const struct manifest *new;
	/* Where nothing is known of before, what changed (ctime) since then counts; made (birth)
	 * since then: created. Nanoseconds since 1970 by CLOCK_REALTIME_COARSE, with which the
	 * kernel stamps files; what happened up to a tick of it earlier may count too. */
	int64_t since_ns;
	/* Whether the file was written although its figures are the same: twice within a tick of
	 * the clock. May be NULL. */
	bool (*is_touched)(void *data, int watch, const char *name, size_t len);
	void *data;
};

/*
 * Appends what was created, changed and deleted: files, symlinks and whatever else has a name;
 * folders only by what is in them. A file has changed when its size, inode, mtime or ctime has; a
 * rename is a deletion and a creation.
 */
void manifest_diff(const struct diff_params *params, struct changes *changes);

#endif
