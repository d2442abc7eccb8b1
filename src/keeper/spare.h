/*
 * The keeper as a spare: a session that is ready before anybody asks for it (pool/spare.h).
 *
 *	fumehood-keeper --spare --python PATH --fd N
 *
 * makes a session directory of its own, builds the box, has a guest in it, and tells the pool at
 *the other end of descriptor N.
 *
 *             the guest is ready         a client's connection comes      its first line is read
 *  SPARE_MAKING ──────────> SPARE_WAITING ──────────> SPARE_ASKED ──────────> an ordinary session
 *
 * From any of the three the keeper ends, and removes the directory, when the pool lets it go, the
 * client goes or asks for what cannot be, the guest dies, or a signal comes. Until the first line
 * has been read there is no session.json and no event: the directory is "unborn"
 * (journal/unborn.h), and if this process is killed, the next spare removes it.
 *
 * The line is {"op":"start","session":{...}} (doc/protocol.md, "Starting a keeper"). Nothing on the
 * way from it to `hello` waits for a disk.
 */
#ifndef FH_KEEPER_SPARE_H
#define FH_KEEPER_SPARE_H

#include "base/err.h"
#include "keeper/session.h"

/* Makes the directory and its lock. Fills in config and dirfd of the session, and its `spare`;
 * `pool_fd` is taken over, *lock_fd is the caller's. */
int spare_make(struct session *session, const char *python, int pool_fd, int *lock_fd,
	       struct err *err);

/* The loop is there: from now on the pool is listened to. */
void spare_watch(struct spare *spare);

/* The guest is ready, for the first time. */
void spare_ready(struct spare *spare);

/* The directory of all sessions; borrowed. */
int spare_sessions_fd(const struct spare *spare);

/* The end of one that never became a session: removes the directory. The lock is still held. */
void spare_remove(struct spare *spare);

void spare_free(struct spare *spare); /* NULL is fine */

#endif
