/*
 * One connection: from bytes to requests. See http.h.
 *
 * Closing is one step (uv_close) and freeing another, in its callback; every function here may
 * find the connection closing after a call into a handler, and stops then.
 */
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/socket.h"
#include "serve/http_internal.h"

enum { LINGER_MS = 2000 };

static void enter(struct http_conn *conn, enum http_phase phase)
{
	conn->phase = phase;
	conn->since_us = clock_monotonic_us();
}

/* --- the end of a request --------------------------------------------------------------------- */

static void request_release(struct http_request *request)
{
	if (request->release)
		request->release(request);
	request->release = NULL;
	buf_release(&request->body);
	buf_release(&request->fields);
}

static void request_ended(struct http_conn *conn)
{
	struct http_request *request = &conn->request;

	if (conn->owned)
		conn->server->handler.ended(conn->server->handler.data, request);
	conn->owned = false;
	request_release(request);
}

void conn_answered(struct http_conn *conn)
{
	request_ended(conn);
	/* was_full stays: what is queued of this answer counts for the next writer, too. */
	conn->paused = false;
	enter(conn, PHASE_IDLE);
	if (!conn->keep || conn->closing) {
		conn_finish(conn);
		return;
	}
	if (conn->feeding)
		return;
	conn_feed(conn);
}

/* --- heads ------------------------------------------------------------------------------------ */

/* The framing that the fields declare; llhttp must come to the same. 0 or a status. */
static int read_framing(struct http_request *request, const char **why)
{
	bool repeated_length, repeated_coding;
	const struct slice *length = head_find(&request->head, "content-length", &repeated_length);
	const struct slice *coding =
		head_find(&request->head, "transfer-encoding", &repeated_coding);

	*why = "the length of the body is not told in one plain way";
	request->length = 0;
	if (repeated_length || repeated_coding || (length && coding))
		return 400;
	if (coding && !slice_is_word(coding, "chunked"))
		return 400;
	if (coding)
		request->length = UINT64_MAX;
	if (length && (length->len == 0 || length->len > 18))
		return 400;
	for (size_t i = 0; length && i < length->len; i++) {
		if (length->at[i] < '0' || length->at[i] > '9')
			return 400;
		request->length = request->length * 10 + (uint64_t)(length->at[i] - '0');
	}
	request->has_body = request->length > 0;
	return 0;
}

/* Fields of which there may be one: two of them are two opinions. */
static int check_single(const struct head *head, const char **why)
{
	static const char *const names[] = {"host",
					    "origin",
					    "authorization",
					    "content-type",
					    "sec-websocket-key",
					    "sec-websocket-version",
					    "expect",
					    "idempotency-key",
					    "last-event-id",
					    "range",
					    "sec-fetch-site",
					    "upgrade"};
	bool repeated;

	*why = "a field is there twice that may be there once";
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		head_find(head, names[i], &repeated);
		if (repeated)
			return 400;
	}
	if (head_find(head, "host", NULL))
		return 0;
	*why = "the request has no Host";
	return 400;
}

/* What the routes never have is refused before llhttp, which knows other methods in each version.
 */
static bool is_known(const struct slice *method)
{
	static const char *const known[] = {"GET",    "HEAD",  "POST",   "PUT",
					    "DELETE", "PATCH", "OPTIONS"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (slice_is(method, known[i]))
			return true;
	return false;
}

static void request_begin(struct http_conn *conn)
{
	struct http_request *request = &conn->request;

	*request = (struct http_request){.conn = conn, .began_us = clock_monotonic_us()};
	conn->requests++;
	conn->message_done = conn->body_too_large = false;
	conn->framing_bytes = 0;
	conn->chunked = conn->no_body = false;
	conn->to_send = 0;
	conn->keep = true;
	llhttp_init(&conn->parser, HTTP_REQUEST, &conn->server->settings);
	conn->parser.data = conn;
}

static void after_head(struct http_conn *conn)
{
	struct http_request *request = &conn->request;
	const struct slice *expect = head_find(&request->head, "expect", NULL);

	if (request->status != 0 || conn->closing)
		return;
	if (request->has_body && request->length != UINT64_MAX &&
	    request->length > request->body_bytes_max) {
		conn_refuse(conn, 413, "the body is larger than this request may have");
		return;
	}
	if (expect && !slice_is_word(expect, "100-continue")) {
		conn_refuse(conn, 400, "only 100-continue can be expected");
		return;
	}
	if (expect && request->has_body && conn->in.len == 0)
		conn_write(conn, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	if (conn->message_done) {
		enter(conn, PHASE_BUSY);
		request->on_complete(request);
	} else {
		enter(conn, PHASE_BODY);
	}
}

/* A whole head is in conn->head. */
static void take_head(struct http_conn *conn)
{
	struct http_request *request = &conn->request;
	const struct slice *connection;
	const char *why;
	llhttp_errno_t outcome;
	int status;

	request_begin(conn);
	status = head_parse(buf_bytes(&conn->head), conn->head.len, &request->head, &why);
	if (status == 0)
		status = read_framing(request, &why);
	if (status == 0)
		status = check_single(&request->head, &why);
	if (status == 0 && !is_known(&request->head.method)) {
		http_field(request, "Allow", "GET, HEAD, POST, PUT, DELETE");
		status = 405;
		why = "there is no such method here";
	}
	if (status != 0) {
		conn_refuse(conn, status, why);
		return;
	}
	outcome = llhttp_execute(&conn->parser, buf_bytes(&conn->head), conn->head.len);
	if (outcome != HPE_OK && outcome != HPE_PAUSED && outcome != HPE_PAUSED_UPGRADE) {
		conn_refuse(conn, 400, "the request is not well formed");
		return;
	}
	if (outcome == HPE_PAUSED_UPGRADE)
		conn->message_done = true;
	if (!conn->message_done != request->has_body) {
		conn_refuse(conn, 400, "the length of the body is not told in one plain way");
		return;
	}
	request->is_head = slice_is(&request->head.method, "HEAD");
	connection = head_find(&request->head, "connection", NULL);
	conn->keep = !connection || !head_lists(connection, "close");
	conn->owned = true;
	enter(conn, PHASE_BODY);
	if (conn->message_done)
		enter(conn, PHASE_BUSY);
	conn->server->handler.head(conn->server->handler.data, request);
	after_head(conn);
}

/* Moves a head from `in` to `head` once it is whole. Returns whether it was; refuses what cannot
 * become one. */
static bool find_head(struct http_conn *conn)
{
	const char *bytes = buf_bytes(&conn->in);
	size_t from = conn->scanned > 3 ? conn->scanned - 3 : 0;
	const char *lf = memchr(bytes, '\n', conn->in.len);
	const char *end;

	if (conn->phase == PHASE_IDLE)
		enter(conn, PHASE_HEAD);
	/* A client that ends lines with LF alone would be waited for until the deadline. */
	if (lf && (lf == bytes || lf[-1] != '\r')) {
		request_begin(conn);
		conn_refuse(conn, 400, "lines end with CR LF");
		return false;
	}
	end = memmem(bytes + from, conn->in.len - from, "\r\n\r\n", 4);
	if (!end && !lf && conn->in.len > HEAD_LINE_BYTES_MAX) {
		request_begin(conn);
		conn_refuse(conn, 414, "the request line is longer than 8 KiB");
		return false;
	}
	if (end ? (size_t)(end + 4 - bytes) > HEAD_BYTES_MAX : conn->in.len >= HEAD_BYTES_MAX) {
		request_begin(conn);
		conn_refuse(conn, 431, "the head is larger than 64 KiB");
		return false;
	}
	conn->scanned = conn->in.len;
	if (!end)
		return false;
	buf_clear(&conn->head);
	buf_append(&conn->head, bytes, (size_t)(end + 4 - bytes));
	buf_consume(&conn->in, (size_t)(end + 4 - bytes));
	conn->scanned = 0;
	return true;
}

/* --- bodies ----------------------------------------------------------------------------------- */

static int parser_body(llhttp_t *parser, const char *bytes, size_t len)
{
	struct http_conn *conn = parser->data;
	struct http_request *request = &conn->request;

	if (len > request->body_bytes_max - request->body_bytes) {
		conn->body_too_large = true;
		return HPE_USER;
	}
	request->body_bytes += len;
	if (request->on_body)
		request->on_body(request, bytes, len);
	else
		buf_append(&request->body, bytes, len);
	/* It may have been answered, or have gone, by then. */
	return request->status != 0 || conn->closing ? HPE_USER : 0;
}

static int parser_done(llhttp_t *parser)
{
	struct http_conn *conn = parser->data;

	conn->message_done = true;
	return HPE_PAUSED;
}

void conn_settings(llhttp_settings_t *settings)
{
	llhttp_settings_init(settings);
	settings->on_body = parser_body;
	settings->on_message_complete = parser_done;
}

static void take_body(struct http_conn *conn)
{
	struct http_request *request = &conn->request;
	const char *bytes = buf_bytes(&conn->in);
	size_t before = request->body_bytes;
	size_t used = conn->in.len;
	llhttp_errno_t outcome = llhttp_execute(&conn->parser, bytes, used);

	if (conn->closing)
		return;
	if (request->status != 0) { /* answered in on_body */
		conn_finish(conn);
		return;
	}
	if (conn->body_too_large) {
		conn_refuse(conn, 413, "the body is larger than this request may have");
		return;
	}
	if (outcome == HPE_PAUSED || outcome == HPE_PAUSED_UPGRADE)
		used = (size_t)(llhttp_get_error_pos(&conn->parser) - bytes);
	else if (outcome != HPE_OK) {
		conn_refuse(conn, 400, "the body is not well formed");
		return;
	}
	conn->framing_bytes += used - (request->body_bytes - before);
	if (conn->framing_bytes > HTTP_FRAMING_BYTES_MAX + request->body_bytes / 4) {
		conn_refuse(conn, 400, "the body has more framing than content");
		return;
	}
	buf_consume(&conn->in, used);
	if (!conn->message_done)
		return;
	enter(conn, PHASE_BUSY);
	request->on_complete(request);
}

/* --- feeding ---------------------------------------------------------------------------------- */

static void take_upgraded(struct http_conn *conn)
{
	cleanup_buf struct buf bytes = conn->in;

	conn->in = (struct buf)BUF_INIT;
	conn->request.on_bytes(&conn->request, buf_bytes(&bytes), bytes.len);
}

/* Handles what is there, as far as it goes. */
static void feed_some(struct http_conn *conn)
{
	while (conn->in.len > 0 && !conn->closing && !conn->last) {
		switch (conn->phase) {
		case PHASE_IDLE:
		case PHASE_HEAD:
			if (!find_head(conn))
				return;
			take_head(conn);
			break;
		case PHASE_BODY:
			if (conn->paused)
				return;
			take_body(conn);
			break;
		case PHASE_BUSY:
			return;
		case PHASE_STREAMING:
			if (conn->chunked)
				conn_close(conn); /* nobody speaks into a stream of events */
			return;
		case PHASE_UPGRADED:
			if (conn->paused)
				return;
			take_upgraded(conn);
			break;
		}
	}
}

void conn_feed(struct http_conn *conn)
{
	conn->feeding = true;
	feed_some(conn);
	conn->feeding = false;
	if (conn->closing)
		return;
	if (conn->ended && !conn->last && conn->phase == PHASE_BODY && !conn->paused)
		conn_refuse(conn, 400, "the body is shorter than its length says");
	else if (conn->ended && !conn->last &&
		 (conn->phase == PHASE_IDLE || conn->phase == PHASE_HEAD ||
		  conn->phase == PHASE_UPGRADED))
		conn_close(conn);
	else
		conn_read_as_wanted(conn);
}

static void read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct http_conn *conn = handle->data;

	(void)suggested;
	*room = uv_buf_init(conn->server->chunk, sizeof(conn->server->chunk));
}

static void read_ended(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
	struct http_conn *conn = stream->data;

	if (got == 0 || (got > 0 && conn->lingering))
		return;
	if (conn->lingering) {
		conn_close(conn);
		return;
	}
	if (got == UV_EOF) {
		conn->ended = true;
		conn->reading = false;
		uv_read_stop(stream);
		if (conn->owned && conn->request.end_is_gone)
			conn_close(conn);
		else
			conn_feed(conn);
		return;
	}
	if (got < 0) {
		conn_close(conn);
		return;
	}
	buf_append(&conn->in, room->base, (size_t)got);
	conn_feed(conn);
}

void conn_read_as_wanted(struct http_conn *conn)
{
	bool holds = conn->paused && (conn->phase == PHASE_BODY || conn->phase == PHASE_UPGRADED);
	bool want = !conn->closing && !conn->ended &&
		    (conn->lingering ||
		     (!conn->last && !holds &&
		      (conn->phase == PHASE_BODY || conn->in.len < HTTP_AHEAD_BYTES_MAX)));

	if (want == conn->reading || conn->closing)
		return;
	conn->reading = want;
	if (!want)
		uv_read_stop(&conn->io.stream);
	else if (uv_read_start(&conn->io.stream, read_alloc, read_ended) != 0)
		conn_close(conn);
}

void http_pause(struct http_request *request)
{
	struct http_conn *conn = request->conn;

	if (conn->paused)
		return;
	conn->paused = true;
	conn->paused_us = clock_monotonic_us();
	conn_read_as_wanted(conn);
}

void http_resume(struct http_request *request)
{
	struct http_conn *conn = request->conn;

	if (!conn->paused)
		return;
	conn->paused = false;
	conn->since_us += clock_monotonic_us() - conn->paused_us; /* our fault, not the client's */
	if (!conn->feeding && !conn->closing)
		conn_feed(conn);
}

/* --- life ------------------------------------------------------------------------------------- */

static void conn_freed(uv_handle_t *handle)
{
	struct http_conn *conn = handle->data;

	conn->server->connection_count--;
	buf_release(&conn->in);
	buf_release(&conn->head);
	free(conn);
}

void conn_end(struct http_conn *conn)
{
	if (!conn->linger || conn->ended || conn->lingering ||
	    uv_shutdown(&conn->shutdown, &conn->io.stream, NULL) != 0) {
		conn_close(conn);
		return;
	}
	conn->lingering = true;
	conn->since_us = clock_monotonic_us();
	conn_read_as_wanted(conn);
}

void conn_close(struct http_conn *conn)
{
	struct http_request *request = &conn->request;

	if (conn->closing)
		return;
	conn->closing = true;
	*conn->prev = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	if (conn->owned && request->on_gone)
		request->on_gone(request);
	request_ended(conn);
	uv_close(&conn->io.handle, conn_freed);
}

static bool is_ours(const struct http_conn *conn)
{
	uv_os_fd_t fd;
	uid_t uid;

	if (uv_fileno(&conn->io.handle, &fd) != 0)
		return false;
	uid = socket_peer_uid(fd);
	return uid == geteuid() || uid == 0;
}

void conn_accept(struct http_server *server, uv_stream_t *listener)
{
	struct http_conn *conn = mem_zalloc(sizeof(*conn));

	conn->server = server;
	conn->local = listener->type == UV_NAMED_PIPE;
	if (conn->local)
		uv_pipe_init(server->loop, &conn->io.pipe, 0);
	else
		uv_tcp_init(server->loop, &conn->io.tcp);
	conn->io.handle.data = conn;
	conn->next = server->conns;
	conn->prev = &server->conns;
	if (conn->next)
		conn->next->prev = &conn->next;
	server->conns = conn;
	server->connection_count++;
	conn->progress_us = clock_monotonic_us();
	enter(conn, PHASE_HEAD);
	if (uv_accept(listener, &conn->io.stream) != 0 || (conn->local && !is_ours(conn))) {
		conn_close(conn);
		return;
	}
	if (!conn->local)
		(void)uv_tcp_nodelay(&conn->io.tcp, 1);
	if (server->connection_count > server->connections_max) {
		request_begin(conn);
		conn_refuse(conn, 503, "there are too many connections; try again later");
		return;
	}
	conn_read_as_wanted(conn);
}

/* --- deadlines -------------------------------------------------------------------------------- */

static bool writes_in_vain(struct http_conn *conn, int64_t now_us)
{
	size_t queued = uv_stream_get_write_queue_size(&conn->io.stream);

	if (queued == 0 || queued != conn->queued_before)
		conn->progress_us = now_us;
	conn->queued_before = queued;
	return now_us - conn->progress_us > conn->server->times.write_ms * 1000;
}

void conn_sweep(struct http_conn *conn, int64_t now_us)
{
	const struct http_times *times = &conn->server->times;
	int64_t ms = (now_us - conn->since_us) / 1000;
	int64_t beyond_ms = ms - times->body_ms;

	if (conn->failed || writes_in_vain(conn, now_us)) {
		conn_close(conn);
		return;
	}
	if (conn->lingering) {
		if (ms > LINGER_MS)
			conn_close(conn);
		return;
	}
	switch (conn->phase) {
	case PHASE_IDLE:
		if (ms > times->idle_ms)
			conn_close(conn);
		break;
	case PHASE_HEAD:
		if (conn->last || ms <= times->head_ms)
			break;
		if (conn->in.len == 0) {
			conn_close(conn);
			break;
		}
		request_begin(conn);
		conn_refuse(conn, 408, "the head took too long");
		break;
	case PHASE_BODY:
		if (!conn->paused && !conn->last && beyond_ms > 0 &&
		    (int64_t)conn->request.body_bytes < beyond_ms * HTTP_BODY_RATE_MIN / 1000)
			conn_refuse(conn, 408, "the body came too slowly");
		break;
	case PHASE_BUSY:
	case PHASE_STREAMING:
	case PHASE_UPGRADED:
		break;
	}
}
