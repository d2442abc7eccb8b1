/*
 * text/event-stream, bytes in, events out. Pure and bounded.
 *
 * The format is the HTML standard's ("Server-sent events", parsing an event stream): lines end with
 * CR, LF or both, a BOM may stand first, `data` may have several lines, comments begin with ':'.
 * `id` and `retry` mean nothing here. Bytes are handed on as they are, also when they are no UTF-8.
 */
#ifndef FH_MODEL_SSE_H
#define FH_MODEL_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	SSE_EVENT_BYTES_MAX = 2 << 20, /* a line, and the data of an event */
	SSE_NAME_BYTES_MAX = 63,       /* of an event's type; a longer one is cut */
};

struct sse_event {
	const char *type; /* "message" unless the stream says otherwise */
	const char *data; /* NUL-terminated; lines joined by LF */
	size_t len;
	/* The stream ended before the event was: it may be half. */
	bool unfinished;
};

struct sse {
	struct buf line, data;
	char type[SSE_NAME_BYTES_MAX + 1];
	bool has_data;
	bool after_cr;    /* a LF now belongs to that CR */
	bool begun;       /* the first line has been seen: no BOM can come */
};

#define SSE_INIT {.line = BUF_INIT, .data = BUF_INIT}

typedef int sse_visit(void *context, const struct sse_event *event);

/* Takes bytes and calls `visit` for each event that is whole; events without data are none. Stops
 * when it returns something else than 0 and returns that. -1 and ERR_LIMIT beyond the limits: the
 * stream cannot be read on. The event's memory is valid during the call. */
int sse_feed(struct sse *sse, const void *bytes, size_t len, sse_visit *visit, void *context,
	     struct err *err);

/* The stream has ended: an event that lacks only its blank line is visited as `unfinished`. */
int sse_end(struct sse *sse, sse_visit *visit, void *context, struct err *err);

void sse_release(struct sse *sse);

#endif
