/*
 * Lines over a stream socket. See wire.h.
 *
 * The socket may be blocking or not: every call here passes MSG_DONTWAIT and waits by poll(2). The
 * search for LF goes on where it stopped, so a line of many megabytes is looked at once.
 */
#include "client/wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { READ_BYTES = 64 << 10 };

void wire_init(struct wire *wire, int fd)
{
	*wire = (struct wire){.fd = fd, .cancel_fd = -1, .in = BUF_INIT};
}

void wire_release(struct wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	buf_release(&wire->in);
	*wire = (struct wire){.fd = -1, .cancel_fd = -1, .in = BUF_INIT};
}

/* Milliseconds left until `until_us` (monotonic; -1: no end), for poll(2). */
static int left_ms(int64_t until_us)
{
	int64_t left;

	if (until_us < 0)
		return -1;
	left = (until_us - clock_monotonic_us() + 999) / 1000;
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static int64_t until(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : clock_monotonic_us() + (int64_t)timeout_ms * 1000;
}

/* Waits for the events; the ones that came, 0 when time is over, -1 on failure. */
static int wait_for(const struct wire *wire, short events, int64_t until_us, struct err *err)
{
	struct pollfd fds[2] = {
		{.fd = wire->fd, .events = events},
		{.fd = wire->cancel_fd, .events = POLLIN},
	};

	for (;;) {
		int timeout_ms = left_ms(until_us);
		int count = poll(fds, 2, timeout_ms);

		if (count < 0 && errno != EINTR)
			return err_sys(err, "cannot wait for the keeper");
		if (count > 0 && fds[1].revents)
			return err_set(err, ERR_GONE, "the wait for the session was cancelled");
		if (count > 0)
			return fds[0].revents;
		if (timeout_ms == 0)
			return 0;
	}
}

/* Reads once without waiting: 1 something came, 0 nothing there, -1 failure. */
static int fill(struct wire *wire, struct err *err)
{
	char *room = buf_reserve(&wire->in, READ_BYTES);
	ssize_t got = recv(wire->fd, room, READ_BYTES, MSG_DONTWAIT);

	if (got > 0) {
		buf_added(&wire->in, (size_t)got);
		return 1;
	}
	if (got == 0)
		return err_set(err, ERR_GONE,
			       "the session is gone: its keeper closed the connection");
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	if (errno == ECONNRESET)
		return err_set(err, ERR_GONE, "the session is gone: its keeper died");
	return err_sys(err, "cannot read from the keeper");
}

/* Looks for a whole line among the bytes that are there. */
static bool find_line(struct wire *wire, const char **line, size_t *len)
{
	const char *bytes = buf_bytes(&wire->in);
	const char *end = memchr(bytes + wire->scanned, '\n', wire->in.len - wire->scanned);

	if (!end) {
		wire->scanned = wire->in.len;
		return false;
	}
	*line = bytes;
	*len = (size_t)(end - bytes);
	wire->taken = *len + 1;
	wire->scanned = 0;
	return true;
}

int wire_line(struct wire *wire, int timeout_ms, const char **line, size_t *len, struct err *err)
{
	int64_t until_us = until(timeout_ms);

	buf_consume(&wire->in, wire->taken);
	wire->taken = 0;
	for (;;) {
		int got;

		if (find_line(wire, line, len))
			return 1;
		if (wire->in.len > WIRE_LINE_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "the keeper sent a line of more than 1 GiB");
		got = fill(wire, err);
		if (got == 0) {
			got = wait_for(wire, POLLIN, until_us, err);
			if (got == 0)
				return 0;
		}
		if (got < 0)
			return -1;
	}
}

int wire_send(struct wire *wire, const char *bytes, size_t len, int timeout_ms, struct err *err)
{
	int64_t until_us = until(timeout_ms);

	buf_consume(&wire->in, wire->taken);
	wire->taken = 0;
	while (len) {
		ssize_t sent = send(wire->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		bool ahead = wire->in.len < WIRE_AHEAD_BYTES_MAX;
		int came;

		if (sent > 0) {
			bytes += sent;
			len -= (size_t)sent;
			continue;
		}
		if (errno == EPIPE || errno == ECONNRESET)
			return err_set(err, ERR_GONE,
				       "the session is gone: its keeper closed the connection");
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(err, "cannot send to the keeper");
		came = wait_for(wire, (short)(POLLOUT | (ahead ? POLLIN : 0)), until_us, err);
		if (came == 0)
			return err_set(err, ERR_TIMEOUT, "the keeper takes no request");
		if (came < 0 || ((came & POLLIN) && fill(wire, err) < 0))
			return -1;
	}
	return 0;
}
