/*
 * One cell of a session, from its request to its outcome, while everything else goes on.
 */
#ifndef FH_AGENT_CELL_H
#define FH_AGENT_CELL_H

#include <fumehood.h>

#include "agent/hub.h"
#include "agent/outcome.h"
#include "base/err.h"

struct cell {
	struct hub *hub;            /* borrowed, as all here */
	struct fh_session *session; /* with events followed (fh_events) */
	double timeout_s;
	const char *input;    /* the lines that it reads; NULL: none */
	const char *metadata; /* of the notebook's cell, a JSON object; NULL: none */
	bool try_only;        /* undone afterwards ... */
	bool files_back;      /* ... with files */
	/* What it prints, as it comes; NULL: nobody wants it. */
	void (*output)(void *context, bool is_stderr, const char *text, size_t len);
	void *context;
};

/*
 * Runs the code to its end. When the hub is ended meanwhile, the cell is killed, which is waited
 * for (a few seconds at most), and the outcome is OUTCOME_INTERRUPTED. *outcome must be
 * OUTCOME_INIT. -1: the session has refused it or is gone.
 */
int cell_run(const struct cell *cell, const char *code, struct outcome *outcome, struct err *err);

#endif
