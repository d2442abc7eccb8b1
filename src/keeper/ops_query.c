/*
 * The requests that look and change nothing: texts, documents, files, images, and how things stand.
 */
#include "keeper/ops.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "keeper/files.h"
#include "keeper/guard.h"
#include "keeper/past.h"

enum { TEXT_CHARS = 8000, TEXT_ITEM_CHARS = 2000 };

/* The form of a text that is asked for. Who wants another total, wants it for each item too unless
 * that is said; the marked form has limits of its own (0). */
static struct digest_params text_form(const struct call *call)
{
	const struct json *json = call->json;
	struct digest_params form = {.marks = json_get_bool(json, "marks", false)};
	int64_t total = json_get_int(json, "max_chars", form.marks ? 0 : TEXT_CHARS);

	form.total_chars_max = (size_t)total;
	form.item_chars_max = (size_t)json_get_int(
		json, "item_chars", json_get(json, "max_chars") ? total : TEXT_ITEM_CHARS);
	return form;
}

int op_text(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *id = json_get_string(call->json, "cell");
	const struct cell *cell = cells_find(session->cells, id);
	const struct digest_params form = text_form(call);
	cleanup_buf struct buf text = BUF_INIT;
	struct json *body;

	if (!cell)
		return err_set(err, ERR_NOT_FOUND, "there is no cell \"%s\"", id);
	if (session_text(session, cell, &form, NULL, &text, err) != 0)
		return -1;
	body = json_new_object();
	json_set(body, "text", json_new_string(buf_bytes(&text), text.len));
	call_reply(call, body);
	return 0;
}

int op_notebook(const struct call *call, struct err *err)
{
	enum notebook_rolled_back what =
		notebook_rolled_back_from_name(json_get_string(call->json, "rolled_back"));
	cleanup_buf struct buf text = BUF_INIT;
	struct json *document;
	struct json *body;
	static const struct json_limits limits = {.bytes_max = SIZE_MAX,
						  .depth_max = 1000,
						  .keys_unique = false,
						  .nan_as_text = false};

	record_flush(call->session->record);
	notebook_write_joined(record_notebook(call->session->record), what, &text);
	document = json_parse(buf_bytes(&text), text.len, &limits, err);
	if (!document)
		return -1;
	body = json_new_object();
	json_set(body, "notebook", document);
	call_reply(call, body);
	return 0;
}

int op_blob(const struct call *call, struct err *err)
{
	int64_t length = json_get_int(call->json, "length", REQUEST_BLOB_BYTES_MAX);
	int64_t offset = json_get_int(call->json, "offset", 0);
	cleanup_buf struct buf bytes = BUF_INIT, text = BUF_INIT;
	uint64_t total = 0;
	struct json *body;

	if (length > REQUEST_BLOB_BYTES_MAX)
		return err_set(err, ERR_LIMIT,
			       "\"length\" is at most %d; ask for the rest with \"offset\"",
			       REQUEST_BLOB_BYTES_MAX);
	if (blob_read(call->session->dirfd, json_get_string(call->json, "sha256"), (uint64_t)offset,
		      (uint64_t)length, &bytes, &total, err) != 0)
		return -1;
	hash_base64_encode(&text, buf_bytes(&bytes), bytes.len);
	body = json_new_object();
	json_set(body, "data", json_new_string(buf_bytes(&text), text.len));
	json_set_int(body, "offset", offset);
	json_set_int(body, "total", (int64_t)total);
	call_reply(call, body);
	return 0;
}

int op_status(const struct call *call, struct err *err)
{
	const struct session *session = call->session;
	const struct journal *journal = record_journal(session->record);
	struct json *body = json_new_object();
	struct json *queue = json_new_array();
	uint32_t count = cells_count(session->cells);

	(void)err;
	for (uint32_t number = cells_first(session->cells); number <= count; number++) {
		const struct cell *cell = cells_at(session->cells, number);

		if (cell->state == CELL_QUEUED)
			json_push(queue, json_new_string(cell->id, strlen(cell->id)));
	}
	json_set_string(body, "state", session_state_name(session));
	json_set(body, "cell",
		 session->running
			 ? json_new_string(session->running->id, strlen(session->running->id))
			 : NULL);
	json_set(body, "queue", queue);
	json_set_int(body, "last_seq", (int64_t)journal_seq(journal));
	json_set_int(body, "bytes", (int64_t)journal_bytes(journal));
	json_set_int(body, "repaired", (int64_t)journal_repaired(journal));
	json_set_int(body, "clients", (int64_t)server_clients(session->server));
	json_set_string(body, "notebook", saver_name(record_saver(session->record)));
	json_set_string(body, "tier", session->box ? tier_name(box_tier(session->box)) : "none");
	json_set(body, "limits", session_limits_json(session));
	json_set_string(body, "durability", durability_name(session->config.durability_power));
	call_reply(call, body);
	return 0;
}

/* `since`, checked; everything that has happened is in the journal after this. */
static int read_since(const struct call *call, uint64_t *since, uint64_t *last, struct err *err)
{
	record_flush(call->session->record);
	*since = (uint64_t)json_get_int(call->json, "since", 0);
	*last = journal_seq(record_journal(call->session->record));
	if (*since > *last)
		return err_set(err, ERR_INVALID, "\"since\" is %llu, but the last event is %llu",
			       (unsigned long long)*since, (unsigned long long)*last);
	return 0;
}

/* Files of after the last cell; while one runs nobody knows whose they are. The caller owns the
 * object. */
static struct json *files_between(struct session *session)
{
	struct json *body = json_new_object();

	if (session->watch && !session->running)
		files_tell(session->watch, watch_between(session->watch),
			   session->guard ? guard_patterns(session->guard) : NULL, body);
	return body;
}

int op_files(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *id = json_get_string(call->json, "cell");
	const struct cell *cell = id ? cells_find(session->cells, id) : NULL;
	cleanup_json struct json *body = json_new_object();
	uint64_t since, last;

	if (id && !cell)
		return err_set(err, ERR_NOT_FOUND, "there is no cell \"%s\"", id);
	if (read_since(call, &since, &last, err) != 0)
		return -1;
	if (cell) {
		if (past_files_of_cell(session->dirfd, id, cell->seq, body, err) != 0)
			return -1;
	} else {
		cleanup_json struct json *between = files_between(session);

		if (past_files(session->dirfd, since, json_get(between, "files"), body, err) != 0)
			return -1;
	}
	json_set_int(body, "last_seq", (int64_t)last);
	call_reply(call, mem_take(body));
	return 0;
}

int op_images(const struct call *call, struct err *err)
{
	cleanup_json struct json *body = json_new_object();
	uint64_t since, last;

	if (read_since(call, &since, &last, err) != 0 ||
	    past_images(call->session->dirfd, since, json_get_string(call->json, "section"), body,
			err) != 0)
		return -1;
	json_set_int(body, "last_seq", (int64_t)last);
	call_reply(call, mem_take(body));
	return 0;
}

int op_outputs(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const struct digest_params form = text_form(call);
	cleanup_json struct json *body = json_new_object();

	record_flush(session->record);
	if (past_outputs(session->dirfd, session->config.id, record_notebook(session->record),
			 json_get_string(call->json, "section"), &form, body, err) != 0)
		return -1;
	call_reply(call, mem_take(body));
	return 0;
}
