/*
 * The pool, as a keeper sees it: a connection that yields guests.
 *
 * One pool process per Python environment owns the zygote (zygote.c) and a spare (spare.h). It
 * listens on pool-<16 hex of the environment>.sock in the runtime directory, is started on demand
 * under the lock pool-<16 hex>.lock, and ends when no keeper has asked for 10 minutes, or for what
 * the configuration says (tuning.h). Its death harms no session: guests live on; the next request
 * starts a new pool.
 *
 * Messages are those of guest/protocol.h, passed on to the zygote with their descriptors. On
 * connecting, the pool sends ZYGOTE_READY (or ZYGOTE_FAILED) once, as soon as the zygote has said
 * it. Each ZYGOTE_ENTER is then answered by one ZYGOTE_ENTERED or ZYGOTE_REFUSED, in the order in
 * which a connection gave them. A refusal whose "step" is "pool" is the pool's own; with "errno"
 * EAGAIN (a zygote that died, too many orders, the pool's end) the same order can succeed on the
 * next try, by a new connection if this one has ended. It must then come with new pipes and a new
 * control socket, since nobody can say whether the first one has been carried out in part.
 *
 * A connection may be kept and used again, but it does not keep the pool alive: the end of file on
 * it means "connect again".
 */
#ifndef FH_POOL_POOL_H
#define FH_POOL_POOL_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Connects to the pool of the Python at `python` (absolute path of an executable), starting it if
 * there is none. Returns a SEQPACKET descriptor owned by the caller. Does not wait for the zygote.
 */
int pool_connect(const char *python, struct err *err);

/* Waits for the ZYGOTE_READY message. The caller owns the JSON. ERR_ENGINE with the zygote's own
 * words (also its stderr's tail) when it failed; ERR_TIMEOUT after `timeout_ms`. *family (may be
 * NULL) becomes the user namespace of its nursery, owned by the caller, beneath which a box must be
 * made that its guests shall enter; -1 when the zygote is not confined. */
struct json *pool_environment(int fd, int timeout_ms, int *family, struct err *err);

/* The pools that run now: an array of {"python":..,"pid":..,"guests":n,"idle_s":n,"state":..,
 * "zygote":pid or 0,"waiting":n,"spare":..,"spare_pid":pid or 0}: guests given so far, seconds
 * since the last order, orders that wait; state is "cold", "starting", "waiting" (for its next
 * start), "ready", "failed" or "ending"; spare is "off" (nobody has had a guest yet), "due",
 * "starting", "ready", "resting" (for a minute: they died) or "ending". The caller owns it. */
struct json *pool_list(struct err *err);

/* Ends the pool of `python` (NULL: all) and waits for the end, at most 6 s each. *stopped counts.
 * Guests that it gave live on. */
int pool_stop(const char *python, unsigned *stopped, struct err *err);

/* ---- for a keeper that the pool has started as a spare, with one end of a socket pair ---- */

/* As pool_connect(), but only to a pool that is there, for a guest that nobody has asked for. */
int pool_join(const char *python, struct err *err);

/* Tells the pool that a client may come. */
int pool_spare_ready(int fd, struct err *err);

/* The connection to the client, owned by the caller. -1: ERR_BUSY when there is none yet (does not
 * wait), ERR_GONE when none will come. */
int pool_spare_client(int fd, struct err *err);

#endif
