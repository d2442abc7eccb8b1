/*
 * Connections to keepers; see link.h.
 */
#include "serve/link.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "client/message.h"

struct link {
	uv_pipe_t pipe; /* first: handle->data is the link too */
	uv_timer_t timer;
	uv_connect_t connecting;
	uv_shutdown_t shutting;
	const struct link_events *events;
	void *data;
	bool connected, ready, closed, reading, paused, finishing, giving;
	struct buf in;
	size_t scanned;
	struct buf early; /* what was sent before the connection stood */
	uint64_t number;
	int handles; /* that are open */
};

static void handle_closed(uv_handle_t *handle)
{
	struct link *link = handle->data;

	if (--link->handles > 0)
		return;
	buf_release(&link->in);
	buf_release(&link->early);
	free(link);
}

void link_close(struct link *link)
{
	if (!link || link->closed)
		return;
	link->closed = true;
	uv_close((uv_handle_t *)&link->pipe, handle_closed);
	uv_close((uv_handle_t *)&link->timer, handle_closed);
}

static void fail(struct link *link, const struct err *err)
{
	if (link->closed)
		return;
	link_close(link);
	link->events->end(link->data, link, err);
}

static void end(struct link *link)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_GONE, "%s",
		link->ready ? "the session has ended" : "the session ended at its start");
	fail(link, &err);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct link_write {
	uv_write_t request;
	char bytes[];
};

static void write_ended(uv_write_t *request, int status)
{
	free(request->data);
	(void)status; /* its end is seen by reading */
}

static void send_now(struct link *link, const char *bytes, size_t len)
{
	struct link_write *job;
	uv_buf_t part;

	if (uv_stream_get_write_queue_size((uv_stream_t *)&link->pipe) == 0) {
		uv_buf_t now = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
		int sent = uv_try_write((uv_stream_t *)&link->pipe, &now, 1);

		if (sent > 0) {
			bytes += sent;
			len -= (size_t)sent;
		}
	}
	if (len == 0)
		return;
	job = mem_resize(NULL, 1, sizeof(*job) + len);
	memcpy(job->bytes, bytes, len);
	job->request.data = job;
	part = uv_buf_init(job->bytes, (unsigned)len);
	if (uv_write(&job->request, (uv_stream_t *)&link->pipe, &part, 1, write_ended) != 0)
		free(job);
}

void link_send(struct link *link, const char *bytes, size_t len)
{
	if (link->closed)
		return;
	if (link->connected)
		send_now(link, bytes, len);
	else
		buf_append(&link->early, bytes, len);
}

void link_finish(struct link *link)
{
	link->finishing = true;
	if (link->connected && !link->closed)
		(void)uv_shutdown(&link->shutting, (uv_stream_t *)&link->pipe, NULL);
}

size_t link_queued(const struct link *link)
{
	return link->closed
		       ? 0
		       : link->early.len +
				 uv_stream_get_write_queue_size((const uv_stream_t *)&link->pipe);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The first line decides. */
static void take_first(struct link *link, const char *line, size_t len)
{
	cleanup_json struct json *message = NULL;
	struct err err = ERR_INIT;

	switch (message_kind(line, len, &message)) {
	case MESSAGE_HELLO:
		if (json_get_int(message, "protocol", 0) != 1) {
			err_set(&err, ERR_UNSUPPORTED,
				"the session was started by another version of Fumehood: stop it");
			fail(link, &err);
			return;
		}
		link->ready = true;
		uv_timer_stop(&link->timer);
		link->events->ready(link->data, link, line, len);
		return;
	case MESSAGE_REFUSED:
		message_refusal(message, &err);
		fail(link, &err);
		return;
	case MESSAGE_EVENT:
	case MESSAGE_REPLY:
	case MESSAGE_BAD:
		err_set(&err, ERR_CORRUPT, "the keeper began with a line that is no hello");
		fail(link, &err);
		return;
	}
}

/* Gives the whole lines that are there. A line is copied by nobody: it lies in `in` until the call
 * has returned. */
static void give_lines(struct link *link)
{
	size_t used = 0;

	link->giving = true;
	while (!link->closed && !link->paused) {
		const char *bytes = buf_bytes(&link->in) + used;
		size_t left = link->in.len - used;
		const char *lf = memchr(bytes + link->scanned, '\n', left - link->scanned);

		if (!lf) {
			link->scanned = left;
			break;
		}
		link->scanned = 0;
		used += (size_t)(lf - bytes) + 1;
		if (!link->ready)
			take_first(link, bytes, (size_t)(lf - bytes));
		else
			link->events->line(link->data, link, bytes, (size_t)(lf - bytes));
	}
	link->giving = false;
	if (link->closed)
		return;
	buf_consume(&link->in, used);
	if (link->in.len > LINK_LINE_BYTES_MAX) {
		struct err err = ERR_INIT;

		err_set(&err, ERR_LIMIT, "a line of the session is larger than 256 MiB");
		fail(link, &err);
	}
}

static void read_as_wanted(struct link *link);

static void read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct link *link = handle->data;

	(void)suggested;
	*room = uv_buf_init(buf_reserve(&link->in, 64 << 10), 64 << 10);
}

static void read_ended(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
	struct link *link = stream->data;

	(void)room;
	if (got < 0) {
		end(link);
		return;
	}
	buf_added(&link->in, (size_t)got);
	give_lines(link);
	if (!link->closed)
		read_as_wanted(link);
}

static void read_as_wanted(struct link *link)
{
	bool want = link->connected && !link->closed && !link->paused;

	if (want == link->reading)
		return;
	link->reading = want;
	if (want)
		(void)uv_read_start((uv_stream_t *)&link->pipe, read_alloc, read_ended);
	else if (!link->closed)
		(void)uv_read_stop((uv_stream_t *)&link->pipe);
}

void link_pause(struct link *link)
{
	link->paused = true;
	if (!link->giving)
		read_as_wanted(link);
}

void link_resume(struct link *link)
{
	if (!link->paused || link->closed)
		return;
	link->paused = false;
	if (link->giving)
		return;
	give_lines(link);
	if (!link->closed)
		read_as_wanted(link);
}

/* --- life ------------------------------------------------------------------------------------- */

static void hello_is_late(uv_timer_t *timer)
{
	struct link *link = timer->data;
	struct err err = ERR_INIT;

	err_set(&err, ERR_TIMEOUT, "the session does not answer");
	fail(link, &err);
}

static struct link *link_new(uv_loop_t *loop, const struct link_events *events, void *data)
{
	struct link *link = mem_zalloc(sizeof(*link));

	link->events = events;
	link->data = data;
	link->handles = 2;
	uv_pipe_init(loop, &link->pipe, 0);
	uv_timer_init(loop, &link->timer);
	link->pipe.data = link;
	link->timer.data = link;
	link->connecting.data = link;
	return link;
}

static void connect_ended(uv_connect_t *request, int status)
{
	struct link *link = request->data;
	struct err err = ERR_INIT;

	if (link->closed)
		return;
	if (status != 0) {
		bool nobody = status == UV_ENOENT || status == UV_ECONNREFUSED;

		err_set(&err,
			nobody                ? ERR_NOT_FOUND
			: status == UV_EAGAIN ? ERR_BUSY
					      : ERR_IO,
			"%s", nobody ? "the session is not running" : uv_strerror(status));
		fail(link, &err);
		return;
	}
	link->connected = true;
	if (link->early.len > 0)
		send_now(link, buf_bytes(&link->early), link->early.len);
	buf_release(&link->early);
	if (link->finishing)
		link_finish(link);
	read_as_wanted(link);
}

struct link *link_connect(uv_loop_t *loop, int runtime_fd, const char *id,
			  const struct link_events *events, void *data)
{
	struct link *link = link_new(loop, events, data);
	char path[100]; /* short, however long the folder's path is */

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.40s.sock", runtime_fd, id);
	uv_timer_start(&link->timer, hello_is_late, LINK_HELLO_MS, 0);
	uv_pipe_connect(&link->connecting, &link->pipe, path, connect_ended);
	return link;
}

struct link *link_adopt(uv_loop_t *loop, int fd, const struct buf *rest,
			const struct link_events *events, void *data)
{
	struct link *link = link_new(loop, events, data);

	if (uv_pipe_open(&link->pipe, fd) != 0) /* reading will tell */
		close(fd);
	link->connected = link->ready = true;
	if (rest && rest->len > 0)
		buf_append(&link->in, buf_bytes(rest), rest->len);
	read_as_wanted(link);
	return link;
}

void link_give(struct link *link, const struct link_events *events, void *data)
{
	link->events = events;
	link->data = data;
}

uint64_t link_number(struct link *link)
{
	return ++link->number;
}
