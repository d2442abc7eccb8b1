/*
 * Snapshots: a workspace as it was, to look at what has changed since, and to go back.
 *
 * A snapshot is a manifest of everything (manifest.h) and, in a store (store.h), the content of its
 * files up to limits. What is not kept is told as unprotected, with the reason; a full disk is one,
 * and never an error. A file whose size, inode, mtime and ctime are those of the snapshot before is
 * not read again: both have the same object. So a snapshot costs a look at each name, and the
 * bytes of the files that were written since.
 *
 * Figures can be the same although the bytes are not: two writes within a tick of the kernel's
 * clock. So a file whose ctime is younger than that when it is kept is compared by its bytes the
 * next time, as git does with its index. ctime shows a write in place, too. What it does not show:
 * a write through a shared memory map to a page that is dirty already (mmap(2): the times are set
 * at the first write, then only after msync(2) or the kernel's own write-back), and the rest of one
 * write(2) that was under way for longer than a tick while the file was kept. A restore may then
 * take the file for unchanged. Neither is there when nothing runs.
 *
 * A restore removes what is new, and gives what differs its bytes, mode and time back: of files,
 * symlinks and folders; hard links to the same file become that again. A file that is still the
 * same inode and that somebody has open is written in place, so that a descriptor of the process
 * that a rollback wakes sees the right bytes; any other is written beside its place and renamed.
 * Sockets, FIFOs and devices are neither kept, made nor removed: they are named. Owners are those
 * that new files in the tree have (tree.h); setuid, setgid and sticky bits, ACLs and extended
 * attributes stay as they are, or are lost where the file had to be made anew.
 *
 * Everything is done as tree.h says: beneath the root, without following a symlink, with the file
 * system ids of the owner, whatever others do to the tree meanwhile; what they undo at the same
 * time may fail, and is named then. A process that is killed in a restore leaves each file as it
 * was before or as it is restored, but for those in place, of which the first part may be restored;
 * what was to be restored is then lost with the memory that it belonged to.
 *
 * All functions here are for any thread, one call is one piece of work with a limit of time, and
 * none of them waits for another's lock while it reads or writes. A snapshot never changes, and may
 * be used by several threads at once; its users count.
 *
 * Sources: openat2(2), rename(2), fcntl(2) (leases), utimensat(2).
 */
#ifndef FH_FILES_SNAPSHOT_H
#define FH_FILES_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "files/manifest.h"
#include "files/store.h"
#include "files/tree.h"

enum {
	SNAPSHOT_ENTRIES_MAX = 50000,
	SNAPSHOT_FILE_BYTES_MAX = 32 << 20,
	SNAPSHOT_SUM_BYTES_MAX = 256 << 20,
	SNAPSHOT_STORE_BYTES_MAX = 1 << 30, /* for store_new(): of all snapshots together */
	SNAPSHOT_TAKE_US_MAX = 10 * 1000000,
	SNAPSHOT_RESTORE_US_MAX = 60 * 1000000,
	SNAPSHOT_NOTES_MAX = 200,           /* in each list */
	SNAPSHOT_JSON_BYTES_MAX = 32 << 10, /* of each list as JSON */
};

struct snapshot;

/* What a call may do and how long. */
struct snapshot_work {
	const struct tree *tree;   /* borrowed */
	int64_t time_us_max;       /* then it stops where it is */
	const atomic_bool *cancel; /* becomes true: as if the time were over; may be NULL */
};

struct snapshot_limits {
	size_t entries_max;
	uint64_t file_bytes_max; /* a larger file is not kept */
	uint64_t sum_bytes_max;  /* nor what goes beyond this */
};

#define SNAPSHOT_LIMITS \
	{ \
		.entries_max = SNAPSHOT_ENTRIES_MAX, .file_bytes_max = SNAPSHOT_FILE_BYTES_MAX, \
		.sum_bytes_max = SNAPSHOT_SUM_BYTES_MAX \
	}

/* Takes one. Never fails: what could not be looked at or kept, it says. `before`: one of the same
 * workspace and store, or NULL; borrowed. The caller owns the snapshot, which keeps the store. */
struct snapshot *snapshot_take(const struct snapshot_work *work, struct store *store,
			       const struct snapshot_limits *limits, const struct snapshot *before);

/* Each keep asks for one more free. To free costs no access to the disk; the next take gives the
 * space back. */
struct snapshot *snapshot_keep(struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot); /* NULL is fine */

/* Why something is not kept, or not restored. */
enum snapshot_why {
	WHY_NOTHING,
	WHY_FILE_BYTES, /* the file is larger than file_bytes_max */
	WHY_SUM_BYTES,  /* sum_bytes_max was used up by other files */
	WHY_STORE,      /* the store holds all it may */
	WHY_NO_SPACE,   /* the disk is full */
	WHY_UNREADABLE, /* the owner may not read it; or not write there */
	WHY_CHANGING,   /* it changes all the while */
	WHY_SPECIAL,    /* a socket, FIFO or device */
	WHY_UNSEEN,     /* of a folder: it was not looked into, or not at all of it */
	WHY_TIME,       /* the time was over, or the work was cancelled */
	WHY_LATER,      /* other programs run it later (sandbox/protect.h) */
	WHY_IO,         /* a system call failed */
	WHY_COUNT
};

/* "file_bytes", ... as the protocol has them. */
const char *snapshot_why_name(enum snapshot_why why);

struct snapshot_note {
	char *path; /* any bytes but NUL */
	size_t path_len;
	uint64_t bytes; /* of a file */
	enum snapshot_why why;
	int sys; /* errno, where there was one */
};

/* The first SNAPSHOT_NOTES_MAX; of the rest the number. */
struct snapshot_notes {
	struct snapshot_note *list;
	size_t count;
	uint64_t more;
};

void snapshot_notes_release(struct snapshot_notes *notes);

struct snapshot_figures {
	uint64_t files, links, folders;
	uint64_t kept_bytes;     /* of the files that can be restored */
	uint64_t copied_bytes;   /* of these: that no snapshot had before */
	uint64_t compared_bytes; /* of these: read, and found to be kept already */
	uint64_t unprotected;
	enum manifest_stop stop; /* why there may be more than was looked at; STOP_NOTHING: it is
				    complete */
	int64_t took_us;
};

void snapshot_figures(const struct snapshot *snapshot, struct snapshot_figures *figures);

/* Appends what is not kept. */
void snapshot_unprotected(const struct snapshot *snapshot, struct snapshot_notes *notes);

/* Appends what differs now: files, symlinks and others; folders only by what is in them. A file
 * with the same bytes and mode does not differ. In a part that the snapshot, or this look, has not
 * seen, nothing is said to be created, or deleted. */
void snapshot_diff(const struct snapshot *snapshot, const struct snapshot_work *work,
		   struct changes *changes);

struct snapshot_restored {
	struct snapshot_notes restored;    /* are as they were again */
	struct snapshot_notes removed;     /* were not there */
	struct snapshot_notes unprotected; /* differ or are gone, and were not kept */
	struct snapshot_notes failed;      /* could not be restored, or removed */
	enum manifest_stop stop;           /* why there may be others that differ */
	int64_t took_us;
};

#define SNAPSHOT_RESTORED_INIT \
	{ \
		.stop = STOP_NOTHING \
	}

void snapshot_restored_release(struct snapshot_restored *restored);
#define cleanup_restored __attribute__((cleanup(snapshot_restored_release)))

/* Makes the workspace what it was. `protect`: patterns (sandbox/protect.h; NULL: none); what they
 * mean is neither restored nor removed. */
void snapshot_restore(const struct snapshot *snapshot, const struct snapshot_work *work,
		      const char *const *protect, struct snapshot_restored *restored);

/* --- as JSON (snapshot_json.c) --- */

/* {"files", "bytes", "unprotected"?: [{"path", "reason", "bytes"}], "unprotected_more"?,
 * "incomplete"?}. The caller owns it. */
struct json *snapshot_to_json(const struct snapshot *snapshot);

/* Sets `differs` [{"path", "change", "bytes"}], and `differs_more` and `differs_incomplete` where
 * they say something. */
void snapshot_tell_changes(const struct changes *changes, struct json *body);

/* {"restored": [{"path", "bytes"?}], "removed": likewise, "unprotected": [{"path", "reason",
 * "bytes"?}], "failed": [{"path", "reason", "error"?, "bytes"?}], each with "..._more"?,
 * "incomplete"?}; lists that are empty are left out. The caller owns it. */
struct json *snapshot_restored_to_json(const struct snapshot_restored *restored);

#endif
