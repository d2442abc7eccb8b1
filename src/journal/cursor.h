/*
 * Cursors: every reader's place in a journal.
 *
 * A cursor reads the file itself, in pieces of at most a line, so a journal larger than memory can
 * be read, a slow reader costs nothing, and a reader in another process needs no one's leave. It
 * never sees a torn line: bytes behind the last LF are left for later. Finding `since` in a long
 * file is a bisection by line starts (each line says its seq).
 *
 * A line that is no event is passed over and reported, unless it is the last of the file: then it
 * is torn, will be cut off when the journal is opened again, and the cursor waits before it.
 */
#ifndef FH_JOURNAL_CURSOR_H
#define FH_JOURNAL_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "journal/event.h"

struct cursor;

enum cursor_step {
	CURSOR_EVENT,   /* *event is filled */
	CURSOR_END,     /* nothing more at the moment; call again when the journal has grown */
	CURSOR_DAMAGED, /* a line that is no event was passed; cursor_line_number() says which */
	CURSOR_ERROR,   /* *err is filled */
};

/* Starts behind event `since` (0: from the first line). The caller owns the cursor. ERR_NOT_FOUND
 * when there is no journal in `dirfd`. The cursor keeps a descriptor of its own. */
struct cursor *cursor_open(int dirfd, uint64_t since, struct err *err);
void cursor_free(struct cursor *cursor);

/* As if opened behind event `seq`, by one who has written event seq + 1, or is about to, and knows
 * that it begins at byte `offset` (journal_place()): one read instead of a search. What lies there
 * is looked at: when it is another event, `seq` is searched for as cursor_open() does. */
int cursor_go(struct cursor *cursor, uint64_t seq, uint64_t offset, struct err *err);

/* The next event into *event (EVENT_INIT before; the caller releases it). */
enum cursor_step cursor_next(struct cursor *cursor, struct event *event, struct err *err);

/* As cursor_next without parsing: the next raw line (with LF; valid until the next call). Only its
 * form is looked at: where it begins and ends, no control characters, UTF-8. */
enum cursor_step cursor_next_line(struct cursor *cursor, const char **line, size_t *len,
				  uint64_t *seq, struct err *err);

/* The last event delivered, passed over by cursor_skip_to, or not wanted (`since`); 0: none. */
uint64_t cursor_seq(const struct cursor *cursor);

/* Line of the last step, from 1. After `since` or cursor_skip_to, the first call (or damaged line)
 * reads the file up to here to count; 0 when that fails. */
uint64_t cursor_line_number(const struct cursor *cursor);

/* Bytes of the file that were passed: where the next line begins. */
uint64_t cursor_offset(const struct cursor *cursor);

/* Jumps behind event `seq`, or the last one there is before it (UINT64_MAX: the end, for a lossy
 * reader). *from and *to are the first and the last event passed over; both 0 when none was. */
int cursor_skip_to(struct cursor *cursor, uint64_t seq, uint64_t *from, uint64_t *to,
		   struct err *err);

#endif
