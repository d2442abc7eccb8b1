/*
 * Running cells live: output as it comes, prompts answered, Ctrl-C passed on.
 */
#ifndef FH_CLI_LIVE_H
#define FH_CLI_LIVE_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/count.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/show.h"

enum live_mode {
	LIVE_SHOW, /* for people */
	LIVE_JSON, /* each event one line on stdout */
	LIVE_TEXT, /* each cell's text for a model on stdout, at its end */
};

/* What the cells may leave behind: see struct fh_run_params. */
struct live_returns {
	bool atomic, try_only;
	enum fh_files files;
};

/* What became of the cell that was run last. Strings are owned; NULL: there is none. */
struct live_last {
	char *cell;           /* its id in the session */
	char *ename, *evalue; /* of its last exception */
	bool kept;            /* the variables of before are still there */
	int64_t execution_count;
	int64_t started_us, finished_us; /* wall clock; 0: it did not get so far */
};

struct live {
	struct fh_session *session; /* borrowed */
	enum live_mode mode;
	int signal_fd;    /* borrowed; see signals.h */
	bool lives_on;    /* the session outlives this command */
	size_t max_chars; /* LIVE_TEXT; 0: the default of the form */
	bool marks;       /* LIVE_TEXT in the marked form */
	struct live_returns returns;
	struct show show;
	struct input input;
	int64_t interrupted_us; /* when Ctrl-C was pressed last, monotonic; 0: never */
	bool texts;             /* a text was printed before: the next begins with a blank line */
	struct live_last last;
	struct progress *progress; /* borrowed; NULL: none is shown */
	struct count count;        /* of the session, whoever ran its cells */
};

struct live_cell {
	/* NULL: made by the keeper. One that is taken gets "-2", "-3" ... behind it. */
	const char *id;
	const char *code;
	size_t code_len;
	const struct json *metadata; /* object or NULL */
	/* Of the script that the code is from: its path, absolute or from the workspace, and the
	 * words behind it; NULL: none. All valid UTF-8. */
	const char *file;
	const char *const *argv; /* NULL-terminated */
	double timeout_s;        /* 0: the session's */
	bool allow_stdin;
};

enum live_end {
	LIVE_OK,
	LIVE_ERROR, /* the cell raised */
	LIVE_TIMEOUT,
	LIVE_INTERRUPTED,
	LIVE_DIED,    /* or cancelled: it has not run to its end */
	LIVE_STOPPED, /* by a second Ctrl-C or another signal: the session is to be stopped */
	LIVE_FAULT,   /* *err is filled */
};

/* `directory`: the session's if it outlives the command, else NULL. Stdin is read for prompts. */
void live_init(struct live *live, struct fh_session *session, enum live_mode mode, int signal_fd,
	       const char *directory, bool errors_only);
void live_release(struct live *live);

/* Runs one cell and fills live->last. *signal is set to the signal behind LIVE_STOPPED (SIGINT,
 * SIGTERM, SIGHUP). */
enum live_end live_run(struct live *live, const struct live_cell *cell, int *signal,
		       struct err *err);

/*
 * Takes the events that have come between two cells: late output, a death, the session's end
 * (ERR_GONE).
 * `*shown`: something was printed; `before` is written before it. fh_fd() tells when to call it
 * again.
 */
int live_idle(struct live *live, const char *before, bool *shown, struct err *err);

/* Puts a cell that is not run into the notebook: "markdown", "raw", or "code". */
int live_note(struct live *live, const char *id, const char *cell_type, const char *text,
	      size_t len, const struct json *metadata, const struct json *attachments,
	      struct err *err);

#endif
