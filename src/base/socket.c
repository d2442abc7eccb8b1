/*
 * Unix sockets.
 *
 * A path that does not fit into sun_path (108 bytes; a session's directory can be longer) is
 * reached through /proc/self/fd/<descriptor of its directory>/<name>, which needs no chdir.
 *
 * The mode of a socket file: bind(2) takes the mode of the socket's inode less the umask, so
 * fchmod() before bind gives 0600 from the first moment, without touching the umask that all
 * threads share.
 *
 * Descriptors in messages: the kernel installs at most what the control buffer has room for. The
 * buffer has room for more than a caller may ask for, and what the caller did not ask for is
 * closed, so no message can fill up our table.
 */
#include "base/socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

enum { BACKLOG = 128 };

/* Fills the address of dir/name. `*directory` is what a long path goes through, to be closed by the
 * caller once the address has been used. */
static int fill_address(const char *dir, const char *name, struct sockaddr_un *address,
			int *directory, struct err *err)
{
	int len = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", dir, name);

	address->sun_family = AF_UNIX;
	if (len >= 0 && (size_t)len < sizeof(address->sun_path))
		return 0;
	*directory = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*directory < 0)
		return err_sys(err, "cannot open directory %s", dir);
	len = snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s",
		       *directory, name);
	if (len < 0 || (size_t)len >= sizeof(address->sun_path))
		return err_set(err, ERR_LIMIT, "the socket's name is too long: %s", name);
	return 0;
}

static int connect_address(int fd, const struct sockaddr_un *address)
{
	int result;

	do {
		result = connect(fd, (const struct sockaddr *)address, sizeof(*address));
	} while (result < 0 && errno == EINTR);
	return result;
}

/* Whether the socket file is left over: the process that listened is gone. */
static bool is_stale(const struct sockaddr_un *address, int type)
{
	cleanup_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	return connect_address(fd, address) < 0 && errno == ECONNREFUSED;
}

static int bind_address(int fd, const struct sockaddr_un *address, int type)
{
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -1;
	if (!is_stale(address, type)) {
		errno = EADDRINUSE;
		return -1;
	}
	if (unlink(address->sun_path) < 0 && errno != ENOENT)
		return -1;
	return bind(fd, (const struct sockaddr *)address, sizeof(*address));
}

int socket_listen(const char *dir, const char *name, int type, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int directory = -1;
	cleanup_fd int fd = -1;

	if (fill_address(dir, name, &address, &directory, err) < 0)
		return -1;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, "cannot make a socket");
	if (fchmod(fd, 0600) < 0)
		return err_sys(err, "cannot set the mode of a socket");
	if (bind_address(fd, &address, type) < 0) {
		if (errno == EADDRINUSE)
			return err_set(err, ERR_BUSY, "%s/%s is in use", dir, name);
		return err_sys(err, "cannot bind %s/%s", dir, name);
	}
	if (listen(fd, BACKLOG) < 0) {
		err_sys(err, "cannot listen on %s/%s", dir, name);
		unlink(address.sun_path);
		return -1;
	}
	return fd_take(&fd);
}

/* Connects to what has been looked at, whatever its name stands for now. */
static int connect_place(int fd, int place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", place);
	return connect_address(fd, &address);
}

int socket_connect(const char *dir, const char *name, int type, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int directory = -1, place = -1;
	cleanup_fd int fd = -1;
	struct stat st;

	if (fill_address(dir, name, &address, &directory, err) < 0)
		return -1;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, "cannot make a socket");
	place = open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (place >= 0 && (fstat(place, &st) < 0 || !S_ISSOCK(st.st_mode)))
		return err_set(err, ERR_DENIED,
			       "%s/%s is no socket: somebody has put something else in its place; "
			       "remove it",
			       dir, name);
	if (place < 0 || connect_place(fd, place) < 0) {
		if (errno == ECONNREFUSED || errno == ENOTDIR)
			return err_set(err, ERR_NOT_FOUND, "nobody listens on %s/%s", dir, name);
		return err_sys(err, "cannot connect to %s/%s", dir, name);
	}
	if (socket_peer_uid(fd) != geteuid())
		return err_set(err, ERR_DENIED, "%s/%s is another user's: who listens has uid %ld",
			       dir, name, (long)socket_peer_uid(fd));
	return fd_take(&fd);
}

int socket_pair(int type, int fds[2], struct err *err)
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(err, "cannot make a pair of sockets");
	return 0;
}

/* A control buffer, aligned as cmsg(3) wants it. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(SOCKET_FDS_MAX * sizeof(int))];
};

int socket_send(int fd, const void *bytes, size_t len, const int *fds, size_t fd_count)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union control control;
	ssize_t sent;

	/* An empty message could not be told from the end. */
	assert(len > 0 && fd_count <= SOCKET_FDS_MAX);
	if (fd_count > 0) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	}
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0 && (size_t)sent < len) { /* a stream that is full: no message any more */
		errno = EMSGSIZE;
		return -1;
	}
	return sent < 0 ? -1 : 0;
}

/* Takes the descriptors out of the control data: up to `room` into `fds`, the others closed.
 * Returns how many there were. */
static size_t take_descriptors(struct msghdr *message, int *fds, size_t room)
{
	size_t count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		size_t here;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++, count++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			if (count < room)
				fds[count] = fd;
			else
				close(fd);
		}
	}
	return count;
}

ssize_t socket_receive(int fd, void *bytes, size_t size, int *fds, size_t *fd_count,
		       bool *truncated, int flags)
{
	struct iovec part = {.iov_base = bytes, .iov_len = size};
	union control control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	size_t room = fds && fd_count ? *fd_count : 0;
	size_t found;
	ssize_t len;

	if (fd_count)
		*fd_count = 0;
	if (truncated)
		*truncated = false;
	do {
		len = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
	} while (len < 0 && errno == EINTR);
	if (len < 0)
		return -1;
	/* An empty message reads as the end; then nobody looks for descriptors. */
	if (len == 0)
		room = 0;
	found = take_descriptors(&message, fds, room);
	if (fd_count)
		*fd_count = found < room ? found : room;
	if (truncated)
		*truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || found > room;
	return len;
}

uid_t socket_peer_uid(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return (uid_t)-1;
	return peer.uid;
}
