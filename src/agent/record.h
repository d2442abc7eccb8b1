/*
 * Lines: what happens in an ask, told to whoever watches and written into the session's journal.
 *
 * The one place that knows how records get there (fh_record). See doc/ask.md, "Lines".
 */
#ifndef FH_AGENT_RECORD_H
#define FH_AGENT_RECORD_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"

enum { RECORD_ASK_SIZE = 16 };

struct record {
	struct fh_session *session; /* borrowed */
	/* Gets each line; it is valid during the call. NULL: nobody watches. */
	void (*line)(void *context, const struct json *line);
	void *context;
	char ask[RECORD_ASK_SIZE]; /* "a1"; "" before record_begin() */
	bool gone;                 /* the session is; `fault` says how. Stays */
	struct err fault;
};

/* The first record, which gives the ask its id; `ask` is taken. Cut as in record_line(). */
int record_begin(struct record *record, struct json *ask, struct err *err);

/* A line of this type, whose members are taken; `type` and `ask` are put in front. With `journal`
 * it is written there first; what is too long for a line of it is cut there, which its member `cut`
 * says. */
void record_line(struct record *record, const char *type, struct json *members, bool journal);

#endif
