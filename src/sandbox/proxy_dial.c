/*
 * From a target to a connected socket: the name is resolved once, and of the addresses that pass
 * the check one after the other is tried, each exactly as it was checked.
 *
 * The resolver (getaddrinfo(3)) runs on libuv's worker threads; libuv keeps such slow work off half
 * of them, so that names that take long do not hold up the journal's fsync. It cannot be
 * interrupted: a connection that gives up first leaves it to end by itself. AI_ADDRCONFIG is not
 * asked for: it hides localhost on a machine that has only the loopback, and an address without a
 * route fails at once anyway. Where there is a dialer (proxy.h) it does all that, and what is
 * waited for here is its descriptor.
 */
#include "sandbox/proxy_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum refusal proxy_check_address(const struct proxy_connection *connection,
				 const struct sockaddr *address, enum address_permit permit)
{
	const struct proxy_params *params = &connection->proxy->params;

	if (params->dialer)
		return params->dialer->check(params->dialer_data, &connection->target, address);
	return address_check(address, permit);
}

/* A socket that connects. */
static enum refusal dial(const struct proxy_connection *connection, const struct sockaddr *address,
			 enum address_permit permit, int *fd)
{
	const struct proxy_params *params = &connection->proxy->params;
	socklen_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						       : sizeof(struct sockaddr_in6);
	enum refusal refusal;
	int result;

	if (params->dialer)
		return params->dialer->dial(params->dialer_data, &connection->target, address, fd);
	refusal = address_check(address, permit);
	if (refusal != REFUSAL_NONE)
		return refusal;
	*fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (*fd < 0)
		return REFUSAL_UNREACHABLE;
	do
		result = connect(*fd, address, size);
	while (result < 0 && errno == EINTR);
	return result < 0 && errno != EINPROGRESS ? REFUSAL_UNREACHABLE : REFUSAL_NONE;
}

/* REFUSAL_NONE: under way. One that connects at once is found writable at once. */
static enum refusal begin_attempt(struct proxy_connection *connection,
				  const struct sockaddr *address, enum address_permit permit)
{
	cleanup_fd int fd = -1;
	enum refusal refusal = dial(connection, address, permit, &fd);

	if (refusal != REFUSAL_NONE)
		return refusal;
	connection->host = proxy_side_new(connection, fd);
	if (!connection->host)
		return REFUSAL_UNREACHABLE;
	fd_take(&fd);
	return REFUSAL_NONE;
}

static int64_t left_ms(const struct proxy_connection *connection)
{
	int64_t left_us = connection->deadline_us - clock_monotonic_us();

	return left_us > 0 ? left_us / 1000 + 1 : 0;
}

static const struct sockaddr *found_at(const struct proxy_connection *connection, size_t at)
{
	return (const struct sockaddr *)&connection->found[at];
}

/* Dials from `at` on. `why` is what became of those before. The rules are asked again: they may
 * have changed while the name was looked up. */
static void dial_from(struct proxy_connection *connection, size_t at, enum refusal why)
{
	enum address_permit permit = ADDRESS_PUBLIC;
	enum refusal refusal = hosts_match(&connection->proxy->hosts, &connection->target, &permit);

	if (refusal != REFUSAL_NONE) {
		proxy_refuse(connection, refusal);
		return;
	}
	for (; at < connection->found_count; at++) {
		const struct sockaddr *address = found_at(connection, at);
		bool last = at + 1 == connection->found_count;
		int64_t ms = left_ms(connection);

		refusal = begin_attempt(connection, address, permit);
		if (refusal != REFUSAL_NONE && refusal != REFUSAL_UNREACHABLE) {
			/* That the first was refused says more than that the second is dead. */
			if (!connection->decided && !connection->address[0]) {
				address_format(address, connection->address);
				why = refusal;
			}
			continue;
		}
		address_format(address, connection->address);
		connection->attempt = address;
		/* So that the decision names the address that is in use, not one for which there
		 * is no route; of the last one it is made in any case. */
		if (refusal == REFUSAL_NONE || last)
			proxy_decide(connection, REFUSAL_NONE);
		if (refusal != REFUSAL_NONE) {
			why = REFUSAL_UNREACHABLE;
			continue;
		}
		connection->stage = PROXY_DIAL;
		if (!last && ms > PROXY_ATTEMPT_MS_MAX)
			ms = PROXY_ATTEMPT_MS_MAX;
		proxy_set_deadline(connection, (unsigned)ms);
		return;
	}
	proxy_refuse(connection, why);
}

/* --- the name -----------------------------------------------------------------------------------
 */

/* Keeps what was found. */
static void keep_found(struct proxy_connection *connection, const struct addrinfo *found)
{
	size_t count = 0;

	for (const struct addrinfo *at = found; at && count < PROXY_ADDRESSES_MAX; at = at->ai_next)
		count++;
	connection->found = mem_zalloc((count + 1) * sizeof(*connection->found));
	connection->found_count = count;
	for (size_t i = 0; i < count; i++, found = found->ai_next)
		memcpy(&connection->found[i], found->ai_addr,
		       found->ai_addrlen <= sizeof(*connection->found)
			       ? found->ai_addrlen
			       : sizeof(*connection->found));
}

static void on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
	struct proxy_connection *connection = lookup->data;

	connection->looking_up = false;
	if (connection->stage == PROXY_RESOLVE) {
		keep_found(connection, status < 0 ? NULL : found);
		dial_from(connection, 0, REFUSAL_UNRESOLVED);
		proxy_watch(connection);
	}
	uv_freeaddrinfo(found);
	proxy_let_go(connection);
}

static void on_look_up_closed(uv_handle_t *handle)
{
	struct proxy_look_up *look_up = handle->data;
	struct proxy_connection *connection = look_up->connection;

	close(look_up->fd);
	free(look_up);
	proxy_let_go(connection);
}

void proxy_stop_looking(struct proxy_connection *connection)
{
	if (connection->looking_up)
		uv_cancel((uv_req_t *)&connection->lookup);
	if (connection->look_up)
		uv_close((uv_handle_t *)&connection->look_up->poll, on_look_up_closed);
	connection->look_up = NULL;
}

static void on_looked_up(uv_poll_t *poll, int status, int events)
{
	const struct proxy_look_up *look_up = poll->data;
	struct proxy_connection *connection = look_up->connection;
	const struct proxy_dialer *dialer = connection->proxy->params.dialer;

	(void)status;
	(void)events;
	connection->found = mem_zalloc(PROXY_ADDRESSES_MAX * sizeof(*connection->found));
	connection->found_count =
		dialer->read_found(look_up->fd, connection->found, PROXY_ADDRESSES_MAX);
	proxy_stop_looking(connection);
	dial_from(connection, 0, REFUSAL_UNRESOLVED);
	proxy_watch(connection);
}

/* 0, or -1: nobody will answer. */
static int ask_dialer(struct proxy_connection *connection)
{
	const struct proxy_params *params = &connection->proxy->params;
	int fd = params->dialer->look_up(params->dialer_data, &connection->target);
	struct proxy_look_up *look_up;

	if (fd < 0)
		return -1;
	look_up = mem_zalloc(sizeof(*look_up));
	if (uv_poll_init(params->loop, &look_up->poll, fd) < 0) {
		free(look_up);
		close(fd);
		return -1;
	}
	look_up->fd = fd;
	look_up->connection = connection;
	look_up->poll.data = look_up;
	connection->look_up = look_up;
	connection->held++;
	uv_poll_start(&look_up->poll, UV_READABLE, on_looked_up);
	return 0;
}

static int ask_resolver(struct proxy_connection *connection, const char *port)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV,
	};

	connection->lookup.data = connection;
	if (uv_getaddrinfo(connection->proxy->params.loop, &connection->lookup, on_resolved,
			   connection->target.name, port, &hints) < 0)
		return -1;
	connection->looking_up = true;
	connection->held++;
	return 0;
}

/* An address needs no resolver. */
static void lay_out_address(struct proxy_connection *connection)
{
	const struct hosts_target *target = &connection->target;
	struct sockaddr_storage *found = mem_zalloc(sizeof(*found));

	connection->found = found;
	connection->found_count = 1;
	if (target->family == AF_INET) {
		struct sockaddr_in address = {.sin_family = AF_INET,
					      .sin_port = htons(target->port)};

		memcpy(&address.sin_addr, target->address, sizeof(address.sin_addr));
		memcpy(found, &address, sizeof(address));
	} else {
		struct sockaddr_in6 address = {.sin6_family = AF_INET6,
					       .sin6_port = htons(target->port)};

		memcpy(&address.sin6_addr, target->address, sizeof(address.sin6_addr));
		memcpy(found, &address, sizeof(address));
	}
}

void proxy_resolve(struct proxy_connection *connection)
{
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
		lay_out_address(connection);
		dial_from(connection, 0, REFUSAL_UNRESOLVED);
		return;
	}
	if ((proxy->params.dialer ? ask_dialer(connection) : ask_resolver(connection, port)) < 0)
		proxy_refuse(connection, REFUSAL_UNRESOLVED);
}

static void try_next(struct proxy_connection *connection, enum refusal why)
{
	const struct sockaddr_storage *attempt =
		(const struct sockaddr_storage *)connection->attempt;
	size_t next = (size_t)(attempt - connection->found) + 1;

	if (next < connection->found_count && left_ms(connection) > 0)
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
