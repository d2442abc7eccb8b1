/*
 * Questions about the variables: `complete`, `inspect`, `variables`.
 *
 * They are put to the interpreter between cells, one at a time, and leave no event. While a cell
 * runs or waits they are refused `busy` at once: an editor asks again at the next key, and an
 * answer that comes after a cell of a minute is of no use. Questions that come while another is
 * being answered wait for it (at most ASKS_MAX).
 *
 * Answering runs code of the session (__getattr__, __dir__, a property), which may hang. The
 * ladder: after ASK_MS the guest is interrupted and answers with what it has; after ASK_AGAIN_MS
 * once more; after ASK_GIVE_UP_MS the client is refused `timeout`. The interpreter may then still
 * be busy, but its variables are worth more than its time: it is only killed when a cell needs it.
 * Until then other questions are refused.
 */
#include <string.h>

#include "base/mem.h"
#include "keeper/request.h"
#include "keeper/session.h"

#define ASK_BIT 0x80000000u /* engine.h: the number of an ask is never that of a cell */

enum { ASKS_MAX = 16, ASK_MS = 2000, ASK_AGAIN_MS = 2000, ASK_GIVE_UP_MS = 1000 };

enum ask_rung { ASK_ASKED, ASK_INTERRUPTED, ASK_INTERRUPTED_AGAIN, ASK_GIVEN_UP };

struct ask {
	struct ask *next;
	struct client *client; /* NULL once it has been answered */
	struct json *id;
	enum ask_kind kind;
	struct buf body;
	uint32_t number; /* 0: waits */
	enum ask_rung rung;
};

/* What an answer may hold; all else that a guest says is left out. */
struct answer_member {
	enum ask_kind kind;
	const char *name;
	enum json_type type;
};

static const struct answer_member MEMBERS[] = {
	{ASK_COMPLETE, "matches", JSON_ARRAY},  {ASK_COMPLETE, "cursor_start", JSON_INT},
	{ASK_COMPLETE, "cursor_end", JSON_INT}, {ASK_COMPLETE, "metadata", JSON_OBJECT},
	{ASK_COMPLETE, "partial", JSON_BOOL},   {ASK_INSPECT, "found", JSON_BOOL},
	{ASK_INSPECT, "data", JSON_OBJECT},     {ASK_INSPECT, "metadata", JSON_OBJECT},
	{ASK_INSPECT, "partial", JSON_BOOL},    {ASK_VARIABLES, "variables", JSON_ARRAY},
	{ASK_VARIABLES, "total", JSON_INT},     {ASK_VARIABLES, "truncated", JSON_BOOL},
	{ASK_VARIABLES, "partial", JSON_BOOL},
};

/* NULL when a member is missing or of another type. */
static struct json *answer_body(enum ask_kind kind, const struct json *answer)
{
	struct json *body = json_new_object();

	for (size_t i = 0; i < sizeof(MEMBERS) / sizeof(*MEMBERS); i++) {
		const struct answer_member *member = &MEMBERS[i];
		struct json *value = json_get(answer, member->name);

		if (member->kind != kind)
			continue;
		if (json_type_of(value) != member->type) {
			json_free(body);
			return NULL;
		}
		json_set(body, member->name, json_keep(value));
	}
	return body;
}

/* Refuses with err, or replies with the body, which is taken. */
static void ask_tell(struct ask *ask, struct json *body, const struct err *err)
{
	if (!ask->client) {
		json_free(body);
		return;
	}
	if (err)
		client_refuse(ask->client, ask->id, err);
	else
		client_reply(ask->client, ask->id, body);
	client_drop(ask->client);
	ask->client = NULL;
}

static void ask_free(struct ask *ask)
{
	json_free(ask->id);
	buf_release(&ask->body);
	free(ask);
}

static struct ask *ask_pop(struct session *session)
{
	struct ask *ask = session->asks;

	session->asks = ask->next;
	return ask;
}

/* Why no question can be taken now; 0 when one can. */
static int check_can_ask(const struct session *session, struct err *err)
{
	size_t count = 0;

	if (session->state == SESSION_STOPPING || session->draining)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (session->state == SESSION_BROKEN)
		return err_set(err, ERR_ENGINE,
			       "there is no interpreter; \"restart\" tries to start one");
	if (record_is_full(session->record))
		return err_set(err, ERR_NO_SPACE,
			       "the disk is full; free some space and try again");
	if ((session->state != SESSION_IDLE && session->state != SESSION_ASKING) ||
	    cells_queued(session->cells) > 0)
		return err_set(err, ERR_BUSY, "a cell is running; ask again when it has finished");
	for (const struct ask *ask = session->asks; ask; ask = ask->next) {
		if (ask->rung == ASK_GIVEN_UP)
			return err_set(err, ERR_BUSY,
				       "code of the session does not end; a cell, or \"restart\", "
				       "ends it and gives up its variables");
		count++;
	}
	if (count >= ASKS_MAX)
		return err_set(err, ERR_BUSY, "%d questions are waiting already", ASKS_MAX);
	return 0;
}

int session_ask(struct session *session, struct client *client, struct json *id, enum ask_kind kind,
		const struct json *body, struct err *err)
{
	struct ask **last = &session->asks;
	struct ask *ask;

	if (check_can_ask(session, err) != 0)
		return -1;
	ask = mem_zalloc(sizeof(*ask));
	ask->client = client_keep(client);
	ask->id = json_keep(id);
	ask->kind = kind;
	json_write(&ask->body, body);
	while (*last)
		last = &(*last)->next;
	*last = ask;
	session_next(session);
	return 0;
}

void session_ask_next(struct session *session)
{
	struct ask *ask = session->asks;

	if (!ask)
		return;
	session_move(session, SESSION_ASK);
	ask->number = ASK_BIT | (++session->ask_count & ~ASK_BIT);
	uv_timer_start(session->ask_timer, ask_timer_fired, ASK_MS, 0);
	/* As with a cell: a guest that cannot be told is dead or dying. */
	if (session->engine->ops->ask(session->engine, ask->number, buf_bytes(&ask->body),
				      ask->body.len, NULL) != 0)
		session->engine->ops->kill(session->engine);
}

void ask_timer_fired(uv_timer_t *timer)
{
	struct session *session = timer->data;
	struct ask *ask = session->asks;
	struct err err = ERR_INIT;

	if (session->state != SESSION_ASKING)
		return;
	ask->rung++;
	if (ask->rung < ASK_GIVEN_UP) {
		(void)session->engine->ops->interrupt(session->engine, ask->number, NULL);
		uv_timer_start(timer, ask_timer_fired,
			       ask->rung == ASK_INTERRUPTED ? ASK_AGAIN_MS : ASK_GIVE_UP_MS, 0);
		return;
	}
	err_set(&err, ERR_TIMEOUT,
		"code of the session does not end, and did not heed two "
		"interrupts; \"restart\" gives up its variables");
	ask_tell(ask, NULL, &err);
	while (ask->next) {
		struct ask *waiting = ask->next;

		ask->next = waiting->next;
		ask_tell(waiting, NULL, &err);
		ask_free(waiting);
	}
	session_ask_make_way(session);
}

void session_ask_make_way(struct session *session)
{
	if (session->asks->rung < ASK_GIVEN_UP || session->kill_reason)
		return;
	if (cells_queued(session->cells) > 0) {
		session->kill_reason = "ask";
		session->engine->ops->kill(session->engine);
	} else if (session->draining) {
		session_stop(session, "stop");
	}
}

void session_answered(struct session *session, uint32_t number, const struct json *answer)
{
	struct ask *ask = session->asks;
	struct err err = ERR_INIT;
	struct json *body;

	if (session->state != SESSION_ASKING || ask->number != number)
		return; /* of a session that is stopping: refused already */
	uv_timer_stop(session->ask_timer);
	ask_pop(session);
	body = answer_body(ask->kind, answer);
	if (!body)
		err_set(&err, ERR_CORRUPT,
			"the interpreter gave no readable answer; code of the "
			"session may have changed it");
	ask_tell(ask, body, body ? NULL : &err);
	ask_free(ask);
	session_move(session, SESSION_ANSWERED);
	session_next(session);
}

void session_refuse_asks(struct session *session, const char *why)
{
	struct err err = ERR_INIT;

	uv_timer_stop(session->ask_timer);
	err_set(&err, ERR_GONE, "%s", why);
	while (session->asks) {
		struct ask *ask = ask_pop(session);

		ask_tell(ask, NULL, &err);
		ask_free(ask);
	}
}
