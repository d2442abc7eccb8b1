/*
 * Attempts, and their lines. See attempt.h.
 */
#include "agent/attempt.h"

#include <stdarg.h>
#include <string.h>

#include "base/mem.h"

void attempt_release(struct attempt *attempt)
{
	free(attempt->response);
	free(attempt->code);
	free(attempt->message);
	json_free(attempt->checks);
	json_free(attempt->suspicions);
	instead_release(&attempt->instead);
	outcome_release(&attempt->outcome);
	*attempt = (struct attempt){.outcome = OUTCOME_INIT};
}

void attempt_suspect(struct attempt *attempt, const char *format, ...)
{
	cleanup_buf struct buf text = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	if (!attempt->suspicions)
		attempt->suspicions = json_new_array();
	json_push(attempt->suspicions, json_new_string(buf_bytes(&text), text.len));
}

bool attempt_counts(const struct attempt *attempt)
{
	return attempt->status == ATTEMPT_OK;
}

bool attempt_was_answered(const struct attempt *attempt)
{
	return attempt->status != ATTEMPT_RUNNING && attempt->status != ATTEMPT_INTERRUPTED &&
	       attempt->status != ATTEMPT_MODEL;
}

const char *attempt_status_name(enum attempt_status status)
{
	static const char *const names[] = {
		[ATTEMPT_RUNNING] = "running",   [ATTEMPT_OK] = "ok",
		[ATTEMPT_ERROR] = "error",       [ATTEMPT_DIED] = "died",
		[ATTEMPT_TIMEOUT] = "timeout",   [ATTEMPT_INTERRUPTED] = "interrupted",
		[ATTEMPT_EMPTY] = "empty",       [ATTEMPT_NO_CODE] = "no_code",
		[ATTEMPT_REPEATED] = "repeated", [ATTEMPT_MODEL] = "model",
	};

	return names[status];
}

struct json *attempt_started(const struct attempt *attempt)
{
	struct json *line = json_new_object();

	json_set_int(line, "attempt", attempt->number);
	json_set_string(line, "state", "started");
	json_set_string(line, "kind", attempt->repairs ? "repair" : "sample");
	if (attempt->repairs)
		json_set_int(line, "of", attempt->repairs);
	json_set(line, "temperature", json_new_double(attempt->temperature));
	json_set(line, "seed", attempt->seed < 0 ? NULL : json_new_int(attempt->seed));
	return line;
}

static void set_text(struct json *line, const char *key, const char *text)
{
	if (text)
		json_set_string(line, key, text);
}

static void set_error(struct json *line, const struct outcome *outcome)
{
	struct json *error;

	if (!outcome->ename)
		return;
	error = json_new_object();
	json_set_string(error, "ename", outcome->ename);
	json_set_string(error, "evalue", outcome->evalue ? outcome->evalue : "");
	json_set(error, "line", outcome->line ? json_new_int(outcome->line) : NULL);
	json_set(error, "source",
		 outcome->source ? json_new_string(outcome->source, strlen(outcome->source))
				 : NULL);
	json_set(line, "error", error);
}

/* So much of each, for a line is to be readable. `bytes`: all that there was. */
static void set_output(struct json *line, const char *key, const char *dropped_key,
		       const char *text, size_t len, uint64_t bytes)
{
	size_t shown = len;

	if (shown > ATTEMPT_LINE_BYTES)
		for (shown = ATTEMPT_LINE_BYTES;
		     shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80;)
			shown--;
	json_set(line, key, json_new_string(text, shown));
	if (bytes > shown)
		json_set_int(line, dropped_key, (int64_t)(bytes - shown));
}

static void set_outcome(struct json *line, const struct outcome *outcome)
{
	size_t len = outcome->result ? strlen(outcome->result) : 0;

	set_output(line, "stdout", "stdout_dropped", buf_bytes(&outcome->out), outcome->out.len,
		   outcome->out_bytes);
	set_output(line, "stderr", "stderr_dropped", buf_bytes(&outcome->err), outcome->err.len,
		   outcome->err_bytes);
	if (outcome->result)
		set_output(line, "result", "result_dropped", outcome->result, len, len);
	set_text(line, "reason", outcome->reason);
	set_error(line, outcome);
	json_set(line, "files", outcome->files ? json_copy(outcome->files) : json_new_array());
}

struct json *attempt_finished(const struct attempt *attempt, bool whole)
{
	struct json *line = json_new_object();

	json_set_int(line, "attempt", attempt->number);
	json_set_string(line, "state", "finished");
	json_set_string(line, "kind", attempt->repairs ? "repair" : "sample");
	json_set_string(line, "status", attempt_status_name(attempt->status));
	if (attempt->repeats)
		json_set_int(line, "of", attempt->repeats);
	set_text(line, "message", attempt->message);
	set_outcome(line, &attempt->outcome);
	if (attempt->checks)
		json_set(line, "checks", json_copy(attempt->checks));
	json_set(line, "suspicions",
		 attempt->suspicions ? json_copy(attempt->suspicions) : json_new_array());
	json_set(line, "group", attempt->group ? json_new_int(attempt->group) : NULL);
	json_set_int(line, "tokens", (int64_t)attempt->tokens);
	json_set_int(line, "prompt_tokens", (int64_t)attempt->prompt_tokens);
	json_set_int(line, "cached_tokens", (int64_t)attempt->cached_tokens);
	json_set(line, "model_seconds", json_new_double(attempt->model_seconds));
	json_set(line, "first_token_seconds",
		 attempt->first_token_seconds < 0 ? NULL
						  : json_new_double(attempt->first_token_seconds));
	json_set(line, "run_seconds", json_new_double(attempt->run_seconds));
	if (whole) {
		set_text(line, "code", attempt->code ? attempt->code : "");
		set_text(line, "response", attempt->response ? attempt->response : "");
	}
	return line;
}
