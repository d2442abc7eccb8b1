/*
 * The server: listeners, the set of connections, and the sweep that looks at their deadlines.
 *
 * Deadlines need no timer each: one timer looks at all connections four times a second, and only
 * while there are any. See http.h.
 */
#include "serve/http.h"

#include <assert.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_internal.h"

enum { BACKLOG = 512 };

static void sweep(uv_timer_t *timer)
{
	struct http_server *server = timer->data;
	int64_t now_us = clock_monotonic_us();
	struct http_conn *next;

	for (struct http_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		conn_sweep(conn, now_us);
	}
	if (!server->conns) {
		uv_timer_stop(&server->sweeper);
		server->sweeping = false;
	}
}

struct http_server *http_server_new(uv_loop_t *loop, const struct http_handler *handler,
				    const struct http_times *times, size_t connections_max)
{
	struct http_server *server = mem_zalloc(sizeof(*server));

	server->loop = loop;
	server->handler = *handler;
	server->times = *times;
	server->connections_max = connections_max;
	conn_settings(&server->settings);
	uv_timer_init(loop, &server->sweeper);
	server->sweeper.data = server;
	uv_unref((uv_handle_t *)&server->sweeper);
	return server;
}

static void connection_ready(uv_stream_t *listener, int status)
{
	struct http_server *server = listener->data;

	if (status != 0)
		return;
	conn_accept(server, listener);
	if (!server->sweeping && server->conns) {
		server->sweeping = true;
		uv_timer_start(&server->sweeper, sweep, HTTP_SWEEP_MS, HTTP_SWEEP_MS);
	}
}

static void handle_free(uv_handle_t *handle)
{
	free(handle);
}

/* Takes the handle over: it is kept, or closed after a failure. */
static int listen_on(struct http_server *server, uv_stream_t *listener, int status, struct err *err)
{
	size_t room = sizeof(server->listeners) / sizeof(server->listeners[0]);

	listener->data = server;
	if (status == 0 && server->listener_count == room)
		status = UV_EMFILE;
	if (status == 0)
		status = uv_listen(listener, BACKLOG, connection_ready);
	if (status != 0) {
		uv_close((uv_handle_t *)listener, handle_free);
		return err_set(err, status == UV_EADDRINUSE ? ERR_BUSY : ERR_IO,
			       "cannot listen: %s", uv_strerror(status));
	}
	server->listeners[server->listener_count++] = listener;
	return 0;
}

int http_listen_unix(struct http_server *server, int fd, struct err *err)
{
	uv_pipe_t *pipe = mem_zalloc(sizeof(*pipe));
	int status;

	uv_pipe_init(server->loop, pipe, 0);
	status = uv_pipe_open(pipe, fd);
	if (status != 0)
		close(fd);
	return listen_on(server, (uv_stream_t *)pipe, status, err);
}

static int port_of(const uv_tcp_t *tcp)
{
	struct sockaddr_storage address;
	int len = sizeof(address);

	if (uv_tcp_getsockname(tcp, (struct sockaddr *)&address, &len) != 0)
		return 0;
	if (address.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
	return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

int http_listen_tcp(struct http_server *server, const struct sockaddr *address, int *port,
		    struct err *err)
{
	uv_tcp_t *tcp = mem_zalloc(sizeof(*tcp));
	int status;

	uv_tcp_init(server->loop, tcp);
	status = uv_tcp_bind(tcp, address, address->sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0);
	if (listen_on(server, (uv_stream_t *)tcp, status, err) != 0)
		return -1;
	*port = port_of(tcp);
	return 0;
}

int http_adopt_tcp(struct http_server *server, int fd, int *port, struct err *err)
{
	uv_tcp_t *tcp = mem_zalloc(sizeof(*tcp));
	int status;

	uv_tcp_init(server->loop, tcp);
	status = uv_tcp_open(tcp, fd);
	if (status != 0)
		close(fd);
	if (listen_on(server, (uv_stream_t *)tcp, status, err) != 0)
		return -1;
	*port = port_of(tcp);
	return 0;
}

void http_drain(struct http_server *server)
{
	struct http_conn *next;

	server->draining = true;
	for (size_t i = 0; i < server->listener_count; i++)
		uv_close((uv_handle_t *)server->listeners[i], handle_free);
	server->listener_count = 0;
	for (struct http_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		if (conn->phase == PHASE_IDLE || conn->phase == PHASE_HEAD)
			conn_close(conn);
	}
}

void http_close_all(struct http_server *server)
{
	struct http_conn *next;

	for (struct http_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		conn_close(conn);
	}
	if (!uv_is_closing((uv_handle_t *)&server->sweeper))
		uv_close((uv_handle_t *)&server->sweeper, NULL);
}

size_t http_connections(const struct http_server *server)
{
	return server->connection_count;
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	assert(!server->conns && server->listener_count == 0);
	buf_release(&server->scratch);
	free(server);
}
