/*
 * Connections of the pool's server: what they say, the orders they give, the answers they get.
 *
 *   connection ──ZYGOTE_ENTER──> queue ──> in hand ──> zygote ──answer──> connection
 *
 * The order in hand stays there, with its descriptors, until it is answered: so it can be given
 * again when a zygote has died without reading it.
 */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/socket.h"
#include "guest/protocol.h"
#include "pool/command.h"
#include "pool/log.h"
#include "pool/server_internal.h"

enum { MESSAGES_A_TURN = 16 };

void server_drop_in_hand(struct server *server)
{
	order_close(&server->in_hand);
	server->has_in_hand = false;
}

/* ---- connections ---- */

static void on_connection_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* An order that is with the zygote stays in hand: its answer is still to come, for nobody. */
static void forget_orders(struct server *server, const struct connection *connection)
{
	queue_forget(&server->queue, connection);
	if (!server->has_in_hand || server->in_hand.asker != connection)
		return;
	server->in_hand.asker = NULL;
	if (!warmer_busy(server->warmer))
		server_drop_in_hand(server);
}

void connection_close(struct connection *connection)
{
	struct server *server = connection->server;

	forget_orders(server, connection);
	if (connection->next)
		connection->next->previous = connection->previous;
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	server->connection_count--;
	uv_close((uv_handle_t *)&connection->poll, on_connection_closed);
	close(fd_take(&connection->fd));
	server_pause_accepting(server, false);
}

/* One who does not read what was sent is cut off: 200 KB of answers wait for it already. */
static void connection_send(struct connection *connection, const void *bytes, size_t len, int fd)
{
	if (socket_send(connection->fd, bytes, len, &fd, fd >= 0) < 0)
		connection_close(connection);
}

static void connection_send_json(struct connection *connection, uint8_t type,
				 const struct json *body)
{
	const struct guest_header header = {.type = type};
	cleanup_buf struct buf out = BUF_INIT;

	buf_append(&out, &header, sizeof(header));
	if (body)
		json_write(&out, body);
	connection_send(connection, buf_bytes(&out), out.len, -1);
}

/* `asker` NULL: nobody is there to hear it. */
static void refuse(struct connection *asker, const char *message, int error)
{
	cleanup_json struct json *body = NULL;

	if (!asker)
		return;
	body = json_new_object();
	json_set(body, "message", json_new_string(message, strnlen(message, 4096)));
	json_set_string(body, "step", "pool");
	json_set_int(body, "errno", error);
	connection_send_json(asker, ZYGOTE_REFUSED, body);
}

/* ---- orders ---- */

/* Makes the next order the one in hand; false when there is none. */
static bool take_in_hand(struct server *server)
{
	if (!server->has_in_hand)
		server->has_in_hand = queue_take(&server->queue, &server->in_hand);
	return server->has_in_hand;
}

/* The descriptors go first, so that who hears the answer finds only the guest's copies open.
 * Returns the asker, or NULL. */
static struct connection *finish_in_hand(struct server *server)
{
	struct connection *asker = server->in_hand.asker;

	server_drop_in_hand(server);
	return asker;
}

void server_refuse_waiting(struct server *server, const char *message, int error)
{
	struct order order;

	if (server->has_in_hand && !warmer_busy(server->warmer))
		refuse(finish_in_hand(server), message, error);
	while (queue_take(&server->queue, &order)) {
		order_close(&order);
		refuse(order.asker, message, error);
	}
}

/* Gives the zygote the next order if it is free, and answers those that need no zygote. */
static void dispatch(struct server *server)
{
	while (!warmer_busy(server->warmer) && take_in_hand(server)) {
		struct order *order = &server->in_hand;
		enum warmth state = warmer_ask(server->warmer);

		if (state == WARM_FAILED)
			server_refuse_waiting(server, warmer_reason(server->warmer), 0);
		if (state != WARM_READY)
			return;
		if (warmer_enter(server->warmer, &order->enter, sizeof(order->enter), order->fds,
				 order->fd_count) == 0)
			return;
		if (errno == EPIPE || errno == ECONNRESET)
			return; /* not sent: it stays in hand for the next zygote */
		refuse(finish_in_hand(server), "the zygote cannot be given the order", errno);
	}
}

/* After the end of an order. */
static void go_on(struct server *server)
{
	if (server->ending)
		server_finish_ending(server);
	else
		dispatch(server);
}

static void on_answered(void *data, const void *bytes, size_t len)
{
	struct server *server = data;
	struct connection *asker = finish_in_hand(server);
	struct guest_header header;

	memcpy(&header, bytes, sizeof(header));
	if (header.type == ZYGOTE_ENTERED && (!asker || !asker->spare)) {
		server->guests++;
		if (!server->ending && server->params->tuning->spare)
			spare_want(server->spare);
	}
	if (asker)
		connection_send(asker, bytes, len, -1);
	go_on(server);
}

static void on_lost(void *data, const char *reason, bool unread)
{
	struct server *server = data;

	if (!server->in_hand.asker)
		server_drop_in_hand(server);
	else if (!unread || server->ending)
		refuse(finish_in_hand(server), reason, EAGAIN);
	go_on(server);
}

/* Sends the zygote's message to one who has not had it, if there is one to send. */
static void tell(struct connection *connection, enum warmth state)
{
	const struct buf *message = warmer_message(connection->server->warmer);

	if (connection->told || (state != WARM_READY && state != WARM_FAILED))
		return;
	connection->told = true;
	connection_send(connection, buf_bytes(message), message->len,
			warmer_family(connection->server->warmer));
}

static void on_settled(void *data)
{
	struct server *server = data;
	enum warmth state = warmer_state(server->warmer);
	struct connection *connection, *next;

	for (connection = server->connections; connection; connection = next) {
		next = connection->next;
		tell(connection, state);
	}
	if (!server->ending) {
		dispatch(server);
		spare_settled(server->spare);
	}
}

/* What its keeper orders from now on (another guest, after a death) is asked for by somebody. */
void server_spare_given(void *data)
{
	struct server *server = data;

	for (struct connection *connection = server->connections; connection;
	     connection = connection->next)
		connection->spare = false;
	server->guests++;
	server->order_us = clock_monotonic_us();
}

const struct warmer_events SERVER_WARMER_EVENTS = {
	.settled = on_settled,
	.answered = on_answered,
	.lost = on_lost,
};

/* ---- what a connection says ---- */

/* Takes the order's descriptors in any case. */
static void take_order(struct connection *connection, struct order *order)
{
	struct server *server = connection->server;

	if (server->ending) {
		refuse(connection, "the pool is ending; connect again", EAGAIN);
	} else if (order->fd_count != ZYGOTE_FD_NAMESPACE && order->fd_count != ZYGOTE_FDS) {
		/* Most likely some did not fit into our table of open files. */
		refuse(connection, "not all descriptors have arrived; try again", EMFILE);
	} else if (!queue_push(&server->queue, order)) {
		refuse(connection, "too many orders are waiting; try again", EAGAIN);
	} else {
		if (!connection->spare) {
			server->order_us = clock_monotonic_us();
			spare_put_off(server->spare);
		}
		dispatch(server);
		return;
	}
	order_close(order);
}

static void say_status(struct connection *connection)
{
	static const char *const names[] = {
		[WARM_COLD] = "cold",   [WARM_STARTING] = "starting", [WARM_WAITING] = "waiting",
		[WARM_READY] = "ready", [WARM_FAILED] = "failed",     [WARM_CLOSED] = "ending",
	};
	struct server *server = connection->server;
	cleanup_json struct json *body = json_new_object();

	json_set_string(body, "python", server->params->tuning->python);
	json_set_int(body, "pid", getpid());
	json_set_int(body, "guests", (int64_t)server->guests);
	json_set_int(body, "idle_s", (clock_monotonic_us() - server->order_us) / 1000000);
	json_set_string(body, "state", names[warmer_state(server->warmer)]);
	json_set_int(body, "zygote", warmer_pid(server->warmer));
	json_set_int(body, "waiting",
		     (int64_t)server->queue.count +
			     (server->has_in_hand && !warmer_busy(server->warmer)));
	json_set_string(body, "spare", spare_state_name(server->spare));
	json_set_int(body, "spare_pid", spare_pid(server->spare));
	connection_send_json(connection, POOL_STATUS, body);
}

static void on_stop(struct connection *connection)
{
	connection->waiting = true;
	server_end(connection->server, "asked to");
	connection_send_json(connection, POOL_STOPPING, NULL);
}

/* One message. False: the connection is to be closed. */
static bool handle_message(struct connection *connection, const void *bytes, size_t len,
			   const int *fds, size_t fd_count)
{
	struct order order = {.asker = connection, .fd_count = fd_count};
	struct guest_header header;

	/* The order owns the descriptors whatever the message is, so that none is left open. */
	assert(fd_count <= ZYGOTE_FDS);
	memcpy(order.fds, fds, fd_count * sizeof(*fds));
	if (len < sizeof(header)) {
		order_close(&order);
		return false;
	}
	memcpy(&header, bytes, sizeof(header));
	if (header.type == ZYGOTE_ENTER && len == sizeof(order.enter)) {
		memcpy(&order.enter, bytes, sizeof(order.enter));
		take_order(connection, &order);
		return true;
	}
	order_close(&order);
	if (header.type == POOL_LIST && len == sizeof(header))
		say_status(connection);
	else if (header.type == POOL_STOP && len == sizeof(header))
		on_stop(connection);
	else if (header.type == POOL_JOIN && len == sizeof(header))
		connection->spare = true;
	else
		return false;
	return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct connection *connection = poll->data;

	(void)status; /* an error is met again by the receive */
	(void)events;
	for (unsigned i = 0; i < MESSAGES_A_TURN && connection->fd >= 0; i++) {
		/* One byte more shows a message that is too long. */
		char bytes[sizeof(struct zygote_enter) + 1];
		int fds[ZYGOTE_FDS];
		size_t fd_count = ZYGOTE_FDS;
		bool truncated = false;
		ssize_t len = socket_receive(connection->fd, bytes, sizeof(bytes), fds, &fd_count,
					     &truncated, MSG_DONTWAIT);

		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (len <= 0) {
			connection_close(connection);
			return;
		}
		if (!handle_message(connection, bytes, (size_t)len, fds, fd_count) &&
		    connection->fd >= 0) {
			pool_log("a connection is closed: it sent what is no order and no command");
			connection_close(connection);
		}
	}
}

void connection_open(struct server *server, int fd)
{
	struct connection *connection;
	int failed;

	if (socket_peer_uid(fd) != geteuid()) {
		pool_log("a connection of another user is refused");
		close(fd);
		return;
	}
	connection = mem_zalloc(sizeof(*connection));
	connection->server = server;
	connection->fd = fd;
	connection->next = server->connections;
	if (connection->next)
		connection->next->previous = connection;
	server->connections = connection;
	server->connection_count++;
	server->accept_us = clock_monotonic_us();
	failed = uv_poll_init(&server->loop, &connection->poll, fd);
	assert(!failed);
	connection->poll.data = connection;
	failed = uv_poll_start(&connection->poll, UV_READABLE, on_readable);
	assert(!failed);
	(void)failed;
	tell(connection, warmer_ask(server->warmer));
}
