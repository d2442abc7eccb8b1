/*
 * What http.c, http_conn.c and http_write.c share; everyone else uses http.h.
 */
#ifndef FH_SERVE_HTTP_INTERNAL_H
#define FH_SERVE_HTTP_INTERNAL_H

#include <llhttp.h>

#include "serve/http.h"

enum http_phase {
	PHASE_IDLE, /* between requests */
	PHASE_HEAD, /* some bytes of one */
	PHASE_BODY,
	PHASE_BUSY,      /* being answered */
	PHASE_STREAMING, /* the same, in parts */
	PHASE_UPGRADED,
};

struct http_conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} io; /* first: handle->data is the conn too */
	struct http_server *server;
	struct http_conn *next, **prev;
	bool local, opened;
	bool closing;
	bool failed;  /* writing has; the next sweep closes it */
	bool feeding; /* conn_feed is at work further up */
	bool reading;
	bool paused; /* by the handler */
	bool ended;  /* the client sends no more */
	bool last;   /* closed once all is written */
	bool linger; /* ... and what the client still sends is read away, lest the answer is lost */
	bool lingering;
	bool keep;     /* another request may follow */
	bool chunked;  /* the answer is */
	bool no_body;  /* and has none: HEAD, 204, 304 */
	bool owned;    /* the request is the handler's */
	bool was_full; /* on_drained is owed */
	enum http_phase phase;
	struct buf in;
	size_t scanned; /* bytes of `in` in which no end of a head is */
	struct buf head;
	llhttp_t parser;
	uv_shutdown_t shutdown;
	bool message_done, body_too_large;
	size_t framing_bytes;
	uint64_t to_send; /* of an answer with a length */
	uint64_t requests;
	int64_t since_us;     /* when the phase began, for the deadlines */
	int64_t paused_us;    /* when the handler paused it */
	int64_t progress_us;  /* when the client last took something */
	size_t queued_before; /* at the last sweep */
	struct http_request request;
};

struct http_server {
	uv_loop_t *loop;
	struct http_handler handler;
	struct http_times times;
	size_t connections_max, connection_count;
	struct http_conn *conns;
	uv_stream_t *listeners[8];
	size_t listener_count;
	uv_timer_t sweeper;
	bool sweeping, draining;
	llhttp_settings_t settings;
	char chunk[64 << 10];
	struct buf scratch; /* an answer's head and a chunk's frame are put together here */
	char date[40];
	int64_t date_s;
};

/* http_conn.c */
void conn_accept(struct http_server *server, uv_stream_t *listener);
void conn_close(struct http_conn *conn);
void conn_feed(struct http_conn *conn);
void conn_read_as_wanted(struct http_conn *conn);
void conn_end(struct http_conn *conn); /* all is written: closes, or lingers */
void conn_sweep(struct http_conn *conn, int64_t now_us);
void conn_settings(llhttp_settings_t *settings);

/* http_write.c */
void conn_write(struct http_conn *conn, const void *bytes, size_t len);
void conn_finish(struct http_conn *conn); /* closes when all is written */
void conn_refuse(struct http_conn *conn, int status, const char *detail);

/* The answer is complete: what comes next? */
void conn_answered(struct http_conn *conn);

#endif
