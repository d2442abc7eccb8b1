/*
 * Environments that are made for `--with PKG,...`: packages by name, fetched once, then kept.
 *
 * Installing runs code of the packages, so it happens inside the box of a session whose only
 * hosts are those of the index, and which may write the new environment and nothing else. What
 * comes out is not the user's own: its sessions start cold, in their boxes, and see it read-only
 * (python_is_made(), doc/decisions/031-*).
 */
#ifndef FH_CLI_WITH_H
#define FH_CLI_WITH_H

#include "base/err.h"
#include "cli/options.h"

struct with_options {
	struct option_list packages; /* requirements as pip has them; several with commas between */
	struct option_list index;    /* hosts of the index, as rules of hosts.h */
};

/* Rows of an option table for these; `options` is a struct with_options variable. */
#define WITH_OPTION_ROWS(options) \
	{"with", '\0', OPTION_LIST, &(options).packages}, \
	{ \
		"with-net", '\0', OPTION_LIST, &(options).index \
	}

/* Their description for --help. */
#define WITH_OPTION_HELP \
	"      --with PKG,...   use a new environment with these packages, made in a sandbox\n" \
	"                       and kept for the next time\n" \
	"      --with-net HOST[:PORTS],...\n" \
	"                       hosts they may come from (default: pypi.org and\n" \
	"                       files.pythonhosted.org; PIP_INDEX_URL names another index)\n"

/*
 * The absolute path of the Python of an environment that is based on `python` and has these
 * packages; made if it is not there, which can take minutes and is said on stderr. Waits for
 * another process that makes the same. `cancel_fd` as in fumehood.h. ERR_INVALID for a package that
 * is no requirement, ERR_ENGINE when they cannot be installed; pip's words are then on stderr. The
 * caller owns it, and *held: as long as that is open nobody removes the environment, which must be
 * until the session that uses it is there (-1 on failure).
 */
char *with_python(const struct with_options *options, const char *python, int cancel_fd, int *held,
		  struct err *err);

/* That path, whether it is there or not. */
char *with_path(const struct with_options *options, const char *python, struct err *err);

#endif
