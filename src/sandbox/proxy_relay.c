/*
 * Carrying bytes. Each direction reads a piece, writes it, and reads again only when it is all
 * written; a turn is bounded, so that one fast tunnel does not starve the session.
 *
 * The end of one direction is passed on with shutdown(2) and the other goes on. For a plain request
 * it is not: some servers take a client that has closed its side for one that has gone away. There
 * the end of the response is the end of the connection.
 */
#include "sandbox/proxy_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static bool is_transient(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* False: it is broken. */
static bool write_flow(struct proxy_flow *flow, int fd, bool *moved)
{
	while (flow->bytes.len > 0) {
		ssize_t put = send(fd, buf_bytes(&flow->bytes), flow->bytes.len, MSG_NOSIGNAL);

		if (put < 0)
			return is_transient();
		buf_consume(&flow->bytes, (size_t)put);
		*moved = true;
	}
	return true;
}

bool proxy_write_client(struct proxy_connection *connection)
{
	bool moved;

	return write_flow(&connection->in, connection->client->fd, &moved);
}

/* Reads one piece; true if there was any. */
static bool read_flow(struct proxy_flow *flow, int fd)
{
	ssize_t got = read(fd, buf_reserve(&flow->bytes, PROXY_CHUNK), PROXY_CHUNK);

	if (got > 0) {
		buf_added(&flow->bytes, (size_t)got);
		return true;
	}
	if (got == 0 || !is_transient())
		flow->ended = true;
	return false;
}

/* Nothing can be delivered any more. */
static void break_flow(struct proxy_flow *flow)
{
	buf_clear(&flow->bytes);
	flow->ended = true;
	flow->shut = true;
}

/* Lets through what belongs to the request. A client that sends more once the response has begun
 * takes it for over and asks again: it has to connect anew. */
static void limit_to_body(struct proxy_connection *connection)
{
	struct buf *bytes = &connection->out.bytes;
	size_t belongs = proxy_body_take(&connection->body, buf_bytes(bytes), bytes->len);
	bool more = belongs < bytes->len;

	buf_truncate(bytes, belongs);
	if (connection->body.stage == PROXY_BODY_BAD ||
	    (more && connection->bytes_in > 0 && connection->in.bytes.len == 0))
		break_flow(&connection->in);
}

void proxy_count(struct proxy_connection *connection, bool out, size_t bytes)
{
	if (out) {
		connection->bytes_out += bytes;
		connection->proxy->counters.bytes_out += bytes;
	} else {
		connection->bytes_in += bytes;
		connection->proxy->counters.bytes_in += bytes;
	}
}

/* Holds the response back until its head is whole. */
static void rewrite_head(struct proxy_connection *connection)
{
	struct proxy_flow *in = &connection->in;
	struct buf *head = &connection->inbox;
	enum proxy_outcome outcome;
	size_t used = 0;

	buf_append(head, buf_bytes(&in->bytes), in->bytes.len);
	buf_clear(&in->bytes);
	outcome = proxy_response_rewrite(buf_bytes(head), head->len, &used, &in->bytes);
	buf_consume(head, used);
	if (outcome == PROXY_MORE && !in->ended)
		return;
	connection->answered = true;
	buf_append(&in->bytes, buf_bytes(head), head->len);
	buf_release(head);
}

/* One step of a direction; true if it moved. */
static bool move(struct proxy_connection *connection, struct proxy_flow *flow)
{
	bool out = flow == &connection->out;
	int from = out ? connection->client->fd : connection->host->fd;
	int to = out ? connection->host->fd : connection->client->fd;
	bool moved = false;

	if (flow->bytes.len == 0 && !flow->ended) {
		moved = read_flow(flow, from);
		if (out && connection->kind == PROXY_HTTP)
			limit_to_body(connection);
		proxy_count(connection, out, flow->bytes.len);
		if (!out && connection->kind == PROXY_HTTP && !connection->answered)
			rewrite_head(connection);
	}
	if (!write_flow(flow, to, &moved)) {
		break_flow(flow);
		return true;
	}
	if (flow->ended && !flow->shut && flow->bytes.len == 0) {
		flow->shut = true;
		/* The rest of the body will not come, and the host would wait for it. */
		if (out && connection->kind == PROXY_HTTP &&
		    connection->body.stage != PROXY_BODY_DONE)
			break_flow(&connection->in);
		if (!out || connection->kind != PROXY_HTTP)
			shutdown(to, SHUT_WR);
	}
	return moved;
}

void proxy_relay(struct proxy_connection *connection, const struct proxy_side *broken)
{
	bool moved = true;

	/* What was sent to it is lost; what it has sent before may still be there to read. */
	if (broken && broken == connection->client)
		break_flow(&connection->in);
	else if (broken && broken == connection->host)
		break_flow(&connection->out);
	for (unsigned i = 0; i < PROXY_ROUNDS_A_TURN && moved; i++) {
		moved = !connection->out.shut && move(connection, &connection->out);
		moved = (!connection->in.shut && move(connection, &connection->in)) || moved;
		if (moved)
			connection->active_us = clock_monotonic_us();
	}
	if (connection->in.shut && connection->kind == PROXY_HTTP)
		proxy_take_leave(connection);
	else if (connection->in.shut && connection->out.shut)
		proxy_end(connection, REFUSAL_NONE);
}

void proxy_farewell(struct proxy_connection *connection)
{
	struct proxy_flow *in = &connection->in;
	struct proxy_flow *out = &connection->out;
	int fd = connection->client->fd;
	char waste[16384];

	if (!proxy_write_client(connection))
		break_flow(in);
	if (in->bytes.len == 0 && !in->shut) {
		in->shut = true;
		shutdown(fd, SHUT_WR);
	}
	while (!out->ended) {
		ssize_t got = read(fd, waste, sizeof(waste));

		if (got < 0 && is_transient())
			break;
		connection->discarded += got > 0 ? (uint64_t)got : 0;
		out->ended = got <= 0 || connection->discarded >= PROXY_FAREWELL_BYTES_MAX;
	}
	if (in->shut && out->ended)
		proxy_end(connection, REFUSAL_NONE);
}
