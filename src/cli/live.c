/*
 * The loop of `fumehood run`. See live.h.
 *
 * It waits for three things at once: events of the session, signals, and (while a prompt waits)
 * lines of stdin. Nothing is read ahead: while stdout does not take more, this process waits in
 * write(2), and the keeper's journal holds what comes meanwhile.
 *
 * Ctrl-C interrupts the cell. A second one within 2 s means that the code does not react: a session
 * made for this command is stopped; one that lives on gets a new interpreter, and its cell ends as
 * died.
 */
#include "cli/live.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/say.h"
#include "cli/signals.h"

enum { CALL_TIMEOUT_MS = 60000 };
#define AGAIN_US ((int64_t)2000000)

/* What is known of the cell that runs. */
struct running {
	char *id;
	bool finished;
	bool undone; /* it has ended; what its rollback did is told next */
	enum live_end end;
	int signal;
};

static void running_release(struct running *running)
{
	free(running->id);
}

void live_init(struct live *live, struct fh_session *session, enum live_mode mode, int signal_fd,
	       const char *directory, bool errors_only)
{
	*live = (struct live){.session = session, .mode = mode, .signal_fd = signal_fd};
	show_init(&live->show, directory, errors_only);
	input_init(&live->input, STDIN_FILENO);
	fh_set_timeout(session, CALL_TIMEOUT_MS);
}

static void last_release(struct live_last *last)
{
	free(last->cell);
	free(last->ename);
	free(last->evalue);
	*last = (struct live_last){.cell = NULL};
}

void live_release(struct live *live)
{
	last_release(&live->last);
	count_release(&live->count);
	show_release(&live->show);
	input_release(&live->input);
}

/* --- requests --------------------------------------------------------------------------------- */

static int call(struct live *live, const struct json *request, char **reply, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct fh_error error = FH_ERROR_INIT;

	json_write(&text, request);
	if (fh_call(live->session, buf_bytes(&text), text.len, reply, &error) == 0)
		return 0;
	return say_take(err, &error);
}

/* Calls. An id that an earlier run of the same notebook in this session has taken gets a number, so
 * that whoever looks for the runs of a cell later finds them. */
static int call_with_id(struct live *live, struct json *request, char **reply, struct err *err)
{
	enum { TRIES_MAX = 1000, ID_BYTES_MAX = 64, NUMBER_BYTES = 5 };
	cleanup_free char *id = mem_string(json_get_string(request, "id"));
	struct err why = ERR_INIT;

	for (int number = 2; number <= TRIES_MAX; number++) {
		cleanup_free char *next = NULL;

		if (call(live, request, reply, &why) == 0)
			return 0;
		if (why.code != ERR_DUPLICATE || !id)
			break;
		next = mem_format("%.*s-%d", ID_BYTES_MAX - NUMBER_BYTES, id, number);
		json_set_string(request, "id", next);
	}
	if (why.code == ERR_DUPLICATE && json_remove(request, "id"))
		return call(live, request, reply, err);
	*err = why;
	return -1;
}

int live_note(struct live *live, const char *id, const char *cell_type, const char *text,
	      size_t len, const struct json *metadata, const struct json *attachments,
	      struct err *err)
{
	cleanup_json struct json *request = json_new_object();

	json_set_string(request, "op", "note");
	if (id)
		json_set_string(request, "id", id);
	json_set_string(request, "cell_type", cell_type);
	json_set(request, "text", json_new_string(text, len));
	if (metadata)
		json_set(request, "metadata", json_copy(metadata));
	if (attachments)
		json_set(request, "attachments", json_copy(attachments));
	return call_with_id(live, request, NULL, err);
}

static struct json *words_json(const char *const *words)
{
	struct json *array = json_new_array();

	for (; *words; words++)
		json_push(array, json_new_string(*words, strlen(*words)));
	return array;
}

/* Sends the run; the id of its cell is owned by *running. */
static int send_run(struct live *live, const struct live_cell *cell, struct running *running,
		    struct err *err)
{
	cleanup_json struct json *request = json_new_object();
	cleanup_json struct json *answer = NULL;
	cleanup_free char *reply = NULL;

	json_set_string(request, "op", "run");
	if (cell->id)
		json_set_string(request, "id", cell->id);
	json_set(request, "code", json_new_string(cell->code, cell->code_len));
	if (cell->timeout_s > 0)
		json_set(request, "timeout", json_new_double(cell->timeout_s));
	if (cell->allow_stdin)
		json_set(request, "allow_stdin", json_new_bool(true));
	if (live->mode == LIVE_TEXT)
		json_set_int(request, "max_chars", (int64_t)live->max_chars);
	if (live->mode == LIVE_TEXT && live->marks)
		json_set(request, "marks", json_new_bool(true));
	if (cell->metadata)
		json_set(request, "metadata", json_copy(cell->metadata));
	if (cell->file)
		json_set_string(request, "file", cell->file);
	if (cell->argv)
		json_set(request, "argv", words_json(cell->argv));
	if (live->returns.atomic)
		json_set(request, "atomic", json_new_bool(true));
	if (live->returns.try_only)
		json_set(request, "try", json_new_bool(true));
	if (live->returns.files != FH_FILES_DEFAULT)
		json_set(request, "files", json_new_bool(live->returns.files == FH_FILES_BACK));
	if (call_with_id(live, request, &reply, err) != 0)
		return -1;
	answer = json_parse(reply, strlen(reply), &JSON_LIMITS, err);
	if (!answer || !json_get_string(answer, "cell"))
		return err_set(err, ERR_CORRUPT, "the keeper's reply names no cell");
	running->id = mem_string(json_get_string(answer, "cell"));
	show_add_cell(&live->show, running->id);
	live->last.cell = mem_string(running->id);
	return 0;
}

/* --- events ----------------------------------------------------------------------------------- */

static enum live_end end_from_status(const char *status)
{
	static const struct {
		const char *status;
		enum live_end end;
	} ends[] = {
		{"ok", LIVE_OK},
		{"error", LIVE_ERROR},
		{"timeout", LIVE_TIMEOUT},
		{"interrupted", LIVE_INTERRUPTED},
	};

	for (size_t i = 0; status && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strcmp(ends[i].status, status) == 0)
			return ends[i].end;
	return LIVE_DIED;
}

static int print_text(struct live *live, const struct event *event, struct err *err)
{
	cleanup_buf struct buf out = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(json_get(event->body, "text"), &len);

	if (!text)
		return 0;
	if (live->texts)
		buf_append_char(&out, '\n');
	live->texts = true;
	buf_append(&out, text, len);
	buf_append_char(&out, '\n');
	terminal_guest(&live->show.out, buf_bytes(&out), out.len);
	return show_flush(&live->show, err);
}

static void ask(struct live *live, const struct event *event)
{
	const char *prompt = json_get_string(event->body, "prompt");

	if (live->mode == LIVE_SHOW && prompt)
		show_prompt(&live->show, prompt);
	input_ask(&live->input, json_get_bool(event->body, "password", false));
}

/* The cell has ended. */
static int take_finished(struct live *live, struct running *running, const struct event *event,
			 struct err *err)
{
	const char *state = json_get_string(event->body, "state");
	bool undone = state && strcmp(state, "rolled_back") == 0;
	bool recovered = state && strcmp(state, "recovered") == 0;

	/* How it was undone, with the files, comes in an event of its own, also of one that died.
	 */
	running->undone = undone || (recovered && (live->returns.atomic || live->returns.try_only));
	running->finished = !running->undone;
	running->end = end_from_status(json_get_string(event->body, "status"));
	live->last.finished_us = event->t_us;
	live->last.kept = undone || (state && strcmp(state, "kept") == 0) ||
			  (recovered && json_length(json_get(event->body, "rolled_back")) == 0);
	live->last.execution_count = json_get_int(event->body, "execution_count", 0);
	return live->mode == LIVE_TEXT ? print_text(live, event, err) : 0;
}

static void take_error(struct live *live, const struct event *event)
{
	const char *name = json_get_string(event->body, "ename");
	const char *value = json_get_string(event->body, "evalue");

	free(live->last.ename);
	free(live->last.evalue);
	live->last.ename = mem_string(name ? name : "error");
	live->last.evalue = mem_string(value ? value : "");
}

/* Takes an event of the cell that runs. */
static int take_ours(struct live *live, struct running *running, const struct event *event,
		     struct err *err)
{
	if (event->type == EVENT_STARTED)
		live->last.started_us = event->t_us;
	if (event->type == EVENT_ERROR)
		take_error(live, event);
	if (event->type == EVENT_INPUT_REQUEST)
		ask(live, event);
	if (event->type == EVENT_INPUT || event->type == EVENT_FINISHED)
		input_done(&live->input);
	return event->type == EVENT_FINISHED ? take_finished(live, running, event, err) : 0;
}

/* Takes one line of the journal. */
static int take_event(struct live *live, struct running *running, const char *line, size_t len,
		      struct err *err)
{
	cleanup_event struct event event = EVENT_INIT;

	if (event_parse_inlined(line, len, &event, err) != 0)
		return err_wrap(err, "the keeper sent a bad event");
	if (live->mode == LIVE_JSON) {
		buf_append(&live->show.out.out, line, len);
		buf_append_char(&live->show.out.out, '\n');
	} else if (live->mode == LIVE_SHOW) {
		if (live->progress)
			progress_erase(live->progress);
		show_event(&live->show, &event);
	}
	count_take(&live->count, &event);
	if (event.type == EVENT_STOPPED)
		return err_set(err, ERR_GONE, "the session was stopped");
	/* The first one behind the cell's end is its own. */
	if (running->undone && event.type == EVENT_ROLLBACK)
		running->finished = true;
	if (!event.cell || !running->id || strcmp(event.cell, running->id) != 0)
		return 0;
	return take_ours(live, running, &event, err);
}

/* Takes all events that are there. */
static int take_events(struct live *live, struct running *running, struct err *err)
{
	while (!running->finished) {
		struct fh_error error = FH_ERROR_INIT;
		const char *line;
		size_t len;
		int got = fh_next(live->session, 0, &line, &len, &error);

		if (got < 0)
			return say_take(err, &error);
		if (got == 0)
			break;
		if (take_event(live, running, line, len, err) != 0)
			return -1;
		/* Shown at least once in a mebibyte, so that a flood does not gather here. */
		if (live->show.out.out.len > 1 << 20 && show_flush(&live->show, err) != 0)
			return -1;
	}
	return show_flush(&live->show, err);
}

int live_idle(struct live *live, const char *before, bool *shown, struct err *err)
{
	struct running none = {.id = NULL};
	struct terminal *out = &live->show.out;
	size_t begin = out->out.len;
	int got = 1;

	*shown = false;
	terminal_own(out, before, false);
	out->line_start = true;
	while (got > 0) {
		struct fh_error error = FH_ERROR_INIT;
		const char *line;
		size_t len, told = out->out.len + live->show.err.out.len;

		got = fh_next(live->session, 0, &line, &len, &error);
		if (got < 0)
			return say_take(err, &error);
		if (got > 0 && take_event(live, &none, line, len, err) != 0)
			return -1;
		*shown = *shown || out->out.len + live->show.err.out.len != told;
	}
	if (*shown)
		return show_flush(&live->show, err);
	buf_truncate(&out->out, begin);
	return 0;
}

/* --- signals and input ------------------------------------------------------------------------ */

static int take_signal(struct live *live, struct running *running, struct err *err)
{
	static const char kill[] = "{\"op\":\"interrupt\",\"kill\":true}";
	struct fh_error error = FH_ERROR_INIT;
	int64_t now = clock_monotonic_us();
	int signal_number = signals_next(live->signal_fd);
	bool again = live->interrupted_us && now - live->interrupted_us < AGAIN_US;
	int outcome;

	if (!signal_number)
		return 0;
	if (signal_number != SIGINT || (again && !live->lives_on)) {
		running->finished = true;
		running->end = LIVE_STOPPED;
		running->signal = signal_number;
		return 0;
	}
	live->interrupted_us = now;
	if (again) {
		live->interrupted_us = 0;
		outcome = fh_post(live->session, kill, sizeof(kill) - 1, &error);
	} else {
		if (live->show.err.tty)
			say("interrupted; Ctrl-C again within 2 s %s",
			    live->lives_on ? "kills it (the variables are those of before)"
					   : "ends the session");
		outcome = fh_interrupt(live->session, running->id, &error);
	}
	return outcome == 0 ? 0 : say_take(err, &error);
}

static int take_input(struct live *live, struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	cleanup_json struct json *request = NULL;
	cleanup_buf struct buf line = BUF_INIT;

	switch (input_next(&live->input)) {
	case INPUT_NONE:
		return 0;
	case INPUT_LINE:
		request = json_new_object();
		json_set_string(request, "op", "input");
		json_set(request, "text",
			 json_new_string(buf_bytes(&live->input.answer), live->input.answer.len));
		json_write(&line, request);
		live->show.out.line_start = live->input.tty; /* the user has typed Enter */
		break;
	case INPUT_END:
		buf_append_string(&line, "{\"op\":\"input\",\"eof\":true}");
		break;
	}
	input_done(&live->input);
	return fh_post(live->session, buf_bytes(&line), line.len, &error) == 0
		       ? 0
		       : say_take(err, &error);
}

static int wait_more(struct live *live, struct running *running, struct err *err)
{
	struct pollfd fds[3] = {
		{.fd = fh_fd(live->session), .events = POLLIN},
		{.fd = live->signal_fd, .events = POLLIN},
		{.fd = input_wants(&live->input) ? live->input.fd : -1, .events = POLLIN},
	};

	if (live->progress)
		progress_draw(live->progress);
	if (poll(fds, 3, live->progress && live->progress->to ? PROGRESS_TICK_MS : -1) < 0)
		return errno == EINTR ? 0 : err_sys(err, "poll");
	if (fds[2].revents) {
		input_read(&live->input);
		if (take_input(live, err) != 0)
			return -1;
	}
	return fds[1].revents ? take_signal(live, running, err) : 0;
}

enum live_end live_run(struct live *live, const struct live_cell *cell, int *signal_number,
		       struct err *err)
{
	__attribute__((cleanup(running_release))) struct running running = {.id = NULL};

	live->interrupted_us = 0;
	last_release(&live->last);
	if (send_run(live, cell, &running, err) != 0)
		return LIVE_FAULT;
	for (;;) {
		if (take_events(live, &running, err) != 0)
			return LIVE_FAULT;
		if (running.finished)
			break;
		/* Lines that were read before the prompt came need no more reading. */
		if (live->input.waiting && take_input(live, err) != 0)
			return LIVE_FAULT;
		if (wait_more(live, &running, err) != 0)
			return LIVE_FAULT;
	}
	*signal_number = running.signal;
	return running.end;
}
