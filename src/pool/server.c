/*
 * The loop of the pool: accepting, idling, ending; server.h says what goes on, server_orders.c what
 * connections do.
 */
#include "pool/server.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pool/log.h"
#include "pool/server_internal.h"

enum {
	CONNECTIONS_MAX = 1024,
	ACCEPTS_A_TURN = 16,
	END_ORDER_MS = 2000,   /* what an order under way may still take when we end */
	FRESH_S = 5,           /* a keeper that has just connected is given so long to order */
	ACCEPT_PAUSE_MS = 100, /* when there are no descriptors left */
};

/* ---- accepting ---- */

static void on_listener(uv_poll_t *poll, int status, int events);

void server_pause_accepting(struct server *server, bool pause)
{
	if (server->ending)
		return;
	if (pause)
		uv_poll_stop(&server->listener_poll);
	else
		uv_poll_start(&server->listener_poll, UV_READABLE, on_listener);
}

static void on_accept_time(uv_timer_t *timer)
{
	server_pause_accepting(timer->data, false);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct server *server = poll->data;

	(void)status;
	(void)events;
	for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd;

		if (server->connection_count >= CONNECTIONS_MAX) {
			server_pause_accepting(server, true); /* until one is closed */
			return;
		}
		fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
				/* Out of descriptors or memory: it would wake us without end. */
				server_pause_accepting(server, true);
				uv_timer_start(&server->accept_timer, on_accept_time,
					       ACCEPT_PAUSE_MS, 0);
			}
			return;
		}
		connection_open(server, fd);
	}
}

/* ---- the end ---- */

/* Removes a file of the runtime directory if it still is the one that `ours` describes: if somebody
 * has removed that, another pool may have the name by now. */
static void remove_file(struct server *server, const char *name, const struct stat *ours)
{
	cleanup_free char *path = mem_format("%s/%s", server->params->directory, name);
	struct stat status;

	if (stat(path, &status) == 0 && status.st_dev == ours->st_dev &&
	    status.st_ino == ours->st_ino)
		unlink(path);
}

/* Removes the socket file while we still listen, then the lock file while we still hold the lock;
 * see server.h. */
static void remove_files(struct server *server)
{
	struct stat lock;

	remove_file(server, server->params->socket_name, &server->socket_file);
	if (fstat(server->lock, &lock) == 0)
		remove_file(server, server->params->lock_name, &lock);
}

static void on_end_time(uv_timer_t *timer)
{
	server_finish_ending(timer->data);
}

void server_end(struct server *server, const char *why)
{
	if (server->ending)
		return;
	server->ending = true;
	pool_log("the pool ends: %s", why);
	remove_files(server);
	uv_close((uv_handle_t *)&server->listener_poll, NULL);
	close(fd_take(&server->listener));
	close(fd_take(&server->lock));
	uv_close((uv_handle_t *)&server->idle_timer, NULL);
	uv_close((uv_handle_t *)&server->accept_timer, NULL);
	spare_close(server->spare);
	server_refuse_waiting(server, "the pool is ending; connect again", EAGAIN);
	if (warmer_busy(server->warmer))
		uv_timer_start(&server->end_timer, on_end_time, END_ORDER_MS, 0);
	else
		server_finish_ending(server);
}

void server_finish_ending(struct server *server)
{
	struct connection *connection, *next;

	if (server->closed)
		return;
	server->closed = true;
	if (server->has_in_hand)
		server_drop_in_hand(server); /* the zygote has not answered in time */
	warmer_close(server->warmer);
	uv_close((uv_handle_t *)&server->end_timer, NULL);
	uv_close((uv_handle_t *)&server->signal_poll, NULL);
	for (connection = server->connections; connection; connection = next) {
		next = connection->next;
		if (connection->waiting)
			/* Closed last: that is its answer. */
			uv_unref((uv_handle_t *)&connection->poll);
		else
			connection_close(connection);
	}
}

static void on_signal(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	/* A second one is not read: the first cannot be hurried. */
	uv_poll_stop(poll);
	server_end(poll->data, "it was sent a signal");
}

static void on_idle_time(uv_timer_t *timer)
{
	struct server *server = timer->data;
	enum warmth state = warmer_state(server->warmer);
	int64_t now_us = clock_monotonic_us();
	int64_t idle_s, fresh_s, due_us;

	tuning_refresh(server->params->tuning);
	idle_s = server->params->tuning->idle_s;
	fresh_s = idle_s < FRESH_S ? idle_s : FRESH_S;
	due_us = server->order_us + idle_s * 1000000;
	if (due_us < server->accept_us + fresh_s * 1000000)
		due_us = server->accept_us + fresh_s * 1000000;
	/* Somebody may be waiting for a zygote that takes long to start. */
	if (state == WARM_STARTING || state == WARM_WAITING || server->has_in_hand)
		due_us = due_us > now_us + 1000000 ? due_us : now_us + 1000000;
	if (now_us >= due_us)
		server_end(server, "nobody needs it");
	else
		uv_timer_start(timer, on_idle_time, (uint64_t)(due_us - now_us) / 1000 + 1, 0);
}

/* ---- the start ---- */

static void watch(struct server *server, uv_poll_t *poll, int fd, uv_poll_cb event)
{
	int failed = uv_poll_init(&server->loop, poll, fd);

	assert(!failed);
	poll->data = server;
	failed = uv_poll_start(poll, UV_READABLE, event);
	assert(!failed);
	(void)failed;
}

static void open_timer(struct server *server, uv_timer_t *timer)
{
	uv_timer_init(&server->loop, timer);
	timer->data = server;
}

/* What bind(2) has made has another inode than the socket itself, so it is looked at by name. */
static void remember_socket_file(struct server *server)
{
	cleanup_free char *path =
		mem_format("%s/%s", server->params->directory, server->params->socket_name);

	if (stat(path, &server->socket_file) < 0)
		server->socket_file = (struct stat){.st_ino = 0};
}

void server_run(const struct server_params *params)
{
	struct server server = {
		.params = params,
		.listener = params->listener,
		.lock = params->lock,
		.order_us = clock_monotonic_us(),
	};
	struct spare_params spare_params = {
		.loop = &server.loop,
		.python = params->tuning->python,
		.directory = params->directory,
		.given = server_spare_given,
		.data = &server,
	};
	int failed = uv_loop_init(&server.loop);

	assert(!failed);
	server.accept_us = server.order_us;
	remember_socket_file(&server);
	queue_init(&server.queue);
	server.warmer = warmer_new(&server.loop, params->tuning, params->script, params->files_soft,
				   &SERVER_WARMER_EVENTS, &server);
	spare_params.warmer = server.warmer;
	server.spare = spare_new(&spare_params);
	open_timer(&server, &server.idle_timer);
	open_timer(&server, &server.accept_timer);
	open_timer(&server, &server.end_timer);
	watch(&server, &server.listener_poll, server.listener, on_listener);
	watch(&server, &server.signal_poll, params->signals, on_signal);
	on_idle_time(&server.idle_timer);
	/* Whoever started us will order soon; the imports can begin before. */
	warmer_ask(server.warmer);

	uv_run(&server.loop, UV_RUN_DEFAULT);
	while (server.connections)
		connection_close(server.connections);
	uv_run(&server.loop, UV_RUN_DEFAULT);
	failed = uv_loop_close(&server.loop);
	assert(!failed);
	(void)failed;
	spare_free(server.spare);
	warmer_free(server.warmer);
	queue_release(&server.queue);
	pool_log("the pool has ended");
}
