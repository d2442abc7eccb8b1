/*
 * The network of a program that runs alone: the proxy to the hosts that its policy names.
 *
 * A session's proxy runs in its keeper. Here there is none, so a child carries the bytes:
 * fumehood-proxy (proxy_main.c), which says on stderr what it refuses, and is dead with us.
 */
#ifndef FH_CLI_SANDBOX_NET_H
#define FH_CLI_SANDBOX_NET_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/box.h"
#include "sandbox/hosts.h"

struct sandbox_net {
	struct hosts hosts;
	uint16_t port; /* where the proxy listens inside; 0: there is none */
	pid_t pid;     /* the child; 0: there is none */
};

#define SANDBOX_NET_INIT \
	{ \
		.hosts = HOSTS_INIT, .port = 0, .pid = 0 \
	}

/* Opens the network by these rules (NULL-terminated; NULL or none: nothing happens). For a process
 * with one thread, before it has pipes that the child must not hold. ERR_UNSUPPORTED below the tier
 * full. The caller closes it also after a failure. */
int sandbox_net_open(struct sandbox_net *net, const struct box *box, const char *const *rules,
		     struct err *err);

/* Ends the child. */
void sandbox_net_close(struct sandbox_net *net);

#endif
