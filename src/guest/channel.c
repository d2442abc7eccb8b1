/*
 * Messages between guest, keeper, pool and zygote, as protocol.h lays them down.
 *
 * One sendmsg is one message. What does not fit into a message goes into a memfd that is sealed
 * before it is sent: the receiver can then trust its size and content not to change under its hands
 * (memfd_create(2), fcntl(2) F_ADD_SEALS). Both directions block without the GIL; EINTR runs
 * Python's signal handlers, so that a guest that waits in input() can be interrupted.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
};

int channel_own_pidfd(void)
{
	long fd = syscall(SYS_pidfd_open, getpid(), 0);

	return fd < 0 ? -errno : (int)fd;
}

static int write_all(int fd, const char *body, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, body + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

/* Returns a sealed memfd that holds the body, or -errno. */
static int body_to_memfd(const char *body, size_t len)
{
	int fd = memfd_create("fumehood-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int rc;

	if (fd < 0)
		return -errno;
	rc = write_all(fd, body, len);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		rc = -errno;
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return fd;
}

int channel_send_once(int sock, const struct guest_header *header, const char *body, size_t len,
		      const int *fds, size_t fd_count)
{
	struct iovec parts[2] = {
		{.iov_base = (void *)(uintptr_t)header, .iov_len = sizeof(*header)},
		{.iov_base = (void *)(uintptr_t)body, .iov_len = len},
	};
	struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};
	union control control;
	ssize_t n;

	if (fd_count > 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	return n < 0 ? -errno : 0;
}

int channel_send(int sock, struct guest_header header, const char *body, size_t len, const int *fds,
		 size_t fd_count)
{
	int memfd = -1;
	int rc;

	if (len > GUEST_BODY_BYTES_MAX || fd_count > CHANNEL_FDS_MAX) {
		PyErr_SetString(PyExc_ValueError, "message too large");
		return -1;
	}
	if (len > GUEST_INLINE_BYTES_MAX) {
		Py_BEGIN_ALLOW_THREADS memfd = body_to_memfd(body, len);
		Py_END_ALLOW_THREADS if (memfd < 0)
		{
			errno = -memfd;
			PyErr_SetFromErrno(PyExc_OSError);
			return -1;
		}
		header.flags |= GUEST_FLAG_MEMFD;
		fds = &memfd;
		fd_count = 1;
		len = 0;
	}
	do {
		Py_BEGIN_ALLOW_THREADS rc =
			channel_send_once(sock, &header, body, len, fds, fd_count);
		Py_END_ALLOW_THREADS
	} while (rc == -EINTR && PyErr_CheckSignals() == 0);
	if (memfd >= 0)
		close(memfd);
	if (rc == 0)
		return 0;
	if (!PyErr_Occurred()) {
		errno = -rc;
		PyErr_SetFromErrno(PyExc_OSError);
	}
	return -1;
}

static void take_fds(struct msghdr *msg, struct channel_message *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (message->fd_count < CHANNEL_FDS_MAX)
				message->fds[message->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

static void close_fds(struct channel_message *message)
{
	for (size_t i = 0; i < message->fd_count; i++)
		close(message->fds[i]);
	message->fd_count = 0;
}

/* Reads the sealed memfd `fd` into new bytes; NULL with an exception. */
static PyObject *body_from_memfd(int fd)
{
	struct stat st;
	PyObject *body;
	char *data;
	size_t size, done = 0;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > GUEST_BODY_BYTES_MAX ||
	    (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS) {
		PyErr_SetString(PyExc_OSError, "body of a message is not a sealed memfd");
		return NULL;
	}
	size = (size_t)st.st_size;
	body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
	data = body ? PyBytes_AsString(body) : NULL;
	while (data && done < size) {
		ssize_t n = pread(fd, data + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			PyErr_SetFromErrno(PyExc_OSError);
			Py_CLEAR(body);
			return NULL;
		}
		done += (size_t)n;
	}
	return body;
}

static int take_body(struct channel_message *message, const char *bytes, size_t len)
{
	if (message->header.flags & GUEST_FLAG_MEMFD) {
		if (message->fd_count == 0) {
			PyErr_SetString(PyExc_OSError, "message without its body");
			return -1;
		}
		message->body = body_from_memfd(message->fds[0]);
		close(message->fds[0]);
		message->fd_count--;
		memmove(message->fds, message->fds + 1, message->fd_count * sizeof(int));
	} else {
		message->body = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len);
	}
	return message->body ? 0 : -1;
}

int channel_receive(int sock, struct channel_message *message)
{
	char bytes[GUEST_MESSAGE_BYTES_MAX];
	union control control;
	struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct msghdr msg;
	size_t len;
	ssize_t n;
	int saved;

	memset(message, 0, sizeof(*message));
	do {
		msg = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		Py_BEGIN_ALLOW_THREADS n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
		saved = errno;
		Py_END_ALLOW_THREADS
	} while (n < 0 && saved == EINTR && PyErr_CheckSignals() == 0);
	if (n < 0) {
		if (saved == ECONNRESET)
			return 0;
		errno = saved;
		if (!PyErr_Occurred())
			PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	if (n == 0)
		return 0;
	/* MSG_CTRUNC is no fault: the program has used up its descriptors, and the kernel has
	 * dropped those of the message. It comes without them; what needs them looks. */
	take_fds(&msg, message);
	if ((size_t)n < sizeof(message->header) || (msg.msg_flags & MSG_TRUNC)) {
		PyErr_SetString(PyExc_OSError, "malformed message");
		close_fds(message);
		return -1;
	}
	memcpy(&message->header, bytes, sizeof(message->header));
	len = (size_t)n - sizeof(message->header);
	if (take_body(message, bytes + sizeof(message->header), len) < 0) {
		close_fds(message);
		return -1;
	}
	return 1;
}
