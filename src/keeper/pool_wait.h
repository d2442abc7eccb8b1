/*
 * Waiting until a pool is warm, on the loop: importing numpy, pandas and matplotlib takes seconds
 * the first time, and meanwhile the keeper must hear that its client has gone, or that it is to
 * stop.
 *
 * Connecting itself is not waited for on the loop: it starts a program that does nothing but listen
 * (some ms), and needs the lock of pool.h in one piece.
 */
#ifndef FH_KEEPER_POOL_WAIT_H
#define FH_KEEPER_POOL_WAIT_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/json.h"

struct pool_wait; /* opaque */
struct spawner;

/* Ends the wait, which is freed behind it. fd is a connection that is ready for orders (the callee
 * owns it), `environment` what the zygote has said of itself and `family` the namespace of its
 * nursery or -1 (the callee owns both); or fd is -1, `environment` NULL and *err says why. */
typedef void pool_wait_done(void *data, int fd, struct json *environment, int family,
			    const struct err *err);

/* Has the spawner connect to the pool of the session's Python, starting it unless `join` (`python`
 * is for messages; both are borrowed), and calls `done` from the loop. A pool that ends before it
 * has said anything is replaced, a few times; after two minutes the wait ends with ERR_TIMEOUT.
 * NULL when there is nothing to connect to. */
struct pool_wait *pool_wait_new(uv_loop_t *loop, struct spawner *spawner, const char *python,
				bool join, pool_wait_done *done, void *data, struct err *err);

/* Gives up the wait: `done` is not called. NULL is fine. */
void pool_wait_free(struct pool_wait *wait);

#endif
