/*
 * Answers: their heads, their chunks, and what becomes of the connection behind them. See http.h.
 *
 * What the socket takes at once is not copied; the rest is, and is counted by the stream's queue.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_internal.h"
#include "serve/problem.h"

/* Of every answer (reference: OWASP secure headers): a browser that is shown one does nothing with
 * it. */
static const char FIELDS[] = "X-Content-Type-Options: nosniff\r\n"
			     "Cache-Control: no-store\r\n"
			     "Content-Security-Policy: default-src 'none'; sandbox\r\n"
			     "Cross-Origin-Resource-Policy: same-origin\r\n"
			     "Referrer-Policy: no-referrer\r\n";

const char *http_phrase(int status)
{
	static const struct {
		int status;
		const char *phrase;
	} phrases[] = {
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Status";
}

/* --- bytes ------------------------------------------------------------------------------------ */

struct write_job {
	uv_write_t request;
	char bytes[];
};

static void write_ended(uv_write_t *write, int status)
{
	struct http_conn *conn = write->handle->data;
	struct http_request *request = &conn->request;

	free(write->data);
	if (status != 0) {
		conn_close(conn);
		return;
	}
	conn->progress_us = clock_monotonic_us();
	if (conn->closing)
		return;
	if (conn->last && uv_stream_get_write_queue_size(&conn->io.stream) == 0) {
		conn_end(conn);
		return;
	}
	if (conn->was_full && !http_full(request)) {
		conn->was_full = false;
		if (conn->owned && request->on_drained)
			request->on_drained(request);
	}
}

/* A failure is only noted: the handler that writes is not to find itself gone behind the call. */
void conn_write(struct http_conn *conn, const void *bytes, size_t len)
{
	const char *at = bytes;
	struct write_job *job;
	uv_buf_t part;

	if (conn->closing || conn->failed || len == 0)
		return;
	if (uv_stream_get_write_queue_size(&conn->io.stream) == 0) {
		uv_buf_t now = uv_buf_init((char *)(uintptr_t)at,
					   (unsigned)(len > INT32_MAX ? INT32_MAX : len));
		int sent = uv_try_write(&conn->io.stream, &now, 1);

		conn->progress_us = clock_monotonic_us();
		if (sent < 0 && sent != UV_EAGAIN) {
			conn->failed = true;
			return;
		}
		if (sent > 0) {
			at += sent;
			len -= (size_t)sent;
		}
	}
	if (len == 0)
		return;
	job = mem_resize(NULL, 1, sizeof(*job) + len);
	memcpy(job->bytes, at, len);
	job->request.data = job;
	part = uv_buf_init(job->bytes, (unsigned)len);
	if (uv_write(&job->request, &conn->io.stream, &part, 1, write_ended) != 0) {
		free(job);
		conn->failed = true;
		return;
	}
	if (uv_stream_get_write_queue_size(&conn->io.stream) >= HTTP_OUT_BYTES_HIGH)
		conn->was_full = true;
}

void conn_finish(struct http_conn *conn)
{
	conn->last = true;
	if (!conn->closing && uv_stream_get_write_queue_size(&conn->io.stream) == 0)
		conn_end(conn);
}

/* --- heads ------------------------------------------------------------------------------------ */

/* The date of this second (RFC 9110 §5.6.7). */
static const char *date_of(struct http_server *server)
{
	int64_t now_s = clock_wall_us() / 1000000;
	time_t now = (time_t)now_s;
	struct tm parts;

	if (now_s != server->date_s && gmtime_r(&now, &parts)) {
		server->date_s = now_s;
		if (strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT",
			     &parts) == 0)
			server->date[0] = '\0';
	}
	return server->date;
}

static void put_head(struct buf *out, struct http_conn *conn, int status, const char *type)
{
	buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, http_phrase(status),
		   date_of(conn->server));
	if (type)
		buf_printf(out, "Content-Type: %s\r\n", type);
	buf_append(out, FIELDS, sizeof(FIELDS) - 1);
	buf_append(out, buf_bytes(&conn->request.fields), conn->request.fields.len);
	if (!conn->keep)
		buf_append_string(out, "Connection: close\r\n");
}

void http_field(struct http_request *request, const char *name, const char *format, ...)
{
	va_list args;
	size_t before;

	buf_append_string(&request->fields, name);
	buf_append_string(&request->fields, ": ");
	before = request->fields.len;
	va_start(args, format);
	buf_vprintf(&request->fields, format, args);
	va_end(args);
	/* A value never brings a line of its own. */
	for (size_t i = before; i < request->fields.len; i++) {
		char *c = request->fields.data + request->fields.head + i;

		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	}
	buf_append_string(&request->fields, "\r\n");
}

bool http_is_local(const struct http_request *request)
{
	return request->conn->local;
}

/* Whether the answer leaves part of the request unread: then nothing can follow it. */
static void keep_or_not(struct http_conn *conn)
{
	if (conn->phase == PHASE_BODY)
		conn->linger = true;
	if (conn->phase == PHASE_BODY || conn->server->draining ||
	    conn->requests >= HTTP_REQUESTS_MAX || conn->ended)
		conn->keep = false;
}

void http_last(struct http_request *request)
{
	request->conn->keep = false;
	request->conn->linger = true;
}

void http_reply(struct http_request *request, int status, const char *type, const void *bytes,
		size_t len)
{
	struct http_conn *conn = request->conn;
	struct buf *out = &conn->server->scratch;

	assert(request->status == 0);
	request->status = status;
	if (conn->closing)
		return;
	keep_or_not(conn);
	buf_clear(out);
	put_head(out, conn, status, type);
	if (status != 204)
		buf_printf(out, "Content-Length: %zu\r\n", len);
	buf_append_string(out, "\r\n");
	if (!request->is_head && status != 204)
		buf_append(out, bytes, len);
	conn_write(conn, buf_bytes(out), out->len);
	if (out->cap > (1 << 20))
		buf_release(out);
	conn_answered(conn);
}

void http_begin(struct http_request *request, int status, const char *type, uint64_t length)
{
	struct http_conn *conn = request->conn;
	struct buf *out = &conn->server->scratch;

	assert(request->status == 0);
	request->status = status;
	if (conn->closing)
		return;
	keep_or_not(conn);
	conn->chunked = length == UINT64_MAX;
	conn->no_body = request->is_head;
	conn->to_send = conn->chunked ? 0 : length;
	buf_clear(out);
	put_head(out, conn, status, type);
	if (conn->chunked)
		buf_append_string(out, "Transfer-Encoding: chunked\r\n\r\n");
	else
		buf_printf(out, "Content-Length: %llu\r\n\r\n", (unsigned long long)length);
	conn->phase = PHASE_STREAMING;
	conn_write(conn, buf_bytes(out), out->len);
}

void http_write(struct http_request *request, const void *bytes, size_t len)
{
	struct http_conn *conn = request->conn;
	struct buf *out = &conn->server->scratch;

	if (conn->closing || len == 0 || conn->no_body)
		return;
	if (!conn->chunked) {
		assert(len <= conn->to_send);
		conn->to_send -= len;
		conn_write(conn, bytes, len);
	} else {
		buf_clear(out);
		buf_printf(out, "%zx\r\n", len);
		buf_append(out, bytes, len);
		buf_append_string(out, "\r\n");
		conn_write(conn, buf_bytes(out), out->len);
		if (out->cap > (1 << 20))
			buf_release(out);
	}
}

void http_end(struct http_request *request)
{
	struct http_conn *conn = request->conn;

	if (conn->closing)
		return;
	if (!conn->no_body && conn->to_send > 0) {
		conn_close(conn);
		return;
	}
	if (conn->chunked && !conn->no_body)
		conn_write(conn, "0\r\n\r\n", 5);
	conn_answered(conn);
}

void http_abort(struct http_request *request)
{
	struct http_conn *conn = request->conn;

	request->on_gone = NULL; /* whoever cuts it knows */
	conn_close(conn);
}

bool http_full(const struct http_request *request)
{
	return http_queued(request) >= HTTP_OUT_BYTES_HIGH;
}

size_t http_queued(const struct http_request *request)
{
	return request->conn->closing ? 0
				      : uv_stream_get_write_queue_size(&request->conn->io.stream);
}

void conn_refuse(struct http_conn *conn, int status, const char *detail)
{
	conn->keep = false;
	conn->linger = true;
	conn->server->handler.refused(conn->server->handler.data, status);
	if (conn->owned && conn->request.on_gone)
		conn->request.on_gone(&conn->request);
	conn->request.on_gone = NULL;
	if (conn->server->handler.refuse)
		conn->server->handler.refuse(conn->server->handler.data, &conn->request, status,
					     detail);
	else
		problem_reply(&conn->request, status, NULL, "%s", detail);
}

/* --- upgrades --------------------------------------------------------------------------------- */

void http_upgrade(struct http_request *request, const char *protocol)
{
	struct http_conn *conn = request->conn;
	struct buf *out = &conn->server->scratch;

	assert(request->status == 0);
	request->status = 101;
	if (conn->closing)
		return;
	buf_clear(out);
	buf_printf(out,
		   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n",
		   protocol);
	buf_append(out, buf_bytes(&request->fields), request->fields.len);
	buf_append_string(out, "\r\n");
	conn->phase = PHASE_UPGRADED;
	conn_write(conn, buf_bytes(out), out->len);
}

void http_write_raw(struct http_request *request, const void *bytes, size_t len)
{
	struct http_conn *conn = request->conn;

	conn_write(conn, bytes, len);
}

void http_finish_raw(struct http_request *request)
{
	conn_finish(request->conn);
}
