/*
 * fh_run: one cell from request to result.
 *
 * A fold over the cell's events until its `finished`. The events also go to the caller's function,
 * whatever cell they are of, so that a caller who wants to show output as it comes, or to answer
 * prompts, needs no loop of his own.
 */
#include "client/session.h"

#include "base/mem.h"
#include "base/text.h"
#include "journal/event.h"

#define OUTPUT_BYTES_MAX ((size_t)64 << 20)

struct collect {
	struct fh_result *result;
	size_t bytes_max;
	struct buf out;
	struct buf err;
	bool finished;
};

FH_PUBLIC void fh_run_params_init(struct fh_run_params *params)
{
	*params = (struct fh_run_params){.output_bytes_max = OUTPUT_BYTES_MAX};
}

FH_PUBLIC void fh_result_release(struct fh_result *result)
{
	free(result->cell);
	free(result->reason);
	free(result->state);
	free(result->recovers_to);
	free(result->rolled_back);
	free(result->lost);
	free(result->out);
	free(result->err);
	free(result->result);
	free(result->result_data);
	free(result->ename);
	free(result->evalue);
	free(result->traceback);
	free(result->text);
	*result = (struct fh_result)FH_RESULT_INIT;
}

/* Keeps what fits, cut at a code point, and counts the rest. */
static void add_output(struct buf *to, size_t bytes_max, uint64_t *dropped, const char *text,
		       size_t len)
{
	size_t room = *dropped ? 0 : bytes_max - to->len;
	size_t fits = len < room ? len : room;

	while (fits < len && fits > 0 && ((unsigned char)text[fits] & 0xc0) == 0x80)
		fits--;
	buf_append(to, text, fits);
	*dropped += len - fits;
}

static void put_string(char **to, const struct json *body, const char *key)
{
	const char *text = json_get_string(body, key);

	if (!text)
		return;
	free(*to);
	*to = mem_string(text);
}

static void put_json(char **to, const struct json *value)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (!value)
		return;
	json_write(&text, value);
	free(*to);
	*to = buf_take(&text, NULL);
}

static void take_result(struct fh_result *result, const struct json *body)
{
	const struct json *data = json_get(body, "data");

	put_string(&result->result, data, "text/plain");
	put_json(&result->result_data, data);
}

static void take_error(struct fh_result *result, const struct json *body)
{
	const struct json *lines = json_get(body, "traceback");
	cleanup_buf struct buf text = BUF_INIT;

	put_string(&result->ename, body, "ename");
	put_string(&result->evalue, body, "evalue");
	for (size_t i = 0; i < json_length(lines); i++) {
		size_t len = 0;
		const char *line = json_string(json_at(lines, i), &len);

		if (i)
			buf_append_char(&text, '\n');
		if (line)
			buf_append(&text, line, len);
	}
	free(result->traceback);
	result->traceback = buf_take(&text, NULL);
}

static enum fh_status status_from_name(const char *name)
{
	static const char *const names[] = {"ok",      "error", "interrupted",
					    "timeout", "died",  "cancelled"};

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return (enum fh_status)i;
	return FH_CELL_DIED; /* a status of a later version: at least it is not taken for success */
}

static void take_finished(struct collect *collect, const struct json *body)
{
	struct fh_result *result = collect->result;

	result->status = status_from_name(json_get_string(body, "status"));
	put_string(&result->reason, body, "reason");
	put_string(&result->state, body, "state");
	put_string(&result->text, body, "text");
	put_string(&result->recovers_to, body, "recovers_to");
	put_json(&result->rolled_back, json_get(body, "rolled_back"));
	put_json(&result->lost, json_get(body, "lost"));
	result->execution_count = json_get_int(body, "execution_count", 0);
	result->duration_us = json_get_int(body, "duration_us", 0);
	collect->finished = true;
}

/* Takes one event of the cell. */
static void collect_event(struct collect *collect, const struct event *event)
{
	struct fh_result *result = collect->result;

	switch (event->type) {
	case EVENT_STREAM:
		if (event->is_stderr)
			add_output(&collect->err, collect->bytes_max, &result->err_dropped,
				   event->text, event->text_len);
		else
			add_output(&collect->out, collect->bytes_max, &result->out_dropped,
				   event->text, event->text_len);
		break;
	case EVENT_RESULT:
		take_result(result, event->body);
		break;
	case EVENT_ERROR:
		take_error(result, event->body);
		break;
	case EVENT_FINISHED:
		take_finished(collect, event->body);
		break;
	case EVENT_SESSION:
	case EVENT_SECTION:
	case EVENT_NOTE:
	case EVENT_CELL:
	case EVENT_STARTED:
	case EVENT_DISPLAY:
	case EVENT_UPDATE_DISPLAY:
	case EVENT_CLEAR:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_TRUNCATED:
	case EVENT_DIED:
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_ROLLBACK:
	case EVENT_FORKED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_WARNING:
	case EVENT_NETWORK:
	case EVENT_ASK:
	case EVENT_ATTEMPT:
	case EVENT_TOKEN:
	case EVENT_CODE:
	case EVENT_VERDICT:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		break;
	}
}

static void write_words(struct buf *request, const char *const *words)
{
	const char *between = "";

	buf_append_string(request, "\"argv\":[");
	for (; *words; words++, between = ",") {
		buf_append_string(request, between);
		json_write_string(request, *words, strlen(*words));
	}
	buf_append_string(request, "],");
}

/* Appends the request. */
static int write_request(struct buf *request, const char *code, size_t len,
			 const struct fh_run_params *params, struct err *err)
{
	cleanup_json struct json *metadata = NULL;

	buf_append_string(request, "{\"op\":\"run\",");
	if (params->id) {
		buf_append_string(request, "\"id\":");
		json_write_string(request, params->id, strlen(params->id));
		buf_append_char(request, ',');
	}
	if (params->timeout_s > 0) {
		buf_append_string(request, "\"timeout\":");
		json_write_double(request, params->timeout_s);
		buf_append_char(request, ',');
	}
	if (params->max_chars)
		buf_printf(request, "\"max_chars\":%zu,", params->max_chars);
	if (params->marks)
		buf_append_string(request, "\"marks\":true,");
	if (params->allow_stdin)
		buf_append_string(request, "\"allow_stdin\":true,");
	if (params->metadata) {
		metadata =
			json_parse(params->metadata, strlen(params->metadata), &JSON_LIMITS, err);
		if (!metadata)
			return err_wrap(err, "metadata");
		buf_append_string(request, "\"metadata\":");
		json_write(request, metadata);
		buf_append_char(request, ',');
	}
	if (params->file) {
		buf_append_string(request, "\"file\":");
		json_write_string(request, params->file, strlen(params->file));
		buf_append_char(request, ',');
	}
	if (params->argv)
		write_words(request, params->argv);
	if (params->atomic)
		buf_append_string(request, "\"atomic\":true,");
	if (params->try_only)
		buf_append_string(request, "\"try\":true,");
	if (params->files != FH_FILES_DEFAULT)
		buf_printf(request, "\"files\":%s,",
			   params->files == FH_FILES_BACK ? "true" : "false");
	buf_append_string(request, "\"code\":");
	json_write_string(request, code, len);
	buf_append_char(request, '}');
	return 0;
}

/* Folds events until the cell has finished. */
static int wait_cell(struct fh_session *session, const struct fh_run_params *params,
		     struct collect *collect, struct err *err)
{
	while (!collect->finished) {
		cleanup_event struct event event = EVENT_INIT;

		if (session_next(session, -1, err) < 0)
			return -1;
		if (event_parse_inlined(buf_bytes(&session->line), session->line.len, &event,
					err) != 0)
			return err_wrap(err, "the keeper sent a bad event");
		if (event.cell && strcmp(event.cell, collect->result->cell) == 0)
			collect_event(collect, &event);
		if (params->on_event)
			params->on_event(params->data, session, buf_bytes(&session->line),
					 session->line.len);
	}
	return 0;
}

static int run_cell(struct fh_session *session, const char *code, size_t len,
		    const struct fh_run_params *params, struct collect *collect, struct err *err)
{
	cleanup_buf struct buf request = BUF_INIT;
	cleanup_json struct json *reply = NULL;
	const char *cell;

	if (!text_is_utf8(code, len))
		return err_set(err, ERR_INVALID, "the code is not UTF-8");
	if (write_request(&request, code, len, params, err) != 0)
		return -1;
	if (!session->subscribed && session_subscribe(session, session->hello_seq, err) != 0)
		return -1;
	if (session_call(session, buf_bytes(&request), request.len, &reply, err) != 0)
		return -1;
	cell = json_get_string(reply, "cell");
	if (!cell)
		return err_set(err, ERR_CORRUPT, "the keeper's reply names no cell");
	collect->result->cell = mem_string(cell);
	return wait_cell(session, params, collect, err);
}

FH_PUBLIC int fh_run(struct fh_session *session, const char *code, size_t len,
		     const struct fh_run_params *params, struct fh_result *result,
		     struct fh_error *error)
{
	struct fh_run_params defaults;
	struct collect collect = {.result = result, .out = BUF_INIT, .err = BUF_INIT};
	struct err err = ERR_INIT;
	int outcome;

	fh_run_params_init(&defaults);
	if (!params)
		params = &defaults;
	collect.bytes_max = params->output_bytes_max;
	outcome = run_cell(session, code, len, params, &collect, &err);
	result->out = buf_take(&collect.out, &result->out_len);
	result->err = buf_take(&collect.err, &result->err_len);
	if (outcome == 0)
		return 0;
	fh_result_release(result);
	return error_give(error, &err);
}
