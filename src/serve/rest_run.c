/*
 * Running code, and reading what became of it: run, cells, events, and runs in a session of their
 * own.
 */
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "serve/lookup.h"
#include "serve/stream.h"

enum { TEXT_CHARS = 8000, KEY_BYTES_MAX = 255 };

/* The fields of a run that are not the keeper's. */
static const char *const OWN[] = {"id", "detach", "session"};

static int has_only_known(const char *key, size_t len, struct json *value, void *data)
{
	static const char *const known[] = {
		"code", "id",   "timeout", "allow_stdin", "max_chars", "marks",  "metadata",
		"file", "argv", "atomic",  "try",         "files",     "detach", "session"};
	struct err *err = data;

	(void)value;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i]) == len && memcmp(known[i], key, len) == 0)
			return 0;
	return err_set(err, ERR_INVALID, "a run has no member \"%.40s\"", key);
}

/* W3C trace context, version 00: 00-<32 hex>-<16 hex>-<2 hex>. */
static bool is_traceparent(const struct slice *value)
{
	if (value->len != 55 || memcmp(value->at, "00-", 3) != 0)
		return false;
	for (size_t i = 3; i < 55; i++) {
		char c = value->at[i];
		bool dash = i == 35 || i == 52;

		if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	return true;
}

/* The trace goes with the cell into its event (and its notebook's cell) as metadata. */
static void take_trace(const struct http_request *request, struct json *fields)
{
	const struct slice *trace = head_find(&request->head, "traceparent", NULL);
	struct json *metadata = json_get(fields, "metadata");

	if (!trace || !is_traceparent(trace) || (metadata && json_type_of(metadata) != JSON_OBJECT))
		return;
	if (!metadata) {
		metadata = json_new_object();
		json_set(fields, "metadata", metadata);
	}
	json_set(metadata, "traceparent", json_new_string(trace->at, trace->len));
}

/* The cell's id: the client's, or of its key, or made here. */
static int choose_cell(struct exchange *exchange, char cell[static 65], bool *keyed)
{
	const struct slice *key = head_find(&exchange->request->head, "idempotency-key", NULL);
	const struct json *id = json_get(exchange->body, "id");
	char hex[HASH_HEX_SIZE], random[HASH_ID_SIZE];
	size_t len = 0;
	const char *text = json_string(id, &len);

	*keyed = key != NULL;
	if (json_has(exchange->body, "id")) {
		if (!text || !text_is_id(text, len)) {
			exchange_problem(exchange, 400,
					 "\"id\" is 1 to 64 characters of A-Z a-z 0-9 _ -");
			return -1;
		}
		if (key) {
			exchange_problem(exchange, 400,
					 "give \"id\" or an Idempotency-Key, not both");
			return -1;
		}
		memcpy(cell, text, len + 1);
	} else if (key) {
		if (key->len == 0 || key->len > KEY_BYTES_MAX) {
			exchange_problem(exchange, 400, "an Idempotency-Key has 1 to 255 bytes");
			return -1;
		}
		hash_sha256(key->at, key->len, hex);
		snprintf(cell, 65, "k%.40s", hex);
	} else {
		hash_random_id(random);
		snprintf(cell, 65, "r%.16s", random);
	}
	return 0;
}

static enum stream_form form_of(const char *type)
{
	if (strcmp(type, "text/event-stream") == 0)
		return STREAM_SSE;
	if (strcmp(type, "application/x-ndjson") == 0)
		return STREAM_NDJSON;
	return strcmp(type, "text/plain") == 0 ? STREAM_TEXT : STREAM_JSON;
}

/* Checks the body and the fields of the head; fills *params. -1 when the request is answered. */
static int read_run(struct exchange *exchange, struct stream_params *params, char cell[static 65])
{
	const char *type = exchange_accepts(exchange, STREAM_TYPES);
	struct err err = ERR_INIT;

	if (!type) {
		exchange_problem(exchange, 406,
				 "a run answers as application/json, text/event-stream, "
				 "application/x-ndjson or text/plain");
		return -1;
	}
	if (json_each(exchange->body, has_only_known, &err) != 0 ||
	    exchange_bool(exchange, "detach", &params->detach, &err) != 0) {
		exchange_err(exchange, &err);
		return -1;
	}
	if (!json_string(json_get(exchange->body, "code"), NULL)) {
		exchange_problem(exchange, 400, "a run needs \"code\": a string");
		return -1;
	}
	if (choose_cell(exchange, cell, &params->keyed) != 0)
		return -1;
	params->detach |= json_get_bool(exchange->body, "detach", false);
	params->form = form_of(type);
	params->cell = cell;
	params->follow = true;
	params->run = json_keep(exchange->body);
	for (size_t i = 0; i < sizeof(OWN) / sizeof(OWN[0]); i++)
		(void)json_remove(params->run, OWN[i]);
	if ((params->form == STREAM_JSON || params->form == STREAM_TEXT) &&
	    !json_has(params->run, "max_chars") && !json_get_bool(params->run, "marks", false))
		json_set_int(params->run, "max_chars", TEXT_CHARS);
	take_trace(exchange->request, params->run);
	return 0;
}

/* --- without waiting -------------------------------------------------------------------------- */

struct async_run {
	struct exchange *exchange;
	char cell[65];
	bool keyed;
};

static void async_accepted(void *data, const struct scan *scan, const struct err *err)
{
	struct async_run *run = data;
	struct exchange *exchange = run->exchange;
	cleanup_buf struct buf body = BUF_INIT;

	if (!scan && !(run->keyed && err->code == ERR_DUPLICATE)) {
		exchange_err(exchange, err);
	} else if (exchange->request) {
		buf_printf(&body, "{\"session\":\"%s\",\"cell\":\"%s\",\"status\":\"queued\"}\n",
			   exchange->live->id, run->cell);
		http_field(exchange->request, "Location", "/v1/sessions/%s/cells/%s",
			   exchange->live->id, run->cell);
		http_field(exchange->request, "Preference-Applied", "respond-async");
		exchange_bytes(exchange, 202, "application/json", buf_bytes(&body), body.len);
	}
	exchange_drop(exchange);
	free(run);
}

static void run_async(struct exchange *exchange, struct stream_params *params)
{
	struct async_run *run = mem_zalloc(sizeof(*run));

	run->exchange = exchange_keep(exchange);
	run->keyed = params->keyed;
	memcpy(run->cell, params->cell, strlen(params->cell) + 1);
	exchange->request->end_is_gone = false;
	live_call(exchange->live, "run", params->run, params->cell, async_accepted, run);
	json_free(params->run);
}

void rest_run(struct exchange *exchange)
{
	const struct slice *prefer = head_find(&exchange->request->head, "prefer", NULL);
	struct stream_params params = {.form = STREAM_JSON};
	char cell[65];

	if (json_has(exchange->body, "session")) {
		exchange_problem(exchange, 400, "\"session\" is for /v1/run");
		return;
	}
	if (read_run(exchange, &params, cell) != 0)
		return;
	params.since = exchange->live->last_seq;
	if (prefer && head_lists(prefer, "respond-async"))
		run_async(exchange, &params);
	else
		stream_start(exchange, &params);
}

/* --- what became of it ------------------------------------------------------------------------ */

void rest_cell(struct exchange *exchange)
{
	static const char *const types[] = {"application/json", NULL};
	struct stream_params params = {.form = STREAM_JSON, .cell = exchange->item};

	if (!text_is_id(exchange->item, strlen(exchange->item))) {
		exchange_problem(exchange, 404, "there is no such cell");
		return;
	}
	if (!exchange_accepts(exchange, types))
		exchange_problem(exchange, 406, "a cell is told as application/json");
	else
		stream_start(exchange, &params);
}

void rest_events(struct exchange *exchange)
{
	static const char *const types[] = {"application/x-ndjson", "text/event-stream", NULL};
	const char *type = exchange_accepts(exchange, types);
	const struct slice *last = head_find(&exchange->request->head, "last-event-id", NULL);
	struct stream_params params = {.cell = target_param(&exchange->target, "cell")};
	bool inlined = true;

	if (!type) {
		exchange_problem(exchange, 406,
				 "events come as text/event-stream or application/x-ndjson");
		return;
	}
	if (params.cell && !text_is_id(params.cell, strlen(params.cell))) {
		exchange_problem(exchange, 400, "cell is 1 to 64 characters of A-Z a-z 0-9 _ -");
		return;
	}
	params.form = form_of(type);
	params.follow = params.form == STREAM_SSE;
	(void)exchange_count(exchange, "since", &params.since, NULL);
	(void)exchange_bool(exchange, "follow", &params.follow, NULL);
	(void)exchange_bool(exchange, "lossy", &params.lossy, NULL);
	(void)exchange_bool(exchange, "inline", &inlined, NULL);
	params.by_link = !inlined;
	/* A client that comes back says where it was; that goes before where it began. */
	for (size_t i = 0; last && i < last->len && i < 18; i++) {
		if (i == 0)
			params.since = 0;
		if (last->at[i] < '0' || last->at[i] > '9') {
			exchange_problem(exchange, 400, "Last-Event-ID is the number of an event");
			return;
		}
		params.since = params.since * 10 + (uint64_t)(last->at[i] - '0');
	}
	params.follow &= !exchange->request->is_head;
	exchange->request->end_is_gone = params.follow;
	stream_start(exchange, &params);
}

/* --- a session for one run -------------------------------------------------------------------- */

static void once_started(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;
	struct serve *serve = exchange->serve;
	struct stream_params params = {.once = true};
	char cell[65];

	serve->starting--;
	if (lookup->fd < 0) {
		serve->metrics.start_failures++;
		exchange_err(exchange, &lookup->err);
	} else {
		struct live *live = sessions_take(serve->sessions, fd_take(&lookup->fd),
						  &lookup->rest, lookup->hello);

		serve->metrics.sessions_started++;
		if (live && exchange->request) {
			exchange->live = live;
			live_hold(live);
			memcpy(exchange->audit_session, live->id, sizeof(live->id));
			params.since = live->last_seq;
		}
		if (live && (!exchange->request || read_run(exchange, &params, cell) != 0)) {
			struct lookup *end = lookup_new(live->id);

			end->stop = end->remove = true;
			lookup_queue(&serve->loop, end, NULL, NULL);
		} else if (live) {
			stream_start(exchange, &params);
		}
	}
	exchange_drop(exchange);
}

void rest_run_once(struct exchange *exchange)
{
	struct json *session = json_get(exchange->body, "session");
	struct lookup *lookup;
	struct err err = ERR_INIT;

	if (!json_string(json_get(exchange->body, "code"), NULL)) {
		exchange_problem(exchange, 400, "a run needs \"code\": a string");
		return;
	}
	if (exchange->who.prefix[0]) {
		exchange_problem(exchange, 403,
				 "a token that is bound to names starts its session by name");
		return;
	}
	if (session && lookup_check_start(session, exchange->local, &err) != 0) {
		exchange_err(exchange, &err);
		return;
	}
	if (serve_has_room(exchange) != 0)
		return;
	lookup = lookup_new("");
	lookup->create = session ? json_copy(session) : json_new_object();
	exchange->serve->starting++;
	lookup_queue(&exchange->serve->loop, lookup, once_started, exchange_keep(exchange));
}
