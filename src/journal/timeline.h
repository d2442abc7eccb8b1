/*
 * The timeline: which cells are in the state of the variables.
 *
 * A session's cells do not stand in one line once it can go back. What a cell has done to the
 * variables is in the present state, or was undone by a rollback, or was lost when the interpreter
 * died and an older checkpoint was woken; and a rollback to a named checkpoint can bring cells back
 * that an earlier one had undone. This fold over the journal says what holds: it keeps each cell
 * together with the one that ended before it in the same state, so that the present state is the
 * chain that begins at its last cell (doc/protocol.md, "Checkpoints").
 *
 * Invariant: the cells on the chain, and no others, have TIMELINE_HELD.
 */
#ifndef FH_JOURNAL_TIMELINE_H
#define FH_JOURNAL_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal/event.h"

enum timeline_fate {
	TIMELINE_OPEN,        /* it waits or runs */
	TIMELINE_HELD,        /* what it did is in the state */
	TIMELINE_NONE,        /* it never was in a state that lasted: it died, or did not run */
	TIMELINE_ROLLED_BACK, /* undone because someone asked: rollback, reset, atomic, try */
	TIMELINE_LOST,        /* with a death of which a checkpoint before it was the recovery */
	TIMELINE_GONE /* with the whole interpreter: a restart, or a death without recovery */
};

struct timeline_cell {
	char *id;
	uint64_t seq; /* of its `cell` event */
	enum timeline_fate fate;
	const char *by; /* of ROLLED_BACK: "rollback", "reset", "atomic", "try"; else NULL */
	const struct timeline_cell
		*before;                   /* the cell on whose state it ran; NULL: the empty one */
	const struct timeline_cell *older; /* all cells, the newest first */
};

struct timeline;

struct timeline *timeline_new(void);
void timeline_free(struct timeline *timeline); /* NULL is fine */

/* Takes an event, in order. Returns whether the fate of a cell may have changed otherwise than by
 * its own end in the usual way: then readers look at all cells again. Hostile content is harmless:
 * names of unknown cells are passed over. */
bool timeline_apply(struct timeline *timeline, const struct event *event);

/* The journal of a branch begins here, after events of its parent's: the state is that after the
 * cell with this id (NULL: the empty one), and what the branch calls the state before its first
 * cell. */
void timeline_begin(struct timeline *timeline, const char *id);

/* The cell with this id, NULL if there is none. Borrowed; lives as long as the timeline. */
const struct timeline_cell *timeline_find(const struct timeline *timeline, const char *id);

/* The last cell that is in the state, NULL: the state is empty. Its `before` leads on. */
const struct timeline_cell *timeline_last(const struct timeline *timeline);

/* The newest cell of all; its `older` leads on. */
const struct timeline_cell *timeline_newest(const struct timeline *timeline);

#endif
