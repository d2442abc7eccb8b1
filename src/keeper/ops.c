/*
 * The requests of clients, one function an op; doc/protocol.md says what each does. Those that only
 * look are in ops_query.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/branch.h"
#include "keeper/checkpoints.h"
#include "keeper/ops.h"
#include "keeper/request.h"
#include "keeper/session.h"
#include "keeper/snapshots.h"

enum { VARIABLES_MAX = 200 };

void call_reply(const struct call *call, struct json *body)
{
	client_reply(call->client, call->request->id, body);
}

static void reply_later(const struct call *call, struct waiting_reply **waiters)
{
	struct waiting_reply *waiter = mem_zalloc(sizeof(*waiter));

	waiter->client = client_keep(call->client);
	waiter->id = json_keep(call->request->id);
	waiter->next = *waiters;
	*waiters = waiter;
}

int call_record(const struct call *call, enum event_type type, const char *cell, struct json *body,
		struct json *answer, struct err *err)
{
	struct session *session = call->session;
	struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string(cell);
	event.body = body;
	if (session->state == SESSION_STOPPING) { /* nothing comes after `stopped` */
		event_release(&event);
		json_free(answer);
		return err_set(err, ERR_GONE, "the session is stopping");
	}
	if (session_check_durable(session, err) != 0) {
		event_release(&event);
		json_free(answer);
		return -1;
	}
	if (record_append(session->record, &event, err) != 0) {
		json_free(answer);
		return -1;
	}
	call_reply(call, answer);
	server_poke(session->server);
	return 0;
}

/* Why no cell can be taken now; 0 when one can. */
static int check_can_run(const struct session *session, struct err *err)
{
	uint64_t queue_max = session->config.limits.queue;

	if (session->state == SESSION_STOPPING || session->draining)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (session->state == SESSION_BROKEN)
		return err_set(err, ERR_ENGINE,
			       "there is no interpreter; \"restart\" tries to start one");
	if (record_is_full(session->record))
		return err_set(err, ERR_NO_SPACE,
			       "the disk is full; free some space and try again");
	if (record_is_at_limit(session->record))
		return err_set(err, ERR_LIMIT,
			       "the session's record has reached its limit (record_bytes); start "
			       "another session");
	if (cells_queued(session->cells) >= queue_max)
		return err_set(err, ERR_BUSY, "%llu cells are waiting already",
			       (unsigned long long)queue_max);
	return 0;
}

/* How long the cell may run if the session does not allow less; INT64_MAX: nothing was asked. */
static int64_t asked_us(const struct call *call)
{
	double timeout_s = json_get_double(call->json, "timeout", LIMITS_WALL_S_MAX);

	return timeout_s < LIMITS_WALL_S_MAX ? (int64_t)(timeout_s * 1e6) : INT64_MAX;
}

static int64_t timeout_us(const struct call *call)
{
	int64_t wall_us = (int64_t)(call->session->config.limits.wall_s * 1e6);
	int64_t asked = asked_us(call);

	return asked < wall_us ? asked : wall_us;
}

/* The path of the script that the code is from, as the guest sees it; NULL: it is from none. */
static char *script_path(const struct call *call)
{
	const char *file = json_get_string(call->json, "file");
	const struct box *box = call->session->box;

	if (!file || file[0] == '/' || !box)
		return file ? mem_string(file) : NULL;
	return mem_format("%s/%s", box_workspace(box), file);
}

static struct json *cell_body(const struct call *call)
{
	cleanup_free char *file = script_path(call);
	struct json *body = json_new_object();

	json_set(body, "code", json_keep(json_get(call->json, "code")));
	json_set_string(body, "origin", "run");
	json_set(body, "timeout", json_new_double((double)timeout_us(call) / 1e6));
	if (file)
		json_set_string(body, "file", file);
	if (json_get(call->json, "argv"))
		json_set(body, "argv", json_keep(json_get(call->json, "argv")));
	if (call->session->section)
		json_set_string(body, "section", call->session->section);
	if (json_get(call->json, "metadata"))
		json_set(body, "metadata", json_keep(json_get(call->json, "metadata")));
	return body;
}

/* What the engine gets: the code, or with a script's path and arguments an object of the three. */
static void cell_take_code(const struct call *call, struct cell *cell)
{
	static const char *const keys[] = {"code", "argv"};
	cleanup_free char *file = script_path(call);
	cleanup_json struct json *body = NULL;
	cleanup_buf struct buf text = BUF_INIT;

	cell->script = file || json_get(call->json, "argv");
	if (!cell->script) {
		const char *code = json_string(json_get(call->json, "code"), &cell->code_len);

		cell->code = mem_copy(code, cell->code_len);
		return;
	}
	body = json_new_object();
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (json_get(call->json, keys[i]))
			json_set(body, keys[i], json_keep(json_get(call->json, keys[i])));
	if (file)
		json_set_string(body, "file", file);
	json_write(&text, body);
	cell->code = buf_take(&text, &cell->code_len);
}

/* The cell whose event was the last that the journal took. */
static void cell_make(const struct call *call, const char *id)
{
	struct cell *cell = cells_add(call->session->cells, id);
	const struct journal *journal = record_journal(call->session->record);

	cell->seq = journal_seq(journal);
	cell->offset = journal_place(journal, cell->seq - 1);
	cell_take_code(call, cell);
	cell->timeout_us = asked_us(call);
	cell->allow_stdin = json_get_bool(call->json, "allow_stdin", false);
	if (json_get_bool(call->json, "try", false))
		cell->returns = CELL_RETURNS_ALWAYS;
	else if (json_get_bool(call->json, "atomic", false))
		cell->returns = CELL_RETURNS_ON_ERROR;
	cell->files = json_get_bool(call->json, "files", snapshots_by_default(call->session));
	cell->marks = json_get_bool(call->json, "marks", false);
	cell->max_chars = json_get_int(call->json, "max_chars", cell->marks ? 0 : -1);
}

static int op_run(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *asked = json_get_string(call->json, "id");
	struct json *answer;
	char id[65];

	if (check_can_run(session, err) != 0)
		return -1;
	if (asked && cells_find(session->cells, asked))
		return err_set(err, ERR_DUPLICATE, "there is a cell \"%s\" in this session already",
			       asked);
	if (asked)
		snprintf(id, sizeof(id), "%s", asked);
	else
		cells_free_id(session->cells, id);
	answer = json_new_object();
	json_set_string(answer, "cell", id);
	json_set_int(answer, "queued",
		     (int64_t)cells_queued(session->cells) + (session->running ? 1 : 0));
	if (call_record(call, EVENT_CELL, id, cell_body(call), answer, err) != 0)
		return -1;
	cell_make(call, id);
	session_next(session);
	return 0;
}

static int op_interrupt(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *asked = json_get_string(call->json, "cell");
	struct cell *cell = session->running, *named;
	struct json *body = json_new_object();
	bool matches = cell && (!asked || strcmp(asked, cell->id) == 0);

	if (asked && !cells_find(session->cells, asked)) {
		json_free(body);
		return err_set(err, ERR_NOT_FOUND, "there is no cell \"%s\"", asked);
	}
	named = asked ? cells_find(session->cells, asked) : NULL;
	if (named && named->state == CELL_QUEUED) { /* it does not even begin */
		json_set(body, "interrupted", json_new_bool(true));
		session_finish(session, named, "cancelled", "interrupt", "kept", 0);
		call_reply(call, body);
		return 0;
	}
	json_set(body, "interrupted", json_new_bool(matches));
	if (matches && json_get_bool(call->json, "kill", false)) {
		if (!session->kill_reason) {
			session->kill_reason = "interrupt";
			session->engine->ops->kill(session->engine);
		}
	} else if (matches)
		(void)session->engine->ops->interrupt(session->engine, cell->number, NULL);
	call_reply(call, body);
	return 0;
}

static int op_input(const struct call *call, struct err *err)
{
	size_t len = 0;
	const char *text = json_string(json_get(call->json, "text"), &len);

	if (session_input(call->session, text, len, err) != 0)
		return -1;
	call_reply(call, NULL);
	return 0;
}

/* A save that someone waits for. */
struct save_call {
	struct client *client;
	struct json *id;
	struct json *body;
};

static void save_done(void *data, const struct err *err)
{
	struct save_call *save = data;

	if (err) {
		client_refuse(save->client, save->id, err);
		json_free(save->body);
	} else {
		client_reply(save->client, save->id, save->body);
	}
	client_drop(save->client);
	json_free(save->id);
	free(save);
}

static int op_save(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	struct saver *saver = record_saver(session->record);
	struct save_call *save;

	if (session->state == SESSION_STOPPING) /* which ends with a save */
		return err_set(err, ERR_GONE, "the session is stopping");
	save = mem_zalloc(sizeof(*save));
	record_flush(session->record);
	save->client = client_keep(call->client);
	save->id = json_keep(call->request->id);
	save->body = json_new_object();
	json_set_string(save->body, "path", saver_name(saver));
	json_set_int(save->body, "last_seq", (int64_t)journal_seq(record_journal(session->record)));
	saver_wait(saver, save_done, save);
	return 0;
}

static int op_events(const struct call *call, struct err *err)
{
	uint64_t last;
	struct subscription subscription = {
		.since = (uint64_t)json_get_int(call->json, "since", 0),
		.lossy = json_get_bool(call->json, "lossy", false),
		.inlined = json_get_bool(call->json, "inline", true),
	};
	const char *cell = json_get_string(call->json, "cell");
	struct json *body;

	record_flush(call->session->record);
	last = journal_seq(record_journal(call->session->record));
	if (subscription.since > last)
		return err_set(err, ERR_INVALID, "\"since\" is %llu, but the last event is %llu",
			       (unsigned long long)subscription.since, (unsigned long long)last);
	subscription.to = json_get_bool(call->json, "follow", false) ? UINT64_MAX : last;
	if (cell)
		snprintf(subscription.cell, sizeof(subscription.cell), "%s", cell);
	body = json_new_object();
	json_set_int(body, "to", (int64_t)last);
	call_reply(call, body);
	client_subscribe(call->client, &subscription);
	return 0;
}

static int op_section(const struct call *call, struct err *err)
{
	struct json *body = json_new_object();

	free(call->session->section);
	call->session->section = mem_string(json_get_string(call->json, "title"));
	json_set(body, "title", json_keep(json_get(call->json, "title")));
	json_set_int(body, "level", json_get_int(call->json, "level", 2));
	return call_record(call, EVENT_SECTION, NULL, body, NULL, err);
}

/* A note's id is free of the ids of cells; notes with the same id are the notebook's to tell apart.
 */
static int op_note(const struct call *call, struct err *err)
{
	static const char *const optional[] = {"metadata", "attachments"};
	struct session *session = call->session;
	const char *asked = json_get_string(call->json, "id");
	const char *type = json_get_string(call->json, "cell_type");
	struct json *body, *answer;
	char id[65];

	if (asked && cells_find(session->cells, asked))
		return err_set(err, ERR_DUPLICATE, "there is a cell \"%s\" in this session already",
			       asked);
	record_flush(session->record);
	if (asked)
		snprintf(id, sizeof(id), "%s", asked);
	else
		snprintf(id, sizeof(id), "note-%llu",
			 (unsigned long long)journal_seq(record_journal(session->record)) + 1);
	body = json_new_object();
	json_set_string(body, "id", id);
	json_set(body, "text", json_keep(json_get(call->json, "text")));
	json_set_string(body, "cell_type", type ? type : "markdown");
	for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
		if (json_get(call->json, optional[i]))
			json_set(body, optional[i], json_keep(json_get(call->json, optional[i])));
	answer = json_new_object();
	json_set_string(answer, "note", id);
	return call_record(call, EVENT_NOTE, NULL, body, answer, err);
}

/* The question as the guest gets it. */
static struct json *ask_body(const struct call *call)
{
	struct json *body = json_new_object();

	json_set(body, "op", json_keep(json_get(call->json, "op")));
	return body;
}

static void copy_field(const struct call *call, struct json *body, const char *name)
{
	if (json_get(call->json, name))
		json_set(body, name, json_keep(json_get(call->json, name)));
}

static int op_complete(const struct call *call, struct err *err)
{
	cleanup_json struct json *body = ask_body(call);

	copy_field(call, body, "code");
	copy_field(call, body, "cursor_pos");
	return session_ask(call->session, call->client, call->request->id, ASK_COMPLETE, body, err);
}

static int op_inspect(const struct call *call, struct err *err)
{
	cleanup_json struct json *body = ask_body(call);

	copy_field(call, body, "code");
	copy_field(call, body, "cursor_pos");
	copy_field(call, body, "detail_level");
	return session_ask(call->session, call->client, call->request->id, ASK_INSPECT, body, err);
}

static int op_variables(const struct call *call, struct err *err)
{
	cleanup_json struct json *body = ask_body(call);

	copy_field(call, body, "pattern");
	json_set_int(body, "max", json_get_int(call->json, "max", VARIABLES_MAX));
	return session_ask(call->session, call->client, call->request->id, ASK_VARIABLES, body,
			   err);
}

static int op_checkpoint(const struct call *call, struct err *err)
{
	struct session *session = call->session;

	if (session->state == SESSION_STOPPING)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (cells_queued(session->cells) > 0)
		return err_set(err, ERR_BUSY, "a cell waits; ask again when it has ended");
	return checkpoints_make(
		session->checkpoints, json_get_string(call->json, "name"),
		json_get_bool(call->json, "files", snapshots_by_default(session)), call->client,
		call->request->id, err);
}

static int op_checkpoints(const struct call *call, struct err *err)
{
	const char *name = json_get_string(call->json, "drop");

	checkpoints_await(call->session->checkpoints);
	if (name && checkpoints_drop(call->session->checkpoints, name, err) != 0)
		return -1;
	call_reply(call, checkpoints_json(call->session->checkpoints));
	return 0;
}

static int op_rollback(const struct call *call, struct err *err)
{
	const struct back_wish wish = {
		.to = json_get_string(call->json, "to"),
		.files = json_get_bool(call->json, "files", snapshots_by_default(call->session))};

	return back_ask(call->session, &wish, call->client, call->request->id, err);
}

static int op_fork(const struct call *call, struct err *err)
{
	return branch_ask(call->session, json_get_string(call->json, "name"),
			  json_get_string(call->json, "from"), call->client, call->request->id,
			  err);
}

static int op_reset(const struct call *call, struct err *err)
{
	const struct back_wish wish = {.reset = true};

	return back_ask(call->session, &wish, call->client, call->request->id, err);
}

static int op_restart(const struct call *call, struct err *err)
{
	if (call->session->state == SESSION_STOPPING)
		return err_set(err, ERR_GONE, "the session is stopping");
	reply_later(call, &call->session->restart_waiters);
	session_restart(call->session);
	return 0;
}

static int op_stop(const struct call *call, struct err *err)
{
	struct session *session = call->session;
	const char *mode = json_get_string(call->json, "mode");

	(void)err;
	reply_later(call, &session->stop_waiters);
	if (mode && strcmp(mode, "drain") == 0 && session->state != SESSION_BROKEN) {
		session->draining = true;
		(void)session_input(session, NULL, 0, NULL); /* a prompt that waits already */
		session_next(session);
	} else if (session->state != SESSION_STOPPING) {
		session_stop(session, "stop");
	}
	return 0;
}

static int (*const OPS[REQUEST_OP_COUNT])(const struct call *call, struct err *err) = {
	[REQUEST_RUN] = op_run,
	[REQUEST_INTERRUPT] = op_interrupt,
	[REQUEST_INPUT] = op_input,
	[REQUEST_TEXT] = op_text,
	[REQUEST_NOTEBOOK] = op_notebook,
	[REQUEST_SAVE] = op_save,
	[REQUEST_EVENTS] = op_events,
	[REQUEST_SECTION] = op_section,
	[REQUEST_NOTE] = op_note,
	[REQUEST_RECORD] = op_record,
	[REQUEST_BLOB] = op_blob,
	[REQUEST_STATUS] = op_status,
	[REQUEST_RESTART] = op_restart,
	[REQUEST_CHECKPOINT] = op_checkpoint,
	[REQUEST_CHECKPOINTS] = op_checkpoints,
	[REQUEST_ROLLBACK] = op_rollback,
	[REQUEST_RESET] = op_reset,
	[REQUEST_FORK] = op_fork,
	[REQUEST_STOP] = op_stop,
	[REQUEST_COMPLETE] = op_complete,
	[REQUEST_INSPECT] = op_inspect,
	[REQUEST_VARIABLES] = op_variables,
	[REQUEST_FILES] = op_files,
	[REQUEST_IMAGES] = op_images,
	[REQUEST_OUTPUTS] = op_outputs,
	[REQUEST_LIMITS] = op_limits,
	[REQUEST_POLICY] = op_policy,
	[REQUEST_LIST_FILES] = op_list_files,
	[REQUEST_READ_FILE] = op_read_file,
	[REQUEST_WRITE_FILE] = op_write_file,
	[REQUEST_REMOVE_FILE] = op_remove_file,
	[REQUEST_MAKE_FOLDER] = op_make_folder,
};

void session_line(struct session *session, struct client *client, const char *line, size_t len)
{
	struct request request = REQUEST_INIT;
	struct err err = ERR_INIT;

	if (request_parse(line, len, &request, &err) != 0) {
		client_refuse(client, request.id, &err);
	} else {
		const struct call call = {.session = session,
					  .client = client,
					  .request = &request,
					  .json = request.json};

		if (OPS[request.op](&call, &err) != 0)
			client_refuse(client, request.id, &err);
	}
	request_release(&request);
}
