/*
 * Op record: what a client does with a model becomes events of the session.
 *
 * The program that asks a model is a client (doc/ask.md), and the keeper stays the only one that
 * writes the journal. request.c has checked the members by the type of the record; here is what
 * needs the session: the id of an ask is given, and later records name one that is open. An ask
 * needs no interpreter, so its records are taken while a cell runs and where there is none.
 */
#include <string.h>

#include "keeper/ops.h"

/* Copies a member of the request that is none of the protocol's own. */
static int copy_member(const char *key, size_t len, struct json *value, void *data)
{
	static const char *const own[] = {"op", "id", "type", "cell"};

	(void)len; /* request.c: no NUL in it */
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (strcmp(key, own[i]) == 0)
			return 0;
	json_set(data, key, json_keep(value));
	return 0;
}

/* A record of an ask that is open, and if it names a cell, of one that there is. */
static int check(const struct call *call, const char *cell, struct err *err)
{
	if (asked_check(&call->session->asked, json_get_string(call->json, "ask"), err) != 0)
		return -1;
	if (cell && !cells_find(call->session->cells, cell))
		return err_set(err, ERR_NOT_FOUND, "there is no cell \"%s\"", cell);
	return 0;
}

int op_record(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *cell = json_get_string(call->json, "cell");
	struct event told = {.type = request_record_type(call->request)};
	struct json *answer;
	char id[ASKED_ID_SIZE];

	if (told.type != EVENT_ASK && check(call, cell, err) != 0)
		return -1;
	record_flush(session->record);
	answer = json_new_object();
	told.body = json_new_object();
	if (told.type == EVENT_ASK) {
		asked_name(session->asked.count + 1, id);
		json_set_string(told.body, "ask", id);
		json_set_string(answer, "ask", id);
	}
	json_each(call->json, copy_member, told.body);
	json_set_int(answer, "last_seq", (int64_t)journal_seq(record_journal(session->record)) + 1);
	if (call_record(call, told.type, cell, json_keep(told.body), answer, err) != 0) {
		json_free(told.body);
		return -1;
	}
	asked_apply(&session->asked, &told);
	json_free(told.body);
	return 0;
}
