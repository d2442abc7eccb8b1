/*
 * Questions to a session, and what is written into its notebook without running: each one request,
 * whose reply the caller gets as JSON without the envelope.
 */
#include "client/session.h"

#include "base/mem.h"

/* Calls with the request, which is taken. The reply without `type` and `id`, owned by the caller.
 */
static struct json *call(struct fh_session *session, struct json *request, struct fh_error *error)
{
	cleanup_json struct json *taken = request;
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;
	struct json *reply = NULL;

	json_write(&text, taken);
	if (session_call(session, buf_bytes(&text), text.len, &reply, &err) != 0) {
		error_give(error, &err);
		return NULL;
	}
	json_remove(reply, "type");
	json_remove(reply, "id");
	return reply;
}

/* As call(), as text. */
static char *ask(struct fh_session *session, struct json *request, struct fh_error *error)
{
	cleanup_json struct json *reply = call(session, request, error);
	cleanup_buf struct buf text = BUF_INIT;

	if (!reply)
		return NULL;
	json_write(&text, reply);
	return buf_take(&text, NULL);
}

static struct json *request_new(const char *op)
{
	struct json *request = json_new_object();

	json_set_string(request, "op", op);
	return request;
}

static void set_text(struct json *request, const char *key, const char *text)
{
	if (text)
		json_set_string(request, key, text);
}

/* Zero is the keeper's default for all of these. */
static void set_count(struct json *request, const char *key, uint64_t count)
{
	if (count > INT64_MAX)
		count = INT64_MAX;
	if (count)
		json_set_int(request, key, (int64_t)count);
}

static struct json *code_request(const char *op, const char *code, size_t len, size_t cursor)
{
	struct json *request = request_new(op);

	json_set(request, "code", json_new_string(code, len));
	if (cursor != FH_CURSOR_END)
		json_set_int(request, "cursor_pos",
			     cursor < INT64_MAX ? (int64_t)cursor : INT64_MAX);
	return request;
}

FH_PUBLIC char *fh_complete(struct fh_session *session, const char *code, size_t len, size_t cursor,
			    struct fh_error *error)
{
	return ask(session, code_request("complete", code, len, cursor), error);
}

FH_PUBLIC char *fh_inspect(struct fh_session *session, const char *code, size_t len, size_t cursor,
			   int detail_level, struct fh_error *error)
{
	struct json *request = code_request("inspect", code, len, cursor);

	json_set_int(request, "detail_level", detail_level);
	return ask(session, request, error);
}

FH_PUBLIC char *fh_variables(struct fh_session *session, const char *pattern, size_t max,
			     struct fh_error *error)
{
	struct json *request = request_new("variables");

	set_text(request, "pattern", pattern);
	set_count(request, "max", max);
	return ask(session, request, error);
}

FH_PUBLIC char *fh_files(struct fh_session *session, const char *cell, uint64_t since,
			 struct fh_error *error)
{
	struct json *request = request_new("files");

	set_text(request, "cell", cell);
	set_count(request, "since", since);
	return ask(session, request, error);
}

FH_PUBLIC char *fh_images(struct fh_session *session, const char *section, uint64_t since,
			  struct fh_error *error)
{
	struct json *request = request_new("images");

	set_text(request, "section", section);
	set_count(request, "since", since);
	return ask(session, request, error);
}

FH_PUBLIC char *fh_outputs(struct fh_session *session, const char *section, size_t max_chars,
			   bool marks, struct fh_error *error)
{
	struct json *request = request_new("outputs");

	set_text(request, "section", section);
	set_count(request, "max_chars", max_chars);
	if (marks)
		json_set(request, "marks", json_new_bool(true));
	return ask(session, request, error);
}

FH_PUBLIC int fh_section(struct fh_session *session, const char *title, int level,
			 struct fh_error *error)
{
	struct json *request = request_new("section");
	struct json *reply;

	json_set_string(request, "title", title);
	if (level)
		json_set_int(request, "level", level);
	reply = call(session, request, error);
	json_free(reply);
	return reply ? 0 : -1;
}

FH_PUBLIC char *fh_note(struct fh_session *session, const char *text, size_t len,
			const char *cell_type, struct fh_error *error)
{
	struct json *request = request_new("note");
	cleanup_json struct json *reply = NULL;
	const char *id;

	json_set(request, "text", json_new_string(text, len));
	set_text(request, "cell_type", cell_type);
	reply = call(session, request, error);
	id = json_get_string(reply, "note");
	return reply ? mem_string(id ? id : "") : NULL;
}

FH_PUBLIC int fh_record(struct fh_session *session, const char *record, size_t len, char **reply,
			struct fh_error *error)
{
	struct json *request = json_parse(record, len, &JSON_LIMITS, NULL);
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	if (json_type_of(request) != JSON_OBJECT) {
		json_free(request);
		err_set(&err, ERR_INVALID, "a record is a JSON object with a \"type\"");
		return error_give(error, &err);
	}
	json_set_string(request, "op", "record");
	json_remove(request, "id"); /* the library's */
	if (reply) {
		*reply = ask(session, request, error);
		return *reply ? 0 : -1;
	}
	json_write(&text, request);
	json_free(request);
	return fh_post(session, buf_bytes(&text), text.len, error);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void set_files(struct json *request, enum fh_files files)
{
	if (files != FH_FILES_DEFAULT)
		json_set(request, "files", json_new_bool(files == FH_FILES_BACK));
}

FH_PUBLIC char *fh_checkpoint(struct fh_session *session, const char *name, enum fh_files files,
			      struct fh_error *error)
{
	struct json *request = request_new("checkpoint");
	cleanup_json struct json *reply = NULL;
	cleanup_buf struct buf text = BUF_INIT;

	set_text(request, "name", name);
	set_files(request, files);
	reply = call(session, request, error);
	if (!reply)
		return NULL;
	json_write(&text, json_get(reply, "checkpoint"));
	return buf_take(&text, NULL);
}

FH_PUBLIC char *fh_checkpoints(struct fh_session *session, struct fh_error *error)
{
	return ask(session, request_new("checkpoints"), error);
}

FH_PUBLIC int fh_checkpoint_drop(struct fh_session *session, const char *name,
				 struct fh_error *error)
{
	struct json *request = request_new("checkpoints");
	struct json *reply;

	json_set_string(request, "drop", name);
	reply = call(session, request, error);
	json_free(reply);
	return reply ? 0 : -1;
}

FH_PUBLIC char *fh_rollback(struct fh_session *session, const char *to, enum fh_files files,
			    struct fh_error *error)
{
	struct json *request = request_new("rollback");

	set_text(request, "to", to);
	set_files(request, files);
	return ask(session, request, error);
}

FH_PUBLIC char *fh_reset(struct fh_session *session, struct fh_error *error)
{
	return ask(session, request_new("reset"), error);
}

FH_PUBLIC char *fh_fork(struct fh_session *session, const char *name, const char *from,
			struct fh_error *error)
{
	struct json *request = request_new("fork");

	set_text(request, "name", name);
	set_text(request, "from", from);
	return ask(session, request, error);
}
