/*
 * What happens in a session: the engine's events, the clock, the life cycle; see session.h.
 */
#include "keeper/session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "keeper/files.h"
#include "keeper/monitor.h"
#include "keeper/guard.h"
#include "keeper/home.h"
#include "keeper/branch.h"
#include "keeper/net.h"
#include "keeper/snapshots.h"

enum { LADDER_AGAIN_MS = 2000, LADDER_KILL_MS = 3000 };
/* No move leads to STARTING: it stands for "no such move". */
static const enum session_state MOVES[SESSION_STATE_COUNT][SESSION_EVENT_COUNT] = {
	[SESSION_STARTING] =
		{
			[SESSION_READY] = SESSION_IDLE,
			[SESSION_FAILED] = SESSION_BROKEN,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_IDLE] =
		{
			[SESSION_RUN] = SESSION_RUNNING,
			[SESSION_ASK] = SESSION_ASKING,
			[SESSION_DIED] = SESSION_RESTARTING,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_RUNNING] =
		{
			[SESSION_DONE] = SESSION_IDLE,
			[SESSION_DIED] = SESSION_RESTARTING,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_ASKING] =
		{
			[SESSION_ANSWERED] = SESSION_IDLE,
			[SESSION_DIED] = SESSION_RESTARTING,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_RESTARTING] =
		{
			[SESSION_READY] = SESSION_IDLE,
			[SESSION_FAILED] = SESSION_BROKEN,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_BROKEN] =
		{
			[SESSION_RESTART] = SESSION_RESTARTING,
			[SESSION_STOP] = SESSION_STOPPING,
		},
	[SESSION_STOPPING] =
		{
			[SESSION_READY] = SESSION_STOPPING,
			[SESSION_FAILED] = SESSION_STOPPING,
			[SESSION_DONE] = SESSION_STOPPING,
			[SESSION_ANSWERED] = SESSION_STOPPING,
			[SESSION_DIED] = SESSION_STOPPING,
			[SESSION_STOP] = SESSION_STOPPING,
		},
};

void session_move(struct session *session, enum session_event event)
{
	enum session_state next = MOVES[session->state][event];

	assert(next != SESSION_STARTING);
	session->state = next;
}

const char *session_state_name(const struct session *session)
{
	static const char *const names[SESSION_STATE_COUNT] = {
		[SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle",
		[SESSION_RUNNING] = "running",   [SESSION_RESTARTING] = "restarting",
		[SESSION_BROKEN] = "broken",     [SESSION_STOPPING] = "stopping",
		[SESSION_ASKING] = "asking",
	};

	if (record_is_full(session->record) && session->state != SESSION_STOPPING)
		return "full";
	return names[session->state];
}

/* --- answers that wait --------------------------------------------------------------------------
 */

void session_answer(struct waiting_reply **waiters, const struct err *err)
{
	while (*waiters) {
		struct waiting_reply *waiter = *waiters;

		*waiters = waiter->next;
		if (err)
			client_refuse(waiter->client, waiter->id, err);
		else
			client_reply(waiter->client, waiter->id, NULL);
		client_drop(waiter->client);
		json_free(waiter->id);
		free(waiter);
	}
}

/* --- the end of cells ---------------------------------------------------------------------------
 */

const char *session_drop_name(enum drop drop)
{
	static const char *const names[DROP_COUNT] = {
		[DROP_OUTPUT] = "output_bytes",
		[DROP_BACKGROUND] = "background_bytes",
		[DROP_RECORD] = "record_bytes",
		[DROP_NO_SPACE] = "no_space",
	};

	return names[drop];
}

static void say_truncated(struct session *session, struct cell *cell)
{
	static const char *const names[2] = {"stdout", "stderr"};

	for (int i = 0; i < 2 * DROP_COUNT; i++) {
		uint64_t *dropped = &cell->dropped[i / 2][i % 2];
		struct json *body;

		if (*dropped == 0)
			continue;
		body = json_new_object();
		json_set_string(body, "name", names[i % 2]);
		json_set_int(body, "bytes_dropped", (int64_t)*dropped);
		json_set_string(body, "limit", session_drop_name((enum drop)(i / 2)));
		*dropped = 0;
		record_body(session->record, EVENT_TRUNCATED, cell->id, body);
	}
}

void session_say_truncated(struct session *session)
{
	uint32_t count = cells_count(session->cells);

	for (uint32_t number = cells_first(session->cells); number <= count; number++)
		say_truncated(session, cells_at(session->cells, number));
}

static struct json *usage_json(struct session *session)
{
	struct json *usage = json_new_object();
	int64_t cpu_us = 0, rss_peak = 0, sync_us = record_take_sync_us(session->record);

	if (session->engine)
		session->engine->ops->usage(session->engine, &cpu_us, &rss_peak);
	json_set_int(usage, "cpu_us", cpu_us);
	json_set_int(usage, "rss_peak", rss_peak);
	if (sync_us > 0)
		json_set_int(usage, "sync_us", sync_us);
	return usage;
}

static void add_text(struct session *session, const struct cell *cell, struct event *event)
{
	const struct digest_params form = {.item_chars_max = (size_t)cell->max_chars,
					   .total_chars_max = (size_t)cell->max_chars,
					   .marks = cell->marks};
	cleanup_buf struct buf text = BUF_INIT;

	if (cell->max_chars >= 0 && session_text(session, cell, &form, event, &text, NULL) == 0)
		json_set(event->body, "text", json_new_string(buf_bytes(&text), text.len));
}

/* What the cell did to the workspace. One that never ran, or ran under another keeper, is not
 * asked. */
static void add_files(struct session *session, const struct cell *cell, struct json *body)
{
	struct changes changes = CHANGES_INIT;

	if (session->watch && session->running == cell)
		watch_cell_ended(session->watch, clock_monotonic_us() - cell->started_us, &changes);
	files_tell(session->watch, &changes, session->guard ? guard_patterns(session->guard) : NULL,
		   body);
	changes_release(&changes);
}

/* How long it may run: what was asked for, but never longer than the session allows now. */
static int64_t allowed_us(const struct session *session, const struct cell *cell)
{
	int64_t wall_us = (int64_t)(session->config.limits.wall_s * 1e6);

	return cell->timeout_us < wall_us ? cell->timeout_us : wall_us;
}

/* The limit that it has met, or that its error most likely comes from. */
static void add_limit(struct session *session, const struct cell *cell, const char *status,
		      struct json *body)
{
	bool likely = !cell->limit && cell->hint && strcmp(status, "error") == 0;
	struct json *limit;

	if (!cell->limit && !likely)
		return;
	limit = limits_one(&session->config.limits, likely ? cell->hint : cell->limit);
	if (likely)
		json_set(limit, "likely", json_new_bool(true));
	else if (strcmp(cell->limit, "wall_s") == 0)
		json_set(limit, "value", json_new_double((double)allowed_us(session, cell) / 1e6));
	json_set(body, "limit", limit);
}

void session_finish(struct session *session, struct cell *cell, const char *status,
		    const char *reason, const char *state, int64_t execution_count)
{
	struct event event = EVENT_INIT;
	bool ran = cell->state != CELL_QUEUED;

	if (session->running == cell)
		monitor_cell_ended(session->monitor, cell);

	event.type = EVENT_FINISHED;
	event.cell = mem_string(cell->id);
	event.body = json_new_object();
	json_set_string(event.body, "status", status);
	if (reason)
		json_set_string(event.body, "reason", reason);
	json_set_string(event.body, "state", state);
	json_set(event.body, "execution_count",
		 execution_count > 0 ? json_new_int(execution_count) : NULL);
	json_set_int(event.body, "duration_us", ran ? clock_monotonic_us() - cell->started_us : 0);
	json_set(event.body, "usage", usage_json(session));
	add_limit(session, cell, status, event.body);
	if (session->running == cell && strcmp(state, "kept") == 0)
		checkpoints_describe(session->checkpoints, event.body);
	back_describe(session, cell, event.body);
	add_files(session, cell, event.body);
	record_flush(session->record);
	if (session->running == cell)
		net_cell_ends(session);
	say_truncated(session, cell);
	add_text(session, cell, &event);
	if (session->running == cell) {
		session->running = NULL;
		session->just_started = false;
		uv_timer_stop(session->cell_timer);
	}
	cell_move(session->cells, cell,
		  !ran                          ? CELL_CANCEL
		  : strcmp(status, "died") == 0 ? CELL_DIED
						: CELL_DONE);
	record_event(session->record, &event);
	record_sync_soon(session->record);
	if (ran)
		session_guard_ended(session);
}

void session_cancel_queue(struct session *session, const char *reason)
{
	struct cell *cell;

	while ((cell = cells_next(session->cells)))
		session_finish(session, cell, "cancelled", reason, "kept", 0);
}

void session_reopen(struct session *session)
{
	struct json *body = json_new_object();
	uint32_t count = cells_count(session->cells);

	for (uint32_t number = cells_first(session->cells); number <= count; number++) {
		struct cell *cell = cells_at(session->cells, number);

		if (cell->state == CELL_RUNNING)
			session_finish(session, cell, "died", "keeper", "reset", 0);
	}
	session_cancel_queue(session, "keeper");
	session->asked.open_count = 0; /* who has asked was a client of the keeper that is gone */
	json_set_string(body, "state", "reset");
	json_set_string(body, "reason", "reopened");
	record_body(session->record, EVENT_RESTARTED, NULL, body);
}

/* --- running ------------------------------------------------------------------------------------
 */

static void cell_timer_fired(uv_timer_t *timer);

static void cell_start(struct session *session, struct cell *cell)
{
	struct err err = ERR_INIT;
	int64_t timeout_us = allowed_us(session, cell);
	const struct engine_code code = {.text = cell->code,
					 .len = cell->code_len,
					 .script = cell->script,
					 .allow_stdin = cell->allow_stdin};

	session_move(session, SESSION_RUN);
	cell_move(session->cells, cell, CELL_START);
	session->running = cell;
	session->just_started = true;
	if (session->watch)
		watch_cell_starts(session->watch);
	net_cell_starts(session);
	cell->started_us = clock_monotonic_us();
	monitor_cell_started(session->monitor);
	uv_timer_start(session->cell_timer, cell_timer_fired, (uint64_t)(timeout_us + 999) / 1000,
		       0);
	session_tell_environment(session);
	session_guard_soon(session);
	/* A guest that cannot be told is dead or dying: its pidfd says so, and that ends the cell.
	 */
	if (session->engine->ops->run(session->engine, cell->number, &code, &err) != 0)
		session->engine->ops->kill(session->engine);
	/* While the guest wakes up; what it says is heard only when the loop comes round again. */
	record_body(session->record, EVENT_STARTED, cell->id, NULL);
}

/* A cell that may have to be undone needs a copy of what there is before it. Where there can be
 * none it does not run at all. */
static bool can_return(struct session *session, struct cell *cell)
{
	struct err err = ERR_INIT;

	if (checkpoints_ready_for(session->checkpoints, &err))
		return back_files_kept(session, cell);
	if (err.code != ERR_OK) {
		cleanup_free char *reason = mem_format("no checkpoint: %s", err.text);

		session_finish(session, cell, "cancelled", reason, "kept", 0);
		session_next(session);
	}
	return false;
}

void session_next(struct session *session)
{
	struct cell *cell = cells_next(session->cells);

	if (session->state == SESSION_ASKING)
		session_ask_make_way(session);
	if (session->state != SESSION_IDLE || record_is_full(session->record) ||
	    checkpoints_wait(session->checkpoints) || session->back.kind != BACK_NONE ||
	    session->engine->ops->is_dying(session->engine))
		return;
	if (session->asks) {
		session_ask_next(session);
		return;
	}
	if (branch_next(session))
		return;
	if (cell && record_is_at_limit(session->record)) {
		session_cancel_queue(
			session,
			session_drop_name(DROP_RECORD)); /* what they do could not be told */
		cell = NULL;
	}
	if (cell && cell->returns != CELL_RETURNS_NOT && !can_return(session, cell))
		return;
	if (cell)
		cell_start(session, cell);
	else if (session->draining)
		session_stop(session, "stop");
}

/* One rung of the ladder: interrupt, again, kill. */
static void cell_timer_fired(uv_timer_t *timer)
{
	struct session *session = timer->data;
	struct cell *cell = session->running;

	if (!cell)
		return;
	if (!cell->limit)
		cell->limit = "wall_s";
	cell_move(session->cells, cell, CELL_TIME_UP);
	if (cell->state == CELL_KILLED) {
		session->kill_reason = "timeout";
		session->engine->ops->kill(session->engine);
		return;
	}
	(void)session->engine->ops->interrupt(session->engine, cell->number, NULL);
	uv_timer_start(timer, cell_timer_fired,
		       cell->state == CELL_INTERRUPTED ? LADDER_AGAIN_MS : LADDER_KILL_MS, 0);
}

void session_cell_over(struct session *session, const char *limit)
{
	struct cell *cell = session->running;

	if (!cell || cell->state != CELL_RUNNING || session->kill_reason)
		return;
	cell->limit = limit;
	cell_timer_fired(session->cell_timer);
}

/* It counts from the cell's start. One that is being stopped already goes on being stopped. */
void session_time_again(struct session *session)
{
	const struct cell *cell = session->running;
	int64_t left_us;

	if (!cell || cell->state != CELL_RUNNING)
		return;
	left_us = allowed_us(session, cell) - (clock_monotonic_us() - cell->started_us);
	uv_timer_start(session->cell_timer, cell_timer_fired,
		       left_us > 0 ? (uint64_t)(left_us + 999) / 1000 : 0, 0);
}

int session_input(struct session *session, const char *text, size_t len, struct err *err)
{
	struct cell *cell = session->running;
	struct json *body;

	if (!cell || !cell->asking)
		return err_set(err, ERR_NOT_FOUND, "no prompt waits for input");
	if (session->engine->ops->input(session->engine, text, len, err) != 0)
		return -1;
	cell->asking = false;
	body = json_new_object();
	if (!text)
		json_set(body, "eof", json_new_bool(true));
	else if (!cell->asking_password)
		json_set(body, "text", json_new_string(text, len));
	record_body(session->record, EVENT_INPUT, cell->id, body);
	return 0;
}

/* --- restart and stop ----------------------------------------------------------------------------
 */

static bool has_interpreter(const struct session *session)
{
	return session->state == SESSION_IDLE || session->state == SESSION_RUNNING ||
	       session->state == SESSION_ASKING;
}

void session_restart(struct session *session)
{
	session_cancel_queue(session, "restart");
	session->kill_reason = "restart";
	if (has_interpreter(session)) {
		session->engine->ops->kill(session->engine);
	} else if (session->state == SESSION_BROKEN) {
		session->restart_reason = "restart";
		session->kill_reason = NULL;
		session_move(session, SESSION_RESTART);
		session_later(session);
	} else {
		session->kill_reason = NULL; /* a start is under way: that one is the restart */
	}
}

static void server_closed(void *data)
{
	struct session *session = data;

	session->ended(session->ended_data);
}

static void record_closed(void *data, const struct err *err)
{
	struct session *session = data;

	(void)err;
	session->released(session->ended_data); /* before anyone is told that it has stopped */
	session_answer(&session->restart_waiters, NULL);
	session_answer(&session->stop_waiters, NULL);
	server_close(session->server, server_closed, session);
}

/* The notebook's last save may have had something to say; nothing comes after `stopped`. */
static void notebook_saved(void *data, const struct err *err)
{
	struct session *session = data;
	struct json *body = json_new_object();

	(void)err; /* it has been tried; the journal has everything */
	json_set_string(body, "reason", session->stop_reason);
	if (journal_seq(record_journal(session->record)) > 0)
		record_body(session->record, EVENT_STOPPED, NULL, body);
	else
		json_free(body);
	record_close(session->record, record_closed, session);
}

static void session_close(struct session *session)
{
	struct err err = ERR_INIT;

	/* Called again after the last, and after the workspace has been counted. */
	if (session->limits_changes || !monitor_stop(session->monitor) ||
	    !snapshots_stop(session->snapshots))
		return;
	uv_timer_stop(session->cell_timer);
	session_refuse_asks(session, "the session is stopping");
	checkpoints_stop(session->checkpoints);
	err_set(&err, ERR_GONE, "the session is stopping");
	back_release(session, &err);
	branch_refuse_all(session, &err);
	home_leave(session);
	session_release_engine(session);
	uv_timer_stop(session->guard_timer);
	session_guard_look(session, true); /* nothing in the box lives any more */
	if (session->running)              /* its interpreter never came up again */
		session_finish(session, session->running, "died", session->stop_reason, "gone", 0);
	session_cancel_queue(session, session->stop_reason);
	if (record_is_full(session->record))
		record_drop_held(session->record);
	session_say_truncated(session);
	saver_wait(record_saver(session->record), notebook_saved, session);
}

/*
 * Called again when the interpreter it killed has died; then, or when there is none, all is closed.
 */
void session_stop(struct session *session, const char *reason)
{
	bool first = session->state != SESSION_STOPPING;
	bool alive = has_interpreter(session);

	if (first) {
		session->stop_reason = reason;
		session_move(session, SESSION_STOP);
		session_cancel_queue(session, reason);
		if (alive) {
			session->kill_reason = reason;
			session->engine->ops->kill(session->engine);
			return;
		}
	}
	session_later(session);
}

/* A start or the end, from the loop: never from inside a call of the engine that it may free. */
static void later_timer_fired(uv_timer_t *timer)
{
	struct session *session = timer->data;
	struct err err = ERR_INIT;

	if (session->state == SESSION_STOPPING)
		session_close(session);
	else if (session->state == SESSION_RESTARTING && session_start_engine(session, &err) != 0)
		SESSION_ENGINE_EVENTS.failed(session, &err);
}

void session_later(struct session *session)
{
	uv_timer_start(session->later_timer, later_timer_fired, 0, 0);
}
