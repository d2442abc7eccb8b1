/*
 * Names and sockets for the proxy; see spawner_protocol.h.
 *
 * The proxy has asked all this before it comes here, and it is asked again, of the rules that this
 * process was told: the keeper's memory may not be the keeper's own any more. Rules can change
 * while a session lives (the op `policy`), and nobody here can tell who has changed them; but a
 * session without namespaces has no hosts at all.
 *
 * A name is looked up by a child, one for each, since getaddrinfo(3) waits and cannot be
 * interrupted; who does not want its answer closes the socket on which it comes. It ends with the
 * spawner at the latest.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/socket.h"
#include "keeper/session.h"
#include "keeper/spawner_protocol.h"
#include "sandbox/address.h"
#include "sandbox/kernel.h"
#include "sandbox/netns.h"
#include "sandbox/proxy.h"

enum {
	LOOKUPS_MAX = PROXY_CONNECTIONS_MAX,
	NAMESPACE_USER = 0,
	NAMESPACE_NET = 3 /* box_namespaces() */
};

int spawner_net_listen(const struct session *session, uint16_t *port, struct err *err)
{
	const int *namespaces = session->box ? box_namespaces(session->box) : NULL;

	if (!namespaces)
		return err_set(err, ERR_UNSUPPORTED,
			       "hosts can only be allowed in the tier \"full\"");
	return netns_listen(namespaces[NAMESPACE_USER], namespaces[NAMESPACE_NET], port, err);
}

static int read_rules(const char *text, size_t len, struct hosts *hosts, struct err *err)
{
	const char *end = text + len;

	while (text < end) {
		const char *stop = memchr(text, '\0', (size_t)(end - text));

		if (!stop)
			return err_set(err, ERR_INVALID, "a rule without an end");
		if (hosts_add(hosts, text, (size_t)(stop - text), err) != 0)
			return -1;
		text = stop + 1;
	}
	return 0;
}

int spawner_net_rules(struct spawner_net *net, int memfd, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct hosts hosts = HOSTS_INIT;
	struct stat st;
	ssize_t got;

	if (memfd < 0 || fstat(memfd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    st.st_size > SPAWNER_RULES_BYTES_MAX)
		return err_set(err, ERR_INVALID, "rules that are none");
	got = pread(memfd, buf_reserve(&text, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
	if (got < 0)
		return err_sys(err, "rules for the network");
	buf_added(&text, (size_t)got);
	if (read_rules(buf_bytes(&text), text.len, &hosts, err) != 0) {
		hosts_release(&hosts);
		return -1;
	}
	hosts_release(&net->hosts);
	net->hosts = hosts;
	return 0;
}

/* --- names --------------------------------------------------------------------------------------
 */

/* A target as hosts_read_name() leaves it, of a name: no bytes that a resolver could take for
 * something else. */
static bool is_name(const struct hosts_target *target)
{
	struct hosts_target read;
	size_t len = strnlen(target->name, sizeof(target->name));

	return len < sizeof(target->name) &&
	       hosts_read_name(target->name, len, &read) == REFUSAL_NONE &&
	       read.family == AF_UNSPEC && target->family == AF_UNSPEC &&
	       strcmp(read.name, target->name) == 0;
}

static void __attribute__((noreturn))
look_up_and_exit(int socket, const struct hosts_target *target, pid_t spawner)
{
	static struct spawner_found found;
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV,
	};
	struct addrinfo *list = NULL;
	char port[8];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != spawner)
		_exit(0);
	(void)dup2(socket, STDERR_FILENO + 1);
	(void)close_range(STDERR_FILENO + 2, ~0U, 0);
	socket = STDERR_FILENO + 1;
	snprintf(port, sizeof(port), "%u", target->port);
	if (getaddrinfo(target->name, port, &hints, &list) == 0) {
		for (; list && found.count < SPAWNER_ADDRESSES_MAX; list = list->ai_next) {
			if (list->ai_addrlen > sizeof(*found.addresses))
				continue;
			memcpy(&found.addresses[found.count++], list->ai_addr, list->ai_addrlen);
		}
	}
	(void)socket_send(socket, &found, sizeof(found), NULL, 0);
	_exit(0);
}

enum refusal spawner_net_lookup(struct spawner_net *net, const struct hosts_target *target, int *fd,
				struct err *err)
{
	const pid_t own = getpid();
	int pair[2];
	enum refusal refusal;
	pid_t pid;

	if (!is_name(target))
		return REFUSAL_HOST_BYTES;
	refusal = hosts_match(&net->hosts, target, NULL);
	if (refusal != REFUSAL_NONE)
		return refusal;
	spawner_net_reap(net);
	if (net->lookups >= LOOKUPS_MAX)
		return REFUSAL_UNRESOLVED;
	if (socket_pair(SOCK_SEQPACKET, pair, err) != 0)
		return REFUSAL_UNRESOLVED;
	/* Libuv's handlers would close what they take for its own. */
	pid = kernel_fork();
	if (pid == 0)
		look_up_and_exit(pair[1], target, own);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return REFUSAL_UNRESOLVED;
	}
	net->lookups++;
	*fd = pair[0];
	return REFUSAL_NONE;
}

/* Those with SIGCHLD are lookups: boxes end without it, and a pool's starter is waited for at once.
 */
void spawner_net_reap(struct spawner_net *net)
{
	while (net->lookups > 0 && waitpid(-1, NULL, WNOHANG) > 0)
		net->lookups--;
}

/* --- addresses ----------------------------------------------------------------------------------
 */

/* What was asked for as an address is dialled as that. */
static bool is_target(const struct hosts_target *target, const struct sockaddr_storage *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (target->family == AF_UNSPEC)
		return true;
	if (target->family != address->ss_family)
		return false;
	memcpy(&v4, address, sizeof(v4));
	memcpy(&v6, address, sizeof(v6));
	return target->family == AF_INET
		       ? memcmp(target->address, &v4.sin_addr, sizeof(v4.sin_addr)) == 0
		       : memcmp(target->address, &v6.sin6_addr, sizeof(v6.sin6_addr)) == 0;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (address->ss_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		return ntohs(v4.sin_port);
	}
	memcpy(&v6, address, sizeof(v6));
	return ntohs(v6.sin6_port);
}

enum refusal spawner_net_check(const struct spawner_net *net, const struct spawner_order *order)
{
	const struct hosts_target *target = &order->target;
	const struct sockaddr *address = (const struct sockaddr *)&order->address;
	enum address_permit permit = ADDRESS_PUBLIC;
	enum refusal refusal;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return REFUSAL_ADDRESS_RESERVED;
	if (strnlen(target->name, sizeof(target->name)) == sizeof(target->name) ||
	    port_of(&order->address) != target->port)
		return REFUSAL_PORT;
	if (!is_target(target, &order->address))
		return REFUSAL_NOT_ALLOWED;
	refusal = hosts_match(&net->hosts, target, &permit);
	return refusal != REFUSAL_NONE ? refusal : address_check(address, permit);
}

enum refusal spawner_net_dial(const struct spawner_net *net, const struct spawner_order *order,
			      int *fd)
{
	enum refusal refusal = spawner_net_check(net, order);
	socklen_t size = order->address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
							     : sizeof(struct sockaddr_in6);
	int result;

	if (refusal != REFUSAL_NONE)
		return refusal;
	*fd = socket(order->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		     IPPROTO_TCP);
	if (*fd < 0)
		return REFUSAL_UNREACHABLE;
	do
		result = connect(*fd, (const struct sockaddr *)&order->address, size);
	while (result < 0 && errno == EINTR);
	if (result == 0 || errno == EINPROGRESS)
		return REFUSAL_NONE;
	close(*fd);
	*fd = -1;
	return REFUSAL_UNREACHABLE;
}
