/*
 * Branches: a second living interpreter from the same memory, in the same box (op fork).
 *
 *	op fork ──> (waits for a copy) ──> woken from a copy ──> born
 *	                                          └───────────> failed: refused, removed
 *
 * The branch is a session of its own: id, directory, journal, socket, notebook, cells, checkpoints.
 * Its box is its parent's (home.h). Numbers of its cells begin behind those that its parent had
 * then, so what still runs of the parent's cells in its memory is never taken for one of its own.
 *
 * Its journal begins with "parent":{"session","seq","cell","cells","asks","execution_count"}:
 * whose state it began with, as it was at that event, behind that cell, how many cells and asks
 * there had been, and how far the interpreter had counted.
 */
#ifndef FH_KEEPER_BRANCH_H
#define FH_KEEPER_BRANCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct client;
struct home;
struct session;

/* op fork: answered when the branch is born. `name` and `from` may be NULL; `from` is as
 * checkpoints_find() has it, NULL: the present. */
int branch_ask(struct session *parent, const char *name, const char *from, struct client *client,
	       struct json *id, struct err *err);

/* Nothing runs: makes the branches that wait for that. True: one waits for a copy, so no cell may
 * start. */
bool branch_next(struct session *parent);

/* Those that wait will not be made. */
void branch_refuse_all(struct session *parent, const struct err *err);

/* It could not be woken. Until it has said hello it is not told apart from what its parent has
 * started, and goes with that when the parent dies just then. True: it is being woken again. */
bool branch_again(struct session *branch);

/* The branch's interpreter is there and its journal has begun; or there will be none. */
void branch_born(struct session *branch);
void branch_failed(struct session *branch, const struct err *err);

/* The number of the first cell of a session, whose first event has this body. */
uint32_t branch_first_cell(const struct json *session_event);

/* Frees branches that have ended: at the end of a turn of the loop. */
void branch_free_ended(struct home *home);

#endif
