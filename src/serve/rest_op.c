/*
 * Requests that are passed on to the keeper as they are, and answers that are passed back: an op of
 * the session protocol with the members of the body, or of the query.
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "serve/exchange.h"

/* What the answer must not be mistaken for: a member that the protocol has. */
static int is_not_ours(const char *key, size_t len, struct json *value, void *data)
{
	struct err *err = data;

	(void)value;
	if ((len == 2 && memcmp(key, "op", 2) == 0) || (len == 2 && memcmp(key, "id", 2) == 0))
		return err_set(err, ERR_INVALID, "\"%s\" is no member here", key);
	return 0;
}

static void answered(void *data, const struct scan *scan, const struct err *err)
{
	struct exchange *exchange = data;
	cleanup_buf struct buf body = BUF_INIT;

	if (!scan) {
		exchange_err(exchange, err);
	} else {
		scan_put_rest(&body, scan);
		buf_append_char(&body, '\n');
		if (strcmp(exchange->route->op ? exchange->route->op : "", "stop") == 0) {
			struct err gone = ERR_INIT;

			err_set(&gone, ERR_GONE, "the session has ended");
			live_ended(exchange->live, &gone);
		}
		exchange_bytes(exchange, 200, "application/json", buf_bytes(&body), body.len);
	}
	exchange_drop(exchange);
}

/* The query as members, by the kinds that the route's table has. */
static struct json *query_fields(const struct exchange *exchange)
{
	struct json *fields = json_new_object();
	const struct route_param *param = exchange->route->params;

	for (; param && param->name; param++) {
		const char *text = target_param(&exchange->target, param->name);
		uint64_t count = 0;
		bool truth = false;

		if (!text)
			continue;
		switch (param->kind) {
		case PARAM_TEXT:
			json_set(fields, param->name, json_new_string(text, strlen(text)));
			break;
		case PARAM_COUNT:
			(void)exchange_count(exchange, param->name, &count, NULL);
			json_set_int(fields, param->name, (int64_t)count);
			break;
		case PARAM_BOOL:
			(void)exchange_bool(exchange, param->name, &truth, NULL);
			json_set(fields, param->name, json_new_bool(truth));
			break;
		}
	}
	return fields;
}

void rest_op(struct exchange *exchange)
{
	cleanup_json struct json *query = NULL;
	struct err err = ERR_INIT;

	if (exchange->body && json_each(exchange->body, is_not_ours, &err) != 0) {
		exchange_err(exchange, &err);
		return;
	}
	if (!exchange->body)
		query = query_fields(exchange);
	live_call(exchange->live, exchange->route->op, exchange->body ? exchange->body : query,
		  NULL, answered, exchange_keep(exchange));
}

/* A note may have an id of its own. */
void rest_note(struct exchange *exchange)
{
	const char *id = json_get_string(exchange->body, "id");
	char random[HASH_ID_SIZE];
	char own[65];

	if (json_has(exchange->body, "op") ||
	    (json_has(exchange->body, "id") && (!id || !text_is_id(id, strlen(id))))) {
		exchange_problem(exchange, 400,
				 "a note has text, id, cell_type, metadata and attachments");
		return;
	}
	hash_random_id(random);
	snprintf(own, sizeof(own), "%s", id ? id : random);
	(void)json_remove(exchange->body, "id");
	live_call(exchange->live, "note", exchange->body, own, answered, exchange_keep(exchange));
}

/* What opens hosts to a session is for the user, not for who has a token. */
void rest_policy(struct exchange *exchange)
{
	if (!exchange->local) {
		exchange_problem(exchange, 403,
				 "a policy can be changed over the Unix socket only");
		return;
	}
	rest_op(exchange);
}

/* --- answers that are one member -------------------------------------------------------------- */

static void text_answered(void *data, const struct scan *scan, const struct err *err)
{
	static const char *const types[] = {"application/json", "text/plain", NULL};
	struct exchange *exchange = data;
	cleanup_json struct json *reply = NULL;
	cleanup_buf struct buf body = BUF_INIT;
	const char *type = exchange->request ? exchange_accepts(exchange, types) : NULL;
	size_t len = 0;
	const char *text;

	if (!scan || !type) {
		if (!scan)
			exchange_err(exchange, err);
		else
			exchange_problem(exchange, 406, "a text is application/json or text/plain");
		exchange_drop(exchange);
		return;
	}
	scan_put_rest(&body, scan);
	if (strcmp(type, "text/plain") == 0) {
		reply = json_parse(buf_bytes(&body), body.len, &JSON_LIMITS, NULL);
		text = json_string(json_get(reply, "text"), &len);
		exchange_bytes(exchange, 200, "text/plain; charset=utf-8", text ? text : "", len);
	} else {
		buf_append_char(&body, '\n');
		exchange_bytes(exchange, 200, "application/json", buf_bytes(&body), body.len);
	}
	exchange_drop(exchange);
}

void rest_text(struct exchange *exchange)
{
	cleanup_json struct json *fields = query_fields(exchange);

	json_set_string(fields, "cell", exchange->item);
	live_call(exchange->live, "text", fields, NULL, text_answered, exchange_keep(exchange));
}

static void notebook_answered(void *data, const struct scan *scan, const struct err *err)
{
	static const char start[] = ",\"notebook\":";
	struct exchange *exchange = data;
	size_t len = sizeof(start) - 1;

	if (!scan) {
		exchange_err(exchange, err);
	} else if (scan->rest.len > len && memcmp(scan->rest.at, start, len) == 0) {
		if (exchange->request)
			http_field(exchange->request, "Content-Disposition",
				   "attachment; filename=\"notebook.ipynb\"");
		exchange_bytes(exchange, 200, "application/x-ipynb+json", scan->rest.at + len,
			       scan->rest.len - len - 1);
	} else {
		exchange_problem(exchange, 500, "the session's answer has no notebook");
	}
	exchange_drop(exchange);
}

void rest_notebook(struct exchange *exchange)
{
	cleanup_json struct json *fields = query_fields(exchange);

	live_call(exchange->live, "notebook", fields, NULL, notebook_answered,
		  exchange_keep(exchange));
}

/* --- blobs ------------------------------------------------------------------------------------ */

void rest_blob(struct exchange *exchange)
{
	cleanup_json struct json *fields = query_fields(exchange);

	if (!hash_is_hex(exchange->item)) {
		exchange_problem(exchange, 404, "a blob is named by 64 hex digits");
		return;
	}
	json_set_string(fields, "sha256", exchange->item);
	live_call(exchange->live, "blob", fields, NULL, answered, exchange_keep(exchange));
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void dropped(void *data, const struct scan *scan, const struct err *err)
{
	struct exchange *exchange = data;

	if (!scan)
		exchange_err(exchange, err);
	else
		exchange_bytes(exchange, 204, NULL, "", 0);
	exchange_drop(exchange);
}

void rest_checkpoint_drop(struct exchange *exchange)
{
	cleanup_json struct json *fields = json_new_object();

	json_set_string(fields, "drop", exchange->item);
	live_call(exchange->live, "checkpoints", fields, NULL, dropped, exchange_keep(exchange));
}
