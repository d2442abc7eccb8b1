/*
 * One connection to a keeper: requests, their answers, and the events in between.
 *
 * Events and answers come interleaved on one connection. While a call waits for its answer, events
 * are kept in `waiting`, at most 16 MiB of them. Beyond that they are dropped and `overflow` is
 * set; when the caller has taken all that was kept, the subscription is made anew after the last
 * event kept. The journal has them all, so nothing is lost and nothing is given twice.
 */
#include "client/session.h"

#include "base/clock.h"
#include "base/mem.h"

/* --- errors ----------------------------------------------------------------------------------- */

_Static_assert((int)FH_INTERNAL == (int)ERR_INTERNAL, "enum fh_code is enum err_code");
_Static_assert((int)FH_USAGE == (int)ERR_USAGE && (int)FH_TIMEOUT == (int)ERR_TIMEOUT &&
		       (int)FH_GONE == (int)ERR_GONE && (int)FH_IO == (int)ERR_IO,
	       "in the same order");

int error_give(struct fh_error *error, const struct err *err)
{
	if (!error)
		return -1;
	error->code = (enum fh_code)err->code;
	error->sys = err->sys;
	memcpy(error->text, err->text, sizeof(error->text));
	error->text[sizeof(error->text) - 1] = '\0';
	return -1;
}

FH_PUBLIC const char *fh_code_name(enum fh_code code)
{
	return err_name(code <= FH_INTERNAL ? (enum err_code)code : ERR_INTERNAL);
}

/* --- requests and answers --------------------------------------------------------------------- */

int session_send(struct fh_session *session, const char *request, size_t len, struct err *err)
{
	cleanup_buf struct buf line = BUF_INIT;

	if (memchr(request, '\n', len))
		return err_set(err, ERR_INVALID, "a request is one line");
	buf_append(&line, request, len);
	buf_append_char(&line, '\n');
	return wire_send(&session->wire, buf_bytes(&line), line.len, session->timeout_ms, err);
}

/* Keeps an event for fh_next(), or notes that there was no room. */
static void keep_event(struct fh_session *session, const char *line, size_t len)
{
	uint64_t seq;

	if (!session->subscribed || session->overflow)
		return;
	if (session->waiting.len && session->waiting.len + len > SESSION_WAITING_BYTES_MAX) {
		session->overflow = true;
		return;
	}
	buf_append(&session->waiting, line, len);
	buf_append_char(&session->waiting, '\n');
	seq = message_seq(line, len);
	if (seq)
		session->last_seq = seq;
}

/*
 * A warning without a number is the keeper's word that the disk has failed (durability `power`).
 * What comes behind it is not promised, the answer that is waited for among it: so the wait ends
 * here, and that answer is passed over.
 */
static int check_notice(const struct json *message, struct err *err)
{
	const char *type = json_get_string(message, "type");
	const char *text = json_get_string(message, "message");

	if (!type || strcmp(type, "warning") != 0 || json_get(message, "seq"))
		return 0;
	return err_set(err, ERR_IO, "%s", text ? text : "the disk has failed");
}

/* The answer to a post, which nobody waits for. */
static bool is_posted(struct fh_session *session, const struct json *message)
{
	const char *id = json_get_string(message, "id");

	return id && json_remove(session->posted, id);
}

int session_answer(struct fh_session *session, struct json **reply, struct err *err)
{
	int64_t began = clock_monotonic_us();

	for (;;) {
		cleanup_json struct json *message = NULL;
		enum message_kind kind;
		const char *line;
		size_t len;
		int left_ms = session->timeout_ms;
		int got;

		if (left_ms >= 0) {
			int64_t spent_ms = (clock_monotonic_us() - began) / 1000;

			left_ms = spent_ms >= left_ms ? 0 : left_ms - (int)spent_ms;
		}
		got = wire_line(&session->wire, left_ms, &line, &len, err);
		if (got < 0)
			return -1;
		if (got == 0) {
			session->passed++;
			return err_set(err, ERR_TIMEOUT, "the keeper did not answer within %d ms",
				       session->timeout_ms);
		}
		kind = message_kind(line, len, &message);
		if (kind == MESSAGE_BAD)
			return err_set(err, ERR_CORRUPT,
				       "the keeper sent a line that is no message");
		if (check_notice(message, err) != 0) {
			session->passed++;
			return -1;
		}
		if (kind == MESSAGE_EVENT) {
			keep_event(session, line, len);
			continue;
		}
		if (kind == MESSAGE_HELLO || is_posted(session, message))
			continue;
		if (session->passed) {
			session->passed--;
			continue;
		}
		if (kind == MESSAGE_REFUSED)
			return message_refusal(message, err);
		if (reply)
			*reply = mem_take(message);
		return 0;
	}
}

int session_call(struct fh_session *session, const char *request, size_t len, struct json **reply,
		 struct err *err)
{
	if (session_send(session, request, len, err) != 0)
		return -1;
	return session_answer(session, reply, err);
}

FH_PUBLIC int fh_call(struct fh_session *session, const char *request, size_t len, char **reply,
		      struct fh_error *error)
{
	cleanup_json struct json *message = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	if (session_call(session, request, len, &message, &err) != 0)
		return error_give(error, &err);
	if (reply) {
		json_write(&text, message);
		*reply = buf_take(&text, NULL);
	}
	return 0;
}

FH_PUBLIC int fh_post(struct fh_session *session, const char *request, size_t len,
		      struct fh_error *error)
{
	cleanup_json struct json *json = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *id = NULL;
	struct err err = ERR_INIT;

	json = json_parse(request, len, &JSON_LIMITS, &err);
	if (json_type_of(json) != JSON_OBJECT) {
		err_set(&err, ERR_INVALID, "a request is a JSON object");
		return error_give(error, &err);
	}
	id = mem_format("post-%llu", (unsigned long long)++session->posts);
	json_set_string(json, "id", id);
	json_write(&text, json);
	if (session_send(session, buf_bytes(&text), text.len, &err) != 0)
		return error_give(error, &err);
	if (!session->posted)
		session->posted = json_new_object();
	json_set(session->posted, id, json_new_bool(true));
	return 0;
}

/* --- events ----------------------------------------------------------------------------------- */

int session_subscribe(struct fh_session *session, uint64_t since, struct err *err)
{
	cleanup_buf struct buf request = BUF_INIT;

	/* What arrives before the answer belongs to the old subscription. */
	session->subscribed = false;
	session->overflow = false;
	buf_clear(&session->waiting);
	buf_printf(&request, "{\"op\":\"events\",\"since\":%llu,\"follow\":true}",
		   (unsigned long long)since);
	if (session_call(session, buf_bytes(&request), request.len, NULL, err) != 0)
		return -1;
	session->subscribed = true;
	session->last_seq = since;
	return 0;
}

FH_PUBLIC int fh_events(struct fh_session *session, uint64_t since, struct fh_error *error)
{
	struct err err = ERR_INIT;

	return session_subscribe(session, since, &err) == 0 ? 0 : error_give(error, &err);
}

/* Gives out an event: a copy, because its place in the buffers is about to be used again. */
static int give_event(struct fh_session *session, const char *line, size_t len)
{
	buf_clear(&session->line);
	buf_append(&session->line, line, len);
	return 1;
}

static int next_kept(struct fh_session *session)
{
	const char *bytes = buf_bytes(&session->waiting);
	const char *end = memchr(bytes, '\n', session->waiting.len);
	size_t len = (size_t)(end - bytes);

	give_event(session, bytes, len);
	buf_consume(&session->waiting, len + 1);
	return 1;
}

int session_next(struct fh_session *session, int timeout_ms, struct err *err)
{
	int64_t began = clock_monotonic_us();

	for (;;) {
		cleanup_json struct json *message = NULL;
		enum message_kind kind;
		const char *line;
		size_t len;
		int64_t spent_ms;
		int got;

		if (session->waiting.len)
			return next_kept(session);
		if (session->overflow && session_subscribe(session, session->last_seq, err) != 0)
			return -1;
		if (session->waiting.len)
			continue;
		spent_ms = timeout_ms > 0 ? (clock_monotonic_us() - began) / 1000 : 0;
		got = wire_line(&session->wire,
				timeout_ms <= 0          ? timeout_ms
				: spent_ms >= timeout_ms ? 0
							 : timeout_ms - (int)spent_ms,
				&line, &len, err);
		if (got <= 0)
			return got;
		kind = message_kind(line, len, &message);
		if (kind == MESSAGE_BAD)
			return err_set(err, ERR_CORRUPT,
				       "the keeper sent a line that is no message");
		if (check_notice(message, err) != 0)
			return -1;
		if (kind == MESSAGE_EVENT && session->subscribed) {
			uint64_t seq = message_seq(line, len);

			if (seq)
				session->last_seq = seq;
			return give_event(session, line, len);
		}
		if ((kind == MESSAGE_REPLY || kind == MESSAGE_REFUSED) &&
		    !is_posted(session, message) && session->passed)
			session->passed--;
	}
}

FH_PUBLIC int fh_next(struct fh_session *session, int timeout_ms, const char **event, size_t *len,
		      struct fh_error *error)
{
	struct err err = ERR_INIT;
	int got = session_next(session, timeout_ms, &err);

	if (got < 0)
		return error_give(error, &err);
	if (got > 0) {
		*event = buf_bytes(&session->line);
		if (len)
			*len = session->line.len;
	}
	return got;
}

/* --- what a session is ------------------------------------------------------------------------ */

FH_PUBLIC void fh_close(struct fh_session *session)
{
	if (!session)
		return;
	wire_release(&session->wire);
	free(session->name);
	free(session->directory);
	free(session->hello);
	json_free(session->posted);
	buf_release(&session->waiting);
	buf_release(&session->line);
	free(session);
}

FH_PUBLIC const char *fh_id(const struct fh_session *session)
{
	return session->id;
}

FH_PUBLIC const char *fh_name(const struct fh_session *session)
{
	return session->name;
}

FH_PUBLIC const char *fh_directory(const struct fh_session *session)
{
	return session->directory;
}

FH_PUBLIC const char *fh_hello(const struct fh_session *session)
{
	return session->hello;
}

FH_PUBLIC uint64_t fh_hello_seq(const struct fh_session *session)
{
	return session->hello_seq;
}

FH_PUBLIC int fh_fd(const struct fh_session *session)
{
	return session->wire.fd;
}

FH_PUBLIC void fh_set_timeout(struct fh_session *session, int timeout_ms)
{
	session->timeout_ms = timeout_ms;
}
