/*
 * The workspace's files in a rollback: snapshots (files/snapshot.h) taken and restored off the
 * loop.
 *
 * One piece of work is under way at a time, on a thread of libuv's. While one is taken no cell
 * starts, and one is restored only when nothing in the box lives but sleeping copies: so nobody
 * changes the files meanwhile, unless the workspace is used by others too.
 *
 * By default files go back in Fumehood's own workspaces, and stay in a folder that a person has
 * chosen: there other programs may be at work, and nobody has asked us to undo what they do.
 */
#ifndef FH_KEEPER_SNAPSHOTS_H
#define FH_KEEPER_SNAPSHOTS_H

#include <stdbool.h>

#include "base/json.h"
#include "files/snapshot.h"

struct session;
struct snapshots; /* opaque; one per session */

/* The caller owns it. */
struct snapshots *snapshots_new(struct session *session);
/* Ends the work. True: none is under way; false: session_later() is called when that is so. */
bool snapshots_stop(struct snapshots *snapshots);
void snapshots_free(struct snapshots *snapshots);

bool snapshots_busy(const struct snapshots *snapshots);

/* Whether files are to go back, where a request has not said so. */
bool snapshots_by_default(const struct session *session);

/* Takes one of the workspace as it is; `done` gets it (owned by the callee), or NULL and why there
 * is none. ERR_BUSY while other work is under way; ERR_UNSUPPORTED when the workspace is
 * read-only. */
int snapshots_take(struct snapshots *snapshots,
		   void (*done)(void *data, struct snapshot *snapshot, const struct err *err),
		   void *data, struct err *err);

/* Makes the workspace what it was; `done` gets what was done, as JSON (owned by the callee). The
 * snapshot is borrowed until then. */
int snapshots_restore(struct snapshots *snapshots, struct snapshot *snapshot,
		      void (*done)(void *data, struct json *files), void *data, struct err *err);

#endif
