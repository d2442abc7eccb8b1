/*
 * What there is in a session before the model is asked: files, variables, installed packages, and
 * what was asked before. All of it is told to the model, so that it need not guess.
 */
#ifndef FH_AGENT_LOOK_H
#define FH_AGENT_LOOK_H

#include <fumehood.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	LOOK_EARLIER_MAX = 3, /* asks before this one that are told */
	LOOK_WORKSPACE_BYTES = 2400,
	LOOK_VARIABLES_BYTES = 1200,
};

/* Of one earlier ask that had an answer; texts are owned. */
struct look_earlier {
	char *instruction, *code, *output;
};

struct look {
	struct buf workspace;                          /* a paragraph for the prompt, or empty */
	struct buf variables;                          /* likewise */
	struct buf files;                              /* names, "a.csv, b.txt" */
	struct buf modules;                            /* "numpy, pandas" */
	struct look_earlier earlier[LOOK_EARLIER_MAX]; /* the oldest first */
	size_t earlier_count;
};

#define LOOK_INIT \
	{ \
		.workspace = BUF_INIT, .variables = BUF_INIT, .files = BUF_INIT, \
		.modules = BUF_INIT \
	}

/* Looks. `fresh`: the session is new, so it has no variables and no past. What cannot be seen is
 * left out; -1 only when the session is gone. The caller releases *look also after failure. */
int look_at(struct look *look, struct fh_session *session, bool fresh, struct err *err);
void look_release(struct look *look);

#endif
