/*
 * The environments that were made for --with: where they lie, who uses one, and removing them.
 *
 *	<data>/environments/<hash>.lock          a lock: shared as long as a session is begun with
 *	                                         it, exclusive while it is made or removed
 *	<data>/environments/<hash>/env/          the venv
 *	<data>/environments/<hash>/made.json     what is in it; it is whole once this is there, and
 *	                                         was last wanted when this was last changed
 *
 * An environment is in use when the session.json of any session names its Python: one that is
 * stopped can be started again. Between the moment in which an environment is found and that in
 * which session.json is there, the lock says so. So whoever removes one takes the lock first and
 * then looks at the sessions.
 */
#ifndef FH_CLI_ENVIRONMENTS_H
#define FH_CLI_ENVIRONMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "client/store.h"

/* Opens the folder of all, making it if it is not there. *path: owned by the caller, also after a
 * failure. Returns a descriptor, or -1. */
int environments_open(char **path, struct err *err);

/* Waits for the lock of one (LOCK_SH or LOCK_EX of flock(2)); with LOCK_NB ERR_BUSY. Returns the
 * descriptor that holds it, owned by the caller, or -1. */
int environments_lock(int folder, const char *hash, int operation, struct err *err);

struct environments_sweep {
	int64_t age_us_max; /* remove what nobody has wanted for longer; < 0: no limit */
	uint64_t bytes_max; /* then the longest unused until all fit; UINT64_MAX: no limit */
	bool dry_run;       /* only tell */
	/* Whether this session counts as gone already. May be NULL. */
	bool (*is_gone)(void *data, const char *id);
	/* Told of each that is removed (or would be); `packages` is an array of strings, NULL for
	 * one that was never whole. May be NULL. */
	void (*removed)(void *data, const struct json *packages, uint64_t bytes, const char *why);
	void *data;
};

/* Removes old environments, and what makers that were killed have left (older than an hour). Those
 * that are in use or locked are left alone. *bytes: what is left takes. Nothing is made. */
int environments_sweep(struct store *store, const struct environments_sweep *sweep, uint64_t *bytes,
		       struct err *err);

#endif
