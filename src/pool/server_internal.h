/*
 * What server.c (loop, accepting, end) and server_orders.c (connections, their orders and commands)
 * share.
 *
 * A connection's struct lives until libuv has closed its handle. Whoever points to it in the
 * meantime (a queued order, the order in hand) is told by connection_close(). No event of the
 * warmer comes from inside a call to it, so the queue never changes under a function that is
 * working on it.
 */
#ifndef FH_POOL_SERVER_INTERNAL_H
#define FH_POOL_SERVER_INTERNAL_H

#include <stdbool.h>
#include <sys/stat.h>
#include <uv.h>

#include "pool/queue.h"
#include "pool/server.h"
#include "pool/spare.h"
#include "pool/warmer.h"

struct connection {
	struct server *server;
	struct connection *next, *previous;
	int fd;
	uv_poll_t poll;
	bool told;    /* READY or FAILED has been sent */
	bool waiting; /* asked us to end; is left open until we have */
	bool spare;   /* its orders are for the spare session: nobody has asked */
};

struct server {
	const struct server_params *params;
	uv_loop_t loop;
	int listener, lock;
	struct stat socket_file;
	uv_poll_t listener_poll, signal_poll;
	uv_timer_t idle_timer, accept_timer, end_timer;
	bool ending, closed;
	struct warmer *warmer;
	struct spare *spare;
	struct queue queue;
	struct order in_hand; /* the order that is with the zygote, or is the next to go there */
	bool has_in_hand;     /* its `asker` is NULL when that one has gone */
	struct connection *connections;
	unsigned connection_count;
	uint64_t guests;
	int64_t order_us, accept_us;
};

/* What the warmer tells a server (`data`). */
extern const struct warmer_events SERVER_WARMER_EVENTS;

/* server.c: stops or resumes accepting; resuming does nothing once the server ends. */
void server_pause_accepting(struct server *server, bool pause);

/* server.c: begins to end; `why` is for the log. Nothing the second time. */
void server_end(struct server *server, const char *why);

/* server.c: no order is under way any more. What is left of the loop's work is the reaping of
 * zygotes. */
void server_finish_ending(struct server *server);

/* server_orders.c: takes the connected descriptor over, and tells it the zygote's message if there
 * is one. */
void connection_open(struct server *server, int fd);

/* server_orders.c: closes it and drops its orders. */
void connection_close(struct connection *connection);

/* server_orders.c: refuses all orders that the zygote does not have. */
void server_refuse_waiting(struct server *server, const char *message, int error);

/* server_orders.c: the spare session has become somebody's (`data` is the server). */
void server_spare_given(void *data);

/* server_orders.c: closes the descriptors of the order in hand; nobody gets its answer. */
void server_drop_in_hand(struct server *server);

#endif
