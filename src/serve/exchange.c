/*
 * From a head to a handler: gate, route, scope, query, body, session. See exchange.h.
 *
 *	head ─> gate ─> route ─> scope ─> body's limits ─(body)─> JSON ─> session ─> handle
 *
 * Each step refuses for itself; what has passed all is complete and of the right form.
 */
#include "serve/exchange.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct exchange *exchange_keep(struct exchange *exchange)
{
	exchange->references++;
	return exchange;
}

void exchange_drop(struct exchange *exchange)
{
	if (--exchange->references > 0)
		return;
	if (exchange->live)
		live_let(exchange->live);
	json_free(exchange->body);
	target_release(&exchange->target);
	free(exchange);
}

/* --- answers ---------------------------------------------------------------------------------- */

void exchange_problem(struct exchange *exchange, int status, const char *format, ...)
{
	char detail[512];
	va_list args;

	if (!exchange->request || exchange->request->status != 0)
		return;
	va_start(args, format);
	if (vsnprintf(detail, sizeof(detail), format, args) < 0)
		detail[0] = '\0';
	va_end(args);
	if (status == 429)
		http_field(exchange->request, "Retry-After", "1");
	problem_reply(exchange->request, status, NULL, "%s", detail);
}

void exchange_err(struct exchange *exchange, const struct err *err)
{
	if (exchange->request && exchange->request->status == 0)
		problem_err(exchange->request, err);
}

void exchange_bytes(struct exchange *exchange, int status, const char *type, const void *bytes,
		    size_t len)
{
	if (exchange->request)
		http_reply(exchange->request, status, type, bytes, len);
}

void exchange_json(struct exchange *exchange, int status, const struct json *json)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, json);
	buf_append_char(&text, '\n');
	exchange_bytes(exchange, status, "application/json", buf_bytes(&text), text.len);
}

/* --- what the request says -------------------------------------------------------------------- */

int exchange_count(const struct exchange *exchange, const char *name, uint64_t *value,
		   struct err *err)
{
	const char *text = target_param(&exchange->target, name);
	char *end = NULL;
	unsigned long long number;

	if (!text)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > INT64_MAX)
		return err_set(err, ERR_INVALID, "%s is a whole number, not \"%.40s\"", name, text);
	*value = number;
	return 0;
}

int exchange_bool(const struct exchange *exchange, const char *name, bool *value, struct err *err)
{
	const char *text = target_param(&exchange->target, name);

	if (!text)
		return 0;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return err_set(err, ERR_INVALID, "%s is true or false, not \"%.40s\"", name, text);
	*value = text[0] == 't';
	return 0;
}

/* The media range of one item of an Accept, without its parameters. An item with q=0 is none. */
static struct slice media_range(const char *at, const char *end)
{
	const char *semicolon = memchr(at, ';', (size_t)(end - at));
	const char *stop = semicolon ? semicolon : end;

	if (semicolon) {
		const char *q = memmem(semicolon, (size_t)(end - semicolon), "q=0", 3);

		if (q && (q + 3 == end || q[3] == ' ' || q[3] == ';' ||
			  (q[3] == '.' && strspn(q + 4, "0") >= (size_t)(end - q - 4))))
			return (struct slice){at, 0};
	}
	while (at < stop && (*at == ' ' || *at == '\t'))
		at++;
	while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	return (struct slice){at, (size_t)(stop - at)};
}

static bool range_takes(const struct slice *range, const char *type)
{
	const char *slash = strchr(type, '/');

	if (slice_is(range, "*/*") || slice_is_word(range, type))
		return true;
	return range->len > 2 && range->at[range->len - 1] == '*' &&
	       range->len - 1 == (size_t)(slash + 1 - type) &&
	       memcmp(range->at, type, range->len - 1) == 0;
}

const char *exchange_accepts(const struct exchange *exchange, const char *const *types)
{
	const struct slice *accept = head_find(&exchange->request->head, "accept", NULL);
	const char *at = accept ? accept->at : NULL;
	const char *end = accept ? at + accept->len : NULL;

	if (!accept || accept->len == 0)
		return types[0];
	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end;
		struct slice range = media_range(at, stop);

		for (size_t i = 0; range.len > 0 && types[i]; i++)
			if (range_takes(&range, types[i]))
				return types[i];
		at = comma ? comma + 1 : end;
	}
	return NULL;
}

/* --- the steps -------------------------------------------------------------------------------- */

static void session_found(void *data, struct live *live, const struct err *err)
{
	struct exchange *exchange = data;

	if (live && exchange->request) {
		exchange->live = live;
		live_hold(live);
		memcpy(exchange->audit_session, live->id, sizeof(exchange->audit_session));
		exchange->route->handle(exchange);
	} else if (!live) {
		exchange_err(exchange, err);
	}
	exchange_drop(exchange);
}

static void find_session(struct exchange *exchange)
{
	enum route_session need = exchange->route->session;

	if (need == SESSION_NONE || need == SESSION_NAMED) {
		exchange->route->handle(exchange_keep(exchange));
		exchange_drop(exchange);
		return;
	}
	sessions_find(exchange->serve->sessions, exchange->session, &exchange->who,
		      need == SESSION_START ? OPEN_START : OPEN_RUNNING, session_found,
		      exchange_keep(exchange));
}

/* The body of a request that has JSON, or may have. */
static int read_json(struct exchange *exchange)
{
	static const struct json_limits limits = {
		.bytes_max = EXCHANGE_JSON_BYTES_MAX, .depth_max = 60, .keys_unique = true};
	struct http_request *request = exchange->request;
	const struct slice *type = head_find(&request->head, "content-type", NULL);
	struct slice media =
		type ? media_range(type->at, type->at + type->len) : (struct slice){"", 0};
	struct err err = ERR_INIT;

	if (request->body.len == 0 && exchange->route->body == BODY_OPTIONAL) {
		exchange->body = json_new_object();
		return 0;
	}
	if (!slice_is_word(&media, "application/json")) {
		exchange_problem(exchange, 415, "the body is JSON: Content-Type: application/json");
		return -1;
	}
	exchange->body = json_parse(buf_bytes(&request->body), request->body.len, &limits, &err);
	if (!exchange->body && err.code != ERR_OK) {
		exchange_err(exchange, &err);
		return -1;
	}
	if (json_type_of(exchange->body) != JSON_OBJECT) {
		exchange_problem(exchange, 400, "the body is a JSON object");
		return -1;
	}
	return 0;
}

static void body_complete(struct http_request *request)
{
	struct exchange *exchange = request->owned;

	exchange->body_complete = true;
	if (exchange->route->body == BODY_JSON || exchange->route->body == BODY_OPTIONAL)
		if (read_json(exchange) != 0)
			return;
	find_session(exchange);
}

static void stream_complete(struct http_request *request)
{
	struct exchange *exchange = request->owned;

	exchange->body_complete = true;
}

/* A request that may have no end is still one: until a handler says otherwise its going is only
 * noticed. */
static void release(struct http_request *request)
{
	struct exchange *exchange = request->owned;

	exchange->request = NULL;
	exchange_drop(exchange);
}

static int check_query(struct exchange *exchange)
{
	const struct route_param *params = exchange->route->params;
	struct err err = ERR_INIT;

	for (size_t i = 0; i < exchange->target.param_count; i++) {
		const char *name = exchange->target.params[i].name;
		const struct route_param *param = params;
		uint64_t count;
		bool truth;

		while (param && param->name && strcmp(param->name, name) != 0)
			param++;
		if (!param || !param->name) {
			exchange_problem(exchange, 400, "there is no parameter \"%.40s\" here",
					 name);
			return -1;
		}
		for (size_t k = 0; k < i; k++)
			if (strcmp(exchange->target.params[k].name, name) == 0)
				err_set(&err, ERR_INVALID, "%s is given twice", name);
		if (param->kind == PARAM_COUNT)
			(void)exchange_count(exchange, name, &count, &err);
		if (param->kind == PARAM_BOOL)
			(void)exchange_bool(exchange, name, &truth, &err);
		if (err.code != ERR_OK) {
			exchange_err(exchange, &err);
			return -1;
		}
	}
	return 0;
}

static void note_places(struct exchange *exchange)
{
	size_t first, second;

	route_places(exchange->route, &first, &second, &exchange->rest_at);
	exchange->session =
		first < exchange->target.segment_count ? exchange->target.segments[first] : NULL;
	exchange->item =
		second < exchange->target.segment_count ? exchange->target.segments[second] : NULL;
}

/* Through the gate: who asks? */
static int pass_gate(struct exchange *exchange, const struct verdict *verdict)
{
	struct http_request *request = exchange->request;

	if (verdict->cors_origin[0]) {
		http_field(request, "Access-Control-Allow-Origin", "%s", verdict->cors_origin);
		http_field(request, "Access-Control-Expose-Headers", "Location, Retry-After");
		http_field(request, "Vary", "Origin");
	}
	if (verdict->status == 204) {
		http_field(request, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
		http_field(request, "Access-Control-Allow-Headers",
			   "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, "
			   "Range, Traceparent");
		http_field(request, "Access-Control-Max-Age", "600");
		http_reply(request, 204, NULL, "", 0);
		return -1;
	}
	if (verdict->status == 401)
		http_field(request, "WWW-Authenticate", "Bearer realm=\"fumehood\"");
	if (verdict->status == 401 || verdict->status == 429)
		exchange->serve->metrics.auth_failures++;
	if (verdict->status != 0) {
		exchange_problem(exchange, verdict->status, "%s", verdict->detail);
		return -1;
	}
	exchange->who = verdict->who;
	return 0;
}

/* To its route, with a path and a query that the route has. */
static int find_route(struct exchange *exchange)
{
	struct http_request *request = exchange->request;
	char allow[64];
	int status;

	exchange->route = route_find(&request->head.method, &exchange->target, &status, allow);
	if (!exchange->route) {
		if (status == 405)
			http_field(request, "Allow", "%s", allow);
		exchange_problem(exchange, status, "%s",
				 status == 405 ? "this method is not for this path"
					       : "there is nothing here; /openapi.json has what "
						 "there is");
		return -1;
	}
	return 0;
}

static int check_scope(struct exchange *exchange)
{
	unsigned scope = exchange->route->scope;

	if ((exchange->who.scopes & scope) == scope)
		return 0;
	exchange_problem(exchange, 403, "the token has not the scope that this needs");
	return -1;
}

static bool is_open(const struct exchange *exchange, const struct verdict *verdict)
{
	return verdict->status == 401 && exchange->route && exchange->route->open;
}

void exchange_begin(struct serve *serve, struct http_request *request)
{
	struct exchange *exchange = mem_zalloc(sizeof(*exchange));
	struct verdict verdict;
	const char *why = NULL;
	bool good_target;
	char allow[64];
	int status;

	exchange->references = 1;
	exchange->serve = serve;
	exchange->request = request;
	exchange->local = http_is_local(request);
	memcpy(exchange->who.id, "-", 2);
	request->owned = exchange;
	request->release = release;
	request->on_complete = stream_complete;
	gate_check(&serve->gate, &request->head, exchange->local, request->began_us, &verdict);
	good_target = target_parse(&request->head.target, &exchange->target, &why) == 0;
	if (good_target)
		exchange->route =
			route_find(&request->head.method, &exchange->target, &status, allow);
	if (is_open(exchange, &verdict))
		verdict.status = 0;
	if (pass_gate(exchange, &verdict) != 0)
		return;
	if (!good_target) {
		exchange_problem(exchange, 400, "%s", why);
		return;
	}
	if (find_route(exchange) != 0)
		return;
	note_places(exchange);
	if (check_scope(exchange) != 0 || check_query(exchange) != 0)
		return;
	request->end_is_gone = exchange->route->end_is_gone;
	request->body_bytes_max = exchange->route->body_bytes_max;
	request->on_complete = body_complete;
	if (exchange->route->body != BODY_STREAM)
		return;
	request->on_complete = stream_complete;
	http_pause(request);
	find_session(exchange);
}
