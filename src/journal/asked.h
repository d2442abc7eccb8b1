/*
 * Asks: instructions to a model, as the journal has them (doc/ask.md).
 *
 * The program that talks to the model is a client of the session like any other. What it does
 * becomes events: `ask`, `attempt`, `token`, `code` and `verdict`, held together by the ask's id
 * (`a1`, `a2` ... in their session). An ask is open from its `ask` to its `verdict`. It ends with
 * its keeper, too: who has asked was a client of that one, so nobody is left to go on with it.
 *
 * Here is which asks there are, and how people read these events: both are the same for the keeper,
 * the notebook and whoever reads a journal.
 */
#ifndef FH_JOURNAL_ASKED_H
#define FH_JOURNAL_ASKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "journal/event.h"

enum {
	ASKED_OPEN_MAX = 64, /* at once; one more, and the oldest counts as given up */
	ASKED_ID_SIZE = 16,  /* of an id as text, its NUL counted */
};

struct asked {
	uint32_t count;                /* the last number that was given */
	uint32_t open[ASKED_OPEN_MAX]; /* numbers, the oldest first */
	unsigned open_count;
};

#define ASKED_INIT \
	{ \
		.count = 0, .open_count = 0 \
	}

/* Takes an event, in order; all but those of asks, `session` and `restarted` are passed over. Of
 * `session` it reads how many asks a branch's parent had, so that no two are called alike. */
void asked_apply(struct asked *asked, const struct event *event);

/* The ask of this id is open: 0. ERR_NOT_FOUND when there is none, ERR_DUPLICATE when it has
 * ended. */
int asked_check(const struct asked *asked, const char *id, struct err *err);

/* "a7" for 7. */
void asked_name(uint32_t number, char id[static ASKED_ID_SIZE]);

/* The number in an id, 0 when it is none. */
uint32_t asked_number(const char *id);

/*
 * What an `attempt` and a `verdict` say, in a few words on one line for people:
 *
 *	2: ok, 0.8 s, 57 tokens			3: started, mends 1
 *	agreed 3 of 5				no answer: every program failed
 *
 * Text in them can come from a model: whoever shows it escapes it.
 */
void asked_attempt_words(struct buf *out, const struct json *body);
void asked_verdict_words(struct buf *out, const struct json *body);

#endif
