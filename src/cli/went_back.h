/*
 * What a return to a checkpoint has done, in words for people: shared by rollback, reset, and the
 * cells of `run --atomic` and `run --try`.
 */
#ifndef FH_CLI_WENT_BACK_H
#define FH_CLI_WENT_BACK_H

#include <fumehood.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/ask.h"
#include "cli/command.h"

/*
 * What `checkpoint` and `rollback` have in common: a command with SESSION and a name (`words_min`
 * 1: which may be missing), --files and --json. Opens the session and calls the library. Returns -1
 * when ask->answer is there to be printed, else the exit status; the caller releases *ask in any
 * case.
 */
int went_back_call(const struct command *command, int argc, char **argv, size_t words_min,
		   char *(*call)(struct fh_session *session, const char *name, enum fh_files files,
				 struct fh_error *error),
		   struct ask *ask);

/* The value of --files, "yes" or "no". ERR_USAGE. */
int went_back_files(const char *text, enum fh_files *files, struct err *err);

/* Appends the ids of the cells that are not in the state any more: "rolled back: c5, c6\n", or that
 * there are none. */
void went_back_cells(struct buf *out, const struct json *body);

/* Appends lines about what did not come back (`lost`) and about files (`files`), each with LF and
 * escaped, nothing where there is nothing to say. `body` is a reply or an event (doc/protocol.md,
 * "Checkpoints"). */
void went_back_rest(struct buf *out, const struct json *body);

/* Prints the reply to `rollback` or `reset`. `first` says what the state is when no cell is in it.
 * Returns the exit status. */
int went_back_print(const struct json *reply, const char *first);

#endif
