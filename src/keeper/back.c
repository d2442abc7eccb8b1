/*
 * How a session goes back; see back.h.
 */
#include "keeper/back.h"

#include <string.h>

#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "keeper/monitor.h"
#include "keeper/past.h"
#include "keeper/session.h"
#include "keeper/snapshots.h"

enum { IDLE_DEATHS_MAX = 3 };

/* --- what has ended ----------------------------------------------------------------------------
 */

static bool was_killed_for(const struct session *session, const char *why)
{
	return session->kill_reason && strcmp(session->kill_reason, why) == 0;
}

/* Of a death that nobody has planned: its words, and whether a limit was met. */
static void note_death(struct session *session, const struct engine_death *death)
{
	const char *limit = monitor_cause(session->monitor, death);
	const char *reason = session->kill_reason ? session->kill_reason : death->reason;
	bool timed_out = was_killed_for(session, "timeout");
	struct cell *cell = session->running;
	struct back *back = &session->back;
	cleanup_buf struct buf words = BUF_INIT;

	if (limit) {
		session_limit_reason(session, limit, &words);
		reason = buf_bytes(&words);
	}
	if (cell && limit)
		cell->limit = limit;
	back->kind = BACK_RECOVER;
	back->status = !cell                                         ? NULL
		       : timed_out && limits_is_of_time(cell->limit) ? "timeout"
		       : was_killed_for(session, "interrupt")        ? "interrupted"
								     : "died";
	free(back->reason);
	back->reason = mem_string(cell && timed_out ? cell->limit : reason);
	back->limit = limit;
	back->files = cell && cell->returns != CELL_RETURNS_NOT && cell->files;
}

/* Whether the death was of the kind that everybody is told of, although no cell was running. */
static bool is_news(const struct session *session)
{
	return !session->kill_reason || was_killed_for(session, "ask") || session->back.limit;
}

/* --- telling -----------------------------------------------------------------------------------
 */

static void set_id(struct json *body, const char *key, const struct cell *cell)
{
	json_set(body, key, cell ? json_new_string(cell->id, strlen(cell->id)) : NULL);
}

void back_describe(const struct session *session, const struct cell *cell, struct json *body)
{
	const struct back *back = &session->back;

	if (back->kind == BACK_NONE || !back->state || (cell && cell != session->running))
		return;
	if (json_length(back->rolled_back) > 0) {
		if (strcmp(back->state, "recovered") == 0)
			set_id(body, "recovers_to", back->cell);
		json_set(body, "rolled_back", json_keep(back->rolled_back));
	}
	if (json_length(back->lost) > 0)
		json_set(body, "lost", json_keep(back->lost));
}

/* Tells how the cell, or the interpreter between two cells, has ended. */
static void tell_end(struct session *session, const char *state)
{
	struct back *back = &session->back;
	struct json *body;

	back->state = state;
	if (session->running) {
		session_finish(session, session->running, back->status ? back->status : "died",
			       back->reason, state, back->execution_count);
	} else if (is_news(session)) {
		body = json_new_object();
		json_set_string(body, "reason", back->reason);
		if (back->limit)
			json_set(body, "limit", limits_one(&session->config.limits, back->limit));
		json_set_string(body, "state", state);
		back_describe(session, NULL, body);
		record_body(session->record, EVENT_DIED, NULL, body);
	}
	session_say_truncated(session);
}

/* What became of files: restored, or which differ from what they were then. */
static struct json *files_json(const struct session *session, const struct cell *undone)
{
	const struct back *back = &session->back;
	uint64_t since = undone ? undone->seq : checkpoints_seq(session->checkpoints, back->number);
	struct json *files;

	if (back->files_told)
		return json_keep(back->files_told);
	files = json_new_object();
	if (back->reset)
		return files;
	record_flush(session->record);
	(void)past_files(session->dirfd, since, NULL, files, NULL);
	if (json_length(json_get(files, "files")) > 0)
		json_set(files, "differ", json_keep(json_get(files, "files")));
	json_remove(files, "files");
	return files;
}

static struct json *rollback_body(const struct session *session, const char *reason,
				  const struct cell *undone)
{
	const struct back *back = &session->back;
	struct json *body = json_new_object();

	json_set(body, "to", back->to ? json_new_string(back->to, strlen(back->to)) : NULL);
	json_set(body, "checkpoint", back->number ? json_new_int(back->number) : NULL);
	json_set_string(body, "reason", reason);
	if (back->reset)
		json_set(body, "reset", json_new_bool(true));
	if (undone)
		json_push(back->rolled_back, json_new_string(undone->id, strlen(undone->id)));
	json_set(body, "rolled_back", json_keep(back->rolled_back));
	json_set(body, "lost", back->lost ? json_keep(back->lost) : json_new_object());
	json_set(body, "files", files_json(session, undone));
	return body;
}

static void tell_asked(struct session *session)
{
	struct back *back = &session->back;
	struct json *event = rollback_body(session, "asked", NULL);
	struct json *reply = json_new_object();

	set_id(reply, "cell", back->cell);
	json_set(reply, "rolled_back", json_keep(json_get(event, "rolled_back")));
	json_set(reply, "lost", json_keep(json_get(event, "lost")));
	json_set(reply, "files", json_keep(json_get(event, "files")));
	record_body(session->record, EVENT_ROLLBACK, back->cell ? back->cell->id : NULL, event);
	record_flush(session->record);
	if (back->client)
		client_reply(back->client, back->id, reply);
	else
		json_free(reply);
}

static const char *wish_of(const struct cell *cell)
{
	return cell->returns == CELL_RETURNS_ALWAYS ? "try" : "atomic";
}

static void tell_undone(struct session *session)
{
	struct back *back = &session->back;
	struct cell *cell = session->running;

	back->state = "rolled_back";
	session_finish(session, cell, back->status, cell->limit, "rolled_back",
		       back->execution_count);
	record_body(session->record, EVENT_ROLLBACK, back->cell ? back->cell->id : NULL,
		    rollback_body(session, wish_of(cell), cell));
}

/* The death of a cell that was to leave no trace has undone it as well, and its files. */
static void tell_recovered(struct session *session)
{
	struct back *back = &session->back;
	const struct cell *cell = session->running;

	tell_end(session, "recovered");
	if (cell && cell->returns != CELL_RETURNS_NOT)
		record_body(session->record, EVENT_ROLLBACK, back->cell ? back->cell->id : NULL,
			    rollback_body(session, wish_of(cell), NULL));
}

void back_release(struct session *session, const struct err *err)
{
	struct back *back = &session->back;

	if (back->client && err)
		client_refuse(back->client, back->id, err);
	if (back->client)
		client_drop(back->client);
	json_free(back->id);
	json_free(back->rolled_back);
	json_free(back->lost);
	json_free(back->files_told);
	free(back->reason);
	free(back->to);
	*back = (struct back){.kind = BACK_NONE, .idle_deaths = back->idle_deaths};
}

/* --- the way -----------------------------------------------------------------------------------
 */

/* The variables are gone: nothing of the timeline is in the next interpreter. */
static void give_up(struct session *session, const char *state)
{
	struct back *back = &session->back;

	json_free(back->rolled_back);
	back->cell = checkpoints_went_back(session->checkpoints, 0, &back->rolled_back);
	tell_end(session, state);
	back_release(session, NULL);
}

bool back_began(struct session *session, const struct engine_death *death)
{
	struct back *back = &session->back;
	bool planned = back->kind == BACK_ASKED || back->kind == BACK_UNDO;
	bool alive = session_box_is_alive(session);

	if (!planned)
		note_death(session, death);
	back->idle_deaths = session->running || planned ? 0 : back->idle_deaths + 1;
	if (planned && (alive || back->reset))
		return true;
	/* What dies again and again without a cell dies of what comes back with the copy. */
	if (back->idle_deaths > IDLE_DEATHS_MAX)
		checkpoints_clear(session->checkpoints, "died");
	if (!planned && alive && !was_killed_for(session, "restart"))
		back->number = checkpoints_newest(session->checkpoints);
	if (planned) {
		struct err err = ERR_INIT;

		err_set(&err, ERR_GONE, "the box has died, and with it all checkpoints");
		note_death(session, death);
		if (back->client)
			client_refuse(back->client, back->id, &err);
		back->number = 0;
	}
	if (back->number)
		return true;
	if (was_killed_for(session, "restart"))
		checkpoints_clear(session->checkpoints, "restart");
	give_up(session, "reset");
	return false;
}

void back_gone(struct session *session, const struct engine_death *death)
{
	if (session->back.kind == BACK_NONE)
		note_death(session, death);
	tell_end(session, "gone");
}

/* The files of where it goes; NULL: they are not held, or not wanted. */
static struct snapshot *files_of(const struct session *session)
{
	const struct back *back = &session->back;
	const struct cell *cell = session->running;

	if (!back->files)
		return NULL;
	if (back->kind == BACK_ASKED)
		return checkpoints_files(session->checkpoints, back->number);
	return cell && session->before_cell == cell->number ? session->before : NULL;
}

static void files_restored(void *data, struct json *files)
{
	struct session *session = data;

	session->back.files_told = files;
	session_later(session); /* back_start() again */
}

/* Files go back while nothing in the box is awake, so nobody changes them meanwhile. */
int back_start(struct session *session, struct err *err)
{
	struct back *back = &session->back;
	struct snapshot *files = files_of(session);

	back->files = false;
	if (files &&
	    snapshots_restore(session->snapshots, files, files_restored, session, NULL) == 0)
		return 0;
	return session->engine->ops->wake(session->engine, session->back.number, err);
}

void back_arrived(struct session *session, const struct json *hello)
{
	struct back *back = &session->back;
	const struct json *lost = json_get(hello, "lost");

	json_free(back->rolled_back);
	back->cell = checkpoints_went_back(session->checkpoints, back->number, &back->rolled_back);
	if (json_type_of(lost) == JSON_OBJECT)
		back->lost = json_copy(lost);
	switch (back->kind) {
	case BACK_RECOVER:
		tell_recovered(session);
		break;
	case BACK_ASKED:
		tell_asked(session);
		break;
	case BACK_UNDO:
		tell_undone(session);
		break;
	case BACK_NONE:
		break;
	}
	back_release(session, NULL);
}

/* A copy that does not wake is of no use; nor is one that is gone. What was wanted there cannot be
 * had; the session goes on from the next best. */
bool back_failed(struct session *session, const struct err *err)
{
	struct back *back = &session->back;

	checkpoints_useless(session->checkpoints, back->number, "died");
	if (back->kind == BACK_ASKED && back->client) {
		client_refuse(back->client, back->id, err);
		client_drop(back->client);
		back->client = NULL;
	}
	if (back->kind != BACK_RECOVER) {
		back->kind = BACK_RECOVER;
		free(back->reason);
		back->reason = mem_string(err->text);
	}
	back->number = session_box_is_alive(session) ? checkpoints_newest(session->checkpoints) : 0;
	if (back->number)
		return true;
	give_up(session, "reset");
	return false;
}

/* --- how it begins -----------------------------------------------------------------------------
 */

bool back_undo(struct session *session, struct cell *cell, const char *status,
	       int64_t execution_count)
{
	struct back *back = &session->back;
	struct json *body;

	if (cell->returns == CELL_RETURNS_NOT ||
	    (cell->returns == CELL_RETURNS_ON_ERROR && strcmp(status, "ok") == 0))
		return false;
	if (!checkpoints_exact(session->checkpoints)) {
		body = json_new_object();
		json_set_string(body, "code", "not_rolled_back");
		json_set_string(body, "message",
				"the copy of the interpreter from before the cell has ended; what "
				"the cell has done stays");
		record_body(session->record, EVENT_WARNING, cell->id, body);
		return false;
	}
	*back = (struct back){.kind = BACK_UNDO,
			      .number = checkpoints_newest(session->checkpoints),
			      .status = status,
			      .execution_count = execution_count,
			      .files = cell->files};
	uv_timer_stop(session->cell_timer);
	session->kill_reason = "undo";
	session->engine->ops->kill(session->engine);
	return true;
}

static void before_taken(void *data, struct snapshot *snapshot, const struct err *err)
{
	struct session *session = data;

	(void)err; /* a cell whose files cannot be kept runs all the same, and it is told */
	snapshot_free(session->before);
	session->before = snapshot;
	session_next(session);
}

bool back_files_kept(struct session *session, const struct cell *cell)
{
	struct err err = ERR_INIT;

	if (!cell->files || session->before_cell == cell->number)
		return !snapshots_busy(session->snapshots);
	snapshot_free(session->before);
	session->before = NULL;
	session->before_cell = cell->number;
	return snapshots_take(session->snapshots, before_taken, session, &err) != 0;
}

/* What is held now; else what is on its way, which may take the place of what was held. */
static int find(struct session *session, const char *to, uint32_t *number, struct err *err)
{
	if (checkpoints_find(session->checkpoints, to, number, NULL) == 0)
		return 0;
	checkpoints_await(session->checkpoints);
	return checkpoints_find(session->checkpoints, to, number, err);
}

int back_ask(struct session *session, const struct back_wish *wish, struct client *client,
	     struct json *id, struct err *err)
{
	uint32_t number = 0;

	if (session->state == SESSION_STOPPING)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (session->state == SESSION_BROKEN)
		return err_set(err, ERR_ENGINE,
			       "there is no interpreter; \"restart\" tries to start one");
	if (session->state != SESSION_IDLE || cells_queued(session->cells) > 0)
		return err_set(err, ERR_BUSY,
			       "a cell runs or waits; interrupt it, or ask again when it has "
			       "ended");
	if (!wish->reset && find(session, wish->to, &number, err) != 0)
		return -1;
	session->back = (struct back){.kind = BACK_ASKED,
				      .number = number,
				      .to = wish->to ? mem_string(wish->to) : NULL,
				      .reset = wish->reset || number == 0,
				      .files = wish->files,
				      .client = client_keep(client),
				      .id = json_keep(id)};
	session->kill_reason = "rollback";
	session->engine->ops->kill(session->engine);
	return 0;
}
