/*
 * The pool's loop: keepers on one side, the warmer with its zygote on the other.
 *
 * Each connection is told ZYGOTE_READY or ZYGOTE_FAILED once, as soon as it is known. Its orders
 * (ZYGOTE_ENTER) are queued and given to the zygote one at a time, so an answer can only belong to
 * one order. Anything else that a connection says ends that connection and nothing more.
 *
 *   serving ──SIGTERM, POOL_STOP, idle──> ending ──the order in hand is answered, or 2 s──> closed:
 *                                                   the loop goes on until the zygote is reaped
 *
 * When it begins to end, the socket file goes first, while we still listen, and the lock after it:
 * whoever finds no socket and no lock may start the next pool at once, and cannot meet this one.
 */
#ifndef FH_POOL_SERVER_H
#define FH_POOL_SERVER_H

#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"
#include "pool/tuning.h"

struct server_params {
	struct tuning *tuning; /* borrowed; has the Python and how long it may idle */
	const char *script;    /* absolute path of zygote.py */
	const char *directory; /* of socket and lock file */
	const char *socket_name, *lock_name;
	int listener;      /* non-blocking, listening; taken over */
	int lock;          /* holds the lock; taken over */
	int signals;       /* signalfd: readable means end; borrowed */
	rlim_t files_soft; /* see zygote.h */
};

/* Serves until it is told to end; returns when the zygotes are reaped and all is closed. */
void server_run(const struct server_params *params);

#endif
