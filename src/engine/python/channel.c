/*
 * Messages to and from a guest; see channel.h for what is checked and why.
 */
#include "engine/python/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"

enum { CHANNEL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };
enum { CHANNEL_SEND_TIMEOUT_MS = 1000 };

void channel_message_init(struct channel_message *message)
{
	message->header = (struct guest_header){0};
	message->body = message->inline_bytes;
	message->body_len = 0;
	message->fd = -1;
	message->large = (struct buf)BUF_INIT;
}

void channel_message_release(struct channel_message *message)
{
	if (message->fd >= 0)
		close(message->fd);
	message->fd = -1;
	buf_release(&message->large);
}

/* The whole content of a sealed memfd into message->large; false when it is not one. */
static bool message_read_memfd(struct channel_message *message, int fd)
{
	struct stat status;
	size_t size, done = 0;
	char *room;

	if (fcntl(fd, F_GET_SEALS) != CHANNEL_SEALS || fstat(fd, &status) != 0)
		return false;
	if (!S_ISREG(status.st_mode) || status.st_size < 0 || status.st_size > GUEST_BODY_BYTES_MAX)
		return false;
	size = (size_t)status.st_size;
	buf_clear(&message->large);
	room = buf_reserve(&message->large, size);
	while (done < size) {
		ssize_t got = pread(fd, room + done, size - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	buf_added(&message->large, size);
	message->body = buf_bytes(&message->large);
	message->body_len = size;
	return true;
}

/* Gives each descriptor that came along its place; false when they do not fit the header. */
static bool message_sort_fds(struct channel_message *message, const int *fds, size_t count)
{
	bool has_memfd = (message->header.flags & GUEST_FLAG_MEMFD) != 0;
	bool fits = count <= (has_memfd ? 2U : 1U) && (!has_memfd || count > 0);
	size_t next = 0;

	if (fits && has_memfd)
		fits = message_read_memfd(message, fds[0]);
	if (has_memfd && count > 0)
		close(fds[next++]);
	if (fits && next < count)
		message->fd = fds[next++];
	for (; next < count; next++)
		close(fds[next]);
	return fits;
}

enum channel_outcome channel_receive(int fd, struct channel_message *message)
{
	int fds[SOCKET_FDS_MAX];
	size_t fd_count = SOCKET_FDS_MAX;
	bool truncated = false, fits;
	ssize_t got;

	if (message->fd >= 0)
		close(message->fd);
	message->fd = -1;
	if (message->large.cap > GUEST_MESSAGE_BYTES_MAX)
		buf_release(&message->large);
	got = socket_receive(fd, message->inline_bytes, sizeof(message->inline_bytes), fds,
			     &fd_count, &truncated, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? CHANNEL_EMPTY : CHANNEL_END;
	if (got == 0 && fd_count == 0)
		return CHANNEL_END;
	memset(&message->header, 0, sizeof(message->header));
	if ((size_t)got >= sizeof(message->header))
		memcpy(&message->header, message->inline_bytes, sizeof(message->header));
	message->body = message->inline_bytes + sizeof(message->header);
	message->body_len =
		(size_t)got >= sizeof(message->header) ? (size_t)got - sizeof(message->header) : 0;
	fits = message_sort_fds(message, fds, fd_count);
	if (!fits || truncated || (size_t)got < sizeof(message->header))
		return CHANNEL_GARBAGE;
	return CHANNEL_MESSAGE;
}

/* A memfd that holds the bytes and can never change again, or -1. */
static int memfd_sealed(const void *bytes, size_t len, struct err *err)
{
	cleanup_fd int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(err, "memfd_create");
	if (file_write_all(fd, bytes, len, err) != 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, CHANNEL_SEALS) != 0)
		return err_sys(err, "sealing a message body");
	return fd_take(&fd);
}

int channel_send(int fd, uint8_t type, uint8_t flags, uint32_t cell, const void *body, size_t len,
		 struct err *err)
{
	struct guest_header header = {.type = type, .flags = flags, .cell = cell};
	char bytes[GUEST_MESSAGE_BYTES_MAX];
	size_t total = sizeof(header);
	cleanup_fd int memfd = -1;

	if (len > GUEST_BODY_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "a message of %zu bytes is over the limit of %d",
			       len, GUEST_BODY_BYTES_MAX);
	if (len > GUEST_INLINE_BYTES_MAX) {
		memfd = memfd_sealed(body, len, err);
		if (memfd < 0)
			return -1;
		header.flags |= GUEST_FLAG_MEMFD;
	} else if (len > 0) {
		memcpy(bytes + sizeof(header), body, len);
		total += len;
	}
	memcpy(bytes, &header, sizeof(header));
	while (socket_send(fd, bytes, total, &memfd, memfd >= 0 ? 1 : 0) != 0) {
		struct pollfd room = {.fd = fd, .events = POLLOUT};

		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return err_set(err, ERR_GONE,
				       "the interpreter has closed its control socket");
		if (poll(&room, 1, CHANNEL_SEND_TIMEOUT_MS) == 0)
			return err_set(err, ERR_TIMEOUT,
				       "the interpreter does not read its control socket");
	}
	return 0;
}
