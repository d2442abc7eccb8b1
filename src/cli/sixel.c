/*
 * Running fumehood-sixel. See sixel.h.
 *
 * The helper works on a session's bytes and may have fallen to them, so nothing of it is trusted:
 * it has no more than two descriptors, so much time and so much output, and what it says is looked
 * at before it goes to the terminal. It reads all before it writes, but both directions are moved
 * here as they can be, so that neither side waits for the other.
 */
#include "cli/sixel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/paths.h"

static const char HELPER[] = "fumehood-sixel";
enum { CHUNK_BYTES = 64 << 10 };

bool sixel_is_there(void)
{
	cleanup_free char *path = paths_helper(HELPER, NULL);

	return path != NULL;
}

bool sixel_is_sequence(const char *bytes, size_t len)
{
	if (len < 4 || memcmp(bytes, "\033P", 2) != 0 || memcmp(bytes + len - 2, "\033\\", 2) != 0)
		return false;
	for (size_t i = 2; i < len - 2; i++)
		if ((bytes[i] < ' ' || bytes[i] > '~') && bytes[i] != '\n' && bytes[i] != '\r')
			return false;
	return true;
}

/* One end stays here, the other one becomes stdin and stdout of the helper. */
static int start(struct child *child, int *fd, unsigned width_max, struct err *err)
{
	cleanup_free char *path = paths_helper(HELPER, err);
	cleanup_free char *width = mem_format("%u", width_max);
	const char *const argv[] = {HELPER, width, NULL};
	const char *const envp[] = {NULL};
	int pair[2], outcome;

	if (!path)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, "cannot make a socket pair");
	outcome = child_start(&(struct child_params){.path = path,
						     .argv = argv,
						     .envp = envp,
						     .fds = (const int[]){pair[1], pair[1], -1},
						     .fd_count = 3,
						     .new_session = true},
			      child, err);
	close(pair[1]);
	if (outcome == 0)
		*fd = pair[0];
	else
		close(pair[0]);
	return outcome;
}

/* Sends what is left of the image; at its end the helper sees the end of file. */
static void send_more(int fd, const char *png, size_t len, size_t *sent)
{
	ssize_t put = send(fd, png + *sent, len - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	*sent = put < 0 ? len : *sent + (size_t)put; /* it has gone: its answer says so */
	if (*sent == len)
		(void)shutdown(fd, SHUT_WR);
}

/* Until the helper closes its end. */
static int converse(int fd, const char *png, size_t len, struct buf *answer, struct err *err)
{
	int64_t until = clock_monotonic_us() + (int64_t)SIXEL_WAIT_MS * 1000;
	size_t sent = 0;

	for (;;) {
		int64_t left_us = until - clock_monotonic_us();
		struct pollfd poll_fd = {.fd = fd,
					 .events = (short)(POLLIN | (sent < len ? POLLOUT : 0))};
		ssize_t got;

		if (left_us <= 0)
			return err_set(err, ERR_TIMEOUT, "%s took too long", HELPER);
		if (poll(&poll_fd, 1, (int)(left_us + 999) / 1000) <= 0)
			continue;
		if (poll_fd.revents & POLLOUT)
			send_more(fd, png, len, &sent);
		got = recv(fd, buf_reserve(answer, CHUNK_BYTES), CHUNK_BYTES, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got <= 0)
			return 0;
		buf_added(answer, (size_t)got);
		if (answer->len > SIXEL_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "the image has too many sixels");
	}
}

int sixel_from_png(struct buf *out, const char *png, size_t len, unsigned width_max,
		   struct err *err)
{
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_fd int fd = -1;
	struct child child;
	int outcome, status;

	if (start(&child, &fd, width_max, err) != 0)
		return -1;
	outcome = converse(fd, png, len, &answer, err);
	if (outcome != 0)
		(void)kill(child.pid, SIGKILL); /* not waited for yet, so it is still this one */
	status = child_wait(&child);
	if (outcome != 0)
		return -1;
	if (status != 0 || !sixel_is_sequence(buf_bytes(&answer), answer.len))
		return err_set(err, ERR_INVALID, "the image cannot be shown as sixels");
	buf_append(out, buf_bytes(&answer), answer.len);
	return 0;
}
