/*
 * What the verbs share that ask a running session something, or write into its notebook.
 */
#ifndef FH_CLI_ASK_H
#define FH_CLI_ASK_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/find.h"
#include "cli/source.h"

struct ask {
	struct found found;
	struct fh_session *session;
	struct json *answer;
};

#define ASK_INIT \
	{ \
		.found = FOUND_INIT, .session = NULL, .answer = NULL \
	}

/* Finds and opens the session. `start`: also one that does not run; else that is ERR_NOT_FOUND. The
 * caller releases *ask also after failure. */
int ask_open(struct ask *ask, const char *session, bool start, struct err *err);
void ask_release(struct ask *ask);
#define cleanup_ask __attribute__((cleanup(ask_release)))

/* Takes what a call of the library returned: NULL is its failure, *error. With `json` it is printed
 * as one line. Otherwise it is parsed into ask->answer. Returns -1 to go on with that, else the
 * exit status. */
int ask_take(struct ask *ask, char *reply, const struct fh_error *error, bool json);

/* The text of a word of the command line; "-" is stdin. */
int ask_text(struct source *source, const char *word, struct err *err);

#endif
