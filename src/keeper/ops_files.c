/*
 * The ops on the workspace's files, and the guard's place in the session.
 *
 * The files are those that the session sees: of an overlay they are reached through its box's own
 * mount, since what lies below that must not be changed while it is mounted.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/answer.h"
#include "keeper/guard.h"
#include "keeper/ops.h"

int session_open_tree(const struct session *session, struct tree *tree, struct err *err)
{
	int fd;

	if (session->config.workspace_mode != WORKSPACE_OVERLAY)
		return tree_open(tree, session->config.workspace, err);
	if (!session->box)
		return err_set(err, ERR_BUSY,
			       "there is no interpreter now; \"restart\" starts one");
	fd = openat(box_overlay(session->box), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "the workspace");
	return tree_adopt(tree, fd, err);
}

static int check_change(const struct call *call, struct err *err)
{
	const struct session *session = call->session;

	if (session->config.workspace_mode == WORKSPACE_RO)
		return err_set(err, ERR_DENIED, "the workspace is read-only");
	return answer_may_change(call->json, call->request->op == REQUEST_MAKE_FOLDER,
				 session->guard ? guard_patterns(session->guard) : NULL, err);
}

static int answer(const struct call *call, bool changes,
		  struct json *(*function)(const struct tree *tree, const struct json *request,
					   struct err *err),
		  struct err *err)
{
	cleanup_tree struct tree tree = TREE_INIT;
	struct json *body;

	if (changes && check_change(call, err) != 0)
		return -1;
	if (session_open_tree(call->session, &tree, err) != 0)
		return -1;
	body = function(&tree, call->json, err);
	if (!body)
		return -1;
	call_reply(call, body);
	return 0;
}

int op_list_files(const struct call *call, struct err *err)
{
	return answer(call, false, answer_list, err);
}

int op_read_file(const struct call *call, struct err *err)
{
	return answer(call, false, answer_read, err);
}

int op_write_file(const struct call *call, struct err *err)
{
	return answer(call, true, answer_write, err);
}

int op_remove_file(const struct call *call, struct err *err)
{
	return answer(call, true, answer_remove, err);
}

int op_make_folder(const struct call *call, struct err *err)
{
	return answer(call, true, answer_make_folder, err);
}

/* --- the guard --- */

static void warn(struct session *session, const char *message, struct json *files)
{
	struct json *body = json_new_object();

	json_set_string(body, "code", "executes_later");
	json_set_string(body, "message", message);
	json_set(body, "files", files);
	record_body(session->record, EVENT_WARNING, session->running ? session->running->id : NULL,
		    body);
}

/* A program that is at work (git clone) must find its files as it has left them: so a cell has a
 * minute before the guard looks, and otherwise it looks when the cell has ended, at once where that
 * is quick, and a second later for what goes on behind it. */
enum { GUARD_LATER_MS = 60 * 1000, GUARD_AGAIN_MS = 1000, GUARD_AT_ONCE_MS = 250 };

void session_guard_look(struct session *session, bool last)
{
	struct json *files = session->guard ? guard_look(session->guard, last) : NULL;

	if (files)
		warn(session,
		     "the session has made files that other programs run, outside of any sandbox; "
		     "they were renamed to *.held-by-fumehood",
		     files);
	if (session->guard && guard_is_incomplete(session->guard) && !session->guard_warned) {
		session->guard_warned = true;
		warn(session,
		     "the workspace has folders that cannot be read, or more files than are looked "
		     "at: what other programs run there, outside of any sandbox, is not all "
		     "protected",
		     json_new_array());
	}
}

void session_guard_fired(uv_timer_t *timer)
{
	struct session *session = timer->data;
	const struct cell *cell = session->running;
	bool early = cell && clock_monotonic_us() - cell->started_us < GUARD_LATER_MS * 1000;

	if (!early)
		session_guard_look(session, false);
	uv_timer_start(timer, session_guard_fired, early ? GUARD_AGAIN_MS : GUARD_LATER_MS, 0);
}

void session_guard_soon(struct session *session)
{
	if (session->guard && !uv_is_active((uv_handle_t *)session->guard_timer))
		uv_timer_start(session->guard_timer, session_guard_fired, GUARD_LATER_MS, 0);
}

void session_guard_ended(struct session *session)
{
	uint64_t pause_ms = session->guard ? guard_pause_ms(session->guard) : 0;
	bool at_once = pause_ms <= GUARD_AT_ONCE_MS;

	if (!session->guard || session->state == SESSION_STOPPING) /* it looks at its end */
		return;
	if (at_once)
		session_guard_look(session, false);
	uv_timer_start(session->guard_timer, session_guard_fired,
		       at_once ? GUARD_AGAIN_MS : pause_ms, 0);
}
