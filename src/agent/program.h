/*
 * Running programs: each apart from all others, so that none sees what another has left.
 *
 * There are two ways. `apart`: a session of its own for each program, made by whoever knows how
 * (struct box_source), over an overlay of the workspace, thrown away afterwards; the next one is
 * made while the model still writes. In a session that has variables, or whose files no overlay can
 * show, programs run one after another in that session by `try`: whatever they do to variables and
 * files is undone. The checks of the user (`assert`) run behind the program, in its interpreter.
 */
#ifndef FH_AGENT_PROGRAM_H
#define FH_AGENT_PROGRAM_H

#include <fumehood.h>

#include "agent/hub.h"
#include "agent/outcome.h"
#include "base/err.h"

/* Where boxes come from. */
struct box_source {
	/* A new session for one program, owned by the caller until end(); NULL and ERR_UNSUPPORTED
	 * or ERR_SANDBOX: there can be none. ERR_GONE: cancelled. */
	struct fh_session *(*start)(void *context, int cancel_fd, struct err *err);
	/* Stops the session and removes what it has left. */
	void (*end)(void *context, struct fh_session *session);
	void *context;
};

struct runner {
	struct hub *hub;                /* borrowed */
	struct fh_session *session;     /* the user's; borrowed */
	const struct box_source *boxes; /* borrowed; NULL: programs run in `session`, tried */
	struct fh_session *box;         /* that of the present program; owned by us */
	bool box_used;                  /* a program has run in it */
	bool files_back;                /* of a try: the keeper can undo what it does to files */
	double timeout_s;               /* of one program */
	const char *input;              /* what it reads; NULL: nothing */
	/* What a program prints, as it comes; NULL: nobody wants it. */
	void (*output)(void *context, bool is_stderr, const char *text, size_t len);
	void *context;
};

/* Makes the next box, if programs run apart and there is none. A failure is met again by
 * runner_run(). */
void runner_prepare(struct runner *runner);

/*
 * Runs a program to its end into *outcome (OUTCOME_INIT), and is ready for the checks of it. 0: it
 * has run, was cancelled or met the deadline (then OUTCOME_INTERRUPTED, and nothing of it runs any
 * more). -1: a fault of ours, or of the session.
 */
int runner_run(struct runner *runner, const char *code, struct outcome *outcome, struct err *err);

/* Runs a check behind the program that was run last, whose code is given once more: its outcome
 * into *outcome (OUTCOME_INIT). As runner_run(). */
int runner_check(struct runner *runner, const char *code, const char *check,
		 struct outcome *outcome, struct err *err);

/* Runs code of ours that looks at where the program ran that was run last: behind it in its box, or
 * by itself in the session, which is then as before. As runner_run(); what it prints is told to
 * nobody else. */
int runner_look(struct runner *runner, const char *code, struct outcome *outcome, struct err *err);

/* Runs the chosen program in the user's session, for good. `metadata`: of its cell in the notebook,
 * JSON or NULL. */
int runner_keep(struct runner *runner, const char *code, const char *metadata,
		struct outcome *outcome, struct err *err);

/* As runner_check() in the user's session, which is as before afterwards. */
int runner_check_kept(struct runner *runner, const char *check, struct outcome *outcome,
		      struct err *err);

void runner_release(struct runner *runner);

#endif
