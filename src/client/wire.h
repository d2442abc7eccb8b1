/*
 * The wire: lines over a connected stream socket.
 *
 * Reads at its own pace: bytes are taken from the socket only when no whole line is held already,
 * so a flood of events stays in the kernel and in the journal. Sending never deadlocks with a
 * keeper that is itself waiting to send: while the socket takes nothing, what has arrived is read
 * into the buffer.
 */
#ifndef FH_CLIENT_WIRE_H
#define FH_CLIENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* A longer line ends the connection. A `notebook` reply is one line and holds every output. */
#define WIRE_LINE_BYTES_MAX ((size_t)1 << 30)

/* While sending is blocked, at most so much is read ahead. */
enum { WIRE_AHEAD_BYTES_MAX = 64 << 20 };

struct wire {
	int fd;        /* owned */
	int cancel_fd; /* borrowed; readable: waiting ends with ERR_GONE; -1: none */
	struct buf in;
	size_t scanned; /* bytes of `in` that hold no LF */
	size_t taken;   /* bytes of the line given out last, dropped by the next call */
};

/* Takes the connected stream socket over. */
void wire_init(struct wire *wire, int fd);
void wire_release(struct wire *wire);

/*
 * The next line, without LF, valid until the next call. Waits at most `timeout_ms` (-1: without
 * end). 1: a line; 0: none in time; -1: ERR_GONE at the end of the connection, ERR_LIMIT, ERR_IO.
 */
int wire_line(struct wire *wire, int timeout_ms, const char **line, size_t *len, struct err *err);

/* Sends all bytes (whole lines). ERR_TIMEOUT after `timeout_ms` leaves half a line: the connection
 * is then of no use. */
int wire_send(struct wire *wire, const char *bytes, size_t len, int timeout_ms, struct err *err);

#endif
