/*
 * Events as the original's messages; see original.h.
 *
 * The original sends a cell's outputs in one message at its end, so they are gathered here, up to
 * 16 MiB a cell; what is beyond is said in a last item.
 */
#include "serve/original.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "serve/exchange.h"
#include "serve/websocket.h"

static const char START[] = "开始执行代码";
static const char DONE[] = "代码执行完成";

/* One cell of one session that has begun. */
struct gathered {
	struct gathered *next;
	char session[HASH_ID_SIZE];
	char cell[65];
	struct buf items; /* with commas between */
	bool cut;
};

struct listener {
	struct listener *next, **prev;
	struct exchange *exchange; /* kept; it holds the session */
	struct websocket *ws;
	bool behind; /* it was too slow, and is about to be closed */
};

struct original {
	struct serve *serve;
	struct gathered *cells;
	struct listener *listeners;
};

struct original *original_new(struct serve *serve)
{
	struct original *original = mem_zalloc(sizeof(*original));

	original->serve = serve;
	return original;
}

static void gathered_free(struct gathered *gathered)
{
	buf_release(&gathered->items);
	free(gathered);
}

void original_free(struct original *original)
{
	if (!original)
		return;
	for (struct gathered *at = original->cells, *next; at; at = next) {
		next = at->next;
		gathered_free(at);
	}
	free(original);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void send_message(struct original *original, const struct live *live, const struct buf *text)
{
	cleanup_free char *channel =
		mem_format("task:%s:messages", live->name ? live->name : live->id);

	if (original->serve->publisher)
		publisher_send(original->serve->publisher, channel, buf_bytes(text), text->len);
	for (struct listener *at = original->listeners; at; at = at->next) {
		if (at->exchange->live != live || at->behind)
			continue;
		/* There is no reading on here: who cannot keep up comes back and asks. */
		if (websocket_full(at->ws)) {
			at->behind = true;
			websocket_close(at->ws, WEBSOCKET_LATER, "too slow");
			continue;
		}
		websocket_send(at->ws, buf_bytes(text), text->len);
	}
}

/* The beginning that all messages have; the caller goes on behind it and closes. */
static void begin_message(struct buf *out, const char *type)
{
	char id[HASH_ID_SIZE], hex[HASH_HEX_SIZE];

	hash_random_id(id);
	hash_sha256(id, strlen(id), hex);
	buf_printf(out, "{\"id\":\"%.8s-%.4s-4%.3s-8%.3s-%.12s\",\"msg_type\":\"%s\"", hex, hex + 8,
		   hex + 12, hex + 15, hex + 18, type);
}

static void send_system(struct original *original, const struct live *live, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	begin_message(&out, "system");
	buf_append_string(&out, ",\"content\":");
	json_write_string(&out, text, strlen(text));
	buf_append_string(&out, ",\"type\":\"info\"}");
	send_message(original, live, &out);
}

static void send_input(struct original *original, const struct live *live, const struct json *event)
{
	cleanup_buf struct buf out = BUF_INIT;

	begin_message(&out, "tool");
	buf_append_string(&out,
			  ",\"content\":null,\"tool_name\":\"execute_code\",\"input\":{\"code\":");
	json_write(&out, json_get(event, "code"));
	buf_append_string(&out, "},\"output\":null}");
	send_message(original, live, &out);
}

/* --- gathering -------------------------------------------------------------------------------- */

static struct gathered **find(struct original *original, const struct live *live,
			      const struct slice *cell)
{
	struct gathered **at = &original->cells;

	while (*at && (strcmp((*at)->session, live->id) != 0 || !slice_is(cell, (*at)->cell)))
		at = &(*at)->next;
	return at;
}

static void put_item(struct gathered *gathered, const char *kind, const char *format,
		     const char *text, size_t len)
{
	if (gathered->cut)
		return;
	if (gathered->items.len > 0)
		buf_append_char(&gathered->items, ',');
	if (gathered->items.len + len > ORIGINAL_OUTPUT_BYTES_MAX) {
		gathered->cut = true;
		kind = "stderr";
		text = "more output than 16 MiB: the rest is in the session's record";
		len = strlen(text);
	}
	buf_printf(&gathered->items, "{\"res_type\":\"%s\"", kind);
	if (strcmp(kind, "result") == 0)
		buf_printf(&gathered->items, ",\"format\":\"%s\"", format);
	buf_append_string(&gathered->items, ",\"msg\":");
	json_write_string(&gathered->items, text, len);
	buf_append_char(&gathered->items, '}');
}

static const struct {
	const char *mime, *format;
} FORMATS[] = {
	{"text/plain", "text"},   {"text/html", "html"},      {"text/markdown", "markdown"},
	{"text/latex", "latex"},  {"image/png", "png"},       {"image/jpeg", "jpeg"},
	{"image/svg+xml", "svg"}, {"application/pdf", "pdf"},
};

static void put_bundle(struct gathered *gathered, const struct json *data)
{
	for (size_t i = 0; i < sizeof(FORMATS) / sizeof(FORMATS[0]); i++) {
		size_t len = 0;
		const char *text = json_string(json_get(data, FORMATS[i].mime), &len);

		if (text)
			put_item(gathered, "result", FORMATS[i].format, text, len);
	}
}

static void put_error(struct gathered *gathered, const struct json *event)
{
	const struct json *traceback = json_get(event, "traceback");
	cleanup_buf struct buf text = BUF_INIT;

	for (size_t i = 0; i < json_length(traceback); i++) {
		size_t len = 0;
		const char *line = json_string(json_at(traceback, i), &len);

		if (i > 0)
			buf_append_char(&text, '\n');
		if (line)
			buf_append(&text, line, len);
	}
	put_item(gathered, "stderr", "", buf_bytes(&text), text.len);
}

static void gather(struct gathered *gathered, const struct scan *scan, const struct json *event)
{
	size_t len = 0;
	const char *text = json_string(json_get(event, "text"), &len);
	const char *name = json_get_string(event, "name");

	if (slice_is(&scan->type, "stream") && text)
		put_item(gathered, name && strcmp(name, "stderr") == 0 ? "stderr" : "result",
			 "text", text, len);
	else if (slice_is(&scan->type, "result") || slice_is(&scan->type, "display"))
		put_bundle(gathered, json_get(event, "data"));
	else if (slice_is(&scan->type, "error"))
		put_error(gathered, event);
}

static void cell_begins(struct original *original, const struct live *live, const struct scan *scan,
			const struct json *event)
{
	struct gathered *gathered = mem_zalloc(sizeof(*gathered));

	memcpy(gathered->session, live->id, sizeof(live->id));
	snprintf(gathered->cell, sizeof(gathered->cell), "%.*s", (int)scan->cell.len,
		 scan->cell.at);
	gathered->next = original->cells;
	original->cells = gathered;
	send_system(original, live, START);
	send_input(original, live, event);
}

static void cell_ends(struct original *original, const struct live *live, struct gathered **at)
{
	struct gathered *gathered = *at;
	cleanup_buf struct buf out = BUF_INIT;

	*at = gathered->next;
	send_system(original, live, DONE);
	begin_message(&out, "tool");
	buf_append_string(&out, ",\"content\":null,\"tool_name\":\"execute_code\",\"input\":null,"
				"\"output\":[");
	buf_append(&out, buf_bytes(&gathered->items), gathered->items.len);
	buf_append_string(&out, "]}");
	send_message(original, live, &out);
	gathered_free(gathered);
}

void original_event(struct original *original, const struct live *live, const struct scan *scan,
		    const char *line, size_t len)
{
	struct gathered **at = find(original, live, &scan->cell);
	cleanup_json struct json *event = NULL;

	if (scan->cell.len == 0 || (!*at && !slice_is(&scan->type, "cell")))
		return;
	if (slice_is(&scan->type, "finished")) {
		cell_ends(original, live, at);
		return;
	}
	event = json_parse(line, len, &JSON_LIMITS, NULL);
	if (slice_is(&scan->type, "cell"))
		cell_begins(original, live, scan, event);
	else
		gather(*at, scan, event);
}

void original_gone(struct original *original, const struct live *live)
{
	struct gathered **at = &original->cells;

	while (*at) {
		struct gathered *gathered = *at;

		if (strcmp(gathered->session, live->id) != 0) {
			at = &gathered->next;
			continue;
		}
		*at = gathered->next;
		gathered_free(gathered);
	}
	for (struct listener *listener = original->listeners; listener; listener = listener->next)
		if (listener->exchange->live == live)
			websocket_close(listener->ws, WEBSOCKET_NORMAL, "the session has ended");
}

/* --- listeners -------------------------------------------------------------------------------- */

/* Nothing is asked here: what a client says is passed over. */
static void message_came(void *data, const char *bytes, size_t len, bool text)
{
	(void)data;
	(void)bytes;
	(void)len;
	(void)text;
}

static void drained(void *data)
{
	(void)data;
}

static void client_gone(void *data, bool by_protocol_error)
{
	struct listener *listener = data;

	listener->exchange->serve->metrics.ws_protocol_errors += by_protocol_error;
	*listener->prev = listener->next;
	if (listener->next)
		listener->next->prev = listener->prev;
	listener->exchange->request = NULL;
	exchange_drop(listener->exchange);
	free(listener);
}

static const struct websocket_events WS_EVENTS = {
	.message = message_came, .drained = drained, .gone = client_gone};

void rest_original(struct exchange *exchange)
{
	struct original *original = exchange->serve->original;
	struct listener *listener;
	const char *why = "";
	int status = original ? websocket_check(exchange->request, &why) : 404;

	if (status != 0) {
		exchange_problem(exchange, status, "%s",
				 original ? why : "this is there with --original-events only");
		return;
	}
	if (serve_streams_of(exchange->serve, exchange->who.id) >=
	    exchange->serve->options.streams_max) {
		exchange_problem(exchange, 429, "you have too many streams and channels open");
		return;
	}
	listener = mem_zalloc(sizeof(*listener));
	listener->exchange = exchange_keep(exchange);
	listener->next = original->listeners;
	listener->prev = &original->listeners;
	if (listener->next)
		listener->next->prev = &listener->next;
	original->listeners = listener;
	listener->ws = websocket_accept(exchange->request, 1 << 16, &WS_EVENTS, listener);
}

void originals_tick(struct serve *serve, int64_t now_us)
{
	struct listener *next;

	if (!serve->original)
		return;
	for (struct listener *at = serve->original->listeners; at; at = next) {
		next = at->next;
		websocket_tick(at->ws, now_us);
	}
}

void originals_close(struct serve *serve)
{
	if (!serve->original)
		return;
	for (struct listener *at = serve->original->listeners; at; at = at->next)
		websocket_close(at->ws, WEBSOCKET_RESTART, "the daemon is about to end");
}
