/*
 * The session of `run` and `pipe`: the options they share, how it begins and how it ends.
 *
 * One-shot (no --session): made for this command, stopped and removed at its end, unless --keep.
 * --session NAME: the running or stopped session of that name, or a new one; it lives on.
 */
#ifndef FH_CLI_BEGIN_H
#define FH_CLI_BEGIN_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"

struct begin_options {
	const char *session;
	const char *workspace; /* DIR[:rw|:ro] */
	const char *python;
	const char *tier;
	double timeout_s; /* 0: not given */
	bool keep;
	bool running_only;     /* set by the verb: the session must be running already */
	bool timeout_is_limit; /* set by the verb: no cell of a new session may run longer */
};

/* Rows of an option table for these; `options` is a struct begin_options variable. */
#define BEGIN_OPTION_ROWS(options) \
	{"session", 's', OPTION_TEXT, &(options).session}, \
		{"workspace", 'w', OPTION_TEXT, &(options).workspace}, \
		{"python", '\0', OPTION_TEXT, &(options).python}, \
		{"tier", '\0', OPTION_TEXT, &(options).tier}, \
		{"timeout", 't', OPTION_SECONDS, &(options).timeout_s}, \
		{"keep", 'k', OPTION_FLAG, &(options).keep}

/* Their description for --help. */
#define BEGIN_OPTION_HELP \
	"  -s, --session NAME   use the session NAME, made if there is none; it lives on\n" \
	"                       (fumehood stop NAME ends it, fumehood gc NAME removes it)\n" \
	"  -w, --workspace DIR[:rw|:ro]\n" \
	"                       directory to work in\n" \
	"  -t, --timeout TIME   longest time a cell may run: 30, 0.5, 2m, 1h (default 300 s)\n" \
	"  -k, --keep           keep the session's directory at the end\n" \
	"      --python PATH    Python or virtual environment (default: $FUMEHOOD_PYTHON, else\n" \
	"                       Fumehood's own environment, else python3)\n" \
	"      --tier none      run without any sandbox\n"

enum begin_end { BEGIN_REMOVE, BEGIN_KEEP, BEGIN_LEAVE_RUNNING };

struct begin {
	struct fh_session *session; /* owned */
	bool created;
	enum begin_end end;
};

#define BEGIN_INIT \
	{ \
		.session = NULL, .created = false, .end = BEGIN_REMOVE \
	}

/*
 * Starts or opens the session. `workspace` is used when none was named (NULL: a private one). Text
 * of `notebook_metadata` (JSON or NULL) goes to a new session. `cancel_fd`: see fumehood.h.
 */
int begin_session(struct begin *begin, const struct begin_options *options, const char *workspace,
		  const char *notebook_metadata, int cancel_fd, struct err *err);

/*
 * Ends it as `begin->end` says: stops it (`stopped`: it has ended already), removes its directory
 * or says where it is, and disconnects. The outcome of the cells is known by now, so a failure here
 * is only said.
 */
void begin_finish(struct begin *begin, bool stopped);

/* Splits "DIR:ro" into the directory (owned by the caller) and the mode. ERR_UNSUPPORTED for
 * :overlay. */
char *begin_split_workspace(const char *text, bool *read_only, struct err *err);

#endif
