/*
 * Cells. See cell.h.
 *
 * A cell that is tried has ended when its `rollback` has been told, which comes behind `finished`.
 */
#include "agent/cell.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

enum {
	CALL_TIMEOUT_MS = 30000,
	KILLED_TIMEOUT_MS = 5000, /* until a killed cell has ended and its state is back */
};

struct running {
	const struct cell *cell;
	struct outcome *outcome;
	const char *input; /* what of it is left */
	bool undone;       /* finished, and being rolled back */
	bool finished;
};

static int take_error(struct err *err, const struct fh_error *error)
{
	return err_set(err, (enum err_code)error->code, "%s", error->text);
}

/* --- events ----------------------------------------------------------------------------------- */

static void take_stream(struct running *running, const struct json *event)
{
	const char *name = json_get_string(event, "name");
	bool is_stderr = name && strcmp(name, "stderr") == 0;
	size_t len = 0;
	const char *text = json_string(json_get(event, "text"), &len);

	if (!text)
		return;
	outcome_add(running->outcome, is_stderr, text, len);
	if (running->cell->output)
		running->cell->output(running->cell->context, is_stderr, text, len);
}

static void put(char **to, const struct json *from, const char *key)
{
	const char *text = json_get_string(from, key);

	if (!text)
		return;
	free(*to);
	*to = mem_string(text);
}

static void take_exception(struct outcome *outcome, const struct json *event)
{
	const struct json *lines = json_get(event, "traceback");
	cleanup_buf struct buf text = BUF_INIT;

	put(&outcome->ename, event, "ename");
	put(&outcome->evalue, event, "evalue");
	for (size_t i = 0; i < json_length(lines); i++) {
		size_t len = 0;
		const char *line = json_string(json_at(lines, i), &len);

		buf_append(&text, line, line ? len : 0);
		buf_append_char(&text, '\n');
	}
	free(outcome->traceback);
	outcome->traceback = buf_take(&text, NULL);
}

static int by_path(const void *a, const void *b)
{
	const char *x = json_get_string(*(struct json *const *)a, "path");
	const char *y = json_get_string(*(struct json *const *)b, "path");

	return strcmp(x ? x : "", y ? y : "");
}

/* What it did itself, by path. */
static void take_files(struct outcome *outcome, const struct json *files)
{
	size_t count = json_length(files), used = 0;
	cleanup_free struct json **sorted = mem_resize(NULL, count + 1, sizeof(*sorted));

	for (size_t i = 0; i < count; i++)
		if (!json_has(json_at(files, i), "origin") &&
		    json_get_string(json_at(files, i), "path") &&
		    json_get_string(json_at(files, i), "change"))
			sorted[used++] = json_at(files, i);
	qsort(sorted, used, sizeof(struct json *), by_path);
	json_free(outcome->files);
	outcome->files = json_new_array();
	for (size_t i = 0; i < used; i++) {
		struct json *file = json_new_object();

		json_set_string(file, "path", json_get_string(sorted[i], "path"));
		json_set_string(file, "change", json_get_string(sorted[i], "change"));
		json_set_int(file, "bytes", json_get_int(sorted[i], "bytes", 0));
		json_push(outcome->files, file);
	}
}

/* Appends the paths of a list of a rollback. */
static void add_names(struct buf *names, const struct json *list)
{
	for (size_t i = 0; i < json_length(list); i++) {
		const char *path = json_get_string(json_at(list, i), "path");

		if (path)
			buf_printf(names, "%s%s", names->len ? ", " : "", path);
	}
}

static void copy_files(struct json *to, const struct json *list, const char *change)
{
	for (size_t i = 0; i < json_length(list); i++) {
		const char *path = json_get_string(json_at(list, i), "path");
		struct json *file = path ? json_new_object() : NULL;

		if (!file)
			continue;
		json_set_string(file, "path", path);
		json_set_string(file, "change", change);
		json_set_int(file, "bytes", json_get_int(json_at(list, i), "bytes", 0));
		json_push(to, file);
	}
}

/* What a try did to files shows in how that was undone. A file that was brought back had been
 * changed or deleted, which the second try tells (program.c). */
static void take_rolled_back(struct outcome *outcome, const struct json *files)
{
	cleanup_json struct json *all = json_new_array();
	cleanup_buf struct buf names = BUF_INIT;

	copy_files(all, json_get(files, "removed"), "created");
	copy_files(all, json_get(files, "restored"), "changed");
	take_files(outcome, all);
	add_names(&names, json_get(files, "unprotected"));
	add_names(&names, json_get(files, "failed"));
	free(outcome->not_undone);
	outcome->not_undone = names.len ? buf_take(&names, NULL) : NULL;
}

static enum outcome_status status_from_name(const char *name)
{
	static const struct {
		const char *name;
		enum outcome_status status;
	} rows[] = {
		{"ok", OUTCOME_OK},
		{"error", OUTCOME_ERROR},
		{"timeout", OUTCOME_TIMEOUT},
		{"interrupted", OUTCOME_INTERRUPTED},
	};

	for (size_t i = 0; name && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, name) == 0)
			return rows[i].status;
	return OUTCOME_DIED; /* "cancelled" too: it has not run */
}

static void take_finished(struct running *running, const struct json *event)
{
	struct outcome *outcome = running->outcome;
	const char *state = json_get_string(event, "state");
	bool rolled = state && strcmp(state, "rolled_back") == 0;
	bool recovered = state && strcmp(state, "recovered") == 0;

	outcome->status = status_from_name(json_get_string(event, "status"));
	put(&outcome->reason, event, "reason");
	outcome->duration_us = json_get_int(event, "duration_us", 0);
	take_files(outcome, json_get(event, "files"));
	running->undone = running->cell->try_only && (rolled || recovered);
	running->finished = !running->undone;
}

static int answer_prompt(struct running *running, struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	cleanup_free char *line = NULL;
	const char *at = running->input;

	if (at && *at) {
		size_t len = strcspn(at, "\n");

		line = mem_copy(at, len);
		running->input = at + len + (at[len] == '\n');
	}
	if (fh_input(running->cell->session, line, &error) != 0)
		return take_error(err, &error);
	return 0;
}

static int take_event(struct running *running, const char *line, size_t len, struct err *err)
{
	cleanup_json struct json *event = json_parse(line, len, &JSON_LIMITS, err);
	const char *type = json_get_string(event, "type");
	const char *of = json_get_string(event, "cell");
	struct outcome *outcome = running->outcome;

	if (!event)
		return err_wrap(err, "the keeper sent a bad event");
	if (!type)
		return 0;
	if (strcmp(type, "stopped") == 0)
		return err_set(err, ERR_GONE, "the session was stopped");
	if (strcmp(type, "rollback") == 0 && running->undone) {
		take_rolled_back(outcome, json_get(event, "files"));
		running->finished = true;
		return 0;
	}
	if (!of || strcmp(of, outcome->cell) != 0)
		return 0;
	if (strcmp(type, "stream") == 0)
		take_stream(running, event);
	else if (strcmp(type, "result") == 0)
		put(&outcome->result, json_get(event, "data"), "text/plain");
	else if (strcmp(type, "error") == 0)
		take_exception(outcome, event);
	else if (strcmp(type, "input_request") == 0)
		return answer_prompt(running, err);
	else if (strcmp(type, "finished") == 0)
		take_finished(running, event);
	return 0;
}

/* Takes what has come. 1: the cell has ended; 0: not yet. */
static int take_events(struct running *running, int timeout_ms, struct err *err)
{
	while (!running->finished) {
		struct fh_error error = FH_ERROR_INIT;
		const char *event;
		size_t len;
		int got = fh_next(running->cell->session, timeout_ms, &event, &len, &error);

		if (got < 0)
			return take_error(err, &error);
		if (got == 0)
			return 0;
		if (take_event(running, event, len, err) != 0)
			return -1;
		if (timeout_ms == 0 && hub_ended(running->cell->hub))
			return 0;
	}
	return 1;
}

/* --- the cell --------------------------------------------------------------------------------- */

static int send_run(const struct cell *cell, const char *code, struct outcome *outcome,
		    struct err *err)
{
	cleanup_buf struct buf request = BUF_INIT;
	cleanup_json struct json *answer = NULL;
	struct fh_error error = FH_ERROR_INIT;
	char *reply = NULL;

	buf_append_string(&request, "{\"op\":\"run\",\"timeout\":");
	json_write_double(&request, cell->timeout_s);
	if (cell->input)
		buf_append_string(&request, ",\"allow_stdin\":true");
	if (cell->try_only)
		buf_printf(&request, ",\"try\":true,\"files\":%s",
			   cell->files_back ? "true" : "false");
	if (cell->metadata)
		buf_printf(&request, ",\"metadata\":%s", cell->metadata);
	buf_append_string(&request, ",\"code\":");
	json_write_string(&request, code, strlen(code));
	buf_append_char(&request, '}');
	fh_set_timeout(cell->session, CALL_TIMEOUT_MS);
	if (fh_call(cell->session, buf_bytes(&request), request.len, &reply, &error) != 0)
		return take_error(err, &error);
	answer = json_parse(reply, strlen(reply), &JSON_LIMITS, NULL);
	fh_free(reply);
	put(&outcome->cell, answer, "cell");
	return outcome->cell ? 0 : err_set(err, ERR_CORRUPT, "the keeper's reply names no cell");
}

/* Ends the cell at once and waits until the session is in order again. */
static int kill_cell(struct running *running, struct err *err)
{
	struct fh_session *session = running->cell->session;
	cleanup_free char *request = mem_format(
		"{\"op\":\"interrupt\",\"cell\":\"%s\",\"kill\":true}", running->outcome->cell);
	struct fh_error error = FH_ERROR_INIT;
	int64_t until_us = clock_monotonic_us() + (int64_t)KILLED_TIMEOUT_MS * 1000;

	if (fh_post(session, request, strlen(request), &error) != 0)
		return take_error(err, &error);
	for (int64_t left_us; (left_us = until_us - clock_monotonic_us()) > 0;) {
		int ended = take_events(running, (int)(left_us / 1000) + 1, err);

		if (ended)
			return ended < 0 ? -1 : 0;
	}
	return err_set(err, ERR_TIMEOUT, "the session does not end the cell %s",
		       running->outcome->cell);
}

int cell_run(const struct cell *cell, const char *code, struct outcome *outcome, struct err *err)
{
	struct running running = {.cell = cell, .outcome = outcome, .input = cell->input};

	if (send_run(cell, code, outcome, err) != 0)
		return -1;
	for (;;) {
		int ended = take_events(&running, 0, err);

		if (ended < 0)
			return -1;
		if (ended)
			break;
		if (!hub_ended(cell->hub) &&
		    hub_wait(cell->hub, fh_fd(cell->session), -1, err) != 0)
			return -1;
		if (hub_ended(cell->hub)) {
			struct err why = ERR_INIT;

			/* The user's session must be in order again; of a box that is of no use. */
			if (kill_cell(&running, &why) != 0 && why.code != ERR_GONE &&
			    cell->try_only) {
				*err = why;
				return -1;
			}
			outcome->status = OUTCOME_INTERRUPTED;
			return 0;
		}
	}
	outcome_locate(outcome, code);
	return 0;
}
