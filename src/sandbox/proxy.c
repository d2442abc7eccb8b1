/*
 * Accepting, the rules, and the end. When there are as many connections as there may be, the next
 * ones are still accepted, told 503 and closed: left in the kernel's queue they would look like a
 * host that does not answer.
 */
#include "sandbox/proxy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/proxy_internal.h"

enum { ACCEPT_PAUSE_MS = 100 };

static void on_listener(uv_poll_t *poll, int status, int events);

const char *proxy_kind_name(enum proxy_kind kind)
{
	static const char *const names[] = {"unknown", "connect", "http", "socks"};

	return names[kind];
}

/* ---- accepting ---- */

/* Takes what the client has sent so far, so that closing does not reset the connection before the
 * answer is read; one that sends more later loses it. */
static void turn_away(struct proxy *proxy, int fd)
{
	cleanup_buf struct buf answer = BUF_INIT;
	char waste[4096];

	proxy->counters.full++;
	proxy_http_refuse(REFUSAL_FULL, "", &answer);
	(void)recv(fd, waste, sizeof(waste), MSG_DONTWAIT);
	(void)send(fd, buf_bytes(&answer), answer.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	close(fd);
}

static void on_pause_over(uv_timer_t *timer)
{
	struct proxy *proxy = timer->data;

	if (!proxy->closing)
		uv_poll_start(&proxy->listener_poll, UV_READABLE, on_listener);
}

/* Out of descriptors or memory: the listener would wake us without end. */
static void pause_accepting(struct proxy *proxy)
{
	uv_poll_stop(&proxy->listener_poll);
	uv_timer_start(&proxy->pause_timer, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct proxy *proxy = poll->data;

	(void)events;
	if (status < 0) {
		pause_accepting(proxy);
		return;
	}
	for (unsigned i = 0; i < PROXY_ACCEPTS_A_TURN; i++) {
		int fd = accept4(proxy->params.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			if (errno != EAGAIN)
				pause_accepting(proxy);
			return;
		}
		proxy->counters.accepted++;
		if (proxy->counters.open >= proxy->params.connections_max)
			turn_away(proxy, fd);
		else
			proxy_open(proxy, fd);
	}
}

/* ---- beginning and end ---- */

struct proxy *proxy_new(const struct proxy_params *params, struct err *err)
{
	struct proxy *proxy = mem_zalloc(sizeof(*proxy));
	int fault;

	proxy->params = *params;
	if (!proxy->params.connections_max)
		proxy->params.connections_max = PROXY_CONNECTIONS_MAX;
	if (!proxy->params.handshake_ms_max)
		proxy->params.handshake_ms_max = PROXY_HANDSHAKE_MS_MAX;
	if (!proxy->params.connect_ms_max)
		proxy->params.connect_ms_max = PROXY_CONNECT_MS_MAX;
	if (!proxy->params.idle_ms_max)
		proxy->params.idle_ms_max = PROXY_IDLE_MS_MAX;
	fault = uv_poll_init(params->loop, &proxy->listener_poll, params->listener);
	if (fault < 0) {
		free(proxy);
		errno = -fault;
		err_sys(err, "proxy: listening socket");
		return NULL;
	}
	uv_timer_init(params->loop, &proxy->pause_timer);
	proxy->held = 2;
	proxy->listener_poll.data = proxy;
	proxy->pause_timer.data = proxy;
	if (params->hosts) {
		proxy->hosts = *params->hosts;
		*params->hosts = (struct hosts)HOSTS_INIT;
	}
	uv_poll_start(&proxy->listener_poll, UV_READABLE, on_listener);
	return proxy;
}

static void free_if_closed(struct proxy *proxy)
{
	void (*closed)(void *data) = proxy->closed;
	void *data = proxy->closed_data;

	if (!proxy->closing || proxy->held || proxy->connections)
		return;
	hosts_release(&proxy->hosts);
	free(proxy);
	if (closed)
		closed(data);
}

static void on_closed(uv_handle_t *handle)
{
	struct proxy *proxy = handle->data;

	proxy->held--;
	free_if_closed(proxy);
}

void proxy_forget(struct proxy_connection *connection)
{
	struct proxy *proxy = connection->proxy;

	if (connection->next)
		connection->next->previous = connection->previous;
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		proxy->connections = connection->next;
	proxy->counters.open--;
	free_if_closed(proxy);
}

void proxy_close(struct proxy *proxy, void (*closed)(void *data), void *data)
{
	struct proxy_connection *next;

	assert(!proxy->closing);
	proxy->closing = true;
	proxy->closed = closed;
	proxy->closed_data = data;
	for (struct proxy_connection *at = proxy->connections; at; at = next) {
		next = at->next;
		proxy_end(at, REFUSAL_CLOSING);
	}
	uv_close((uv_handle_t *)&proxy->listener_poll, on_closed);
	uv_close((uv_handle_t *)&proxy->pause_timer, on_closed);
	close(proxy->params.listener);
}

/* ---- rules ---- */

/* Whether the new rules allow where the connection leads. */
static bool is_still_allowed(const struct proxy *proxy, const struct proxy_connection *connection)
{
	enum address_permit permit;

	if (hosts_match(&proxy->hosts, &connection->target, &permit) != REFUSAL_NONE)
		return false;
	return !connection->attempt ||
	       proxy_check_address(connection, connection->attempt, permit) == REFUSAL_NONE;
}

void proxy_set_rules(struct proxy *proxy, struct hosts *hosts)
{
	struct proxy_connection *next;

	hosts_release(&proxy->hosts);
	proxy->hosts = *hosts;
	*hosts = (struct hosts)HOSTS_INIT;
	for (struct proxy_connection *at = proxy->connections; at; at = next) {
		next = at->next;
		/* Before RESOLVE there is no target yet, after RELAY no host any more. */
		if (at->stage < PROXY_RESOLVE || at->stage > PROXY_RELAY ||
		    is_still_allowed(proxy, at))
			continue;
		if (at->stage == PROXY_RELAY)
			proxy_end(at, REFUSAL_RULES_CHANGED);
		else
			proxy_refuse(at, REFUSAL_RULES_CHANGED);
	}
}

const struct hosts *proxy_rules(const struct proxy *proxy)
{
	return &proxy->hosts;
}

const struct proxy_counters *proxy_counters(const struct proxy *proxy)
{
	return &proxy->counters;
}
