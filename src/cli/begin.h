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
#include "base/settings.h"
#include "cli/policy_options.h"
#include "cli/with.h"
#include "sandbox/policy.h"

struct begin_options {
	const char *session;
	const char *workspace; /* DIR[:rw|:ro|:overlay] */
	const char *python;
	const char *tier;
	const char *durability;  /* "process" or "power" */
	const char *rolled_back; /* "omit" or "keep" */
	double timeout_s;        /* 0: not given */
	struct with_options with;
	struct policy_options policy;
	bool keep;
	bool running_only;     /* set by the verb: the session must be running already */
	bool timeout_is_limit; /* set by the verb: no cell of a new session may run longer */
};

#define BEGIN_OPTIONS_INIT \
	{ \
		.policy = POLICY_OPTIONS_INIT \
	}

/* Rows of an option table for these; `options` is a struct begin_options variable. */
#define BEGIN_OPTION_ROWS(options) \
	{"session", 's', OPTION_TEXT, &(options).session}, \
		{"workspace", 'w', OPTION_TEXT, &(options).workspace}, \
		{"python", '\0', OPTION_TEXT, &(options).python}, \
		{"tier", '\0', OPTION_TEXT, &(options).tier}, \
		{"durability", '\0', OPTION_TEXT, &(options).durability}, \
		{"rolled-back", '\0', OPTION_TEXT, &(options).rolled_back}, \
		{"timeout", 't', OPTION_SECONDS, &(options).timeout_s}, \
		{"keep", 'k', OPTION_FLAG, &(options).keep}, WITH_OPTION_ROWS((options).with), \
		POLICY_OPTION_ROWS((options).policy)

/* Their description for --help. */
#define BEGIN_OPTION_HELP \
	"  -s, --session NAME   use the session NAME, made if there is none; it lives on\n" \
	"                       (fumehood stop NAME ends it, fumehood gc NAME removes it)\n" \
	"  -w, --workspace DIR[:rw|:ro|:overlay]\n" \
	"                       directory to work in; overlay: changes are kept aside\n" \
	"  -t, --timeout TIME   longest time a cell may run: 30, 0.5, 2m, 1h (default 300 s)\n" \
	"  -k, --keep           keep the session's directory at the end\n" \
	"      --python PATH    Python or virtual environment (default: that of the settings,\n" \
	"                       else Fumehood's own environment, else python3)\n" WITH_OPTION_HELP \
	"      --tier none      run without any sandbox\n" \
	"      --durability power  tell nothing before the disk has it\n" \
	"      --rolled-back keep  keep cells in the notebook that were rolled back\n"

enum begin_end { BEGIN_REMOVE, BEGIN_KEEP, BEGIN_LEAVE_RUNNING };

struct begin {
	struct fh_session *session; /* owned */
	char *workspace;            /* absolute path, owned; NULL: a private one */
	bool created;
	bool degraded; /* its sandbox is weaker than the best one, which could not be built */
	enum begin_end end;
};

#define BEGIN_INIT \
	{ \
		.session = NULL, .workspace = NULL, .created = false, .degraded = false, \
		.end = BEGIN_REMOVE \
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

/* The Python of a new session: the named one (NULL: none was), else that of the settings, else
 * python_default(). The caller owns it. */
char *begin_python(const char *named, const struct settings *settings, struct err *err);

/* Makes *chars, UINT64_MAX if --max-chars was not given, the length of a text for a model: that of
 * the settings, or 0 (the form's own default) for the marked form. */
int begin_max_chars(uint64_t *chars, bool marks, struct err *err);

/* Says so if the sandbox is weaker than the best one and nobody asked for that. */
void begin_say_tier(const struct begin *begin, const struct begin_options *options);

/* Splits "DIR:ro" into the directory (owned by the caller) and the mode. */
char *begin_split_workspace(const char *text, enum workspace_mode *mode, struct err *err);

#endif
