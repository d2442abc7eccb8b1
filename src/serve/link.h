/*
 * A connection to a keeper that never waits: lines out, lines in (doc/protocol.md).
 *
 *	link_connect ─ hello ─> on_ready ─ lines ─> on_line ... ─ end ─> on_end
 *	                 └ refused, nobody listens, no answer in time ──> on_end
 *
 * Whoever owns a link gets its calls; after on_end, or link_close(), the link is gone. Lines are
 * given one by one; link_pause() between two of them keeps the rest, and the keeper waits: it has
 * the journal, so a reader that is slow costs nobody memory.
 */
#ifndef FH_SERVE_LINK_H
#define FH_SERVE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

#define LINK_LINE_BYTES_MAX ((size_t)256 << 20)

enum { LINK_HELLO_MS = 30000 };

struct link;

struct link_events {
	/* The session is ready. `hello` is its first line, without LF. */
	void (*ready)(void *data, struct link *link, const char *hello, size_t len);
	/* A line, without LF; valid during the call. */
	void (*line)(void *data, struct link *link, const char *line, size_t len);
	/* The connection has ended; the link is freed. ERR_GONE: after it was ready. */
	void (*end)(void *data, struct link *link, const struct err *err);
};

/* Connects to <runtime>/<id>.sock; `runtime_fd` is the folder. */
struct link *link_connect(uv_loop_t *loop, int runtime_fd, const char *id,
			  const struct link_events *events, void *data);

/* Takes a connected socket whose hello has been read already; `rest` (may be NULL) holds bytes that
 * were read behind it. */
struct link *link_adopt(uv_loop_t *loop, int fd, const struct buf *rest,
			const struct link_events *events, void *data);

/* Gives the link to someone else. */
void link_give(struct link *link, const struct link_events *events, void *data);

/* Sends whole lines. Before the hello they wait. */
void link_send(struct link *link, const char *bytes, size_t len);

/* No more will be sent: the keeper ends the connection when all is answered. */
void link_finish(struct link *link);

/* Bytes that the keeper has not taken. */
size_t link_queued(const struct link *link);

void link_pause(struct link *link);
void link_resume(struct link *link);

/* Closes it; nobody is called any more. NULL is fine. */
void link_close(struct link *link);

/* A number for the next request on this link, for its "id". */
uint64_t link_number(struct link *link);

#endif
