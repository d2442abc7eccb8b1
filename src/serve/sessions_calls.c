/*
 * Requests over a session's main link and their answers, and links for streams; see sessions.h.
 *
 * A call is known by its number (or, of a run, by the id of the cell) until its answer comes, its
 * time is up, or the session has gone; it is answered exactly once. A link that a stream has done
 * with is kept for the next one, since a new one costs a greeting.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/sessions_internal.h"

struct call {
	struct call *next;
	uint64_t number;
	char id[65]; /* of a run; "": it has the number */
	int64_t until_us;
	live_answered *answered;
	void *data;
};

/* --- calls ------------------------------------------------------------------------------------ */

static struct call *take_call(struct live *live, const struct scan *scan)
{
	for (struct call **at = &live->calls; *at; at = &(*at)->next) {
		struct call *call = *at;

		if (call->id[0] ? slice_is(&scan->id, call->id)
				: scan->number && call->number == scan->number) {
			*at = call->next;
			return call;
		}
	}
	return NULL;
}

/* The code and message of a refusal. */
static void read_refusal(const char *line, size_t len, struct err *err)
{
	cleanup_json struct json *message = json_parse(line, len, &JSON_LIMITS, NULL);
	const char *code = json_get_string(message, "code");
	const char *text = json_get_string(message, "message");

	err_set(err, code ? err_from_name(code) : ERR_INTERNAL, "%s",
		text ? text : "the session refused without a reason");
}

void calls_answer(struct live *live, const struct scan *scan, const char *line, size_t len)
{
	struct err err = ERR_INIT;
	struct call *call = take_call(live, scan);

	if (!call)
		return;
	live_hold(live);
	if (scan->kind == SCAN_REFUSED)
		read_refusal(line, len, &err);
	call->answered(call->data, scan->kind == SCAN_REFUSED ? NULL : scan, &err);
	free(call);
	live_let(live);
}

void calls_fail(struct live *live, const struct err *err)
{
	for (struct call *call = mem_take(live->calls), *next; call; call = next) {
		next = call->next;
		call->answered(call->data, NULL, err);
		free(call);
	}
}

static int put_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct buf *out = data;

	buf_append_char(out, ',');
	json_write_string(out, key, key_len);
	buf_append_char(out, ':');
	json_write(out, value);
	return 0;
}

void live_call(struct live *live, const char *op, const struct json *fields, const char *id,
	       live_answered *answered, void *data)
{
	cleanup_buf struct buf line = BUF_INIT;
	struct err err = ERR_INIT;
	struct call *call;

	if (live->state != LIVE_READY) {
		err_set(&err, ERR_GONE, "the session has ended");
		answered(data, NULL, &err);
		return;
	}
	call = mem_zalloc(sizeof(*call));
	call->number = link_number(live->main);
	call->until_us = clock_monotonic_us() + (int64_t)CALL_TIMEOUT_S * 1000000;
	call->answered = answered;
	call->data = data;
	snprintf(call->id, sizeof(call->id), "%s", id ? id : "");
	call->next = live->calls;
	live->calls = call;
	live->used_us = clock_monotonic_us();
	buf_printf(&line, "{\"op\":\"%s\",\"id\":", op);
	if (id)
		json_write_string(&line, id, strlen(id));
	else
		buf_printf(&line, "%llu", (unsigned long long)call->number);
	(void)json_each(fields, put_member, &line);
	buf_append_string(&line, "}\n");
	link_send(live->main, buf_bytes(&line), line.len);
}

void live_post(struct live *live, const char *line)
{
	if (live->state == LIVE_READY)
		link_send(live->main, line, strlen(line));
}

void sessions_tick(struct sessions *sessions, int64_t now_us)
{
	struct err err = ERR_INIT;
	struct live *next;

	err_set(&err, ERR_TIMEOUT, "the session did not answer in %d s", CALL_TIMEOUT_S);
	for (struct live *live = sessions->lives; live; live = next) {
		struct call **at = &live->calls;
		struct call *late = NULL;

		next = live->next;
		while (*at) {
			struct call *call = *at;

			if (call->until_us > now_us) {
				at = &call->next;
				continue;
			}
			*at = call->next;
			call->next = late;
			late = call;
		}
		while (late) {
			struct call *call = late;

			late = call->next;
			call->answered(call->data, NULL, &err);
			free(call);
		}
	}
}

/* --- links for streams ------------------------------------------------------------------------ */

void links_close_idle(struct live *live)
{
	while (live->idle_count > 0)
		link_close(live->idle[--live->idle_count]);
}

static void idle_ready(void *data, struct link *link, const char *hello, size_t len)
{
	(void)data;
	(void)link;
	(void)hello;
	(void)len;
}

/* What an earlier stream's cell still prints. */
static void idle_line(void *data, struct link *link, const char *line, size_t len)
{
	(void)data;
	(void)link;
	(void)line;
	(void)len;
}

static void idle_end(void *data, struct link *link, const struct err *err)
{
	struct live *live = data;

	(void)err;
	for (size_t i = 0; i < live->idle_count; i++)
		if (live->idle[i] == link)
			live->idle[i] = live->idle[--live->idle_count];
}

static const struct link_events IDLE_EVENTS = {
	.ready = idle_ready, .line = idle_line, .end = idle_end};

struct link *live_new_link(struct live *live, const struct link_events *events, void *data)
{
	return link_connect(live->sessions->loop, live->sessions->runtime_fd, live->id, events,
			    data);
}

struct link *live_link(struct live *live, const struct link_events *events, void *data)
{
	struct link *link;

	if (live->idle_count == 0)
		return live_new_link(live, events, data);
	link = live->idle[--live->idle_count];
	link_give(link, events, data);
	return link;
}

void live_return(struct live *live, struct link *link)
{
	if (live->state != LIVE_READY || live->idle_count == LIVE_IDLE_LINKS_MAX) {
		link_close(link);
		return;
	}
	link_give(link, &IDLE_EVENTS, live);
	live->idle[live->idle_count++] = link;
	link_resume(link);
}
