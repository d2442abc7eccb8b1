/*
 * The spawner: a process that keeps the user's rights when its keeper gives them up.
 *
 *	fumehood-keeper ── fork ──► spawner ── clone3 ──► PID 1 of the box
 *	  parses, journals,          builds, enters,
 *	  confined (confine.h)       dials, cleans up
 *
 * The keeper reads what a guest says, and a mistake in that reading must not be a way to the user's
 * account. But Landlock and filters cannot be taken off again, and a confined process can build no
 * box. So the few things that need rights are done here, when they are asked for over a private
 * socket: building the box and ending it, its control groups, guests from the pool, sockets to
 * allowed hosts.
 *
 * It is no servant for anything. What it builds comes from the session's configuration, read by
 * itself before any code has run, and from the pool; the keeper's words give numbers (limits),
 * hosts, ids and names of branches, and nothing else. So who takes a keeper over has what that
 * session could have: its own files and record, another box of the same policy, the hosts that
 * `policy` may name, and sessions beside it that are served by it, under names that are free.
 *
 * The keeper forks it while it is small, before it has a loop or a thread. PID 1 is its child, so
 * its death is that of the box (PR_SET_PDEATHSIG), and the keeper's death is its end of file: it
 * ends the box and goes. A spawner that dies ends the session (reason "spawner").
 */
#ifndef FH_KEEPER_SPAWNER_H
#define FH_KEEPER_SPAWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"
#include "sandbox/box.h"
#include "sandbox/hosts.h"
#include "sandbox/proxy.h"

struct spawner;
struct session;

/* Forks it. `session` has a directory, and for a spare its configuration. `title` (`title_len`
 * bytes) is where the command line of this process lies: the child writes its own there. */
struct spawner *spawner_new(const struct session *session, char *title, size_t title_len,
			    struct err *err);

/* From now on `gone(data)` is called, once, when it dies. */
void spawner_watch(struct spawner *spawner, uv_loop_t *loop, void (*gone)(void *data), void *data);

/* Lets it go: it has nothing to do any more. Waits until it is reaped. NULL is fine. */
void spawner_free(struct spawner *spawner);

/* The session's lock is taken: it may read the configuration. Does not wait. */
void spawner_prepare(struct spawner *spawner);

/* As pool_connect() for the session's Python; `join`: pool_join(). */
int spawner_pool(struct spawner *spawner, bool join, struct err *err);

/* Builds the session's box by session->policy's numbers. Sets session->tier_reason. */
struct box *spawner_build(struct spawner *spawner, struct session *session, struct err *err);

/* As netns_listen(), in the box that there is. */
int spawner_listen(struct spawner *spawner, uint16_t *port, struct err *err);

/* The rules that hold from now on. */
int spawner_rules(struct spawner *spawner, const struct hosts *hosts, struct err *err);

/* How the proxy reaches hosts; its data is the spawner. */
extern const struct proxy_dialer SPAWNER_DIALER;

/* The name of the session's socket goes; of a spare that was never a session also its directory. */
void spawner_release(struct spawner *spawner, bool unborn);

/* A branch of the session, whose directory is made: what leads to it from outside. Returns the
 * listener of its socket, owned by the caller. `name` may be NULL. ERR_DUPLICATE when the name is
 * taken. */
int spawner_branch(struct spawner *spawner, const char *id, const char *name, struct err *err);

/* The branch has ended; `unborn`: it never was a session. */
void spawner_part(struct spawner *spawner, const char *id, const char *name, bool unborn);

pid_t spawner_pid(const struct spawner *spawner);

#endif
