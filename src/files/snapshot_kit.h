/*
 * For the tests of snapshots: a workspace to edit, and what is in it as text, by a walk that has
 * nothing to do with manifests.
 */
#ifndef FH_FILES_SNAPSHOT_KIT_H
#define FH_FILES_SNAPSHOT_KIT_H

#include "files/model_kit.h"
#include "files/snapshot.h"

struct desk {
	struct model model; /* the workspace */
	struct tree tree;   /* the same, as snapshots want it */
	struct store *store;
	int aside; /* folder in which the store's file is made */
};

/* A failure of any of these aborts the test. */
void desk_open(struct desk *desk, uint64_t seed);
void desk_close(struct desk *desk);

/* Takes a snapshot with the usual limits; restores; the lines of what differs ("changed a/b\n"). */
struct snapshot *desk_take(struct desk *desk, const struct snapshot *before);
void desk_restore(struct desk *desk, const struct snapshot *snapshot,
		  struct snapshot_restored *restored);
void desk_diff(struct desk *desk, const struct snapshot *snapshot, struct buf *lines);

/* Restores, and nothing may have failed or been unprotected. */
void desk_restore_all(struct desk *desk, const struct snapshot *snapshot);

/* What is in the workspace, a line each: path, kind, mode, mtime, content. */
struct dump {
	struct dump_item {
		char *path, *text;
		bool folder;
		int64_t mtime_ns;
	} * items; /* in the order of their paths */
	size_t count, room;
};

void dump_make(struct dump *dump, int root);
void dump_release(struct dump *dump);

/* Both are the same, times of everything included; else the test fails and says where. */
void dump_assert_equal(const struct dump *expected, const struct dump *found);

/* The lines that desk_diff() should give. */
void dump_expect(const struct dump *old, const struct dump *new, struct buf *lines);

/* One line for each note: "path reason\n". */
void notes_text(const struct snapshot_notes *notes, struct buf *text);
void assert_notes(const struct snapshot_notes *notes, const char *text);

/* The content of a file, which must be there; the caller frees it. */
char *content_of(int root, const char *path, size_t *len);

#endif
