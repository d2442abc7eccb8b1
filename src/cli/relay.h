/*
 * Finding our own answers among the keeper's lines, for `fumehood pipe`.
 *
 * A filter over the bytes that come from the keeper: it passes every line on but the answers to
 * requests of pipe's own, whose ids begin with RELAY_ID. Only the first bytes of a line are ever
 * held, so a line may be of any length.
 */
#ifndef FH_CLI_RELAY_H
#define FH_CLI_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define RELAY_ID "fumehood-pipe-"

/* A line longer than this is no answer to us: those are short. */
enum { RELAY_START_BYTES = 2048 };

enum relay_place { RELAY_START, RELAY_PASS };

struct relay {
	enum relay_place place; /* in the current line: its start is held, or it is passed on */
	struct buf start;
	bool finished; /* a cell has finished since the caller cleared this */
	bool prompted; /* a prompt was shown since the caller cleared this */
	bool stopped;  /* the session has told that it stopped */
	bool idle;     /* our `status` was answered: nothing runs and nothing is queued */
	bool busy;     /* ... or something does; the caller clears both */
};

#define RELAY_INIT \
	{ \
		.place = RELAY_START, .start = BUF_INIT \
	}

void relay_release(struct relay *relay);

/* Takes bytes from the keeper and appends to `out` what is to be passed on. */
void relay_feed(struct relay *relay, const char *bytes, size_t len, struct buf *out);

#endif
