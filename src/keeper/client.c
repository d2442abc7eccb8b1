/*
 * One client: reading lines, answering, and sending it the journal; see server.h.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/request.h"
#include "keeper/server_internal.h"

enum {
	OUT_EVENTS_BYTES_MAX = 512 << 10, /* no more events are added above this */
	OUT_REQUESTS_BYTES_MAX = 4 << 20, /* the client is not read from above this */
	IN_EARLY_BYTES_MAX = 64 << 10,    /* nor above this, of requests, before it is greeted */
	INLINE_BYTES_MAX = 16 << 20,      /* values inlined into one event */
};

struct client *client_keep(struct client *client)
{
	client->references++;
	return client;
}

void client_drop(struct client *client)
{
	assert(client->references > 0);
	if (--client->references > 0)
		return;
	buf_release(&client->in);
	buf_release(&client->out);
	buf_release(&client->held);
	free(client);
}

/* --- writing ------------------------------------------------------------------------------------
 */

/* Where the next line goes: behind what is held, or if it tells of events that are not on the disk,
 * to be held. */
static struct buf *out_of(struct client *client)
{
	const struct server *server = client->server;
	bool holds = server->holds && server->journal &&
		     journal_seq(server->journal) != server->synced_seq;

	return holds || client->held.len > 0 ? &client->held : &client->out;
}

static size_t unsent(const struct client *client)
{
	return client->out.len + client->held.len;
}

void client_release(struct client *client, size_t len)
{
	client->covered = 0;
	if (len == 0)
		return;
	buf_append(&client->out, buf_bytes(&client->held), len);
	buf_consume(&client->held, len);
}

struct write_job {
	uv_write_t request;
	char *bytes;
};

static void write_ended(uv_write_t *request, int status)
{
	struct write_job *job = request->data;
	struct client *client = request->handle->data;

	free(job->bytes);
	free(job);
	client->writing = false;
	if (status != 0)
		client_close(client);
	client_pump(client);
	client_flush(client);
	client_throttle(client);
	client_drop(client);
}

/* What the socket takes at once. */
static void write_now(struct client *client)
{
	uv_buf_t bytes =
		uv_buf_init((char *)(uintptr_t)buf_bytes(&client->out), (unsigned)client->out.len);
	int wrote = uv_try_write((uv_stream_t *)&client->pipe, &bytes, 1);

	if (wrote > 0)
		buf_consume(&client->out, (size_t)wrote);
	else if (wrote < 0 && wrote != UV_EAGAIN)
		client_close(client);
}

/* When there are more events than fit in `out`, the write must be one that has an end: it brings
 * the next of them, and nothing else might turn the loop. */
void client_flush(struct client *client)
{
	struct write_job *job;
	uv_buf_t bytes;
	size_t len = 0;

	if (client->closed || client->writing || client->out.len == 0)
		return;
	if (!client->more)
		write_now(client);
	if (client->closed || client->out.len == 0)
		return;
	job = mem_zalloc(sizeof(*job));
	job->bytes = buf_take(&client->out, &len);
	job->request.data = job;
	client->writing = true;
	client_keep(client);
	bytes = uv_buf_init(job->bytes, (unsigned)len);
	uv_write(&job->request, (uv_stream_t *)&client->pipe, &bytes, 1, write_ended);
}

/* Appends `"id":<id>` */
static void write_id(struct buf *out, const struct json *id)
{
	buf_append_string(out, "\"id\":");
	if (id)
		json_write(out, id);
	else
		buf_append_string(out, "null");
}

void client_reply(struct client *client, const struct json *id, struct json *body)
{
	if (!client->closed) {
		struct buf *out = out_of(client);

		buf_append_string(out, "{\"type\":\"reply\",");
		write_id(out, id);
		if (json_length(body) > 0) {
			cleanup_buf struct buf members = BUF_INIT;

			json_write(&members, body); /* "{...}" */
			buf_append_char(out, ',');
			buf_append(out, buf_bytes(&members) + 1, members.len - 1);
		} else {
			buf_append_char(out, '}');
		}
		buf_append_char(out, '\n');
	}
	json_free(body);
}

void client_refuse(struct client *client, const struct json *id, const struct err *err)
{
	struct buf *out = out_of(client);

	if (client->closed)
		return;
	buf_append_string(out, "{\"type\":\"refused\",");
	write_id(out, id);
	buf_printf(out, ",\"code\":\"%s\",\"message\":", err_name(err->code));
	json_write_string(out, err->text, strlen(err->text));
	buf_append_string(out, "}\n");
}

/* --- events -------------------------------------------------------------------------------------
 */

void client_subscribe(struct client *client, const struct subscription *subscription)
{
	client->subscription = *subscription;
	client->subscribed = true;
	client->sent = subscription->since;
	client_pump(client);
}

/* Our own lines begin {"seq":..,"t":..,"type":..,"cell":..}: a look at the head tells the cell. */
static bool is_of_cell(const char *line, size_t len, const char *cell)
{
	char member[96];
	int member_len = snprintf(member, sizeof(member), ",\"cell\":\"%s\"", cell);

	return memmem(line, len < 256 ? len : 256, member, (size_t)member_len) != NULL;
}

static void send_inlined(struct client *client, const char *line, size_t len)
{
	cleanup_event struct event event = EVENT_INIT;
	bool inlined = false;

	if (event_parse(line, len - 1, &event, NULL) != 0 ||
	    event_inline(client->server->dirfd, &event, INLINE_BYTES_MAX, &inlined, NULL) != 0 ||
	    !inlined)
		buf_append(out_of(client), line, len);
	else
		event_write(out_of(client), &event);
}

static void send_line(struct client *client, const char *line, size_t len, uint64_t seq)
{
	client->sent = seq;
	if (client->subscription.cell[0] && !is_of_cell(line, len, client->subscription.cell))
		return;
	if (client->subscription.inlined && memmem(line, len, "$blob\"", 6))
		send_inlined(client, line, len);
	else
		buf_append(out_of(client), line, len);
}

/* The cursor stands behind client->sent; false when there is none to be had. */
static bool cursor_at_sent(struct client *client)
{
	uint64_t place = journal_place(client->server->journal, client->sent);
	int dirfd = client->server->dirfd;

	if (client->cursor && cursor_seq(client->cursor) == client->sent)
		return true;
	if (!client->cursor && place > 0)
		client->cursor = cursor_open(dirfd, 0, NULL);
	if (client->cursor && place > 0 &&
	    cursor_go(client->cursor, client->sent, place, NULL) == 0)
		return true;
	cursor_free(client->cursor);
	client->cursor = cursor_open(dirfd, client->sent, NULL);
	return client->cursor != NULL;
}

/* Passes over what a lossy reader has missed. */
static void skip_gap(struct client *client, uint64_t last)
{
	if (last <= client->sent + 1)
		return;
	buf_printf(out_of(client), "{\"type\":\"gap\",\"from\":%llu,\"to\":%llu}\n",
		   (unsigned long long)client->sent + 1, (unsigned long long)last);
	client->sent = last;
}

/* One line from the file; false when nothing came. */
static bool send_from_file(struct client *client)
{
	const char *line;
	size_t len;
	uint64_t seq;

	if (!cursor_at_sent(client))
		return false;
	switch (cursor_next_line(client->cursor, &line, &len, &seq, NULL)) {
	case CURSOR_EVENT:
		send_line(client, line, len, seq);
		return true;
	case CURSOR_DAMAGED:
		return true;
	case CURSOR_END:
	case CURSOR_ERROR:
		break;
	}
	return false;
}

void client_pump(struct client *client)
{
	struct journal *journal = client->server->journal;
	uint64_t last = journal ? journal_seq(journal) : 0;

	client->more = false;
	if (client->closed || !client->subscribed)
		return;
	if (last > client->subscription.to)
		last = client->subscription.to;
	if (client->subscription.lossy && client->lagging && unsent(client) == 0) {
		skip_gap(client, last);
		client->lagging = false;
	}
	while (client->sent < last) {
		size_t len;

		if (unsent(client) >= OUT_EVENTS_BYTES_MAX ||
		    (client->writing && client->out.len > 0 && client->subscription.lossy)) {
			client->lagging = client->more = true;
			return;
		}
		if (client->sent + 1 == journal_seq(journal)) {
			const char *line = journal_last_line(journal, &len);

			send_line(client, line, len, client->sent + 1);
		} else if (!send_from_file(client)) {
			return;
		}
	}
	if (client->sent >= client->subscription.to)
		client->subscribed = false;
}

/* --- reading ------------------------------------------------------------------------------------
 */

static void read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct client *client = handle->data;

	(void)suggested;
	*room = uv_buf_init(client->server->read_chunk, sizeof(client->server->read_chunk));
}

/* A line that is whole, or the rest at the end of the stream. */
static void take_line(struct client *client, const char *line, size_t len)
{
	const struct server *server = client->server;

	if (client->skipping || len > REQUEST_LINE_BYTES_MAX)
		server->events->too_long(server->data, client);
	else if (len > 0)
		server->events->line(server->data, client, line, len);
	client->skipping = false;
}

/* It takes its answers: more may be made. */
static bool takes_answers(const struct client *client)
{
	return !client->closed && client->greeted && unsent(client) < OUT_REQUESTS_BYTES_MAX;
}

/* Not greeted yet, it is read from all the same: else nobody would notice that it goes, and a
 * session that ends with it would go on starting for minutes. */
static bool may_come_early(const struct client *client)
{
	return !client->closed && !client->greeted && client->in.len < IN_EARLY_BYTES_MAX;
}

/* Hands over each whole line; what is left of `in` is the beginning of the next, unless answers
 * pile up. */
static void take_lines(struct client *client)
{
	while (takes_answers(client)) {
		const char *bytes = buf_bytes(&client->in);
		const char *end =
			memchr(bytes + client->scanned, '\n', client->in.len - client->scanned);
		size_t len;

		if (!end)
			break;
		len = (size_t)(end - bytes);
		client->scanned = 0;
		take_line(client, bytes, len);
		buf_consume(&client->in, len + 1);
	}
	if (!takes_answers(client))
		return;
	client->scanned = client->in.len;
	if (client->skipping || client->in.len > REQUEST_LINE_BYTES_MAX) {
		client->skipping = true;
		client->scanned = 0;
		buf_release(&client->in);
	}
}

static void hangup_came(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	client_close(poll->data);
}

static void hangup_closed(uv_handle_t *handle)
{
	client_drop(handle->data);
	free(handle);
}

/* What stands behind the last LF of a stream that has ended. */
static void take_rest(struct client *client)
{
	if (client->in.len > 0)
		take_line(client, buf_bytes(&client->in), client->in.len);
	buf_clear(&client->in);
}

/*
 * The client sends no more. One that has only shut down its writing half still gets its answers and
 * events; one that has closed is gone. libuv stops looking at a stream that has ended, so a poll of
 * the same socket waits for the hang-up: epoll reports that whatever is asked for, and
 * UV_PRIORITIZED never comes on such a socket.
 */
static void read_end(struct client *client)
{
	uv_os_fd_t fd = -1;

	(void)uv_fileno((uv_handle_t *)&client->pipe, &fd);
	client->hangup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (client->hangup_fd < 0) {
		client_close(client);
		return;
	}
	client->reading = false; /* libuv has stopped by itself */
	client->hangup = mem_zalloc(sizeof(*client->hangup));
	uv_poll_init(client->server->loop, client->hangup, client->hangup_fd);
	client->hangup->data = client_keep(client);
	uv_poll_start(client->hangup, UV_PRIORITIZED, hangup_came);
}

/* Nothing is under way for a client that sends no more. */
static bool is_served(const struct client *client)
{
	return client->hangup && client->greeted && client->in.len == 0 && !client->writing &&
	       unsent(client) == 0 && !client->subscribed && client->references == 2;
}

static void read_ended(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
	struct client *client = stream->data;

	client_keep(client);
	if (got == UV_EOF) {
		read_end(client);
		client_throttle(client);
	} else if (got < 0) {
		client_close(client);
	} else if (got > 0) {
		buf_append(&client->in, room->base, (size_t)got);
		client_throttle(client);
	}
	client_drop(client);
}

/* Handles the lines that are there, and reads more, only while the client takes its answers. */
void client_throttle(struct client *client)
{
	bool read;

	if (client->in.len > 0)
		take_lines(client);
	if (client->hangup && takes_answers(client))
		take_rest(client);
	if (!client->closed && is_served(client))
		client_close(client);
	read = (takes_answers(client) || may_come_early(client)) && !client->hangup;
	if (read == client->reading)
		return;
	client->reading = read;
	if (read)
		uv_read_start((uv_stream_t *)&client->pipe, read_alloc, read_ended);
	else if (!client->closed)
		uv_read_stop((uv_stream_t *)&client->pipe);
}

void client_greet(struct client *client)
{
	const struct server *server = client->server;

	if (client->greeted || client->closed)
		return;
	if (server->open) {
		server->events->hello(server->data, out_of(client));
		client->greeted = true;
	}
	client_throttle(client);
}

/* --- life ---------------------------------------------------------------------------------------
 */

struct client *client_new(struct server *server)
{
	struct client *client = mem_zalloc(sizeof(*client));

	client->server = server;
	client->references = 1;
	uv_pipe_init(server->loop, &client->pipe, 0);
	client->pipe.data = client;
	client->next = server->clients;
	server->clients = client;
	server->client_count++;
	return client;
}

static void pipe_closed(uv_handle_t *handle)
{
	struct client *client = handle->data;

	server_client_gone(client->server, client);
	client_drop(client);
}

void client_close(struct client *client)
{
	if (client->closed)
		return;
	client->closed = true;
	cursor_free(client->cursor);
	client->cursor = NULL;
	if (client->hangup) {
		uv_close((uv_handle_t *)client->hangup, hangup_closed);
		close(client->hangup_fd);
		client->hangup = NULL;
	}
	uv_close((uv_handle_t *)&client->pipe, pipe_closed);
}
