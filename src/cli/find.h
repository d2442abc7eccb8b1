/*
 * The session that a verb was given on its command line.
 */
#ifndef FH_CLI_FIND_H
#define FH_CLI_FIND_H

#include "base/err.h"
#include "cli/command.h"
#include "cli/options.h"
#include "client/store.h"

/* A session found by name, id or beginning of an id. */
struct found {
	struct store store;
	struct store_entry entry;
	int dirfd; /* the session's directory */
};

#define FOUND_INIT \
	{ \
		.store = STORE_INIT, .entry = STORE_ENTRY_INIT, .dirfd = -1 \
	}

/* The caller releases *found also after failure. */
int found_open(struct found *found, const char *session, struct err *err);
void found_release(struct found *found);
#define cleanup_found __attribute__((cleanup(found_release)))

/* How to name the session to the user: its name, else 8 characters of its id. Borrowed from a
 * buffer in `text`. */
const char *found_title(const struct store_entry *entry, char text[static 16]);

/*
 * What every verb does first: reads the options, answers --help, and checks the number of words.
 * Returns -1 to go on, else the exit status.
 */
int command_begin(const struct command *command, struct options *options,
		  const struct option *table, size_t count, int argc, char **argv, size_t words_min,
		  size_t words_max);

#endif
