/*
 * Watching a workspace: which files did this cell create, change, delete, at no cost for a cell
 * that did none.
 *
 * inotify(7) tells in which folders something happened, and nothing else is believed of it: a look
 * (manifest.h) at these folders finds out what. A cell in which nothing happened costs two read(2)
 * calls that find the queue empty. Changes that the guest makes through its bind mount are seen,
 * because inotify watches inodes.
 *
 * What inotify does not tell:
 * - writes through a shared memory map. They show when the map is closed, when something else
 *   happens in that folder, or at the end of a cell that ran 50 times as long as a look at
 *   everything takes: then everything is looked at (at most 2 % of the time).
 * - anything, where no more watches are to be had (fs.inotify.max_user_instances is 128 for all
 *   sessions of a user, and WATCH_FOLDERS_MAX here). Then everything is looked at after each cell,
 *   as long as a look takes less than the cell took, or less than a millisecond; else the answer
 *   says `unwatched`.
 *
 * The first manifest is made by watch_open() if that takes less than WATCH_FIRST_US, else by a
 * thread. For a cell that begins before the thread has ended, times decide (struct diff_params),
 * deletions stay unknown, and the answer says `baseline`.
 *
 * What happens between cells (threads that go on, uploads) is found at the start of the next one,
 * and told with that one's changes as `background`.
 */
#ifndef FH_KEEPER_WATCH_H
#define FH_KEEPER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "files/manifest.h"

enum {
	WATCH_FOLDERS_MAX = 4096,
	WATCH_LOOK_US = 50 * 1000,    /* a look at the start or end of a cell */
	WATCH_FIRST_US = 300,         /* the first one, before the session starts */
	WATCH_THREAD_US = 2000 * 1000 /* the first one, on its thread */
};

struct watch;

struct watch_params {
	int root;                        /* descriptor of the workspace; taken */
	size_t entries_max;              /* MANIFEST_ENTRIES_MAX */
	unsigned folders_max;            /* WATCH_FOLDERS_MAX; 0: as if there were no inotify */
	int64_t first_us;                /* WATCH_FIRST_US */
	int64_t (*clock_us)(void *data); /* monotonic; also called on the thread */
	void *data;
};

/* Never fails. The caller owns it. */
struct watch *watch_open(const struct watch_params *params);

/* Ends the thread too: within a millisecond. NULL is fine. */
void watch_close(struct watch *watch);

/* A cell starts: what has happened until now is not of its doing. */
void watch_cell_starts(struct watch *watch);

/* The cell has ended after `ran_us`: appends what happened while it ran, and before that since the
 * last one. */
void watch_cell_ended(struct watch *watch, int64_t ran_us, struct changes *changes);

/* No cell runs: what has happened since the last one. Borrowed until the next call; it stays to be
 * told. */
const struct changes *watch_between(struct watch *watch);

int watch_root(const struct watch *watch); /* borrowed */

/* For tests: whether the first manifest is there; how many looks there were. */
bool watch_is_ready(struct watch *watch);
uint64_t watch_looks(const struct watch *watch);

#endif
