/*
 * Asking a model over HTTP: `fumehood ask` is started with what the body says, and its lines are
 * the answer (asking.h).
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "serve/ask_body.h"
#include "serve/asking.h"

enum { KEY_BYTES_MAX = 255 };

static const char *const TYPES[] = {"application/json", "text/event-stream", "application/x-ndjson",
				    NULL};

/* The key's hash, and the body's. -1 when the request is answered. */
static int read_key(struct exchange *exchange, char key[static HASH_HEX_SIZE],
		    char body[static HASH_HEX_SIZE])
{
	const struct slice *given = head_find(&exchange->request->head, "idempotency-key", NULL);
	cleanup_buf struct buf text = BUF_INIT;

	key[0] = '\0';
	if (given && (given->len == 0 || given->len > KEY_BYTES_MAX)) {
		exchange_problem(exchange, 400, "an Idempotency-Key has 1 to 255 bytes");
		return -1;
	}
	if (given)
		hash_sha256(given->at, given->len, key);
	json_write(&text, exchange->body);
	hash_sha256(buf_bytes(&text), text.len, body);
	return 0;
}

/* With everything checked, and the session (if any) held. */
static void start(struct exchange *exchange)
{
	const char *type = exchange_accepts(exchange, TYPES);
	const struct ask_rules rules = {.trusted = exchange->local,
					.urls = exchange->serve->options.ask_urls,
					.url_count = exchange->serve->options.ask_url_count};
	cleanup_ask_body struct ask_body ask = ASK_BODY_INIT;
	struct asking_params params = {.form = ASKING_JSON};
	char key[HASH_HEX_SIZE], body[HASH_HEX_SIZE];
	struct err err = ERR_INIT;

	if (ask_body_read(exchange->body, &rules, &ask, &err) != 0 ||
	    exchange_bool(exchange, "detach", &params.detach, &err) != 0) {
		exchange_err(exchange, &err);
		return;
	}
	if (!type) {
		exchange_problem(exchange, 406,
				 "an ask answers as application/json, text/event-stream or "
				 "application/x-ndjson");
		return;
	}
	if (read_key(exchange, key, body) != 0)
		return;
	params.form = strcmp(type, TYPES[1]) == 0   ? ASKING_SSE
		      : strcmp(type, TYPES[2]) == 0 ? ASKING_NDJSON
						    : ASKING_JSON;
	params.detach |= ask.detach;
	params.key = key[0] ? key : NULL;
	params.body = body;
	if (asking_follow(exchange, &params))
		return;
	if (!exchange->live && serve_has_room(exchange) != 0)
		return;
	if (exchange->live)
		ask_body_add(&ask, "session", exchange->live->id);
	else if (!json_has(exchange->body, "workspace")) /* else: where the daemon stands */
		ask_body_add(&ask, "private", NULL);
	params.child = (struct asker_params){.words = (const char *const *)ask.words,
					     .instruction = ask.instruction,
					     .instruction_len = ask.instruction_len,
					     .system = ask.system,
					     .system_len = ask.system_len};
	asking_start(exchange, &params);
}

static void session_found(void *data, struct live *live, const struct err *err)
{
	struct exchange *exchange = data;

	if (!live) {
		exchange_err(exchange, err);
	} else if (exchange->request) {
		exchange->live = live;
		live_hold(live);
		memcpy(exchange->audit_session, live->id, sizeof(exchange->audit_session));
		start(exchange);
	}
	exchange_drop(exchange);
}

/* Before a session is started for it. */
static int check(struct exchange *exchange)
{
	const struct ask_rules rules = {.trusted = exchange->local,
					.urls = exchange->serve->options.ask_urls,
					.url_count = exchange->serve->options.ask_url_count};
	cleanup_ask_body struct ask_body ask = ASK_BODY_INIT;
	struct err err = ERR_INIT;

	if (ask_body_read(exchange->body, &rules, &ask, &err) == 0)
		return 0;
	exchange_err(exchange, &err);
	return -1;
}

void rest_ask(struct exchange *exchange)
{
	const struct json *session = json_get(exchange->body, "session");

	if (check(exchange) != 0)
		return;
	if (exchange->serve->ending) {
		exchange_problem(exchange, 503, "the daemon is about to end");
		return;
	}
	if (json_string(session, NULL)) {
		sessions_find(exchange->serve->sessions, json_string(session, NULL), &exchange->who,
			      OPEN_START, session_found, exchange_keep(exchange));
		return;
	}
	/* A session of its own is made for it, and kept. */
	if (!(exchange->who.scopes & SCOPE_MANAGE)) {
		exchange_problem(exchange, 403,
				 "without \"session\" an ask starts one, for which the token needs "
				 "the scope manage");
		return;
	}
	if (exchange->who.prefix[0]) {
		exchange_problem(exchange, 403,
				 "a token that is bound to names asks in a session: give "
				 "\"session\"");
		return;
	}
	start(exchange);
}
