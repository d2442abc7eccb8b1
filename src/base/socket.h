/*
 * Unix sockets: path sockets with long paths handled, and messages with descriptors.
 *
 * A socket path longer than sun_path goes through /proc/self/fd/<dirfd>/<name>. Messages use
 * SOCK_SEQPACKET, where one send is one receive.
 */
#ifndef FH_BASE_SOCKET_H
#define FH_BASE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { SOCKET_FDS_MAX = 20 };

/* Listens on dir/name (0600, replacing a stale socket file). `type` is SOCK_STREAM or
 * SOCK_SEQPACKET. Returns a non-blocking descriptor owned by the caller, or -1. */
int socket_listen(const char *dir, const char *name, int type, struct err *err);

/* Connects to dir/name. Blocking descriptor, O_CLOEXEC. ERR_NOT_FOUND when nobody listens,
 * ERR_DENIED when it is a symlink or anything else but a socket, or when another user listens:
 * nothing has been sent then. */
int socket_connect(const char *dir, const char *name, int type, struct err *err);

/* A connected pair, both O_CLOEXEC. */
int socket_pair(int type, int fds[2], struct err *err);

/* Sends one message with descriptors (kept by the caller). MSG_NOSIGNAL. 0, or -1 with errno
 * set. */
int socket_send(int fd, const void *bytes, size_t len, const int *fds, size_t fd_count);

/* Receives one message. Up to *fd_count descriptors (O_CLOEXEC) are written to `fds` and *fd_count
 * is set to their number; surplus ones are closed. *truncated is set when bytes or descriptors did
 * not fit. `fds`, `fd_count` and `truncated` may be NULL. Returns the message's length, 0 at the
 * end (or for an empty message, which nobody of ours sends), -1 with errno. */
ssize_t socket_receive(int fd, void *bytes, size_t size, int *fds, size_t *fd_count,
		       bool *truncated, int flags);

/* The uid of the process at the other end (SO_PEERCRED), or (uid_t)-1. */
uid_t socket_peer_uid(int fd);

#endif
