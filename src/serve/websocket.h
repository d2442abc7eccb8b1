/*
 * A WebSocket (RFC 6455) on an upgraded connection: messages in, messages out.
 *
 * wslay reads frames and answers control frames; it is fenced (reference: its own limits are 2 GiB,
 * no number of fragments, and a queue without end):
 * - a message has at most `message_bytes_max` bytes and WEBSOCKET_FRAGMENTS_MAX fragments (1009);
 * - nothing waits in wslay: what it sends goes to the connection at once, and while more than
 *   64 KiB wait there, the client is not read;
 * - a protocol error that it ends without a word gets its close frame (1002) here.
 * Data is framed here, in one frame a message, and goes by no copy of wslay's.
 *
 * No extension is spoken (no compression), and the only subprotocol is fumehood.v1.
 */
#ifndef FH_SERVE_WEBSOCKET_H
#define FH_SERVE_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/http.h"

enum {
	WEBSOCKET_FRAGMENTS_MAX = 4096,
	WEBSOCKET_PING_S = 20,
	WEBSOCKET_SILENCE_S = 70, /* without a pong or anything else */
	WEBSOCKET_CLOSE_S = 5,    /* for the other side to answer a close */
};

enum websocket_close {
	WEBSOCKET_NORMAL = 1000,
	WEBSOCKET_GOING_AWAY = 1001,
	WEBSOCKET_PROTOCOL = 1002,
	WEBSOCKET_TYPE = 1003,
	WEBSOCKET_POLICY = 1008,
	WEBSOCKET_TOO_BIG = 1009,
	WEBSOCKET_RESTART = 1012,
	WEBSOCKET_LATER = 1013,
};

struct websocket;

struct websocket_events {
	/* A whole message. It may send, and close. */
	void (*message)(void *data, const char *bytes, size_t len, bool text);
	/* websocket_full() is false again. */
	void (*drained)(void *data);
	/* The connection has gone: the last call. The websocket is freed behind it. */
	void (*gone)(void *data, bool by_protocol_error);
};

/* Whether the head asks for a WebSocket in the right form: 0, or 400 or 426 with *why. Pure. */
int websocket_check(const struct http_request *request, const char **why);

/* Upgrades the request, which websocket_check() let pass. */
struct websocket *websocket_accept(struct http_request *request, size_t message_bytes_max,
				   const struct websocket_events *events, void *data);

void websocket_send(struct websocket *ws, const char *bytes, size_t len);
bool websocket_full(const struct websocket *ws);

/* Says goodbye; `gone` comes when the other side has answered, or soon. */
void websocket_close(struct websocket *ws, enum websocket_close code, const char *reason);

/* The client is not read until websocket_resume(). */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);

/* Once a second: pings, and the end of who is silent. */
void websocket_tick(struct websocket *ws, int64_t now_us);

#endif
