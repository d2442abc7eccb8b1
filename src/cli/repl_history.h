/*
 * The history of `fumehood repl`: cells that were typed, in <state>/repl_history.
 *
 * One JSON string a line, so that a cell of several lines stays one entry. Entries are appended as
 * they are typed, so several repls can share the file; it is cut to the newest HISTORY_ENTRIES_MAX
 * when it is opened and has grown to twice as many. Mode 0600.
 */
#ifndef FH_CLI_REPL_HISTORY_H
#define FH_CLI_REPL_HISTORY_H

#include <stddef.h>

#include "base/err.h"

enum {
	HISTORY_ENTRIES_MAX = 2000,
	HISTORY_ENTRY_BYTES_MAX = 64 << 10, /* a longer cell is not kept */
	HISTORY_FILE_BYTES_MAX = 16 << 20,
};

struct repl_history {
	int fd;         /* to append to; -1: nothing is kept */
	char **entries; /* the newest last */
	size_t count;
};

#define REPL_HISTORY_INIT \
	{ \
		.fd = -1, .entries = NULL, .count = 0 \
	}

/* Opens or makes dirfd/name and reads it. Lines that are damaged are left out. After a failure the
 * history is empty and can be used. The caller releases it in any case. */
int repl_history_open(struct repl_history *history, int dirfd, const char *name, struct err *err);
void repl_history_release(struct repl_history *history);

/* Adds an entry, unless it is empty, too long, or the last one again; 1: added, 0: not, -1: it
 * could not be written (it is in memory then). Line ends at its end are left out. */
int repl_history_add(struct repl_history *history, const char *text, size_t len, struct err *err);

#endif
