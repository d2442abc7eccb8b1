/*
 * A listening socket inside a box's network namespace, held by a process outside of it.
 *
 * A socket belongs to the namespace it was made in, whoever has its descriptor: so the keeper can
 * accept the guest's connections itself, and neither a relay inside the box nor a Unix socket that
 * is visible there is needed (doc/decisions/030-*).
 */
#ifndef FH_SANDBOX_NETNS_H
#define FH_SANDBOX_NETNS_H

#include <stdint.h>

#include "base/err.h"

/* Listens on 127.0.0.1:*port in the network namespace `net_fd`, which belongs to the user
 * namespace `user_fd` (descriptors as box_namespaces() has them: 0 and 3). *port 0: the kernel
 * chooses, and it is filled in. The caller must be root or have made the user namespace; see
 * setns(2). The loopback there must be up before anyone can connect. Returns a non-blocking
 * descriptor (O_CLOEXEC) owned by the caller, or -1. */
int netns_listen(int user_fd, int net_fd, uint16_t *port, struct err *err);

#endif
