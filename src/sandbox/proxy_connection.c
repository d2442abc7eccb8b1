/*
 * A connection from its first byte to its decision, and what all stages share: handles, the timer,
 * the end.
 */
#include "sandbox/proxy_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

enum { SHOWN_MAX = 300 };

static void on_side(uv_poll_t *poll, int status, int events);

/* ---- handles ---- */

void proxy_let_go(struct proxy_connection *connection)
{
	if (--connection->held > 0)
		return;
	proxy_forget(connection);
	buf_release(&connection->out.bytes);
	buf_release(&connection->in.bytes);
	buf_release(&connection->inbox);
	proxy_socks_release(&connection->socks);
	free(connection->found);
	free(connection->shown);
	free(connection);
}

static void on_timer_closed(uv_handle_t *handle)
{
	proxy_let_go(handle->data);
}

static void on_side_closed(uv_handle_t *handle)
{
	struct proxy_side *side = handle->data;
	struct proxy_connection *connection = side->connection;

	free(side);
	proxy_let_go(connection);
}

struct proxy_side *proxy_side_new(struct proxy_connection *connection, int fd)
{
	struct proxy_side *side = mem_zalloc(sizeof(*side));
	int yes = 1;

	if (uv_poll_init(connection->proxy->params.loop, &side->poll, fd) < 0) {
		free(side);
		return NULL;
	}
	/* On a Unix socket this fails and is not needed. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	side->poll.data = side;
	side->fd = fd;
	side->connection = connection;
	connection->held++;
	return side;
}

void proxy_side_free(struct proxy_side **side)
{
	struct proxy_side *old = *side;

	*side = NULL;
	if (!old)
		return;
	/* uv_close() forgets the descriptor at once; only its callback comes later. */
	uv_close((uv_handle_t *)&old->poll, on_side_closed);
	close(old->fd);
}

static void watch_side(struct proxy_side *side, int events)
{
	if (!side || side->events == events)
		return;
	side->events = events;
	if (events)
		uv_poll_start(&side->poll, events, on_side);
	else
		uv_poll_stop(&side->poll);
}

/* Reads when all that was read before is written. */
static int flow_events(const struct proxy_flow *from, const struct proxy_flow *to)
{
	int events = 0;

	if (!from->ended && from->bytes.len == 0)
		events |= UV_READABLE;
	if (to->bytes.len > 0)
		events |= UV_WRITABLE;
	return events;
}

void proxy_watch(struct proxy_connection *connection)
{
	int client = 0;
	int host = 0;

	switch (connection->stage) {
	case PROXY_HANDSHAKE:
	case PROXY_FAREWELL:
		client = (connection->out.ended ? 0 : UV_READABLE) |
			 (connection->in.bytes.len > 0 ? UV_WRITABLE : 0);
		break;
	case PROXY_DIAL:
		host = UV_WRITABLE;
		break;
	case PROXY_RELAY:
		client = flow_events(&connection->out, &connection->in);
		host = flow_events(&connection->in, &connection->out);
		break;
	case PROXY_RESOLVE:
	case PROXY_OVER:
		break;
	}
	watch_side(connection->client, client);
	watch_side(connection->host, host);
}

/* ---- time ---- */

static void on_time(uv_timer_t *timer)
{
	struct proxy_connection *connection = timer->data;
	int64_t idle_us = clock_monotonic_us() - connection->active_us;
	int64_t idle_us_max = connection->proxy->params.idle_ms_max * INT64_C(1000);

	switch (connection->stage) {
	case PROXY_HANDSHAKE:
		proxy_refuse(connection, REFUSAL_REQUEST_TIMEOUT);
		break;
	case PROXY_RESOLVE:
	case PROXY_DIAL:
		proxy_dial_timeout(connection);
		break;
	case PROXY_RELAY:
		if (idle_us >= idle_us_max)
			proxy_end(connection, REFUSAL_IDLE);
		else
			proxy_set_deadline(connection,
					   (unsigned)((idle_us_max - idle_us) / 1000 + 1));
		break;
	case PROXY_FAREWELL:
		proxy_end(connection, REFUSAL_NONE);
		break;
	case PROXY_OVER:
		break;
	}
}

void proxy_set_deadline(struct proxy_connection *connection, unsigned ms)
{
	uv_update_time(connection->proxy->params.loop);
	uv_timer_start(&connection->timer, on_time, ms, 0);
}

/* ---- the decision and the end ---- */

/* The host in its one form, or what was asked for if that has none. */
static void show(struct proxy_connection *connection, const struct buf *asked, enum refusal refusal)
{
	cleanup_buf struct buf shown = BUF_INIT;
	size_t len = asked->len < SHOWN_MAX ? asked->len : SHOWN_MAX;

	free(connection->shown);
	connection->shown = NULL;
	if (refusal == REFUSAL_NONE) {
		connection->shown = mem_string(connection->target.name);
		return;
	}
	text_escape(&shown, buf_bytes(asked), len, false, false);
	if (shown.len > SHOWN_MAX)
		buf_truncate(&shown, text_prefix(buf_bytes(&shown), SHOWN_MAX, SHOWN_MAX));
	connection->shown = mem_string(buf_bytes(&shown));
}

void proxy_decide(struct proxy_connection *connection, enum refusal refusal)
{
	struct proxy *proxy = connection->proxy;
	struct proxy_decision decision = {
		.id = connection->id,
		.kind = connection->kind,
		.host = connection->shown ? connection->shown : "",
		.port = connection->target.port,
		.refusal = refusal,
		.address = connection->address,
	};

	if (connection->decided)
		return;
	connection->decided = true;
	connection->allowed = refusal == REFUSAL_NONE;
	connection->decided_us = clock_monotonic_us();
	if (connection->allowed)
		proxy->counters.allowed++;
	else
		proxy->counters.refused++;
	if (proxy->params.decided)
		proxy->params.decided(proxy->params.data, &decision);
}

/* Once, when nothing more will be dialled or carried. */
static void tell_ending(struct proxy_connection *connection, enum refusal refusal)
{
	struct proxy *proxy = connection->proxy;
	struct proxy_ending ending = {
		.id = connection->id,
		.host = connection->shown,
		.port = connection->target.port,
		.address = connection->address,
		.refusal = refusal,
		.bytes_in = connection->bytes_in,
		.bytes_out = connection->bytes_out,
		.duration_us = clock_monotonic_us() - connection->decided_us,
	};

	if (!connection->allowed)
		return;
	connection->allowed = false;
	if (proxy->params.ended)
		proxy->params.ended(proxy->params.data, &ending);
}

void proxy_end(struct proxy_connection *connection, enum refusal refusal)
{
	if (connection->stage == PROXY_OVER)
		return;
	connection->stage = PROXY_OVER;
	tell_ending(connection, refusal);
	proxy_stop_looking(connection);
	uv_close((uv_handle_t *)&connection->timer, on_timer_closed);
	proxy_side_free(&connection->host);
	proxy_side_free(&connection->client);
}

void proxy_take_leave(struct proxy_connection *connection)
{
	connection->stage = PROXY_FAREWELL;
	proxy_side_free(&connection->host);
	buf_release(&connection->out.bytes);
	proxy_set_deadline(connection, PROXY_FAREWELL_MS_MAX);
	proxy_farewell(connection);
	proxy_watch(connection);
}

void proxy_refuse(struct proxy_connection *connection, enum refusal refusal)
{
	const char *shown = connection->shown ? connection->shown : "";

	proxy_decide(connection, refusal);
	tell_ending(connection, refusal);
	proxy_stop_looking(connection);
	if (connection->kind != PROXY_SOCKS)
		proxy_http_refuse(refusal, shown, &connection->in.bytes);
	else if (connection->socks.stage == PROXY_SOCKS_REQUEST)
		proxy_socks_answer(refusal, &connection->in.bytes);
	proxy_take_leave(connection);
}

void proxy_connected(struct proxy_connection *connection)
{
	struct buf *reply = &connection->in.bytes;

	if (connection->kind == PROXY_CONNECT)
		buf_append_string(reply, "HTTP/1.1 200 Connection established\r\n\r\n");
	else if (connection->kind == PROXY_SOCKS)
		proxy_socks_answer(REFUSAL_NONE, reply);
	connection->stage = PROXY_RELAY;
	connection->active_us = clock_monotonic_us();
	/* What came with the request. */
	proxy_count(connection, true, connection->out.bytes.len);
	proxy_set_deadline(connection, connection->proxy->params.idle_ms_max);
	proxy_relay(connection, NULL);
}

/* ---- the handshake ---- */

/* What has come behind the head is the beginning of the tunnel or of the body. */
static void accept_rest(struct proxy_connection *connection, size_t used)
{
	struct buf *inbox = &connection->inbox;

	buf_consume(inbox, used);
	if (connection->kind == PROXY_HTTP)
		buf_truncate(inbox,
			     proxy_body_take(&connection->body, buf_bytes(inbox), inbox->len));
	buf_append(&connection->out.bytes, buf_bytes(inbox), inbox->len);
	buf_release(inbox);
}

static void read_http(struct proxy_connection *connection)
{
	struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;
	enum refusal refusal;
	size_t head_len = 0;

	connection->kind = PROXY_HTTP;
	switch (proxy_http_scan(&connection->scan, buf_bytes(&connection->inbox),
				connection->inbox.len, &head_len, &refusal)) {
	case PROXY_MORE:
		return;
	case PROXY_REFUSED:
		proxy_refuse(connection, refusal);
		return;
	case PROXY_DONE:
		break;
	}
	refusal = proxy_http_read(buf_bytes(&connection->inbox), head_len, &request);
	if (request.tunnel)
		connection->kind = PROXY_CONNECT;
	connection->target = request.target;
	connection->body = request.body;
	show(connection, &request.asked, refusal);
	if (refusal == REFUSAL_NONE) {
		buf_append(&connection->out.bytes, buf_bytes(&request.head), request.head.len);
		accept_rest(connection, head_len);
		proxy_resolve(connection);
	} else {
		proxy_refuse(connection, refusal);
	}
	proxy_http_release(&request);
}

static void read_socks(struct proxy_connection *connection)
{
	enum refusal refusal;
	size_t used = 0;
	enum proxy_outcome outcome;

	connection->kind = PROXY_SOCKS;
	outcome = proxy_socks_read(&connection->socks, buf_bytes(&connection->inbox),
				   connection->inbox.len, &used, &connection->in.bytes, &refusal);
	if (outcome == PROXY_MORE) {
		buf_consume(&connection->inbox, used);
		return;
	}
	connection->target = connection->socks.target;
	show(connection, &connection->socks.asked, refusal);
	if (outcome == PROXY_REFUSED) {
		proxy_refuse(connection, refusal);
		return;
	}
	accept_rest(connection, used);
	proxy_resolve(connection);
}

static void on_handshake(struct proxy_connection *connection)
{
	struct buf *inbox = &connection->inbox;
	ssize_t got = read(connection->client->fd, buf_reserve(inbox, 4096), 4096);

	if (got > 0) {
		buf_added(inbox, (size_t)got);
		if (connection->kind == PROXY_SOCKS ||
		    (unsigned char)buf_bytes(inbox)[0] == PROXY_SOCKS_VERSION)
			read_socks(connection);
		else
			read_http(connection);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		/* It went away before it asked for anything: nothing to decide. */
		proxy_end(connection, REFUSAL_NONE);
		return;
	}
	if (connection->stage == PROXY_HANDSHAKE && !proxy_write_client(connection))
		proxy_end(connection, REFUSAL_NONE);
}

static void on_side(uv_poll_t *poll, int status, int events)
{
	struct proxy_side *side = poll->data;
	struct proxy_connection *connection = side->connection;

	(void)events;
	/* At an error libuv stops watching by itself; what is wrong read(2) or write(2) says. */
	if (status < 0)
		side->events = 0;
	switch (connection->stage) {
	case PROXY_HANDSHAKE:
		on_handshake(connection);
		break;
	case PROXY_DIAL:
		proxy_on_dialled(connection);
		break;
	case PROXY_RELAY:
		proxy_relay(connection, status < 0 ? side : NULL);
		break;
	case PROXY_FAREWELL:
		proxy_farewell(connection);
		break;
	case PROXY_RESOLVE:
	case PROXY_OVER:
		break;
	}
	proxy_watch(connection);
}

void proxy_open(struct proxy *proxy, int fd)
{
	struct proxy_connection *connection = mem_zalloc(sizeof(*connection));

	connection->proxy = proxy;
	connection->client = proxy_side_new(connection, fd);
	if (!connection->client) {
		close(fd);
		free(connection);
		return;
	}
	uv_timer_init(proxy->params.loop, &connection->timer);
	connection->timer.data = connection;
	connection->held++;
	connection->id = ++proxy->last_id;
	connection->next = proxy->connections;
	if (connection->next)
		connection->next->previous = connection;
	proxy->connections = connection;
	proxy->counters.open++;
	proxy_set_deadline(connection, proxy->params.handshake_ms_max);
	proxy_watch(connection);
}
