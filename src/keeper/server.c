/*
 * The listening socket and the set of clients; see server.h.
 */
#include "keeper/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/socket.h"
#include "keeper/server_internal.h"

enum {
	SERVER_CLIENTS_MAX = 256,
	CLOSE_IDLE_MS = 2000, /* a client that takes nothing for so long has seen the end */
};

static void handle_free(uv_handle_t *handle)
{
	free(handle);
}

/* Greets or refuses a client that has just come. */
static void client_begin(struct server *server, struct client *client)
{
	if (server->refusing) {
		client_refuse(client, NULL, &server->refusal);
		client_release(client, client->held.len); /* it tells of no event */
		client_flush(client);
		client_close(client);
		return;
	}
	client_greet(client);
}

/* A client that has come, of this user or root. */
static void client_came(struct server *server, int fd)
{
	struct client *client = client_new(server);

	if ((socket_peer_uid(fd) != geteuid() && socket_peer_uid(fd) != 0) ||
	    uv_pipe_open(&client->pipe, fd) != 0) {
		close(fd);
		client_close(client);
		return;
	}
	if (server->client_count > SERVER_CLIENTS_MAX) {
		struct err err = ERR_INIT;

		err_set(&err, ERR_BUSY, "this session has %d clients already", SERVER_CLIENTS_MAX);
		client_refuse(client, NULL, &err);
		client_release(client, client->held.len);
		client_flush(client);
		client_close(client);
		return;
	}
	client_begin(server, client);
}

/* No descriptor is left: the client that waits is turned away, so that it does not wait for ever
 * and the loop not turn for it. */
static void turn_away(struct server *server)
{
	int fd;

	close(server->reserve);
	fd = accept4(server->listener_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	server->reserve = fcntl(server->listener_fd, F_DUPFD_CLOEXEC, 0);
}

static void connection_ready(uv_poll_t *listener, int status, int events)
{
	struct server *server = listener->data;
	int fd;

	(void)events;
	if (status != 0 || server->closing)
		return;
	fd = accept4(server->listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		client_came(server, fd);
	else if (errno == EMFILE || errno == ENFILE)
		turn_away(server);
}

struct server *server_new(uv_loop_t *loop, int dirfd, const struct server_events *events,
			  void *data)
{
	struct server *server = mem_zalloc(sizeof(*server));

	server->loop = loop;
	server->dirfd = dirfd;
	server->events = events;
	server->data = data;
	return server;
}

/* Not uv_listen(), which calls listen(2) again: that is refused to a process that has confined
 * itself, as a keeper has when a branch comes. */
int server_listen(struct server *server, int fd, struct err *err)
{
	int status;

	server->listener = mem_zalloc(sizeof(*server->listener));
	status = uv_poll_init(server->loop, server->listener, fd);
	if (status != 0) {
		free(server->listener);
		server->listener = NULL;
		close(fd);
		return err_set(err, ERR_IO, "listening for clients: %s", uv_strerror(status));
	}
	server->listener->data = server;
	server->listener_fd = fd;
	server->reserve = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	uv_poll_start(server->listener, UV_READABLE, connection_ready);
	return 0;
}

void server_set_journal(struct server *server, struct journal *journal)
{
	server->journal = journal;
}

void server_adopt(struct server *server, int fd)
{
	struct client *client = client_new(server);

	if (uv_pipe_open(&client->pipe, fd) != 0) {
		close(fd);
		client_close(client);
		return;
	}
	client_begin(server, client);
}

void server_open(struct server *server)
{
	server->open = true;
	for (struct client *client = server->clients; client; client = client->next)
		client_greet(client);
}

void server_refuse(struct server *server, const struct err *err)
{
	server->refusing = true;
	server->refusal = *err;
	for (struct client *client = server->clients; client; client = client->next) {
		if (client->closed)
			continue;
		client_refuse(client, NULL, err);
		client_release(client, client->held.len);
		client_flush(client);
		if (!client->writing)
			client_close(client);
	}
}

/* Checked at the end of each turn while closing: a client with nothing left to write is closed. */
static void close_finished(struct server *server)
{
	for (struct client *client = server->clients; client; client = client->next) {
		client_flush(client);
		if (!client->writing && client->out.len == 0 && client->held.len == 0)
			client_close(client);
	}
}

/* --- syncs --------------------------------------------------------------------------------------
 */

void server_hold(struct server *server)
{
	server->holds = true;
}

bool server_awaits_sync(const struct server *server)
{
	const struct client *client = server->clients;

	while (client && (client->closed || client->held.len == client->covered))
		client = client->next;
	return client != NULL;
}

void server_sync_began(struct server *server)
{
	server->syncing_seq = journal_seq(server->journal);
	for (struct client *client = server->clients; client; client = client->next)
		client->covered = client->held.len;
}

void server_sync_ended(struct server *server, const char *notice)
{
	if (!server->holds)
		return;
	server->synced_seq = server->syncing_seq;
	if (notice)
		server->holds = false;
	for (struct client *client = server->clients; client; client = client->next) {
		if (notice && client->held.len > 0)
			buf_append_string(&client->out, notice);
		client_release(client, notice ? client->held.len : client->covered);
		client_flush(client);
		client_throttle(client);
	}
}

void server_poke(struct server *server)
{
	for (struct client *client = server->clients; client; client = client->next)
		client_pump(client);
}

void server_flush(struct server *server)
{
	for (struct client *client = server->clients; client; client = client->next) {
		client_pump(client);
		client_flush(client);
		client_throttle(client);
	}
	if (server->closing)
		close_finished(server);
}

size_t server_clients(const struct server *server)
{
	return server->client_count;
}

/* --- closing ------------------------------------------------------------------------------------
 */

static void maybe_closed(struct server *server)
{
	void (*closed)(void *data) = server->closed;

	if (!server->closing || server->client_count > 0 || !closed)
		return;
	server->closed = NULL;
	uv_close((uv_handle_t *)server->close_timer, handle_free);
	closed(server->closed_data);
}

void server_client_gone(struct server *server, struct client *client)
{
	struct client **at = &server->clients;

	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	server->client_count--;
	if (server->closing)
		maybe_closed(server);
	else if (server->client_count == 0)
		server->events->deserted(server->data);
}

/* Whether it has taken something since the last call. */
static bool takes(struct client *client)
{
	size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&client->pipe);
	bool same = client->sent == client->sent_before && queued == client->queued_before;

	client->sent_before = client->sent;
	client->queued_before = queued;
	return !same;
}

/* A slow reader gets all there is, as long as it goes on reading. */
static void close_timer_fired(uv_timer_t *timer)
{
	struct server *server = timer->data;

	for (struct client *client = server->clients; client; client = client->next)
		if (!takes(client))
			client_close(client);
}

void server_close(struct server *server, void (*done)(void *data), void *data)
{
	assert(!server->closing);
	server->closing = true;
	server->closed = done;
	server->closed_data = data;
	if (server->listener) {
		uv_close((uv_handle_t *)server->listener, handle_free);
		server->listener = NULL;
		close(server->listener_fd);
		close(server->reserve);
	}
	server->close_timer = mem_zalloc(sizeof(*server->close_timer));
	uv_timer_init(server->loop, server->close_timer);
	server->close_timer->data = server;
	uv_timer_start(server->close_timer, close_timer_fired, CLOSE_IDLE_MS, CLOSE_IDLE_MS);
	server_flush(server);
	close_finished(server);
	for (struct client *client = server->clients; client; client = client->next)
		(void)takes(client);
	maybe_closed(server);
}

void server_free(struct server *server)
{
	if (!server)
		return;
	free(server);
}
