/*
 * Uids for sessions that root has started.
 *
 * The uid of a box must not be root's outside: without any capability it could still open what only
 * root may, if that were visible. Nor may two sessions share one: the kernel counts processes, keys
 * and inotify instances by it. So root's sessions take theirs from a range that nobody else uses,
 * one lock file each, held as long as the box lives. The kernel gives the lock back whatever
 * happens to the keeper.
 *
 * The range is 1,895,825,408 to 1,895,890,943: of the ids that systemd's documentation lists as
 * unused (UIDS-GIDS.md: above 1,879,048,191). Where root is itself in a user namespace without
 * them (a container), the highest ids that exist there are taken instead.
 */
#ifndef FH_SANDBOX_UIDS_H
#define FH_SANDBOX_UIDS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Who takes one: the last part of the range is the zygotes'. */
enum uid_kind { UID_OF_SESSION, UID_OF_ZYGOTE };

enum { UIDS_COUNT = 65536, UIDS_OF_ZYGOTES_PART = 16 /* one in so many */ };

/* Where the locks are. One place for the machine, whatever the user's own directories are. */
#define UIDS_DIR "/run/fumehood-uids"

struct uid_lease {
	uid_t uid; /* uid and gid alike */
	int lock;  /* owned; -1: none */
	int dir;   /* owned; where the lock file is */
	uint32_t number;
};

#define UID_LEASE_INIT \
	{ \
		.uid = 0, .lock = -1, .dir = -1, .number = 0 \
	}

/* Takes a free uid. `dir` is where the lock files are made (0700, root's). ERR_LIMIT when all are
 * in use, ERR_UNSUPPORTED when this root has no other ids than its own. */
int uid_lease_take(struct uid_lease *lease, enum uid_kind kind, const char *dir, struct err *err);
void uid_lease_release(struct uid_lease *lease);

/* The ids of a kind that exist here: *first and *count. -1: this root has none but its own. */
int uids_of(enum uid_kind kind, uint32_t *first, uint32_t *count, struct err *err);

/* The first id and the number of ids that may be taken, by the text of a uid_map (lines of three
 * numbers, user_namespaces(7)). -1: there is no room. Pure. */
int uids_range(const char *map, uint32_t *first, uint32_t *count);

#endif
