/*
 * Overlay workspaces: what a session has changed in a directory that it was not to change.
 *
 * The session works in a mount of overlayfs: the directory below, its changes in
 * <session>/overlay/upper. Here the two are compared without that mount, so that it works on a
 * session that has stopped, and beside one that runs. What overlayfs leaves in the upper directory
 * is decoded by ourselves (Documentation/filesystems/overlayfs.rst, with `userxattr`): a character
 * device 0/0 is a name that was removed, the attribute user.overlay.opaque=y says of a folder that
 * nothing below shows through. All reading is by tree.h, since everything in there is the session's
 * making: what is a symlink or a device is told of and never followed.
 *
 * The layer is never changed but when all of it is discarded: what has been applied is then the
 * same in both, and no change any more.
 *
 * <session>/overlay/base.json says when the session began and what has been applied since, so that
 * a file of the directory which somebody else has changed meanwhile is not overwritten.
 */
#ifndef FH_FILES_OVERLAY_H
#define FH_FILES_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "files/tree.h"

#define OVERLAY_FOLDER "overlay"

enum { OVERLAY_ITEMS_MAX = 20000 };

/* Makes <session>/overlay with its parts where it is not there yet. */
int overlay_prepare(int session_fd, struct err *err);

struct overlay {
	struct tree lower, upper;
	int folder; /* <session>/overlay; owned */
	struct json *base;
};

#define OVERLAY_INIT \
	{ \
		.lower = TREE_INIT, .upper = TREE_INIT, .folder = -1, .base = NULL \
	}

/* Opens it. ERR_NOT_FOUND when the session has none yet. The caller releases *overlay, also after
 * failure. */
int overlay_open(struct overlay *overlay, int session_fd, const char *workspace, struct err *err);
void overlay_release(struct overlay *overlay);
#define cleanup_overlay __attribute__((cleanup(overlay_release)))

/* Empties it: the session sees the directory as it is. Nobody may have it mounted. */
int overlay_discard(int session_fd, struct err *err);

enum overlay_change { OVERLAY_ADDED, OVERLAY_CHANGED, OVERLAY_REMOVED };

struct overlay_item {
	enum overlay_change change;
	enum tree_kind kind;   /* of what is there now; of what was there if it is removed */
	enum tree_kind before; /* of OVERLAY_CHANGED */
	char *path;
	uint64_t bytes, bytes_before;
	mode_t mode;
	bool stale; /* the directory's has changed since the session saw it */
};

struct overlay_diff {
	struct overlay_item *items; /* folders before what is in them */
	size_t count;
	bool incomplete; /* OVERLAY_ITEMS_MAX */
};

#define OVERLAY_DIFF_INIT \
	{ \
		.items = NULL, .count = 0, .incomplete = false \
	}

int overlay_compare(const struct overlay *overlay, struct overlay_diff *diff, struct err *err);
void overlay_diff_release(struct overlay_diff *diff);
#define cleanup_diff __attribute__((cleanup(overlay_diff_release)))

/* "added", "changed", "removed". */
const char *overlay_change_name(enum overlay_change change);

/* --- applying (overlay_apply.c) --- */

/* Why something is not applied. */
enum overlay_held {
	OVERLAY_FINE,
	OVERLAY_STALE,     /* somebody else has changed it meanwhile */
	OVERLAY_REPLACES,  /* a folder would make way for something else, or the other way round */
	OVERLAY_SPECIAL,   /* a device, FIFO or socket */
	OVERLAY_LEADS_OUT, /* a symlink to outside of the directory */
	OVERLAY_LATER,     /* other programs run it later (sandbox/protect.h) */
};

struct overlay_apply {
	const char *const *paths;   /* NULL-terminated: these and what is in them; NULL: all */
	bool force;                 /* also what is stale or replaces */
	const char *const *protect; /* patterns; what they mean must be named by its own path */
	/* Told of each one: applied, or why not. */
	void (*tell)(void *data, const struct overlay_item *item, enum overlay_held held);
	void *data;
};

/*
 * Puts changes into the directory. When some of those that are asked for are stale or replace, none
 * is applied, unless forced; the others that are held are passed over. ERR_BUSY then, ERR_NOT_FOUND
 * when a path that was named has no change.
 */
int overlay_apply(struct overlay *overlay, const struct overlay_diff *diff,
		  const struct overlay_apply *how, struct err *err);

/* The text of a symlink of a layer. The caller owns it; NULL with *err. */
char *overlay_link_text(const struct tree *tree, const char *path, struct err *err);

#endif
