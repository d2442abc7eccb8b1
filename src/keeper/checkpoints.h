/*
 * Checkpoints: which sleeping copies of the interpreter a session holds, and when one is made.
 *
 * The *timeline* is the list of the cells that are in the present state of the variables, in the
 * order in which they ran. A cell that died is not in it, nor is one that was rolled back. A
 * checkpoint has the timeline that was in force when it was made. An automatic one is always on the
 * present timeline (a prefix of it): those that a rollback leaves behind are dropped with the
 * future that they belong to. A named one stays, and brings its own timeline back with it.
 *
 * Automatic ones are made after a cell's end has been told, so nobody waits for them, unless the
 * next cell comes at once. How much they may delay cells is bounded: by a tenth of the time, beyond
 * a credit of CREDIT_US. So a client that thinks for a moment between two cells has each of them
 * protected, and one that sends tiny cells without a pause is slowed by a tenth, and told which
 * cell would be returned to. And all sessions of a user share what copies may take of the
 * processors (share.h): while that is spent, a state waits for its turn, and is told so.
 */
#ifndef FH_KEEPER_CHECKPOINTS_H
#define FH_KEEPER_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "keeper/cells.h"

enum {
	CHECKPOINTS_NAMED_MAX = 8,
	CHECKPOINTS_KEPT_MAX = 64, /* automatic ones: of the limit `checkpoints` */
};

struct checkpoints; /* opaque; one per session */
struct client;
struct session;

/* The caller owns it. */
struct checkpoints *checkpoints_new(struct session *session);
/* Closes what it has on the loop; free comes when that has been run down. */
void checkpoints_stop(struct checkpoints *checkpoints);
void checkpoints_free(struct checkpoints *checkpoints);

/* --- what happens ------------------------------------------------------------------------------
 */

/* The cell has ended and its variables are kept: it is on the timeline. */
void checkpoints_cell_kept(struct checkpoints *checkpoints, const struct cell *cell,
			   int64_t execution_count);

/* Puts "protected" and, if need be, "protected_reason" of the state that there is now into the body
 * of a `finished` event. */
void checkpoints_describe(struct checkpoints *checkpoints, struct json *body);

/* The end of a cell has been told: orders a copy if one is due, or as soon as there is time. */
void checkpoints_after_cell(struct checkpoints *checkpoints);

/* What the engine says of copies (engine.h). */
void checkpoints_copied(struct checkpoints *checkpoints, uint32_t number, int64_t copy_us,
			struct json *info);
void checkpoints_failed(struct checkpoints *checkpoints, uint32_t number, bool came,
			const struct err *err);
void checkpoints_measured(struct checkpoints *checkpoints, uint32_t number, int64_t private_bytes);

/* The interpreters of this box are no more: all are dropped, and told as dropped for `reason`. */
void checkpoints_clear(struct checkpoints *checkpoints, const char *reason);

/* A cell runs and memory is short (used/limit of the box, bytes): drops what is held until enough
 * of it may be free. Where most of what the box has grown by since the last copy is pages that this
 * keeps, it goes as well. */
struct checkpoints_growth {
	int64_t own;    /* by how much the interpreter itself has grown since then, in bytes */
	int64_t box;    /* ... the box */
	int64_t shared; /* what the interpreter had then: a copy can keep no more */
};
void checkpoints_relieve(struct checkpoints *checkpoints, uint64_t used, uint64_t limit,
			 const struct checkpoints_growth *growth);
bool checkpoints_any(const struct checkpoints *checkpoints);

/* The files for a named one are being taken: no cell may start before that is done. */
bool checkpoints_wait(const struct checkpoints *checkpoints);

/* --- going back --------------------------------------------------------------------------------
 */

/* The number of the checkpoint to recover to: the newest of the present timeline. 0: there is none.
 */
uint32_t checkpoints_newest(const struct checkpoints *checkpoints);

/* Whether the newest one is just the present state. */
bool checkpoints_exact(const struct checkpoints *checkpoints);

/* A cell that must be able to go back waits for this: true: it can start. False: a copy is on its
 * way, and session_next() is called when that is settled; *err (when its code is set) says why
 * there can be none. */
bool checkpoints_ready_for(struct checkpoints *checkpoints, struct err *err);

/* The files that belong to it (borrowed), or NULL; the journal's seq when it was asked for. */
struct snapshot *checkpoints_files(const struct checkpoints *checkpoints, uint32_t number);
uint64_t checkpoints_seq(const struct checkpoints *checkpoints, uint32_t number);

/* Waits a little for copies that are on their way, so that what is said next is what was told as
 * `pending`. From the loop. */
void checkpoints_await(struct checkpoints *checkpoints);

/* Finds where `to` leads: a name, the id of a cell (the state before it), NULL (before the last
 * cell). *number 0: the empty session. ERR_NOT_FOUND with what is held. */
int checkpoints_find(const struct checkpoints *checkpoints, const char *to, uint32_t *number,
		     struct err *err);

/* The interpreter is that of checkpoint `number` now (0: a new one). Fills *rolled_back (an array
 * of ids, owned by the caller) with the cells that are not in the state any more, and returns the
 * last one that is (NULL: none). */
const struct cell *checkpoints_went_back(struct checkpoints *checkpoints, uint32_t number,
					 struct json **rolled_back);

/* The copy has turned out to be of no use: it is dropped and told so. */
void checkpoints_useless(struct checkpoints *checkpoints, uint32_t number, const char *reason);

/* --- branches ----------------------------------------------------------------------------------
 */

/* Where the state of checkpoint `number` (0: the empty session) comes from, for a branch that
 * begins with it: the member `parent` of its first event (branch.h), of session `id`. The caller
 * owns it. */
struct json *checkpoints_origin(const struct checkpoints *checkpoints, uint32_t number,
				const char *id);

/* Those of a branch that begins with checkpoint `number` of its parent's; it has none yet. The
 * state before its first cell is that one, not the empty session. */
void checkpoints_begin(struct checkpoints *checkpoints, const struct checkpoints *parent,
		       uint32_t number);

/* --- requests ----------------------------------------------------------------------------------
 */

/* Makes a named one, with a snapshot of the workspace's files if wanted; the client is answered
 * when it sleeps and that is taken. */
int checkpoints_make(struct checkpoints *checkpoints, const char *name, bool files,
		     struct client *client, struct json *id, struct err *err);
int checkpoints_drop(struct checkpoints *checkpoints, const char *name, struct err *err);
/* {"checkpoints":[...],"recovers_to":id|null,"protected":bool}. The caller owns it. */
struct json *checkpoints_json(const struct checkpoints *checkpoints);

#endif
