/*
 * The other requests, and the calls about all sessions: thin shapes over session_call and the
 * store.
 */
#include "client/session.h"

#include "base/clock.h"
#include "base/mem.h"

enum { CLOSE_WAIT_MS = 5000, LOCK_WAIT_MS = 3000 };

FH_PUBLIC const char *fh_version(void)
{
	return FH_VERSION;
}

FH_PUBLIC void fh_free(char *text)
{
	free(text);
}

FH_PUBLIC int fh_interrupt(struct fh_session *session, const char *cell, struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;

	buf_append_string(&request, "{\"op\":\"interrupt\"");
	if (cell) {
		buf_append_string(&request, ",\"cell\":");
		json_write_string(&request, cell, strlen(cell));
	}
	buf_append_char(&request, '}');
	return fh_post(session, buf_bytes(&request), request.len, error);
}

FH_PUBLIC int fh_input(struct fh_session *session, const char *text, struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;

	if (text) {
		buf_append_string(&request, "{\"op\":\"input\",\"text\":");
		json_write_string(&request, text, strlen(text));
		buf_append_char(&request, '}');
	} else {
		buf_append_string(&request, "{\"op\":\"input\",\"eof\":true}");
	}
	return fh_post(session, buf_bytes(&request), request.len, error);
}

/* Calls and returns a member of the reply: a string as it is, anything else as JSON text. */
static char *call_for(struct fh_session *session, const struct buf *request, const char *key,
		      struct fh_error *error)
{
	cleanup_json struct json *reply = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;
	const char *string;
	size_t len = 0;

	if (session_call(session, buf_bytes(request), request->len, &reply, &err) != 0) {
		error_give(error, &err);
		return NULL;
	}
	if (!json_get(reply, key)) {
		err_set(&err, ERR_CORRUPT, "the keeper's reply has no %s", key);
		error_give(error, &err);
		return NULL;
	}
	string = json_string(json_get(reply, key), &len);
	if (string)
		return mem_copy(string, len);
	json_write(&text, json_get(reply, key));
	return buf_take(&text, NULL);
}

FH_PUBLIC char *fh_text(struct fh_session *session, const char *cell, size_t max_chars,
			struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;

	buf_append_string(&request, "{\"op\":\"text\",\"cell\":");
	json_write_string(&request, cell, strlen(cell));
	if (max_chars)
		buf_printf(&request, ",\"max_chars\":%zu", max_chars);
	buf_append_char(&request, '}');
	return call_for(session, &request, "text", error);
}

FH_PUBLIC char *fh_notebook(struct fh_session *session, struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;

	buf_append_string(&request, "{\"op\":\"notebook\"}");
	return call_for(session, &request, "notebook", error);
}

FH_PUBLIC char *fh_save(struct fh_session *session, struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;
	cleanup_free char *path = NULL;

	buf_append_string(&request, "{\"op\":\"save\"}");
	path = call_for(session, &request, "path", error);
	/* The keeper names it relative to the session's directory. */
	if (!path || path[0] == '/')
		return mem_take(path);
	return mem_format("%s/%s", session->directory, path);
}

FH_PUBLIC char *fh_limits(struct fh_session *session, const char *set, struct fh_error *error)
{
	cleanup_buf struct buf request = BUF_INIT;
	cleanup_json struct json *object = NULL;
	struct err err = ERR_INIT;

	object = set ? json_parse(set, strlen(set), &JSON_LIMITS, &err) : json_new_object();
	if (!object || json_type_of(object) != JSON_OBJECT) {
		err_set(&err, ERR_INVALID, "the limits to set are a JSON object");
		error_give(error, &err);
		return NULL;
	}
	buf_append_string(&request, "{\"op\":\"limits\",\"set\":");
	json_write(&request, object);
	buf_append_char(&request, '}');
	return call_for(session, &request, "limits", error);
}

FH_PUBLIC int fh_restart(struct fh_session *session, struct fh_error *error)
{
	static const char request[] = "{\"op\":\"restart\"}";

	return fh_call(session, request, sizeof(request) - 1, NULL, error);
}

FH_PUBLIC int fh_stop(struct fh_session *session, bool drain, struct fh_error *error)
{
	const char *request = drain ? "{\"op\":\"stop\",\"mode\":\"drain\"}" : "{\"op\":\"stop\"}";
	int64_t until = clock_monotonic_us() + (int64_t)CLOSE_WAIT_MS * 1000;
	const char *line;
	size_t len;

	if (fh_call(session, request, strlen(request), NULL, error) != 0)
		return -1;
	/* The record is closed with the answer, but the session can be removed only when the keeper
	 * has gone. */
	while (clock_monotonic_us() < until &&
	       wire_line(&session->wire, CLOSE_WAIT_MS, &line, &len, NULL) > 0)
		continue;
	return 0;
}

static struct json *entry_json(struct store *store, const struct store_entry *entry)
{
	struct json *object = json_new_object();
	char created[CLOCK_TEXT_SIZE];

	clock_format(entry->config.created_us, created);
	json_set_string(object, "id", entry->config.id);
	json_set(object, "name",
		 entry->config.name
			 ? json_new_string(entry->config.name, strlen(entry->config.name))
			 : NULL);
	json_set_string(object, "created", created);
	json_set_string(object, "directory", entry->directory);
	json_set(object, "workspace",
		 entry->config.workspace
			 ? json_new_string(entry->config.workspace, strlen(entry->config.workspace))
			 : NULL);
	json_set_string(object, "engine", "python");
	json_set_string(object, "durability", entry->config.durability_power ? "power" : "process");
	json_set(object, "running", json_new_bool(session_running(entry->config.id)));
	json_set_int(object, "bytes", (int64_t)store_bytes(store, entry->config.id));
	if (entry->config.parent)
		json_set_string(object, "parent", entry->config.parent);
	if (entry->damaged)
		json_set(object, "damaged", json_new_bool(true));
	return object;
}

FH_PUBLIC char *fh_list(struct fh_error *error)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_json struct json *array = json_new_array();
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	if (store_open(&store, &err) != 0 || store_list(&store, &list, &err) != 0) {
		error_give(error, &err);
		return NULL;
	}
	for (size_t i = 0; i < list.count; i++)
		json_push(array, entry_json(&store, &list.entries[i]));
	json_write(&text, array);
	return buf_take(&text, NULL);
}

int session_remove(struct store *store, const char *id, struct err *err)
{
	/* A keeper that has closed its socket is about to end: that is worth waiting for. */
	return store_remove(store, id, session_running(id) ? 0 : LOCK_WAIT_MS, err);
}

FH_PUBLIC int fh_remove(const char *session, struct fh_error *error)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct err err = ERR_INIT;

	if (store_open(&store, &err) == 0 && store_find(&store, session, &entry, &err) == 0 &&
	    session_remove(&store, entry.config.id, &err) == 0)
		return 0;
	return error_give(error, &err);
}
