/*
 * Streams of events; see stream.h.
 */
#include "serve/stream.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/asking.h"
#include "serve/channel.h"
#include "serve/lookup.h"

const char *const STREAM_TYPES[] = {"application/json", "text/event-stream", "application/x-ndjson",
				    "text/plain", NULL};

struct stream {
	struct stream *next, **prev;
	struct exchange *exchange; /* kept */
	struct live *live;         /* held by the exchange */
	struct link *link;
	enum stream_form form;
	char cell[65];
	struct json *run;
	bool keyed, checking, detach, once, follow, lossy, by_link;
	bool accepted, begun, finished;
	uint64_t since;
	uint64_t events_number;
	struct buf gathered; /* of JSON: events with commas between */
	uint64_t dropped;
	struct buf last; /* the `finished` event */
	int64_t wrote_us;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void stream_free(struct stream *stream)
{
	struct serve *serve = stream->exchange->serve;

	*stream->prev = stream->next;
	if (stream->next)
		stream->next->prev = stream->prev;
	if (stream->link && stream->finished && stream->accepted)
		live_return(stream->live, stream->link);
	else
		link_close(stream->link);
	if (stream->once) {
		struct lookup *lookup = lookup_new(stream->live->id);

		lookup->stop = lookup->remove = true;
		/* What cannot be removed now, gc removes later. */
		lookup_queue(&serve->loop, lookup, NULL, NULL);
	}
	if (stream->exchange->request) {
		stream->exchange->request->on_gone = NULL;
		stream->exchange->request->on_drained = NULL;
	}
	exchange_drop(stream->exchange);
	json_free(stream->run);
	buf_release(&stream->gathered);
	buf_release(&stream->last);
	free(stream);
}

static void client_gone(struct http_request *request)
{
	struct stream *stream = request->data;
	cleanup_buf struct buf line = BUF_INIT;

	/* Over the same link, so that it comes behind the run. */
	if (stream->run && !stream->detach && !stream->finished && stream->link) {
		buf_printf(&line, "{\"op\":\"interrupt\",\"cell\":\"%s\"}\n", stream->cell);
		link_send(stream->link, buf_bytes(&line), line.len);
	}
	stream->exchange->request = NULL;
	stream_free(stream);
}

static void client_drained(struct http_request *request)
{
	struct stream *stream = request->data;

	if (stream->link)
		link_resume(stream->link);
}

static void fail(struct stream *stream, const struct err *err)
{
	struct exchange *exchange = stream->exchange;
	struct http_request *request = exchange->request;
	cleanup_buf struct buf line = BUF_INIT;

	if (!stream->begun) {
		request->on_gone = NULL;
		exchange_err(exchange, err);
		stream_free(stream);
		return;
	}
	buf_append_string(&line, stream->form == STREAM_SSE ? "data: " : "");
	buf_printf(&line, "{\"type\":\"refused\",\"id\":null,\"code\":\"%s\",\"message\":",
		   err_name(err->code));
	json_write_string(&line, err->text, strlen(err->text));
	buf_append_string(&line, stream->form == STREAM_SSE ? "}\n\n" : "}\n");
	http_write(request, buf_bytes(&line), line.len);
	request->on_gone = NULL;
	http_end(request);
	stream_free(stream);
}

/* --- giving ----------------------------------------------------------------------------------- */

static void begin(struct stream *stream)
{
	if (stream->begun || stream->form == STREAM_JSON || stream->form == STREAM_TEXT)
		return;
	stream->begun = true;
	http_field(stream->exchange->request, "X-Accel-Buffering", "no");
	if (stream->run)
		http_field(stream->exchange->request, "Location", "/v1/sessions/%s/cells/%s",
			   stream->live->id, stream->cell);
	http_begin(stream->exchange->request, 200,
		   stream->form == STREAM_SSE ? "text/event-stream" : "application/x-ndjson",
		   UINT64_MAX);
}

static void give(struct stream *stream, const struct scan *scan, const char *line, size_t len)
{
	struct http_request *request = stream->exchange->request;
	cleanup_buf struct buf out = BUF_INIT;

	if (stream->form == STREAM_JSON || stream->form == STREAM_TEXT) {
		if (stream->gathered.len + len > STREAM_GATHERED_BYTES_MAX) {
			stream->dropped++;
			return;
		}
		if (stream->gathered.len > 0)
			buf_append_char(&stream->gathered, ',');
		buf_append(&stream->gathered, line, len);
		return;
	}
	begin(stream);
	if (stream->form == STREAM_SSE && scan->kind == SCAN_EVENT)
		buf_printf(&out, "id: %llu\n", (unsigned long long)scan->seq);
	if (stream->form == STREAM_SSE)
		buf_append_string(&out, "data: ");
	buf_append(&out, line, len);
	buf_append_string(&out, stream->form == STREAM_SSE ? "\n\n" : "\n");
	http_write(request, buf_bytes(&out), out.len);
	stream->wrote_us = clock_monotonic_us();
}

/* The JSON answer: what finished says, and all events as they were. */
static void put_result(struct stream *stream, struct buf *out, const struct json *finished)
{
	const char *status = json_get_string(finished, "status");
	size_t len = 0;
	const char *text = json_string(json_get(finished, "text"), &len);

	buf_printf(out, "{\"session\":\"%s\",\"cell\":\"%s\",\"status\":\"%s\"", stream->live->id,
		   stream->cell, status ? status : "running");
	if (text) {
		buf_append_string(out, ",\"text\":");
		json_write_string(out, text, len);
	}
	if (stream->dropped)
		buf_printf(out, ",\"events_more\":%llu", (unsigned long long)stream->dropped);
	buf_append_string(out, ",\"finished\":");
	if (stream->last.len > 0)
		buf_append(out, buf_bytes(&stream->last), stream->last.len);
	else
		buf_append_string(out, "null");
	buf_append_string(out, ",\"events\":[");
	buf_append(out, buf_bytes(&stream->gathered), stream->gathered.len);
	buf_append_string(out, "]}\n");
}

static void answer_whole(struct stream *stream)
{
	struct exchange *exchange = stream->exchange;
	cleanup_json struct json *finished =
		stream->last.len > 0
			? json_parse(buf_bytes(&stream->last), stream->last.len, &JSON_LIMITS, NULL)
			: NULL;
	cleanup_buf struct buf out = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(json_get(finished, "text"), &len);

	exchange->request->on_gone = NULL;
	if (stream->gathered.len == 0 && stream->last.len == 0) {
		exchange_problem(exchange, 404, "there is no cell %s", stream->cell);
		return;
	}
	if (stream->form == STREAM_TEXT) {
		exchange_bytes(exchange, 200, "text/plain; charset=utf-8", text ? text : "", len);
		return;
	}
	put_result(stream, &out, finished);
	exchange_bytes(exchange, 200, "application/json", buf_bytes(&out), out.len);
}

/* All is told. */
static void complete(struct stream *stream)
{
	struct http_request *request = stream->exchange->request;

	stream->finished = true;
	if (stream->form == STREAM_JSON || stream->form == STREAM_TEXT) {
		answer_whole(stream);
	} else {
		begin(stream);
		request->on_gone = NULL;
		http_end(request);
	}
	stream_free(stream);
}

/* --- the keeper's lines ----------------------------------------------------------------------- */

static void put_events_request(struct stream *stream, struct buf *line)
{
	stream->events_number = link_number(stream->link);
	buf_printf(line, "{\"op\":\"events\",\"id\":%llu,\"since\":%llu",
		   (unsigned long long)stream->events_number, (unsigned long long)stream->since);
	if (stream->follow)
		buf_append_string(line, ",\"follow\":true");
	if (stream->lossy)
		buf_append_string(line, ",\"lossy\":true");
	if (stream->by_link)
		buf_append_string(line, ",\"inline\":false");
	if (stream->cell[0])
		buf_printf(line, ",\"cell\":\"%s\"", stream->cell);
	buf_append_string(line, "}\n");
}

static int put_member(const char *key, size_t len, struct json *value, void *data)
{
	struct buf *out = data;

	buf_append_char(out, ',');
	json_write_string(out, key, len);
	buf_append_char(out, ':');
	json_write(out, value);
	return 0;
}

/* The subscription and the run go in one write: the keeper wakes once. */
static void ask(struct stream *stream, bool run)
{
	cleanup_buf struct buf lines = BUF_INIT;

	put_events_request(stream, &lines);
	if (run) {
		buf_printf(&lines, "{\"op\":\"run\",\"id\":\"%s\"", stream->cell);
		(void)json_each(stream->run, put_member, &lines);
		buf_append_string(&lines, "}\n");
	}
	link_send(stream->link, buf_bytes(&lines), lines.len);
}

/* A cell with the id of this key is there already: is it the same request? If not, the stream ends
 * here. */
static bool check_same(struct stream *stream, const char *line, size_t len)
{
	cleanup_json struct json *event = json_parse(line, len, &JSON_LIMITS, NULL);
	const struct json *code = json_get(event, "code");

	stream->checking = false;
	if (json_equal(code, json_get(stream->run, "code")))
		return true;
	stream->exchange->request->on_gone = NULL;
	exchange_problem(stream->exchange, 422,
			 "this Idempotency-Key was used for other code in this session");
	stream_free(stream);
	return false;
}

static void refused(struct stream *stream, const struct scan *scan, const char *line, size_t len)
{
	cleanup_json struct json *message = json_parse(line, len, &JSON_LIMITS, NULL);
	const char *code = json_get_string(message, "code");
	const char *text = json_get_string(message, "message");
	bool of_run = stream->run && slice_is(&scan->id, stream->cell);
	struct err err = ERR_INIT;

	if (of_run && stream->keyed && code && strcmp(code, "duplicate") == 0) {
		stream->checking = stream->accepted = true;
		stream->since = 0;
		ask(stream, false);
		return;
	}
	if (!of_run && scan->number != stream->events_number)
		return;
	err_set(&err, code ? err_from_name(code) : ERR_INTERNAL, "%s", text ? text : "");
	fail(stream, &err);
}

static void take_event(struct stream *stream, const struct scan *scan, const char *line, size_t len)
{
	if (stream->cell[0] && !slice_is(&scan->cell, stream->cell))
		return; /* of the link's earlier use */
	/* Before the answer to its run comes nothing of it, but perhaps of an earlier cell that has
	 * its id. */
	if (stream->run && !stream->accepted)
		return;
	if (stream->checking && slice_is(&scan->type, "cell") && !check_same(stream, line, len))
		return;
	if (stream->cell[0] && slice_is(&scan->type, "finished")) {
		buf_clear(&stream->last);
		buf_append(&stream->last, line, len);
		if (stream->form == STREAM_SSE || stream->form == STREAM_NDJSON)
			give(stream, scan, line, len);
		if (stream->run)
			complete(stream);
		return;
	}
	give(stream, scan, line, len);
}

static void link_line(void *data, struct link *link, const char *line, size_t len)
{
	struct stream *stream = data;
	struct exchange *exchange = exchange_keep(stream->exchange);
	struct scan scan;

	scan_line(line, len, &scan);
	switch (scan.kind) {
	case SCAN_EVENT:
		take_event(stream, &scan, line, len);
		break;
	case SCAN_REPLY:
		stream->accepted |= stream->run && slice_is(&scan.id, stream->cell);
		if (stream->checking)
			break; /* it may still be another request */
		if (stream->accepted || (!stream->run && scan.number == stream->events_number))
			begin(stream);
		break;
	case SCAN_REFUSED:
		refused(stream, &scan, line, len);
		break;
	case SCAN_OTHER:
		if (stream->begun)
			give(stream, &scan, line, len); /* a gap, a warning of the disk */
		break;
	}
	/* The request may have ended by now, and the stream with it. */
	if (exchange->request && exchange->request->data == stream && http_full(exchange->request))
		link_pause(link);
	exchange_drop(exchange);
}

static void link_ended(void *data, struct link *link, const struct err *err)
{
	struct stream *stream = data;

	(void)link;
	stream->link = NULL;
	if (stream->follow && err->code == ERR_GONE)
		live_ended(stream->live, err);
	if (!stream->run && err->code == ERR_GONE) /* all that there is was told */
		complete(stream);
	else
		fail(stream, err);
}

static void link_ready(void *data, struct link *link, const char *hello, size_t len)
{
	(void)data;
	(void)link;
	(void)hello;
	(void)len;
}

static const struct link_events LINK_EVENTS = {
	.ready = link_ready, .line = link_line, .end = link_ended};

/* --- life ------------------------------------------------------------------------------------- */

uint64_t serve_streams_of(const struct serve *serve, const char *who)
{
	uint64_t count = channels_of(serve, who) + askings_running(serve, who);

	for (const struct stream *stream = serve->streams; stream; stream = stream->next)
		count += !who || strcmp(stream->exchange->who.id, who) == 0;
	return count;
}

void stream_start(struct exchange *exchange, struct stream_params *params)
{
	struct serve *serve = exchange->serve;
	struct stream *stream;

	if (serve_streams_of(serve, exchange->who.id) >= serve->options.streams_max) {
		json_free(params->run);
		exchange_problem(exchange, 429, "you have %llu streams and runs open already",
				 (unsigned long long)serve->options.streams_max);
		return;
	}
	stream = mem_zalloc(sizeof(*stream));
	stream->exchange = exchange_keep(exchange);
	stream->live = exchange->live;
	stream->form = params->form;
	stream->run = params->run;
	stream->keyed = params->keyed;
	stream->detach = params->detach;
	stream->once = params->once;
	stream->follow = params->follow;
	stream->lossy = params->lossy;
	stream->by_link = params->by_link;
	stream->since = params->since;
	snprintf(stream->cell, sizeof(stream->cell), "%s", params->cell ? params->cell : "");
	stream->wrote_us = clock_monotonic_us();
	stream->next = serve->streams;
	stream->prev = &serve->streams;
	if (stream->next)
		stream->next->prev = &stream->next;
	serve->streams = stream;
	exchange->request->data = stream;
	exchange->request->on_gone = client_gone;
	exchange->request->on_drained = client_drained;
	stream->link = live_link(stream->live, &LINK_EVENTS, stream);
	ask(stream, stream->run != NULL);
	if (!stream->follow)
		link_finish(stream->link);
}

void streams_ping(struct serve *serve, int64_t now_us)
{
	for (struct stream *stream = serve->streams; stream; stream = stream->next) {
		if (stream->form != STREAM_SSE || !stream->begun ||
		    now_us - stream->wrote_us < (int64_t)STREAM_PING_S * 1000000)
			continue;
		stream->wrote_us = now_us;
		http_write(stream->exchange->request, ":\n\n", 3);
	}
}

void streams_end_all(struct serve *serve)
{
	struct stream *next;

	for (struct stream *stream = serve->streams; stream; stream = next) {
		struct http_request *request = stream->exchange->request;

		next = stream->next;
		if (stream->run || !stream->follow || !stream->begun)
			continue;
		request->on_gone = NULL;
		http_end(request);
		stream_free(stream);
	}
}
