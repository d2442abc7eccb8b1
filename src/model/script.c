/*
 * The backend `script`.
 *
 * The whole file is read and checked at the beginning, so that a slip on line 40 does not show
 * after 39 answers. An answer is bound to its request when it is asked for, whatever the delays
 * are. It is delivered in small pieces, one a turn for each generation, as a server's stream is:
 * who reads it meets cut words and turns between pieces.
 */
#include "model/script.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/backend_impl.h"

enum { PIECE_BYTES = 12 };

struct answer {
	char *text, *reasoning;
	size_t text_len, reasoning_len;
	enum generation_state finish;
	int64_t delay_ms;
	struct err err; /* code ERR_OK: none */
};

struct script {
	struct backend base;
	char *path;
	struct answer *answers;
	size_t count, next;
};

/* What is left of an answer. */
struct job {
	const struct answer *answer; /* NULL: there was none for this request */
	size_t text_at, reasoning_at;
	int64_t due_us;
};

static int read_member(const char *key, size_t key_len, struct json *value, void *data)
{
	static const char *const known[] = {"text",     "reasoning", "finish",
					    "delay_ms", "error",     NULL};
	const char **bad = data;

	(void)value;
	(void)key_len;
	for (size_t i = 0; known[i]; i++)
		if (strcmp(known[i], key) == 0)
			return 0;
	*bad = key;
	return -1;
}

/* A member that is a text, copied; *text stays NULL when it is not there. */
static int read_text(const struct json *line, const char *key, char **text, size_t *len,
		     struct err *err)
{
	const char *found;

	if (!json_has(line, key))
		return 0;
	found = json_string(json_get(line, key), len);
	if (!found)
		return err_set(err, ERR_INVALID, "`%s` must be a string", key);
	*text = mem_copy(found, *len);
	return 0;
}

static int read_error(const struct json *error, struct answer *answer, struct err *err)
{
	const char *code = json_get_string(error, "code");
	const char *message = json_get_string(error, "message");
	enum err_code found = ERR_GONE;

	if (json_string(error, NULL)) {
		message = json_string(error, NULL);
	} else {
		if (!code || !message || json_length(error) != 2)
			return err_set(err, ERR_INVALID,
				       "`error` is a text, or an object of `code` and `message`");
		found = err_from_name(code);
		if (found == ERR_OK || strcmp(err_name(found), code) != 0)
			return err_set(err, ERR_INVALID, "there is no error \"%.40s\"", code);
	}
	err_set(&answer->err, found, "%s", message);
	return 0;
}

static int read_finish(const struct json *line, struct answer *answer, struct err *err)
{
	const char *finish = json_has(line, "finish") ? json_get_string(line, "finish") : "stop";

	if (finish && strcmp(finish, "stop") == 0)
		answer->finish = GENERATION_STOPPED;
	else if (finish && strcmp(finish, "length") == 0)
		answer->finish = GENERATION_LENGTH;
	else
		return err_set(err, ERR_INVALID, "`finish` is \"stop\" or \"length\"");
	return 0;
}

static int read_answer(const char *bytes, size_t len, struct answer *answer, struct err *err)
{
	cleanup_json struct json *line = json_parse(bytes, len, &JSON_LIMITS, err);
	const char *bad = NULL;

	if (json_type_of(line) != JSON_OBJECT) {
		if (line || !err->code)
			err_set(err, ERR_INVALID, "an answer is an object");
		return -1;
	}
	if (json_each(line, read_member, &bad))
		return err_set(err, ERR_INVALID,
			       "\"%.40s\" is none of text, reasoning, finish, delay_ms, error",
			       bad);
	if (!json_has(line, "text") && !json_has(line, "error"))
		return err_set(err, ERR_INVALID, "an answer has `text` or `error`");
	if (read_text(line, "text", &answer->text, &answer->text_len, err) ||
	    read_text(line, "reasoning", &answer->reasoning, &answer->reasoning_len, err) ||
	    read_finish(line, answer, err))
		return -1;
	answer->delay_ms = json_get_int(line, "delay_ms", json_has(line, "delay_ms") ? -1 : 0);
	if (answer->delay_ms < 0 || answer->delay_ms > SCRIPT_DELAY_MS_MAX)
		return err_set(err, ERR_INVALID, "`delay_ms` is a whole number from 0 to %d",
			       SCRIPT_DELAY_MS_MAX);
	return json_has(line, "error") ? read_error(json_get(line, "error"), answer, err) : 0;
}

static bool is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r", line[i]) || line[i] == '\0')
			return false;
	return true;
}

static int read_lines(struct script *script, const char *bytes, size_t len, struct err *err)
{
	size_t at = 0;

	for (size_t number = 1; at < len; number++) {
		const char *end = memchr(bytes + at, '\n', len - at);
		size_t line_len = end ? (size_t)(end - bytes) - at : len - at;
		struct err why = ERR_INIT;

		if (!is_blank(bytes + at, line_len)) {
			if (script->count >= SCRIPT_ANSWERS_MAX)
				return err_set(err, ERR_LIMIT, "%s has more than %d answers",
					       script->path, SCRIPT_ANSWERS_MAX);
			script->answers = mem_resize(script->answers, script->count + 1,
						     sizeof(*script->answers));
			script->answers[script->count] = (struct answer){0};
			if (read_answer(bytes + at, line_len, &script->answers[script->count++],
					&why))
				return err_set(err, why.code, "%s, line %zu: %s", script->path,
					       number, why.text);
		}
		at += line_len + 1;
	}
	if (script->count == 0)
		return err_set(err, ERR_INVALID,
			       "%s has no answers: write one JSON object a line, such as "
			       "{\"text\":\"...\"}",
			       script->path);
	return 0;
}

static int script_start(struct backend *backend, struct generation *generation,
			const struct generation_request *request, struct err *err)
{
	struct script *script = (struct script *)backend;
	struct job *job = mem_zalloc(sizeof(*job));

	(void)request;
	(void)err;
	job->due_us = generation->start_us;
	if (script->next < script->count) {
		job->answer = &script->answers[script->next];
		job->due_us += job->answer->delay_ms * 1000;
	}
	script->next++;
	generation->job = job;
	return 0;
}

/* A few bytes more of a text, whole code points. */
static bool feed_piece(struct generation *generation, const char *text, size_t len, size_t *at,
		       bool reasoning)
{
	size_t end = *at + PIECE_BYTES;

	if (*at >= len)
		return false;
	if (end > len)
		end = len;
	while (end < len && ((unsigned char)text[end] & 0xC0) == 0x80)
		end++;
	(void)generation_feed(generation, text + *at, end - *at, reasoning);
	*at = end;
	return true;
}

static void deliver(struct script *script, struct generation *generation)
{
	struct job *job = generation->job;
	const struct answer *answer = job->answer;
	struct err err = ERR_INIT;

	if (!answer) {
		err_set(&err, ERR_GONE,
			"the script %s has no answer left: it has %zu, and this is request %zu",
			script->path, script->count, script->next);
		generation_fail(generation, &err);
		return;
	}
	if (feed_piece(generation, answer->reasoning, answer->reasoning_len, &job->reasoning_at,
		       true) ||
	    feed_piece(generation, answer->text, answer->text_len, &job->text_at, false))
		return;
	if (answer->err.code)
		generation_fail(generation, &answer->err);
	else
		generation_end(generation, answer->finish);
}

/* Milliseconds until the next piece is due, rounded up; -1: nothing runs. */
static int next_ms(const struct script *script)
{
	int64_t now_us = clock_monotonic_us();
	int64_t next = -1;

	for (const struct generation *at = script->base.first; at; at = at->next) {
		const struct job *job = at->job;
		int64_t ms = job->due_us <= now_us ? 0 : (job->due_us - now_us + 999) / 1000;

		if (at->state == GENERATION_RUNNING && (next < 0 || ms < next))
			next = ms;
	}
	return next > INT_MAX ? INT_MAX : (int)next;
}

static int script_wait(struct backend *backend, struct pollfd *extra, size_t count,
		       int timeout_ms, struct err *err)
{
	struct script *script = (struct script *)backend;
	int next = next_ms(script);
	int64_t now_us;
	int ready;

	if (next >= 0 && (timeout_ms < 0 || next < timeout_ms))
		timeout_ms = next;
	ready = poll(extra, count, timeout_ms);
	if (ready < 0) {
		if (errno != EINTR)
			return err_sys(err, "cannot wait for the script's next answer");
		ready = 0;
		for (size_t i = 0; i < count; i++)
			extra[i].revents = 0;
	}
	now_us = clock_monotonic_us();
	for (struct generation *at = script->base.first; at; at = at->next)
		if (at->state == GENERATION_RUNNING && ((struct job *)at->job)->due_us <= now_us)
			deliver(script, at);
	return ready;
}

static void script_drop(struct backend *backend, struct generation *generation)
{
	(void)backend;
	free(generation->job);
}

static void script_free(struct backend *backend)
{
	struct script *script = (struct script *)backend;

	for (size_t i = 0; i < script->count; i++) {
		free(script->answers[i].text);
		free(script->answers[i].reasoning);
	}
	free(script->answers);
	free(script->path);
	backend_release(&script->base);
	free(script);
}

static const struct backend_ops SCRIPT_OPS = {
	.kind = "script",
	.start = script_start,
	.wait = script_wait,
	.drop = script_drop,
	.free = script_free,
};

struct backend *backend_script_new(const char *path, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	const char *slash = strrchr(path, '/');
	struct script *script;

	if (file_read(AT_FDCWD, path, SCRIPT_BYTES_MAX, &text, err)) {
		err_wrap(err, "the script of answers %s", path);
		return NULL;
	}
	script = mem_zalloc(sizeof(*script));
	backend_init(&script->base, &SCRIPT_OPS, NULL, slash ? slash + 1 : path);
	script->path = mem_string(path);
	if (read_lines(script, buf_bytes(&text), text.len, err)) {
		script_free(&script->base);
		return NULL;
	}
	return &script->base;
}
