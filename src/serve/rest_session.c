/*
 * Sessions as things: listing, starting, opening, looking at, stopping and removing them.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/exchange.h"
#include "serve/lookup.h"

/* What the daemon knows of a running session, over what its directory says. */
static void add_live(struct json *entry, const struct live *live)
{
	json_set_string(entry, "tier", live->tier);
	json_set_string(entry, "state", live->doing);
	json_set(entry, "cell",
		 live->cell[0] ? json_new_string(live->cell, strlen(live->cell)) : NULL);
	json_set_int(entry, "queue", (int64_t)live->queue);
	json_set_int(entry, "last_seq", (int64_t)live->last_seq);
}

static struct live *live_of(struct serve *serve, const char *id)
{
	for (struct live *live = sessions_first(serve->sessions); live; live = live->next)
		if (live->state == LIVE_READY && strcmp(live->id, id) == 0)
			return live;
	return NULL;
}

static void put_live(struct serve *serve, struct json *entry)
{
	struct live *live = live_of(serve, json_get_string(entry, "id"));

	if (live)
		add_live(entry, live);
	else
		json_set_string(entry, "state",
				json_get_bool(entry, "running", false) ? "unknown" : "stopped");
}

static void listed(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;
	cleanup_json struct json *answer = json_new_object();
	struct json *array = json_new_array();

	json_set(answer, "sessions", array);
	if (lookup->err.code != ERR_OK) {
		exchange_err(exchange, &lookup->err);
		exchange_drop(exchange);
		return;
	}
	for (size_t i = 0; i < json_length(lookup->list); i++) {
		struct json *entry = json_at(lookup->list, i);

		if (!principal_sees(&exchange->who, json_get_string(entry, "name")))
			continue;
		put_live(exchange->serve, entry);
		json_push(array, json_keep(entry));
	}
	exchange_json(exchange, 200, answer);
	exchange_drop(exchange);
}

void rest_sessions_list(struct exchange *exchange)
{
	struct lookup *lookup = lookup_new("");

	lookup->all = true;
	lookup_queue(&exchange->serve->loop, lookup, listed, exchange_keep(exchange));
}

static void found_one(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;

	if (lookup->err.code == ERR_OK && !principal_sees(&exchange->who, lookup->name))
		err_set(&lookup->err, ERR_NOT_FOUND, "there is no session %.64s", lookup->word);
	if (lookup->err.code != ERR_OK) {
		exchange_err(exchange, &lookup->err);
	} else {
		memcpy(exchange->audit_session, lookup->id, sizeof(lookup->id));
		put_live(exchange->serve, lookup->entry);
		exchange_json(exchange, 200, lookup->entry);
	}
	exchange_drop(exchange);
}

void rest_session_get(struct exchange *exchange)
{
	if (strlen(exchange->session) >= LOOKUP_WORD_SIZE) {
		exchange_problem(exchange, 404, "there is no such session");
		return;
	}
	lookup_queue(&exchange->serve->loop, lookup_new(exchange->session), found_one,
		     exchange_keep(exchange));
}

/* --- starting --------------------------------------------------------------------------------- */

static void answer_with(struct exchange *exchange, int status, const struct live *live)
{
	cleanup_json struct json *answer = json_new_object();

	json_set_string(answer, "id", live->id);
	json_set(answer, "name",
		 live->name ? json_new_string(live->name, strlen(live->name)) : NULL);
	json_set(answer, "running", json_new_bool(true));
	add_live(answer, live);
	if (exchange->request)
		http_field(exchange->request, "Location", "/v1/sessions/%s", live->id);
	exchange_json(exchange, status, answer);
}

int serve_has_room(struct exchange *exchange)
{
	static const struct principal everyone = {.id = "", .scopes = 0};
	struct serve *serve = exchange->serve;
	uint64_t all = sessions_count(serve->sessions, &everyone) + serve->starting;
	uint64_t own = sessions_count(serve->sessions, &exchange->who) + serve->starting;
	uint64_t own_max = exchange->who.sessions_max ? exchange->who.sessions_max
						      : serve->options.sessions_max;

	if (all < serve->options.sessions_max && own < own_max)
		return 0;
	exchange_problem(exchange, 429,
			 "%llu sessions run already, which is the limit (--max-sessions); stop one",
			 (unsigned long long)(own >= own_max ? own : all));
	return -1;
}

static void started(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;
	struct serve *serve = exchange->serve;
	struct live *live = NULL;

	serve->starting--;
	if (lookup->fd >= 0)
		live = sessions_take(serve->sessions, fd_take(&lookup->fd), &lookup->rest,
				     lookup->hello);
	if (live) {
		serve->metrics.sessions_started++;
		memcpy(exchange->audit_session, live->id, sizeof(live->id));
		if (exchange->request)
			histogram_add(&serve->metrics.start_s,
				      (double)(clock_monotonic_us() - exchange->request->began_us) /
					      1e6);
		answer_with(exchange, 201, live);
	} else {
		serve->metrics.start_failures++;
		serve->metrics.sandbox_failures += lookup->err.code == ERR_SANDBOX;
		exchange_err(exchange, &lookup->err);
	}
	exchange_drop(exchange);
}

/* A token that is bound to names gives one. */
static int check_name(struct exchange *exchange)
{
	if (principal_sees(&exchange->who, json_get_string(exchange->body, "name")))
		return 0;
	exchange_problem(exchange, 403, "this token starts sessions with names that begin with %s",
			 exchange->who.prefix);
	return -1;
}

void rest_session_start(struct exchange *exchange)
{
	struct lookup *lookup;
	struct err err = ERR_INIT;

	if (lookup_check_start(exchange->body, exchange->local, &err) != 0) {
		exchange_err(exchange, &err);
		return;
	}
	if (check_name(exchange) != 0 || serve_has_room(exchange) != 0)
		return;
	lookup = lookup_new("");
	lookup->create = mem_take(exchange->body); /* another thread reads it now */
	exchange->serve->starting++;
	lookup_queue(&exchange->serve->loop, lookup, started, exchange_keep(exchange));
}

/* A branch is one more session, with a name that the token may give. */
void rest_session_fork(struct exchange *exchange)
{
	if (check_name(exchange) == 0 && serve_has_room(exchange) == 0)
		rest_op(exchange);
}

void rest_session_open(struct exchange *exchange)
{
	answer_with(exchange, 200, exchange->live);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void ended(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;

	struct live *live = live_of(exchange->serve, lookup->id);
	struct err gone = ERR_INIT;

	err_set(&gone, ERR_GONE, "the session has ended");
	if (lookup->err.code == ERR_OK && live)
		live_ended(live, &gone); /* who asks next does not find it running */
	if (lookup->err.code != ERR_OK)
		exchange_err(exchange, &lookup->err);
	else
		exchange_bytes(exchange, 204, NULL, "", 0);
	exchange_drop(exchange);
}

static void found_to_end(void *data, struct lookup *lookup)
{
	struct exchange *exchange = data;
	struct lookup *end;
	bool keep = false;

	if (lookup->err.code == ERR_OK && !principal_sees(&exchange->who, lookup->name))
		err_set(&lookup->err, ERR_NOT_FOUND, "there is no session %.64s", lookup->word);
	if (lookup->err.code == ERR_OK && lookup->ends_with_client && lookup->running)
		err_set(&lookup->err, ERR_DENIED,
			"the session belongs to the program that has started it");
	if (lookup->err.code != ERR_OK) {
		exchange_err(exchange, &lookup->err);
		exchange_drop(exchange);
		return;
	}
	memcpy(exchange->audit_session, lookup->id, sizeof(lookup->id));
	(void)exchange_bool(exchange, "keep", &keep, NULL);
	end = lookup_new(lookup->id);
	end->stop = true;
	end->remove = !keep;
	lookup_queue(&exchange->serve->loop, end, ended, exchange);
}

void rest_session_delete(struct exchange *exchange)
{
	if (strlen(exchange->session) >= LOOKUP_WORD_SIZE) {
		exchange_problem(exchange, 404, "there is no such session");
		return;
	}
	lookup_queue(&exchange->serve->loop, lookup_new(exchange->session), found_to_end,
		     exchange_keep(exchange));
}
