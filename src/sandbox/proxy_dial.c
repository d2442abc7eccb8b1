/*
 * From a target to a connected socket: the name is resolved once, and of the addresses that pass
 * the check one after the other is tried, each exactly as it was checked.
 *
 * The resolver (getaddrinfo(3)) runs on libuv's worker threads; libuv keeps such slow work off half
 * of them, so that names that take long do not hold up the journal's fsync. It cannot be
 * interrupted: a connection that gives up first leaves it to end by itself. AI_ADDRCONFIG is not
 * asked for: it hides localhost on a machine that has only the loopback, and an address without a
 * route fails at once anyway.
 */
#include "sandbox/proxy_internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* 1: connected, 0: under way, -1: no. */
static int begin_attempt(struct proxy_connection *connection, const struct addrinfo *to)
{
	cleanup_fd int fd =
		socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int result;

	if (fd < 0)
		return -1;
	do
		result = connect(fd, to->ai_addr, to->ai_addrlen);
	while (result < 0 && errno == EINTR);
	if (result < 0 && errno != EINPROGRESS)
		return -1;
	connection->host = proxy_side_new(connection, fd);
	if (!connection->host)
		return -1;
	fd_take(&fd);
	return result == 0 ? 1 : 0;
}

static int64_t left_ms(const struct proxy_connection *connection)
{
	int64_t left_us = connection->deadline_us - clock_monotonic_us();

	return left_us > 0 ? left_us / 1000 + 1 : 0;
}

/* Dials from `at` on. `why` is what became of those before. The rules are asked again: they may
 * have changed while the name was looked up. */
static void dial_from(struct proxy_connection *connection, struct addrinfo *at, enum refusal why)
{
	enum address_permit permit = ADDRESS_PUBLIC;
	enum refusal refusal = hosts_match(&connection->proxy->hosts, &connection->target, &permit);

	if (refusal != REFUSAL_NONE) {
		proxy_refuse(connection, refusal);
		return;
	}
	for (; at; at = at->ai_next) {
		int64_t ms = left_ms(connection);
		int begun;

		refusal = address_check(at->ai_addr, permit);
		if (refusal != REFUSAL_NONE) {
			/* That the first was refused says more than that the second is dead. */
			if (!connection->decided && !connection->address[0]) {
				address_format(at->ai_addr, connection->address);
				why = refusal;
			}
			continue;
		}
		address_format(at->ai_addr, connection->address);
		connection->attempt = at;
		begun = begin_attempt(connection, at);
		/* So that the decision names the address that is in use, not one for which there
		 * is no route; of the last one it is made in any case. */
		if (begun >= 0 || !at->ai_next)
			proxy_decide(connection, REFUSAL_NONE);
		if (begun < 0) {
			why = REFUSAL_UNREACHABLE;
			continue;
		}
		connection->stage = PROXY_DIAL;
		if (at->ai_next && ms > PROXY_ATTEMPT_MS_MAX)
			ms = PROXY_ATTEMPT_MS_MAX;
		proxy_set_deadline(connection, (unsigned)ms);
		if (begun > 0)
			proxy_connected(connection);
		return;
	}
	proxy_refuse(connection, why);
}

static void on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
	struct proxy_connection *connection = lookup->data;

	connection->looking_up = false;
	connection->found = found;
	if (connection->stage == PROXY_RESOLVE) {
		dial_from(connection, status < 0 ? NULL : found, REFUSAL_UNRESOLVED);
		proxy_watch(connection);
	}
	proxy_let_go(connection);
}

/* An address needs no resolver; getaddrinfo(3) with AI_NUMERICHOST only lays it out. */
static bool resolve_address(struct proxy_connection *connection, const char *port)
{
	const struct addrinfo hints = {
		.ai_family = connection->target.family,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};

	return getaddrinfo(connection->target.name, port, &hints, &connection->found) == 0;
}

void proxy_resolve(struct proxy_connection *connection)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV,
	};
	struct proxy *proxy = connection->proxy;
	enum refusal refusal = hosts_match(&proxy->hosts, &connection->target, NULL);
	char port[8];

	if (refusal != REFUSAL_NONE) {
		proxy_refuse(connection, refusal);
		return;
	}
	snprintf(port, sizeof(port), "%u", connection->target.port);
	connection->stage = PROXY_RESOLVE;
	connection->deadline_us =
		clock_monotonic_us() + proxy->params.connect_ms_max * INT64_C(1000);
	proxy_set_deadline(connection, proxy->params.connect_ms_max);
	if (connection->target.family != AF_UNSPEC) {
		bool laid_out = resolve_address(connection, port);

		dial_from(connection, laid_out ? connection->found : NULL, REFUSAL_UNRESOLVED);
		return;
	}
	connection->lookup.data = connection;
	if (uv_getaddrinfo(proxy->params.loop, &connection->lookup, on_resolved,
			   connection->target.name, port, &hints) < 0) {
		proxy_refuse(connection, REFUSAL_UNRESOLVED);
		return;
	}
	connection->looking_up = true;
	connection->held++;
}

static void try_next(struct proxy_connection *connection, enum refusal why)
{
	struct addrinfo *next = connection->attempt->ai_next;

	if (next && left_ms(connection) > 0)
		dial_from(connection, next, why);
	else
		proxy_refuse(connection, why);
}

void proxy_on_dialled(struct proxy_connection *connection)
{
	int fault = 0;
	socklen_t size = sizeof(fault);

	if (getsockopt(connection->host->fd, SOL_SOCKET, SO_ERROR, &fault, &size) < 0)
		fault = errno;
	if (fault == 0) {
		proxy_connected(connection);
		return;
	}
	proxy_side_free(&connection->host);
	try_next(connection, fault == ETIMEDOUT ? REFUSAL_CONNECT_TIMEOUT : REFUSAL_UNREACHABLE);
}

void proxy_dial_timeout(struct proxy_connection *connection)
{
	if (connection->stage == PROXY_RESOLVE) {
		proxy_refuse(connection, REFUSAL_CONNECT_TIMEOUT);
		return;
	}
	proxy_side_free(&connection->host);
	try_next(connection, REFUSAL_CONNECT_TIMEOUT);
	proxy_watch(connection);
}
