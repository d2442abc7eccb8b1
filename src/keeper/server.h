/*
 * The keeper's clients: lines in, answers and events out, nobody slows anybody.
 *
 * Each client has its own output buffer of bounded size and its own place in the journal. While it
 * keeps up it gets each line as it is appended; when its buffer is full it is left alone until it
 * has read, and then goes on from the file. A lossy reader skips instead and is told the gap. A
 * client whose answers pile up is not read from either.
 *
 * With server_hold() (durability `power`) nothing leaves before the disk has what it tells of: each
 * client's lines wait in a second buffer, `held`, for a sync that began after they were made. So
 * all that is said while one sync is under way shares the next one, whoever it is for.
 */
#ifndef FH_KEEPER_SERVER_H
#define FH_KEEPER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "journal/journal.h"

struct server;
struct client;

struct server_events {
	/* Appends the line (with LF) that greets a client which is about to be read from. */
	void (*hello)(void *data, struct buf *out);
	/* A line (without LF) came from the client. It may be any bytes. */
	void (*line)(void *data, struct client *client, const char *line, size_t len);
	/* A line was longer than the limit; it was skipped. */
	void (*too_long)(void *data, struct client *client);
	/* The last client has gone. */
	void (*deserted)(void *data);
};

struct subscription {
	uint64_t since;
	uint64_t to; /* last event to send; UINT64_MAX: follow */
	bool lossy;
	bool inlined;
	char cell[65]; /* only events of this cell; "": all */
};

/* A server without a socket yet. `dirfd` is borrowed: cursors read the journal there. */
struct server *server_new(uv_loop_t *loop, int dirfd, const struct server_events *events,
			  void *data);

/* Takes a listening stream socket: more clients may come. */
int server_listen(struct server *server, int fd, struct err *err);
void server_set_journal(struct server *server, struct journal *journal);

/* Takes a connected stream socket as one more client. */
void server_adopt(struct server *server, int fd);

/* From now on every client is greeted and read from. */
void server_open(struct server *server);

/* The session can't start: every client, also later ones, gets the refusal and is closed. */
void server_refuse(struct server *server, const struct err *err);

void server_poke(struct server *server);  /* the journal has grown */
void server_flush(struct server *server); /* end of a loop turn: writes what waits */

/* From now on every line waits until a sync covers the journal as it was when the line was made.
 * Before the first client is greeted. */
void server_hold(struct server *server);

/* Something is held that no sync under way covers: one should begin. */
bool server_awaits_sync(const struct server *server);

/* A sync begins: it covers what is held now. */
void server_sync_began(struct server *server);

/* It has ended: what it covers goes out. With `notice` (a line with LF; else NULL) it has failed:
 * that line goes first to each client for whom something is held, and nothing is held any more. */
void server_sync_ended(struct server *server, const char *notice);

size_t server_clients(const struct server *server);

/* Closes all clients once their buffers are written, or after half a second; then calls done(data).
 */
void server_close(struct server *server, void (*done)(void *data), void *data);
void server_free(struct server *server); /* after server_close's done */

/* Answers a request: {"type":"reply","id":id,...body}. `body` is taken, NULL means {}; `id` may be
 * NULL. */
void client_reply(struct client *client, const struct json *id, struct json *body);
void client_refuse(struct client *client, const struct json *id, const struct err *err);

void client_subscribe(struct client *client, const struct subscription *subscription);

/* A client kept stays valid after it has gone (sending does nothing then). */
struct client *client_keep(struct client *client);
void client_drop(struct client *client);

#endif
