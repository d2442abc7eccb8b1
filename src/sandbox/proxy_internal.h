/*
 * Inside the proxy: a connection and its stages.
 *
 *	HANDSHAKE ──► RESOLVE ──► DIAL ──► RELAY ──► OVER
 *	    │            │          │        │
 *	    └────────────┴──────────┴────────┴──► FAREWELL ──► OVER
 *
 * FAREWELL sends what is left for the client (a refusal, the end of a response), closes that
 * direction and reads on for a moment: a socket closed with unread bytes resets the connection, and
 * the client would lose the answer. An OVER connection waits for libuv to let go of its handles.
 *
 * Both sockets are watched by uv_poll and read and written here: a direction reads only when all it
 * has read before is written, which is the whole of the back-pressure.
 */
#ifndef FH_SANDBOX_PROXY_INTERNAL_H
#define FH_SANDBOX_PROXY_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "sandbox/proxy.h"
#include "sandbox/proxy_http.h"
#include "sandbox/proxy_socks.h"

enum {
	PROXY_CHUNK = 32 * 1024, /* read at once */
	PROXY_ROUNDS_A_TURN = 8, /* before the loop gets another turn */
	PROXY_ACCEPTS_A_TURN = 16,
	PROXY_ATTEMPT_MS_MAX = 3000, /* for one address while there are others */
	PROXY_FAREWELL_MS_MAX = 2000,
	PROXY_FAREWELL_BYTES_MAX = 1024 * 1024,
	PROXY_ADDRESSES_MAX = 64, /* of one name that are tried */
};

enum proxy_stage {
	PROXY_HANDSHAKE,
	PROXY_RESOLVE,
	PROXY_DIAL,
	PROXY_RELAY,
	PROXY_FAREWELL,
	PROXY_OVER,
};

/* A socket and its watch. On the heap: libuv keeps a handle for a while after it is closed, and the
 * next address may be dialled meanwhile. */
struct proxy_side {
	uv_poll_t poll;
	int fd;
	int events; /* that are watched */
	struct proxy_connection *connection;
};

/* A name that the dialer looks up. On the heap, as a side. */
struct proxy_look_up {
	uv_poll_t poll;
	int fd;
	struct proxy_connection *connection;
};

/* One direction. */
struct proxy_flow {
	struct buf bytes; /* read and not yet written */
	bool ended;       /* no more will be read */
	bool shut;        /* and the other side has been told, or cannot be */
};

struct proxy_connection {
	struct proxy *proxy;
	struct proxy_connection *next, *previous;
	uint64_t id;
	enum proxy_stage stage;
	enum proxy_kind kind;
	struct proxy_side *client, *host; /* NULL: not there (any more) */
	struct proxy_flow out, in;        /* to the host, to the client */
	uv_timer_t timer;
	unsigned held; /* handles and requests that libuv still has */

	struct buf inbox; /* of the handshake; then of the head of a response */
	struct proxy_http_scan scan;
	struct proxy_socks socks;
	struct proxy_body body; /* of a plain request */
	bool answered;          /* and the head of its response is through */

	struct hosts_target target;
	char *shown; /* the host for people */
	bool decided, allowed;

	uv_getaddrinfo_t lookup;
	bool looking_up; /* by ourselves */
	struct proxy_look_up *look_up; /* by the dialer; else NULL */
	/* what it resolved to; owned */
	struct sockaddr_storage *found;
	size_t found_count;
	const struct sockaddr *attempt; /* the one being dialled, one of these; NULL: none yet */
	char address[ADDRESS_TEXT_SIZE];

	int64_t decided_us, active_us, deadline_us; /* monotonic */
	uint64_t bytes_in, bytes_out;
	uint64_t discarded; /* in the farewell */
};

struct proxy {
	struct proxy_params params;
	struct hosts hosts;
	struct proxy_counters counters;
	struct proxy_connection *connections;
	uint64_t last_id;
	uv_poll_t listener_poll;
	uv_timer_t pause_timer;
	unsigned held; /* the two handles */
	bool closing;
	void (*closed)(void *data);
	void *closed_data;
};

/* proxy.c: a connection has let go of its last handle. */
void proxy_forget(struct proxy_connection *connection);

/* proxy_connection.c */
void proxy_open(struct proxy *proxy, int fd);
void proxy_end(struct proxy_connection *connection, enum refusal refusal);
void proxy_watch(struct proxy_connection *connection);
void proxy_decide(struct proxy_connection *connection, enum refusal refusal);
/* Tells the client, then ends. For a connection whose client has been told nothing yet. */
void proxy_refuse(struct proxy_connection *connection, enum refusal refusal);
/* Goes to FAREWELL. */
void proxy_take_leave(struct proxy_connection *connection);
/* The host is connected: tells the client, and RELAY begins. */
void proxy_connected(struct proxy_connection *connection);
/* Takes the descriptor over; NULL: libuv would not have it. */
struct proxy_side *proxy_side_new(struct proxy_connection *connection, int fd);
void proxy_side_free(struct proxy_side **side);
void proxy_set_deadline(struct proxy_connection *connection, unsigned ms);
/* Libuv has let go of one handle or request. */
void proxy_let_go(struct proxy_connection *connection);

/* proxy_dial.c */
void proxy_resolve(struct proxy_connection *connection);
/* Nobody waits for the name any more. */
void proxy_stop_looking(struct proxy_connection *connection);
/* Whether the address that is dialled would be allowed with this permit. */
enum refusal proxy_check_address(const struct proxy_connection *connection,
				 const struct sockaddr *address, enum address_permit permit);
void proxy_on_dialled(struct proxy_connection *connection);
void proxy_dial_timeout(struct proxy_connection *connection);

/* proxy_relay.c: reads and writes what there is. `broken`: the kernel has said that this side is
 * reset. */
void proxy_relay(struct proxy_connection *connection, const struct proxy_side *broken);
/* Counts what was read for the other side; answers of the proxy's own do not count. */
void proxy_count(struct proxy_connection *connection, bool out, size_t bytes);
void proxy_farewell(struct proxy_connection *connection);
/* Writes what there is for the client. False: it cannot be written. */
bool proxy_write_client(struct proxy_connection *connection);

#endif
