/*
 * The execution count of a session, from its events: what the next prompt has behind "In".
 *
 * It goes on as in the interpreter that is there. After a rollback or a recovery that is the count
 * of the last cell which is in the state; so the counts of all cells that were met are kept.
 */
#ifndef FH_CLI_COUNT_H
#define FH_CLI_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "journal/event.h"

struct count {
	int64_t now;     /* of the last cell that is in the state; 0: none */
	int64_t first;   /* before the first cell: of a branch where its parent was */
	bool known;      /* what was met until now says so */
	struct json *of; /* {cell: its count}; owned, NULL at first */
};

#define COUNT_INIT \
	{ \
		.now = 0, .first = 0, .known = false, .of = NULL \
	}

void count_release(struct count *count);

/* Takes an event, in order. When it leads back to a cell that was not met, `now` stays and `known`
 * becomes false. */
void count_take(struct count *count, const struct event *event);

#endif
