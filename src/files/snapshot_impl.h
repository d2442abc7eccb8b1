/*
 * What the files of snapshots share: what a snapshot is made of, and how it and the tree of now are
 * laid beside each other. For snapshot*.c only.
 */
#ifndef FH_FILES_SNAPSHOT_IMPL_H
#define FH_FILES_SNAPSHOT_IMPL_H

#include "files/snapshot.h"

/* What is kept of an entry of the manifest. */
struct kept {
	struct store_object *object; /* of a file; NULL: nothing */
	uint32_t link;               /* of a symlink: where its text begins */
	uint16_t link_len;
	uint8_t why; /* enum snapshot_why: not kept */
	bool young;  /* its figures may be the same although it was written */
};

struct snapshot {
	atomic_size_t refs;
	struct store *store;
	struct manifest *manifest;
	struct kept *kept; /* one for each entry */
	struct buf links;  /* texts of symlinks */
	/* The files with several names: indices of entries, by inode, then by index. */
	uint32_t *peers;
	uint32_t peer_count;
	struct snapshot_figures figures;
};

/* A piece of work with its clock. */
struct job {
	const struct snapshot_work *work;
	int64_t began_us;
	bool late;
};

struct job job_start(const struct snapshot_work *work);
bool job_is_late(struct job *job);

/* A look at everything. */
struct manifest *job_look(struct job *job, size_t entries_max);

/* Opens a folder of a manifest in the tree. -1 with errno. */
int job_open_folder(const struct job *job, const struct manifest *manifest, uint32_t folder,
		    int flags);

/* Opens a file in a folder to read it; -1 with errno, also when it is no regular file (ESTALE). */
struct stat;
int open_to_read(int folder, const char *name, struct stat *st);

/* The name of an entry, ended by NUL. */
struct entry_name {
	char text[TREE_NAME_BYTES_MAX + 1];
};

void entry_name(const struct manifest *manifest, const struct manifest_entry *entry,
		struct entry_name *name);

/* The entries that are names of the same file, this one too, in their order; NULL: it has no other.
 * Borrowed. */
const uint32_t *snapshot_peers(const struct snapshot *snapshot, uint32_t entry, size_t *count);

/* Appends a note of an entry. */
struct snapshot_note_of {
	const struct manifest *manifest;
	uint32_t folder;
	const struct manifest_entry *entry;
};

void notes_add(struct snapshot_notes *notes, struct snapshot_note_of of, enum snapshot_why why,
	       int sys);

/* WHY_NO_SPACE, WHY_UNREADABLE, WHY_CHANGING or WHY_IO. */
enum snapshot_why why_of_errno(int sys);

/* --- one thing into its place (snapshot_put.c) ---
 *
 * `folder` is open, `name` in it. They answer why not, and *sys has errno then. */

/* The content that is kept, with mode and mtime, in place or by another file. */
enum snapshot_why put_file(const struct snapshot *snapshot, uint32_t entry, int folder,
			   const char *name, int *sys);
enum snapshot_why put_link(const struct snapshot *snapshot, uint32_t entry, int folder,
			   const char *name, int *sys);

/* Another name for the file in `peer_folder`. */
enum snapshot_why put_peer(int peer_folder, const char *peer_name, int folder, const char *name,
			   int *sys);

/* Mode and mtime of a file; mtime of a symlink. */
enum snapshot_why put_attributes(const struct snapshot *snapshot, uint32_t entry, int folder,
				 const char *name, int *sys);

/* The mtime of what a descriptor is open for, also one by O_PATH. -1 with errno. */
int set_mtime(int fd, int64_t mtime_ns);

/* --- the snapshot beside what is there now (snapshot_compare.c) --- */

/* What has become of an entry of the snapshot. */
enum then_state {
	THEN_SAME,
	THEN_UNKNOWN, /* where it was has not been seen */
	THEN_TOUCHED, /* only its mtime is another */
	THEN_MODE,    /* its mode is another, and perhaps its mtime */
	THEN_CHANGED,
	THEN_GONE, /* also: a folder stands in the place of a file, or the other way round */
};

/* What an entry of now was. */
enum now_state {
	NOW_KNOWN,
	NOW_UNKNOWN,
	NOW_NEW, /* also in place of one that is THEN_GONE */
};

struct comparison {
	const struct snapshot *snapshot;
	const struct manifest *then, *now;
	uint32_t *now_of;                  /* for each folder of then */
	uint32_t *then_of;                 /* for each folder of now */
	uint8_t *then_states, *now_states; /* for each entry */
};

void comparison_init(struct comparison *comparison, struct job *job,
		     const struct snapshot *snapshot, const struct manifest *now);
void comparison_release(struct comparison *comparison);
#define cleanup_comparison __attribute__((cleanup(comparison_release)))

#endif
