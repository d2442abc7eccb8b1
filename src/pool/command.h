/*
 * What client and pool have in common beyond guest/protocol.h: names of files, and commands.
 *
 * The commands use the header of guest/protocol.h, so that one socket serves keepers and people.
 * Their letters are distinct from those of enum zygote_message. Descriptors that a started pool
 * finds open are listed here too.
 */
#ifndef FH_POOL_COMMAND_H
#define FH_POOL_COMMAND_H

#include <stddef.h>

#include "base/err.h"

enum pool_command {
	POOL_STOP = 'S',     /* client -> pool: end. No body. */
	POOL_STOPPING = 's', /* pool -> client: agreed; end of file follows when all is ended */
	POOL_LIST = 'L',     /* client -> pool: say how you are. No body. */
	POOL_STATUS = 'l',   /* pool -> client: the JSON object that pool_list() describes */

	/* spare keeper -> pool: what is ordered on this connection is for the spare. No body. */
	POOL_JOIN = 'J',
	/* On the socket with which the pool has started a spare keeper: */
	POOL_SPARE_READY = 'r', /* spare keeper -> pool: {"pid":n}: box and guest wait */
	POOL_SPARE_CLIENT =
		'c', /* pool -> spare keeper: + one descriptor, its client. The last word */
};

/* What pool_connect() leaves open in a pool that it starts (`fumehood-pool --started`). */
enum pool_fd {
	POOL_FD_REPORT = 3, /* a pipe, to write "ok" when the pool listens, else why it cannot */
	POOL_FD_LOCK = 4,   /* holds the lock; the pool keeps it until its socket file is gone */
};

enum { POOL_ID_SIZE = 17, POOL_NAME_SIZE = 32 };

/* Names of a pool's files in the runtime directory. */
struct pool_names {
	char id[POOL_ID_SIZE];       /* 16 hex digits of SHA-256 of the path and both versions */
	char socket[POOL_NAME_SIZE]; /* pool-<id>.sock */
	char lock[POOL_NAME_SIZE];   /* pool-<id>.lock */
	char log[POOL_NAME_SIZE];    /* pool-<id>.log */
};

/* The names for the Python at `python`. Another version of Fumehood or of the guest protocol has
 * other names, so that an update never meets a pool of before it. */
void pool_names_init(struct pool_names *names, const char *python);

#endif
