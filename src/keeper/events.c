/*
 * What engine and record tell the session: each becomes events of the journal, a move of the state,
 * or both.
 *
 * Everything that comes from the engine comes from a guest, so it is given a known form here:
 * unknown members are left out, missing ones get a default, and every byte counts against the
 * cell's limits.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "keeper/hint.h"
#include "keeper/branch.h"
#include "keeper/home.h"
#include "keeper/monitor.h"
#include "keeper/session.h"
#include "keeper/spare.h"

/* --- events of the engine ------------------------------------------------------------------------
 */

/* The cell that output belongs to: the named one, else the last. */
static struct cell *cell_of(struct session *session, uint32_t number)
{
	struct cell *cell = cells_at(session->cells, number);

	return cell ? cell : cells_at(session->cells, cells_count(session->cells));
}

enum { END_BYTES_MAX = 1 << 20 }; /* results and errors past a cell's limit of output */

/* How many of `len` bytes the cell may still put out. `late`: told as background output, so they
 * count as that, even if they came just before the cell's end. */
static size_t output_allowance(struct session *session, struct cell *cell, bool late, size_t len)
{
	uint64_t limit = late ? session->config.limits.background_bytes
			      : session->config.limits.output_bytes;
	uint64_t *used = late ? &cell->background_bytes : &cell->output_bytes;
	size_t room = *used >= limit ? 0 : limit - *used < len ? (size_t)(limit - *used) : len;

	*used += room;
	return room;
}

/* Counts what is past the limit; says so once a cell and limit. `truncated` tells the sum later. */
static void drop_output(struct session *session, struct cell *cell, bool late, bool is_stderr,
			size_t bytes)
{
	enum drop drop = late ? DROP_BACKGROUND : DROP_OUTPUT;
	const struct limits *limits = &session->config.limits;
	uint64_t limit = drop == DROP_OUTPUT ? limits->output_bytes : limits->background_bytes;
	cleanup_free char *message = NULL;
	struct json *body;

	cell->dropped[drop][is_stderr] += bytes;
	if (cell->warned[drop])
		return;
	cell->warned[drop] = true;
	message = mem_format(
		"the cell's output%s has met its limit, %llu bytes (%s); what follows is dropped",
		drop == DROP_OUTPUT ? "" : " after its end", (unsigned long long)limit,
		session_drop_name(drop));
	body = json_new_object();
	json_set_string(body, "code", session_drop_name(drop));
	json_set_string(body, "message", message);
	record_body(session->record, EVENT_WARNING, cell->id, body);
}

static void on_stream(void *data, uint32_t number, bool is_stderr, bool background,
		      const char *text, size_t len)
{
	struct session *session = data;
	struct cell *cell = cell_of(session, number);
	size_t room;

	if (!cell)
		return;
	room = output_allowance(session, cell, background, len);
	while (room < len && room > 0 && ((unsigned char)text[room] & 0xc0) == 0x80)
		room--;
	if (room > 0)
		record_stream(session->record, cell->id, is_stderr, background, text, room);
	if (room < len)
		drop_output(session, cell, background, is_stderr, len - room);
}

/* Length of all strings in a value: what it costs to keep. */
static size_t value_bytes(const struct json *value);

static int add_bytes(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key;
	*(size_t *)data += key_len + value_bytes(value);
	return 0;
}

static size_t value_bytes(const struct json *value)
{
	size_t len = 0;

	if (json_type_of(value) == JSON_STRING) {
		json_string(value, &len);
	} else if (json_type_of(value) == JSON_OBJECT) {
		json_each(value, add_bytes, &len);
	} else if (json_type_of(value) == JSON_ARRAY) {
		for (size_t i = 0; i < json_length(value); i++)
			len += value_bytes(json_at(value, i)) + 1;
	}
	return len + 8;
}

static void copy_member(struct json *to, const struct json *from, const char *key,
			enum json_type type)
{
	struct json *value = json_get(from, key);

	if (json_type_of(value) == type)
		json_set(to, key, json_keep(value));
}

static struct json *display_body(const struct json *from, bool is_result)
{
	struct json *body = json_new_object();

	json_set(body, "data", json_new_object());
	json_set(body, "metadata", json_new_object());
	copy_member(body, from, "data", JSON_OBJECT);
	copy_member(body, from, "metadata", JSON_OBJECT);
	if (is_result)
		json_set_int(body, "execution_count", json_get_int(from, "execution_count", 0));
	else
		copy_member(body, from, "display_id", JSON_STRING);
	return body;
}

static struct json *error_body(const struct json *from)
{
	struct json *body = json_new_object();
	struct json *lines = json_new_array();
	const struct json *given = json_get(from, "traceback");

	json_set_string(body, "ename", "Error");
	json_set_string(body, "evalue", "");
	copy_member(body, from, "ename", JSON_STRING);
	copy_member(body, from, "evalue", JSON_STRING);
	for (size_t i = 0; i < json_length(given); i++)
		if (json_type_of(json_at(given, i)) == JSON_STRING)
			json_push(lines, json_keep(json_at(given, i)));
	json_set(body, "traceback", lines);
	return body;
}

/* How a cell came out is told also when its limit of output is used up: a flood must not hide an
 * error. */
static bool is_told_anyway(struct session *session, struct cell *cell, enum engine_output kind,
			   size_t bytes)
{
	if (cell != session->running || (kind != ENGINE_RESULT && kind != ENGINE_ERROR) ||
	    bytes > END_BYTES_MAX - cell->end_bytes)
		return false;
	cell->end_bytes += bytes;
	return true;
}

static void on_output(void *data, uint32_t number, enum engine_output kind, struct json *from)
{
	static const enum event_type types[] = {
		[ENGINE_DISPLAY] = EVENT_DISPLAY,
		[ENGINE_UPDATE_DISPLAY] = EVENT_UPDATE_DISPLAY,
		[ENGINE_RESULT] = EVENT_RESULT,
		[ENGINE_ERROR] = EVENT_ERROR,
	};
	struct session *session = data;
	struct cell *cell = cell_of(session, number);
	bool late = cell != session->running;
	size_t bytes = value_bytes(from);

	if (cell && kind == ENGINE_ERROR && cell == session->running)
		cell->hint = hint_of_error(from);
	if (cell && (output_allowance(session, cell, late, bytes) == bytes ||
		     is_told_anyway(session, cell, kind, bytes))) {
		record_body(session->record, types[kind], cell->id,
			    kind == ENGINE_ERROR ? error_body(from)
						 : display_body(from, kind == ENGINE_RESULT));
	} else if (cell) {
		drop_output(session, cell, late, false, bytes);
	}
	json_free(from);
}

static void on_clear(void *data, uint32_t number, bool wait)
{
	struct session *session = data;
	struct cell *cell = cell_of(session, number);
	struct json *body = json_new_object();

	json_set(body, "wait", json_new_bool(wait));
	if (cell)
		record_body(session->record, EVENT_CLEAR, cell->id, body);
	else
		json_free(body);
}

static void on_input_request(void *data, uint32_t number, const char *prompt, size_t len,
			     bool password)
{
	struct session *session = data;
	struct cell *cell = session->running;
	struct json *body;

	if (!cell || cell->number != number)
		return;
	cell->asking = true;
	cell->asking_password = password;
	body = json_new_object();
	json_set(body, "prompt", json_new_string(prompt, len));
	json_set(body, "password", json_new_bool(password));
	record_body(session->record, EVENT_INPUT_REQUEST, cell->id, body);
	if (session->draining)
		(void)session_input(session, NULL, 0, NULL);
}

static void on_answer(void *data, uint32_t number, struct json *body)
{
	session_answered(data, number, body);
	json_free(body);
}

static void on_warning(void *data, uint32_t number, const char *code, const char *message)
{
	struct session *session = data;
	struct cell *cell = cell_of(session, number);
	struct json *body;

	if (session->spare) /* nobody is there to be warned, and there is no journal yet */
		return;
	body = json_new_object();
	json_set_string(body, "code", code);
	json_set_string(body, "message", message);
	record_body(session->record, EVENT_WARNING, cell ? cell->id : NULL, body);
}

/* The status of a cell that was stopped at a limit. */
static const char *stopped_status(const struct cell *cell)
{
	return limits_is_of_time(cell->limit) ? "timeout" : "interrupted";
}

static void on_done(void *data, uint32_t number, enum engine_end end, int64_t execution_count)
{
	static const char *const statuses[] = {
		[ENGINE_CELL_OK] = "ok",
		[ENGINE_CELL_ERROR] = "error",
		[ENGINE_CELL_INTERRUPTED] = "interrupted",
	};
	struct session *session = data;
	struct cell *cell = session->running;

	const char *status;

	assert(cell && cell->number == number);
	status = cell->limit ? stopped_status(cell) : statuses[end];
	if (back_undo(session, cell, status, execution_count))
		return;
	session_move(session, SESSION_DONE);
	checkpoints_cell_kept(session->checkpoints, cell, execution_count);
	session->back.idle_deaths = 0; /* it has not died of what came back with a copy */
	session_finish(session, cell, status, cell->limit, "kept", execution_count);
	checkpoints_after_cell(session->checkpoints);
	session_next(session);
}

static void on_copied(void *data, uint32_t number, int64_t copy_us, struct json *info)
{
	struct session *session = data;

	checkpoints_copied(session->checkpoints, number, copy_us, info);
}

static void on_copy_failed(void *data, uint32_t number, bool came, const struct err *err)
{
	struct session *session = data;

	checkpoints_failed(session->checkpoints, number, came, err);
}

static void on_copy_measured(void *data, uint32_t number, int64_t private_bytes, int64_t rss_bytes)
{
	struct session *session = data;

	(void)rss_bytes;
	checkpoints_measured(session->checkpoints, number, private_bytes);
}

/* Why the next interpreter is another one: what the session has asked for, or that this one died.
 */
static const char *restart_reason(const struct session *session)
{
	static const char *const deaths[] = {"timeout", "ask", "memory_bytes", "interrupt"};
	const char *reason = session->kill_reason;

	for (size_t i = 0; reason && i < sizeof(deaths) / sizeof(*deaths); i++)
		if (strcmp(reason, deaths[i]) == 0)
			reason = NULL;
	return reason ? reason : "died";
}

static void on_died(void *data, const struct engine_death *death)
{
	struct session *session = data;
	bool stopping = session->state == SESSION_STOPPING;

	if (session->spare && !stopping) { /* the pool makes another */
		session_move(session, SESSION_DIED);
		session_stop(session, "failed");
		return;
	}
	uv_timer_stop(session->cell_timer);
	if (stopping)
		back_gone(session, death);
	else
		(void)back_began(session, death);
	session_refuse_asks(session, "the interpreter has ended");
	session->restart_reason = restart_reason(session);
	session->kill_reason = NULL;
	session_move(session, SESSION_DIED);
	if (stopping)
		session_stop(session, session->stop_reason);
	else
		session_later(session);
}

static struct json *session_body(const struct session *session)
{
	struct json *body = json_new_object();

	json_set_int(body, "format", EVENT_FORMAT);
	json_set_string(body, "id", session->config.id);
	json_set(body, "name",
		 session->config.name
			 ? json_new_string(session->config.name, strlen(session->config.name))
			 : NULL);
	json_set_string(body, "engine", "python");
	json_set_string(body, "tier", tier_name(box_tier(session->box)));
	if (session->tier_reason)
		json_set_string(body, "tier_reason", session->tier_reason);
	json_set(body, "layers", box_layers(session->box));
	json_set(body, "keeper", confined_layers(&session->confined));
	json_set(body, "limits", session_limits_json(session));
	json_set(body, "limits_how", session_limits_how(session));
	json_set(body, "policy", session_policy_json(session));
	json_set_string(body, "durability", durability_name(session->config.durability_power));
	json_set(body, "versions", session_versions(session));
	json_set(body, "language_info", json_keep(json_get(session->hello, "language_info")));
	json_set(body, "workspace",
		 json_new_string(session->config.workspace, strlen(session->config.workspace)));
	if (session->config.notebook)
		json_set(body, "notebook", json_keep(session->config.notebook));
	if (session->config.parent)
		json_set(body, "parent", json_keep(session->config.parent));
	return body;
}

void session_hello(const struct session *session, struct buf *out)
{
	cleanup_json struct json *hello = json_new_object();

	json_set_string(hello, "type", "hello");
	json_set_int(hello, "protocol", 1);
	json_set_string(hello, "session", session->config.id);
	json_set(hello, "name",
		 session->config.name
			 ? json_new_string(session->config.name, strlen(session->config.name))
			 : NULL);
	json_set_string(hello, "engine", "python");
	json_set_string(hello, "tier",
			tier_name(session->box ? box_tier(session->box) : session->config.tier));
	json_set_string(hello, "state", session_state_name(session));
	json_set_int(hello, "last_seq", (int64_t)journal_seq(record_journal(session->record)));
	json_set_int(hello, "pid", uv_os_getpid());
	json_write(out, hello);
	buf_append_char(out, '\n');
}

/* The first event of a new session, or the end of what a dead keeper left open. */
static int session_begin(struct session *session, struct err *err)
{
	if (journal_seq(record_journal(session->record)) > 0) {
		session_reopen(session);
		return 0;
	}
	record_body(session->record, EVENT_SESSION, NULL, session_body(session));
	if (record_is_full(session->record))
		return err_set(err, ERR_NO_SPACE,
			       "the disk is full: the session's journal cannot be begun; free "
			       "some space and try again");
	return 0;
}

void session_rehearse(const struct session *session)
{
	cleanup_json struct json *body = session_body(session);
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, body);
	session_hello(session, &text);
}

int session_open(struct session *session, struct err *err)
{
	if (session->config.durability_power)
		server_hold(session->server);
	if (session_begin(session, err) != 0)
		return -1;
	session->opened = true;
	server_open(session->server);
	return 0;
}

/* There will be no session: those who wait are told why. */
static void give_up(struct session *session, const struct err *err)
{
	if (session->state != SESSION_STOPPING)
		session->start_err = *err;
	server_refuse(session->server, err);
	if (session->branch)
		branch_failed(session, err);
	session_stop(session, "failed");
}

static void on_ready(void *data, const struct json *hello)
{
	struct session *session = data;
	bool limits_taken = session->limits_taken;

	session->limits_taken = false;
	session->environment_due = true;
	json_free(session->hello);
	session->hello = json_copy(hello);
	session_move(session, SESSION_READY);
	monitor_began(session->monitor);
	if (session->state == SESSION_STOPPING) {
		session_stop(session, session->stop_reason);
		return;
	}
	if (session->spare) {
		spare_ready(session->spare);
		return;
	}
	if (!session->opened) {
		struct err err = ERR_INIT;

		if (session_open(session, &err) != 0) {
			give_up(session, &err);
			return;
		}
		if (session->branch)
			branch_born(session);
	} else if (session->back.kind != BACK_NONE) {
		back_arrived(session, hello);
	} else {
		struct json *body = json_new_object();

		json_set_string(body, "state", "reset");
		json_set_string(body, "reason",
				session->restart_reason ? session->restart_reason : "died");
		record_body(session->record, EVENT_RESTARTED, NULL, body);
		if (limits_taken)
			session_tell_limits(session);
	}
	session_answer(&session->restart_waiters, NULL);
	session_next(session);
}

static void on_failed(void *data, const struct err *err)
{
	struct session *session = data;
	struct json *body;

	if (session->state == SESSION_STARTING && session->branch && branch_again(session))
		return;
	if (session->state == SESSION_RESTARTING && session->back.number) {
		(void)back_failed(session, err);
		session->kill_reason = NULL;
		session_later(session);
		return;
	}
	session_move(session, SESSION_FAILED);
	if (session->state == SESSION_STOPPING || !session->opened) {
		give_up(session, err);
		return;
	}
	back_release(session, err); /* a reset that cannot be */
	body = json_new_object();
	json_set_string(body, "code", err_name(err->code));
	json_set_string(body, "message", err->text);
	record_body(session->record, EVENT_WARNING, NULL, body);
	session_cancel_queue(session, "engine");
	session_answer(&session->restart_waiters, err);
	home_gave_up(session);
	if (session->draining)
		session_stop(session, "failed");
}

const struct engine_events SESSION_ENGINE_EVENTS = {
	.stream = on_stream,
	.output = on_output,
	.clear = on_clear,
	.input_request = on_input_request,
	.answer = on_answer,
	.warning = on_warning,
	.done = on_done,
	.copied = on_copied,
	.copy_failed = on_copy_failed,
	.copy_measured = on_copy_measured,
	.died = on_died,
	.ready = on_ready,
	.failed = on_failed,
};

/* --- events of the record ------------------------------------------------------------------------
 */

static void on_appended(void *data)
{
	struct session *session = data;

	server_poke(session->server);
}

static void on_full(void *data, bool full)
{
	struct session *session = data;
	struct json *body;

	if (session->engine)
		session->engine->ops->pause(session->engine, full);
	if (full)
		return;
	body = json_new_object();
	json_set_string(body, "state", session_state_name(session));
	record_body(session->record, EVENT_STATE, NULL, body);
	session_next(session);
}

static void on_dropped(void *data, const char *id, bool is_stderr, uint64_t bytes)
{
	struct session *session = data;
	struct cell *cell = cells_find(session->cells, id);
	bool spent = record_is_at_limit(session->record);

	if (cell)
		cell->dropped[spent ? DROP_RECORD : DROP_NO_SPACE][is_stderr] += bytes;
}

static unsigned on_image(void *data, const char *id)
{
	struct session *session = data;
	struct cell *cell = cells_find(session->cells, id);

	return cell ? ++cell->images : 0;
}

/* Cells of before come back with their numbers; those that were open are finished by
 * session_reopen(). */
static void on_replayed(void *data, const struct event *event)
{
	struct session *session = data;
	struct cell *cell = event->cell ? cells_find(session->cells, event->cell) : NULL;

	if (event->type == EVENT_SESSION)
		cells_begin_at(session->cells, branch_first_cell(event->body));
	asked_apply(&session->asked, event);
	if (event->type == EVENT_SECTION) {
		free(session->section);
		session->section = mem_string(json_get_string(event->body, "title"));
	}
	if (event->type == EVENT_CELL && event->cell && !cell) {
		cell = cells_add(session->cells, event->cell);
		cell->seq = event->seq;
	}
	if (!cell)
		return;
	if (event_image(event, NULL))
		cell->images++;
	if (event->type == EVENT_STARTED && cell->state == CELL_QUEUED) {
		cell_move(session->cells, cell, CELL_START);
		cell->started_us = clock_monotonic_us();
	}
	if (event->type == EVENT_FINISHED && cell->state != CELL_FINISHED)
		cell_move(session->cells, cell,
			  cell->state == CELL_QUEUED ? CELL_CANCEL : CELL_DONE);
}

const struct record_events SESSION_RECORD_EVENTS = {
	.appended = on_appended,
	.sync_began = session_sync_began,
	.sync_ended = session_sync_ended,
	.full = on_full,
	.dropped = on_dropped,
	.image = on_image,
	.replayed = on_replayed,
};
