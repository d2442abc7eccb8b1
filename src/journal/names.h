/*
 * Names of sessions: <state>/by-name/<name>, a link to ../sessions/<id>.
 *
 * Names come from users and links from the disk, so both are checked: a name is one path part
 * without control characters, and a link leads to an id or nowhere.
 */
#ifndef FH_JOURNAL_NAMES_H
#define FH_JOURNAL_NAMES_H

#include "base/err.h"
#include "base/hash.h"

enum { NAMES_BYTES_MAX = 128 };

/* The folders of the store, borrowed. */
struct names_at {
	int root_fd, names_fd, sessions_fd;
};

/* ERR_INVALID with the rule when `name` cannot be a session's name (see fumehood.h). */
int names_check(const char *name, struct err *err);

/* The id that the name points to, or -1. */
int names_read(const struct names_at *names, const char *name, char id[static HASH_ID_SIZE]);

/* Gives the name to the session. A name that points nowhere is left from a removal that was cut
 * off; it may be taken over, and because two could do that at once, both hold names.lock
 * meanwhile. ERR_DUPLICATE when another has it. */
int names_give(const struct names_at *names, const char *name, const char *id, struct err *err);

/* Takes the name away, if it is this session's. */
void names_drop(const struct names_at *names, const char *name, const char *id);

#endif
