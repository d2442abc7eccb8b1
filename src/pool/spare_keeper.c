/*
 * The side of a keeper that the pool has started as a spare (pool.h). It knows the pool by the
 * socket that it was given; for its guest it connects like any keeper, but says first that nobody
 * has asked for it, so that a spare does not keep a pool alive.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "guest/protocol.h"
#include "pool/command.h"
#include "pool/pool.h"

int pool_join(const char *python, struct err *err)
{
	const struct guest_header header = {.type = POOL_JOIN};
	cleanup_free char *directory = paths_runtime(err);
	cleanup_fd int fd = -1;
	struct pool_names names;

	if (!directory)
		return -1;
	pool_names_init(&names, python);
	fd = socket_connect(directory, names.socket, SOCK_SEQPACKET, err);
	if (fd < 0)
		return -1;
	if (socket_send(fd, &header, sizeof(header), NULL, 0) < 0)
		return err_set(err, ERR_GONE, "the pool has ended");
	return fd_take(&fd);
}

int pool_spare_ready(int fd, struct err *err)
{
	const struct guest_header header = {.type = POOL_SPARE_READY};
	cleanup_buf struct buf message = BUF_INIT;

	buf_append(&message, &header, sizeof(header));
	buf_printf(&message, "{\"pid\":%d}", (int)getpid());
	if (socket_send(fd, buf_bytes(&message), message.len, NULL, 0) < 0)
		return err_set(err, ERR_GONE, "the pool has ended");
	return 0;
}

int pool_spare_client(int fd, struct err *err)
{
	for (;;) {
		struct guest_header header;
		size_t fd_count = 1;
		bool truncated = false;
		int client = -1;
		ssize_t len = socket_receive(fd, &header, sizeof(header), &client, &fd_count,
					     &truncated, MSG_DONTWAIT);

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == EAGAIN)
			return err_set(err, ERR_BUSY, "the pool has said nothing");
		if (len == (ssize_t)sizeof(header) && !truncated && fd_count == 1 &&
		    header.type == POOL_SPARE_CLIENT)
			return client;
		if (fd_count == 1)
			close(client);
		return err_set(err, ERR_GONE, "the pool lets the spare session go");
	}
}
