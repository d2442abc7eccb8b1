/*
 * Asks that are under way; see asking.h.
 */
#include "serve/asking.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct listener {
	struct listener *next, **prev;
	struct asking *asking;
	struct exchange *exchange; /* kept */
	enum asking_form form;
	bool begun;
	int64_t wrote_us;
};

struct asking {
	struct asking *next, **prev;
	struct serve *serve;
	struct asker *asker; /* NULL: it has ended */
	struct listener *listeners;
	char who[sizeof(((struct principal *)0)->id)];
	char key[HASH_HEX_SIZE]; /* "": none */
	char body[HASH_HEX_SIZE];
	char session[HASH_ID_SIZE]; /* as its first line tells; "": not yet */
	bool detach, any_line;
	struct buf last;   /* the line that came last */
	int status;        /* ended: of the answer as JSON */
	struct buf answer; /* ended: the result, or a problem document */
	int64_t ended_us;
};

/* --- listeners -------------------------------------------------------------------------------- */

static void listener_free(struct listener *listener)
{
	struct http_request *request = listener->exchange->request;

	*listener->prev = listener->next;
	if (listener->next)
		listener->next->prev = listener->prev;
	if (request) {
		request->on_gone = NULL;
		request->on_drained = NULL;
	}
	exchange_drop(listener->exchange);
	free(listener);
}

/* The child is read while every listener takes what it says. */
static void read_as_wanted(struct asking *asking)
{
	bool full = false;

	for (const struct listener *at = asking->listeners; at; at = at->next)
		full |= at->exchange->request && http_full(at->exchange->request);
	if (!asking->asker)
		return;
	if (full)
		asker_pause(asking->asker);
	else
		asker_resume(asking->asker);
}

static void client_gone(struct http_request *request)
{
	struct listener *listener = request->data;
	struct asking *asking = listener->asking;

	listener->exchange->request = NULL;
	listener_free(listener);
	if (!asking->listeners && !asking->detach && asking->asker)
		asker_cancel(asking->asker);
	read_as_wanted(asking);
}

static void client_drained(struct http_request *request)
{
	struct listener *listener = request->data;

	read_as_wanted(listener->asking);
}

static void begin(struct listener *listener)
{
	struct http_request *request = listener->exchange->request;

	if (listener->begun || listener->form == ASKING_JSON)
		return;
	listener->begun = true;
	http_field(request, "X-Accel-Buffering", "no");
	http_begin(request, 200,
		   listener->form == ASKING_SSE ? "text/event-stream" : "application/x-ndjson",
		   UINT64_MAX);
}

static void give(struct listener *listener, const char *line, size_t len)
{
	struct http_request *request = listener->exchange->request;
	cleanup_buf struct buf out = BUF_INIT;

	if (listener->form == ASKING_JSON || !request)
		return;
	begin(listener);
	if (listener->form == ASKING_SSE)
		buf_append_string(&out, "data: ");
	buf_append(&out, line, len);
	buf_append_string(&out, listener->form == ASKING_SSE ? "\n\n" : "\n");
	http_write(request, buf_bytes(&out), out.len);
	listener->wrote_us = clock_monotonic_us();
}

/* Answers with the end of the ask. */
static void answer(struct listener *listener)
{
	const struct asking *asking = listener->asking;
	struct exchange *exchange = listener->exchange;
	struct http_request *request = exchange->request;

	if (request)
		request->on_gone = NULL;
	if (request && listener->form != ASKING_JSON && (listener->begun || asking->status == 200))
		http_end(request);
	else if (request && asking->status != 200)
		http_reply(request, asking->status, PROBLEM_TYPE, buf_bytes(&asking->answer),
			   asking->answer.len);
	else if (request)
		http_reply(request, 200, "application/json", buf_bytes(&asking->answer),
			   asking->answer.len);
	listener_free(listener);
}

static void add_listener(struct asking *asking, struct exchange *exchange, enum asking_form form)
{
	struct listener *listener = mem_zalloc(sizeof(*listener));

	listener->asking = asking;
	listener->exchange = exchange_keep(exchange);
	listener->form = form;
	listener->wrote_us = clock_monotonic_us();
	memcpy(exchange->audit_session, asking->session, sizeof(asking->session));
	listener->next = asking->listeners;
	listener->prev = &asking->listeners;
	if (listener->next)
		listener->next->prev = &listener->next;
	asking->listeners = listener;
	exchange->request->data = listener;
	exchange->request->on_gone = client_gone;
	exchange->request->on_drained = client_drained;
}

/* --- the child's lines ------------------------------------------------------------------------ */

/* The first line has the session's id. When it is an error already, an answer that has not begun
 * can still have its status. */
static bool take_first(struct asking *asking, const char *line, size_t len)
{
	cleanup_json struct json *first = json_parse(line, len, &JSON_LIMITS, NULL);
	const char *session = json_get_string(first, "session");
	const char *type = json_get_string(first, "type");

	asking->any_line = true;
	if (session && hash_is_id(session))
		memcpy(asking->session, session, sizeof(asking->session));
	for (struct listener *at = asking->listeners; at; at = at->next)
		memcpy(at->exchange->audit_session, asking->session, sizeof(asking->session));
	return !type || strcmp(type, "error") != 0;
}

static void child_line(void *data, const char *line, size_t len)
{
	struct asking *asking = data;

	buf_clear(&asking->last);
	buf_append(&asking->last, line, len);
	if (!asking->any_line && !take_first(asking, line, len))
		return;
	for (struct listener *at = asking->listeners; at; at = at->next)
		give(at, line, len);
	read_as_wanted(asking);
}

static void set_problem(struct asking *asking, const struct err *err)
{
	/* What has gone is the model's server, behind us. */
	asking->status = err->code == ERR_GONE ? 502 : err_http_status(err->code);
	problem_write(&asking->answer, asking->status, err_name(err->code), err->text);
}

/* What an end without a last word means. */
static void explain(const struct asker_end *end, struct err *err)
{
	if (end->too_long)
		err_set(err, ERR_LIMIT, "the ask told a line of more than %d MiB",
			ASKER_LINE_BYTES_MAX >> 20);
	else if (end->cancelled)
		err_set(err, ERR_GONE, "the ask was cancelled");
	else if (end->status == 2)
		err_set(err, ERR_INVALID, "%s", end->said);
	else if (end->status >= 0)
		err_set(err, ERR_INTERNAL, "fumehood ask ended with status %d: %s", end->status,
			end->said);
	else
		err_set(err, ERR_INTERNAL, "fumehood ask was killed");
}

static void give_error(struct asking *asking, const struct err *err)
{
	cleanup_buf struct buf line = BUF_INIT;

	buf_printf(&line, "{\"type\":\"error\",\"code\":\"%s\",\"message\":", err_name(err->code));
	json_write_string(&line, err->text, strlen(err->text));
	buf_append_char(&line, '}');
	for (struct listener *at = asking->listeners; at; at = at->next)
		if (at->begun)
			give(at, buf_bytes(&line), line.len);
}

/* Fills status and answer from the last line, or from how it ended. */
static void take_outcome(struct asking *asking, const struct asker_end *end)
{
	cleanup_json struct json *last =
		json_parse(buf_bytes(&asking->last), asking->last.len, &JSON_LIMITS, NULL);
	const char *type = json_get_string(last, "type");
	const char *text = json_get_string(last, "message");
	const char *code = json_get_string(last, "code");
	struct metrics *metrics = &asking->serve->metrics;
	struct err err = ERR_INIT;

	if (type && strcmp(type, "result") == 0) {
		bool success = json_get_bool(last, "success", false);

		metrics->asks[success          ? METRICS_ASK_SUCCESS
			      : end->cancelled ? METRICS_ASK_CANCELLED
					       : METRICS_ASK_FAILURE]++;
		asking->status = 200;
		buf_append(&asking->answer, buf_bytes(&asking->last), asking->last.len);
		buf_append_char(&asking->answer, '\n');
		return;
	}
	metrics->asks[end->cancelled ? METRICS_ASK_CANCELLED : METRICS_ASK_ERROR]++;
	if (type && strcmp(type, "error") == 0) {
		err_set(&err, code ? err_from_name(code) : ERR_INTERNAL, "%s", text ? text : "");
	} else {
		explain(end, &err);
		give_error(asking, &err);
	}
	set_problem(asking, &err);
}

static void asking_free(struct asking *asking)
{
	*asking->prev = asking->next;
	if (asking->next)
		asking->next->prev = asking->prev;
	while (asking->listeners)
		listener_free(asking->listeners);
	asker_drop(asking->asker);
	buf_release(&asking->last);
	buf_release(&asking->answer);
	free(asking);
}

static void child_end(void *data, const struct asker_end *end)
{
	struct asking *asking = data;

	asking->asker = NULL;
	asking->ended_us = clock_monotonic_us();
	take_outcome(asking, end);
	buf_release(&asking->last);
	while (asking->listeners)
		answer(asking->listeners);
	if (!asking->key[0] || asking->answer.len > ASKINGS_KEPT_BYTES || end->cancelled ||
	    asking->status != 200)
		asking_free(asking);
}

static const struct asker_events CHILD_EVENTS = {.line = child_line, .end = child_end};

/* --- asking ----------------------------------------------------------------------------------- */

uint64_t askings_running(const struct serve *serve, const char *who)
{
	uint64_t count = 0;

	for (const struct asking *at = serve->askings; at; at = at->next)
		count += at->asker && (!who || strcmp(at->who, who) == 0);
	return count;
}

/* At most so many ended ones are kept: the one goes whose end was first. One that is just being
 * told to its listeners stays: an answer can bring the next request of its connection, and that
 * brings us here. */
static void forget_oldest(struct serve *serve)
{
	struct asking *oldest = NULL;
	size_t count = 0;

	for (struct asking *at = serve->askings; at; at = at->next) {
		if (at->asker || at->listeners)
			continue;
		count++;
		if (!oldest || at->ended_us < oldest->ended_us)
			oldest = at;
	}
	if (count > ASKINGS_KEPT_MAX)
		asking_free(oldest);
}

static bool has_room(struct exchange *exchange)
{
	struct serve *serve = exchange->serve;

	if (askings_running(serve, NULL) >= serve->options.asks_max) {
		http_field(exchange->request, "Retry-After", "5");
		exchange_problem(exchange, 503, "%llu asks are under way; try again later",
				 (unsigned long long)serve->options.asks_max);
		return false;
	}
	if (serve_streams_of(serve, exchange->who.id) >= serve->options.streams_max) {
		exchange_problem(exchange, 429, "you have %llu streams and runs open already",
				 (unsigned long long)serve->options.streams_max);
		return false;
	}
	return true;
}

void asking_start(struct exchange *exchange, const struct asking_params *params)
{
	struct serve *serve = exchange->serve;
	struct asking *asking;
	struct err err = ERR_INIT;

	if (!has_room(exchange))
		return;
	forget_oldest(serve);
	asking = mem_zalloc(sizeof(*asking));
	asking->serve = serve;
	asking->asker = asker_start(&serve->loop, &params->child, &CHILD_EVENTS, asking, &err);
	if (!asking->asker) {
		free(asking);
		exchange_err(exchange, &err);
		return;
	}
	asking->detach = params->detach;
	memcpy(asking->who, exchange->who.id, sizeof(asking->who));
	snprintf(asking->key, sizeof(asking->key), "%s", params->key ? params->key : "");
	memcpy(asking->body, params->body, sizeof(asking->body));
	asking->next = serve->askings;
	asking->prev = &serve->askings;
	if (asking->next)
		asking->next->prev = &asking->next;
	serve->askings = asking;
	add_listener(asking, exchange, params->form);
}

bool asking_follow(struct exchange *exchange, const struct asking_params *params)
{
	struct asking *asking = exchange->serve->askings;

	while (asking && (!params->key || strcmp(asking->key, params->key) != 0 ||
			  strcmp(asking->who, exchange->who.id) != 0))
		asking = asking->next;
	if (!asking)
		return false;
	if (strcmp(asking->body, params->body) != 0) {
		exchange_problem(exchange, 422,
				 "this Idempotency-Key was used for another ask; take a new one");
		return true;
	}
	add_listener(asking, exchange, params->form);
	if (!asking->asker) {
		give(asking->listeners, buf_bytes(&asking->answer), asking->answer.len - 1);
		answer(asking->listeners);
	}
	return true;
}

/* --- the daemon ------------------------------------------------------------------------------- */

static void ping(struct asking *asking, int64_t now_us)
{
	for (struct listener *at = asking->listeners; at; at = at->next) {
		if (at->form != ASKING_SSE || !at->exchange->request ||
		    now_us - at->wrote_us < (int64_t)ASKING_PING_S * 1000000)
			continue;
		begin(at);
		http_write(at->exchange->request, ":\n\n", 3);
		at->wrote_us = now_us;
	}
}

void askings_tick(struct serve *serve, int64_t now_us)
{
	struct asking *next;

	for (struct asking *at = serve->askings; at; at = next) {
		next = at->next;
		if (at->asker)
			ping(at, now_us);
		else if (now_us - at->ended_us > (int64_t)ASKINGS_KEPT_S * 1000000)
			asking_free(at);
	}
}

void askings_cancel(struct serve *serve)
{
	for (struct asking *at = serve->askings; at; at = at->next)
		if (at->asker)
			asker_cancel(at->asker);
}

void askings_free(struct serve *serve)
{
	while (serve->askings)
		asking_free(serve->askings);
}
