/*
 * What server.c and client.c share; everyone else uses server.h.
 */
#ifndef FH_KEEPER_SERVER_INTERNAL_H
#define FH_KEEPER_SERVER_INTERNAL_H

#include "base/buf.h"
#include "journal/cursor.h"
#include "keeper/server.h"

struct client {
	uv_pipe_t pipe; /* first: handle->data is the client too */
	struct server *server;
	struct client *next;
	unsigned references; /* 1 for the open pipe, `hangup`, each write in flight and each keeper
			      */
	bool greeted, reading, writing, closed;
	uv_poll_t *hangup; /* it sends no more; tells when it does not read any more either. Else
			      NULL */
	int hangup_fd;
	struct buf in;
	size_t scanned; /* bytes of `in` known to hold no LF */
	bool skipping;  /* inside a line that is too long */
	struct buf out;
	struct buf held; /* behind `out`: waits for a sync */
	size_t covered;  /* bytes of `held` for which the sync under way will do */
	bool subscribed;
	struct subscription subscription;
	uint64_t sent; /* last event given to this client */
	uint64_t sent_before; /* at the last look while the server closes; likewise ... */
	size_t queued_before; /* ... what waited in the socket's queue */
	bool lagging;
	bool more; /* the last client_pump() left events that wait for room */
	struct cursor *cursor;
};

struct server {
	uv_loop_t *loop;
	uv_poll_t *listener; /* NULL: none */
	int listener_fd;
	int reserve; /* closed when there are no descriptors left, so that a client can be let go */
	int dirfd;
	struct journal *journal;
	const struct server_events *events;
	void *data;
	struct client *clients;
	size_t client_count;
	bool open;
	bool holds;
	uint64_t synced_seq;  /* last event that is on the disk; only while `holds` */
	uint64_t syncing_seq; /* ... that will be, after the sync under way */
	bool refusing;
	struct err refusal;
	bool closing;
	uv_timer_t *close_timer;
	void (*closed)(void *data);
	void *closed_data;
	char read_chunk[64 << 10];
};

struct client *client_new(struct server *server);
void client_close(struct client *client);
void client_greet(struct client *client);
void client_pump(struct client *client);
void client_flush(struct client *client);
void client_release(struct client *client, size_t len); /* lets so many held bytes go */
void client_throttle(struct client *client);
void server_client_gone(struct server *server, struct client *client);

#endif
