/*
 * Going back: to a checkpoint after a death, at a client's wish, or because a cell was to leave no
 * trace.
 *
 * However it begins, the way is the same: the interpreter ends, everything that it has started is
 * killed, a copy is woken, and when that says hello, it is told what was lost. So what is told is
 * true; and a cell that has died, or is undone, is `finished` only then.
 *
 *   NONE ──death──────────────► RECOVER ──ready──► NONE      `finished` or `died`: recovered
 *     │  op rollback, reset ──► ASKED   ──ready──► NONE      `rollback`, and the reply
 *     │  the end of a cell ───► UNDO    ──ready──► NONE      `finished`: rolled_back, `rollback`
 *     │                           │ that copy is of no use
 *     │                           ▼
 *     └─────────────────────── RECOVER, to the next best; when there is none: a new interpreter
 */
#ifndef FH_KEEPER_BACK_H
#define FH_KEEPER_BACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "engine/engine.h"
#include "keeper/cells.h"

enum back_kind { BACK_NONE, BACK_RECOVER, BACK_ASKED, BACK_UNDO };

struct client;
struct session;

struct back {
	enum back_kind kind;
	unsigned idle_deaths; /* in a row, no cell ended between; outlives the way back */
	uint32_t number;      /* of the checkpoint; 0: a new interpreter */
	/* what ended: of a cell, or of the interpreter between two cells */
	const char *status; /* of `finished`; constant; NULL: no cell was running */
	char *reason;       /* or NULL; owned */
	const char *limit;  /* or NULL; constant */
	int64_t execution_count;
	/* ASKED */
	char *to; /* as it was asked for; NULL: not said. Owned */
	bool reset;
	bool files;            /* are to go back too, and have not yet */
	struct client *client; /* kept */
	struct json *id;
	/* while an event is being told: where it went */
	const char *state;
	const struct cell *cell; /* the last one that is in the state */
	struct json *rolled_back, *lost;
	struct json *files_told; /* what became of the workspace's files; NULL: nothing */
};

/* The interpreter has died, of what is said in session->back or, when that is NONE, of `death`:
 * chooses where to go back to. False: there is nothing, so all has been told with the state
 * "reset", and a new interpreter has to be started. */
bool back_began(struct session *session, const struct engine_death *death);

/* The same while the session ends: told with the state "gone". */
void back_gone(struct session *session, const struct engine_death *death);

/* Starts what session->back wants. */
int back_start(struct session *session, struct err *err);

/* The interpreter that was wanted is there; `hello` is what it has said. */
void back_arrived(struct session *session, const struct json *hello);

/* It could not be had. True: another one has been chosen, back_start() is next. False: as
 * back_began(). */
bool back_failed(struct session *session, const struct err *err);

/* The members of `finished` and `died` that say what became of the variables. */
void back_describe(const struct session *session, const struct cell *cell, struct json *body);

/* The cell has ended, but is to leave no trace (cell->returns): ends its interpreter. True: it will
 * be finished when that has been done. */
bool back_undo(struct session *session, struct cell *cell, const char *status,
	       int64_t execution_count);

/* What a client wants to go back to. */
struct back_wish {
	const char *to; /* checkpoints_find() */
	bool reset;     /* the empty session */
	bool files;     /* the workspace's files as well, if they are held */
};

/* op rollback, op reset: answered when it is done. */
int back_ask(struct session *session, const struct back_wish *wish, struct client *client,
	     struct json *id, struct err *err);

/* The cell may be undone, and its files with it: true: those of before it are held, or are not
 * wanted. False: that is being done, and session_next() is called when it has been. */
bool back_files_kept(struct session *session, const struct cell *cell);

/* Whoever waits is refused; all that it owns is freed. */
void back_release(struct session *session, const struct err *err);

#endif
