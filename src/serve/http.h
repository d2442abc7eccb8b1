/*
 * An HTTP/1.1 server on the loop: connections, framing, limits, deadlines; it knows no routes.
 *
 * A connection is a stream, the bytes of the request that is being read, and one request at a
 * time. The head is collected whole and checked by head.h; then llhttp frames the body. What comes
 * behind a request that is being answered waits, at most 64 KiB of it, and then is not read.
 *
 *	idle ─ byte ─> head ─ whole ─> body ─ whole ─> busy ─ http_reply/_end ─> idle
 *	                 │ bad           │ too large     │ http_upgrade
 *	                 └> refused      └> refused      └> upgraded ─ end ─> closed
 *
 * Who handles requests gets them at `head`, before any byte of a body is asked for, and there
 * refuses them or says how much body it takes. From then on a request belongs to its handler until
 * that ends it (http_reply, http_end, http_abort) or is told on_gone; afterwards it must not be
 * touched.
 *
 * Memory is bounded by a connection: writers look at http_full() and go on in on_drained. A client
 * that takes nothing for 30 s, or sends a head or body too slowly, is closed. SIGPIPE must be
 * ignored by the program: libuv writes without MSG_NOSIGNAL.
 */
#ifndef FH_SERVE_HTTP_H
#define FH_SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "serve/head.h"

enum {
	HTTP_OUT_BYTES_HIGH = 64 << 10,    /* http_full() above this */
	HTTP_AHEAD_BYTES_MAX = 64 << 10,   /* read behind a request that is being answered */
	HTTP_FRAMING_BYTES_MAX = 64 << 10, /* of chunk sizes, extensions and trailers */
	HTTP_REQUESTS_MAX = 100000,        /* on one connection */
	HTTP_BODY_RATE_MIN = 4 << 10,      /* bytes a second, after the first seconds */
	HTTP_SWEEP_MS = 250,               /* how exact the deadlines are */
};

/* Deadlines in milliseconds; a test may have shorter ones. */
struct http_times {
	int64_t head_ms;  /* from the connection's, or the request's, first moment to the head's end
			   */
	int64_t body_ms;  /* before the rate of a body is looked at */
	int64_t idle_ms;  /* between requests */
	int64_t write_ms; /* without a byte taken by the client */
};

#define HTTP_TIMES \
	{ \
		.head_ms = 10000, .body_ms = 10000, .idle_ms = 60000, .write_ms = 30000 \
	}

struct http_server;
struct http_conn;

struct http_request {
	struct http_conn *conn;
	struct head head;
	bool is_head;      /* HEAD: answered like GET, without the body */
	bool has_body;     /* one is announced */
	uint64_t length;   /* announced; UINT64_MAX: chunked */
	struct buf body;   /* gathered, unless on_body takes it */
	size_t body_bytes; /* that have come */
	int64_t began_us;  /* monotonic */

	/* Set by `head` of the handler. */
	size_t body_bytes_max;
	void (*on_body)(struct http_request *request, const char *bytes, size_t len);
	void (*on_complete)(struct http_request *request); /* the whole body has come */
	void (*on_drained)(struct http_request *request);  /* http_full() is false again */
	/* The client has gone. `request` ends with this call. */
	void (*on_gone)(struct http_request *request);
	/* After http_upgrade: what the client sends. It may close. */
	void (*on_bytes)(struct http_request *request, const char *bytes, size_t len);
	bool end_is_gone; /* a client that ends its writing half counts as gone */
	void *data;       /* the handler's */
	void (*release)(struct http_request *request); /* frees `owned`; at the very end */
	void *owned;                                   /* lives as long as the request */

	struct buf fields; /* more fields of the answer: http_field() */
	int status;        /* of the answer; 0: none yet */
};

struct http_handler {
	/* A head has come. Answers it, or sets on_complete (and what it needs beside). */
	void (*head)(void *data, struct http_request *request);
	/* A request was refused before it was one, or its body was too large. */
	void (*refused)(void *data, int status);
	/* Answers such a request; NULL: with a problem document. 405: its method is unknown. */
	void (*refuse)(void *data, struct http_request *request, int status, const char *detail);
	/* An answer is complete, or its client has gone (request->status may be 0). */
	void (*ended)(void *data, struct http_request *request);
	void *data;
};

/* A server without a listener. `times` is copied. */
struct http_server *http_server_new(uv_loop_t *loop, const struct http_handler *handler,
				    const struct http_times *times, size_t connections_max);

/* Takes a listening Unix socket. Only peers of our own uid (or root) are served. */
int http_listen_unix(struct http_server *server, int fd, struct err *err);

/* Binds and listens on an address. *port is what it got. */
int http_listen_tcp(struct http_server *server, const struct sockaddr *address, int *port,
		    struct err *err);

/* Takes a listening TCP socket (socket activation). */
int http_adopt_tcp(struct http_server *server, int fd, int *port, struct err *err);

/* Stops listening and closes idle connections; others are closed when their answer is complete,
 * or by http_close_all(). */
void http_drain(struct http_server *server);
void http_close_all(struct http_server *server);
size_t http_connections(const struct http_server *server);

/* After the loop has run to its end. */
void http_server_free(struct http_server *server);

/* --- answering -------------------------------------------------------------------------------- */

/* Whether it came over the Unix socket. */
bool http_is_local(const struct http_request *request);

/* One more field of the answer, before it begins. The value is one line. */
void http_field(struct http_request *request, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Nothing follows the answer on its connection: it is closed behind it, and what the client still
 * sends is read away. Before the answer begins. */
void http_last(struct http_request *request);

/* The whole answer. `type` NULL: no body. */
void http_reply(struct http_request *request, int status, const char *type, const void *bytes,
		size_t len);

/* An answer in parts: `length` bytes, or UINT64_MAX for chunks. */
void http_begin(struct http_request *request, int status, const char *type, uint64_t length);
void http_write(struct http_request *request, const void *bytes, size_t len);
void http_end(struct http_request *request);

/* Ends an answer that cannot be completed: the connection is cut, so that the client sees it. */
void http_abort(struct http_request *request);

/* No more should be written before on_drained. */
bool http_full(const struct http_request *request);

/* The body (or, upgraded, the client) is not read until http_resume(). */
void http_pause(struct http_request *request);
void http_resume(struct http_request *request);

/* Switches protocols: 101 with the fields given by http_field(); then on_bytes. */
void http_upgrade(struct http_request *request, const char *protocol);

/* Upgraded: bytes as they are; the end once they are written. */
void http_write_raw(struct http_request *request, const void *bytes, size_t len);
void http_finish_raw(struct http_request *request);
size_t http_queued(const struct http_request *request);

/* "OK", "Not Found"; "Status" for what has no phrase here. */
const char *http_phrase(int status);

#endif
