/*
 * The channel of a session: the session protocol (doc/protocol.md) over a WebSocket, a message a
 * line, both ways.
 *
 * The first message is the keeper's hello. Each request is looked at for its op, which the token
 * must have the scope for, and then goes on to the keeper over a link of the channel's own; what
 * comes back goes to the client as it is. Nothing is kept between: when the client does not read,
 * the link is not read; when the keeper does not, the client is not.
 */
#include "serve/channel.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/exchange.h"
#include "serve/websocket.h"

enum { MESSAGE_BYTES_MAX = 24 << 20, LINK_BYTES_HIGH = 1 << 20 };

struct channel {
	struct channel *next, **prev;
	struct exchange *exchange; /* kept; it holds the session */
	struct websocket *ws;
	struct link *link;
	bool link_waits; /* the link was paused for the client */
	bool ws_waits;   /* ... and the client for the link */
};

/* What each op needs. Those that are not here need SCOPE_ALL, and a peer of our own uid. */
static const struct {
	const char *op;
	unsigned scope;
} OPS[] = {
	{"events", SCOPE_READ},      {"text", SCOPE_READ},         {"notebook", SCOPE_READ},
	{"status", SCOPE_READ},      {"files", SCOPE_READ},        {"list_files", SCOPE_READ},
	{"read_file", SCOPE_READ},   {"images", SCOPE_READ},       {"outputs", SCOPE_READ},
	{"blob", SCOPE_READ},        {"checkpoints", SCOPE_READ},  {"save", SCOPE_READ},
	{"run", SCOPE_RUN},          {"interrupt", SCOPE_RUN},     {"input", SCOPE_RUN},
	{"section", SCOPE_RUN},      {"note", SCOPE_RUN},          {"complete", SCOPE_RUN},
	{"inspect", SCOPE_RUN},      {"variables", SCOPE_RUN},     {"restart", SCOPE_RUN},
	{"checkpoint", SCOPE_RUN},   {"rollback", SCOPE_RUN},      {"reset", SCOPE_RUN},
	{"write_file", SCOPE_FILES}, {"remove_file", SCOPE_FILES}, {"make_folder", SCOPE_FILES},
	{"stop", SCOPE_MANAGE},      {"limits", SCOPE_MANAGE},     {"fork", SCOPE_MANAGE},
};

static bool may(const struct channel *channel, const char *op, const struct json *request)
{
	const struct exchange *exchange = channel->exchange;

	/* A branch needs a name that the token may give, and dropping is no reading. */
	if (strcmp(op, "fork") == 0 &&
	    !principal_sees(&exchange->who, json_get_string(request, "name")))
		return false;
	if (json_has(request, "drop") && !(exchange->who.scopes & SCOPE_RUN))
		return false;
	for (size_t i = 0; i < sizeof(OPS) / sizeof(OPS[0]); i++)
		if (strcmp(OPS[i].op, op) == 0)
			return (exchange->who.scopes & OPS[i].scope) == OPS[i].scope;
	return exchange->local && exchange->who.scopes == SCOPE_ALL;
}

static void refuse(struct channel *channel, const struct json *id, const char *code,
		   const char *message)
{
	cleanup_buf struct buf line = BUF_INIT;

	buf_append_string(&line, "{\"type\":\"refused\",\"id\":");
	json_write(&line, id);
	buf_printf(&line, ",\"code\":\"%s\",\"message\":", code);
	json_write_string(&line, message, strlen(message));
	buf_append_char(&line, '}');
	websocket_send(channel->ws, buf_bytes(&line), line.len);
}

/* --- from the client -------------------------------------------------------------------------- */

static void message_came(void *data, const char *bytes, size_t len, bool text)
{
	static const struct json_limits limits = {
		.bytes_max = MESSAGE_BYTES_MAX, .depth_max = 64, .keys_unique = true};
	struct channel *channel = data;
	cleanup_json struct json *request = NULL;
	cleanup_buf struct buf line = BUF_INIT;
	struct err err = ERR_INIT;
	const char *op;

	if (!text) {
		websocket_close(channel->ws, WEBSOCKET_TYPE, "messages are text");
		return;
	}
	request = json_parse(bytes, len, &limits, &err);
	op = json_get_string(request, "op");
	if (!op) {
		refuse(channel, NULL,
		       request || err.code == ERR_OK ? "invalid" : err_name(err.code),
		       err.code == ERR_OK ? "a request is a JSON object with \"op\"" : err.text);
		return;
	}
	if (!may(channel, op, request)) {
		refuse(channel, json_get(request, "id"), "denied",
		       "there is no such op here, or the token has not its scope");
		return;
	}
	json_write(&line, request);
	buf_append_char(&line, '\n');
	link_send(channel->link, buf_bytes(&line), line.len);
	if (link_queued(channel->link) > LINK_BYTES_HIGH) {
		channel->ws_waits = true;
		websocket_pause(channel->ws);
	}
}

static void client_drained(void *data)
{
	struct channel *channel = data;

	if (!channel->link_waits || !channel->link)
		return;
	channel->link_waits = false;
	link_resume(channel->link);
}

static void client_gone(void *data, bool by_protocol_error)
{
	struct channel *channel = data;

	channel->exchange->serve->metrics.ws_protocol_errors += by_protocol_error;
	*channel->prev = channel->next;
	if (channel->next)
		channel->next->prev = channel->prev;
	link_close(channel->link);
	channel->exchange->request = NULL;
	exchange_drop(channel->exchange);
	free(channel);
}

static const struct websocket_events WS_EVENTS = {
	.message = message_came, .drained = client_drained, .gone = client_gone};

/* --- from the keeper -------------------------------------------------------------------------- */

static void give(struct channel *channel, const char *line, size_t len)
{
	websocket_send(channel->ws, line, len);
	if (websocket_full(channel->ws)) {
		channel->link_waits = true;
		link_pause(channel->link);
	}
}

static void link_ready(void *data, struct link *link, const char *hello, size_t len)
{
	(void)link;
	give(data, hello, len);
}

static void link_line(void *data, struct link *link, const char *line, size_t len)
{
	(void)link;
	give(data, line, len);
}

static void link_ended(void *data, struct link *link, const struct err *err)
{
	struct channel *channel = data;

	(void)link;
	channel->link = NULL;
	websocket_close(channel->ws, WEBSOCKET_GOING_AWAY, err->text);
	if (err->code == ERR_GONE)
		live_ended(channel->exchange->live, err);
}

static const struct link_events LINK_EVENTS = {
	.ready = link_ready, .line = link_line, .end = link_ended};

/* --- life ------------------------------------------------------------------------------------- */

uint64_t channels_of(const struct serve *serve, const char *who)
{
	uint64_t count = 0;

	for (const struct channel *channel = serve->channels; channel; channel = channel->next)
		count += !who || strcmp(channel->exchange->who.id, who) == 0;
	return count;
}

void rest_channel(struct exchange *exchange)
{
	struct serve *serve = exchange->serve;
	struct channel *channel;
	const char *why = "";
	int status = websocket_check(exchange->request, &why);

	if (status != 0) {
		if (status == 426)
			http_field(exchange->request, "Upgrade", "websocket");
		exchange_problem(exchange, status, "%s", why);
		return;
	}
	if (serve_streams_of(serve, exchange->who.id) >= serve->options.streams_max) {
		exchange_problem(exchange, 429, "you have too many streams and channels open");
		return;
	}
	channel = mem_zalloc(sizeof(*channel));
	channel->exchange = exchange_keep(exchange);
	channel->next = serve->channels;
	channel->prev = &serve->channels;
	if (channel->next)
		channel->next->prev = &channel->next;
	serve->channels = channel;
	/* Each channel gets the hello, so its link is always a new one. */
	channel->link = live_new_link(exchange->live, &LINK_EVENTS, channel);
	channel->ws = websocket_accept(exchange->request, MESSAGE_BYTES_MAX, &WS_EVENTS, channel);
}

void channels_tick(struct serve *serve, int64_t now_us)
{
	struct channel *next;

	for (struct channel *channel = serve->channels; channel; channel = next) {
		next = channel->next;
		if (channel->ws_waits && channel->link &&
		    link_queued(channel->link) <= LINK_BYTES_HIGH / 2) {
			channel->ws_waits = false;
			websocket_resume(channel->ws);
		}
	}
	for (struct channel *channel = serve->channels; channel; channel = next) {
		next = channel->next;
		websocket_tick(channel->ws, now_us);
	}
}

void channels_close(struct serve *serve)
{
	for (struct channel *channel = serve->channels; channel; channel = channel->next)
		websocket_close(channel->ws, WEBSOCKET_RESTART, "the daemon is about to end");
}
