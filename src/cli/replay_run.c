/*
 * Running the steps. See replay.h.
 *
 * Each cell has the id, the code, the script's path and the arguments that it had, and prompts get
 * the answers that they got. One cell at a time, so that each has ended before the next begins, as
 * it was.
 */
#include "cli/replay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/mem.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "journal/event.h"

static void copy_members(struct json *request, const struct json *body, const char *const *names)
{
	for (; *names; names++)
		if (json_get(body, *names))
			json_set(request, *names, json_keep(json_get(body, *names)));
}

/* The request that does the step again. The caller owns it. */
static struct json *request_of(const struct replay_step *step)
{
	static const char *const cell[] = {"code", "file", "argv", "metadata", "timeout", NULL};
	static const char *const section[] = {"title", "level", NULL};
	static const char *const note[] = {"text",     "id",          "cell_type",
					   "metadata", "attachments", NULL};
	struct json *request = json_new_object();

	switch (step->kind) {
	case REPLAY_RUN:
		json_set_string(request, "op", "run");
		json_set_string(request, "id", step->id);
		copy_members(request, step->body, cell);
		json_set(request, "allow_stdin", json_new_bool(json_length(step->inputs) > 0));
		break;
	case REPLAY_SECTION:
		json_set_string(request, "op", "section");
		copy_members(request, step->body, section);
		break;
	case REPLAY_NOTE:
		json_set_string(request, "op", "note");
		copy_members(request, step->body, note);
		break;
	}
	return request;
}

static int send(struct fh_session *branch, const struct replay_step *step, struct err *err)
{
	cleanup_json struct json *request = request_of(step);
	cleanup_buf struct buf text = BUF_INIT;
	struct fh_error error = FH_ERROR_INIT;

	json_write(&text, request);
	if (fh_call(branch, buf_bytes(&text), text.len, NULL, &error) == 0)
		return 0;
	say_take(err, &error);
	return err_wrap(err, "%s cannot be done again",
			step->kind == REPLAY_RUN ? step->id : "a note");
}

/* A prompt gets the answer that it got; what is not known, the end of the file. */
static int answer(struct replay *replay, struct replay_step *step, size_t at,
		  const struct event *event, struct fh_session *branch, struct err *err)
{
	const struct json *input = json_at(step->inputs, at);
	const char *text = json_get_string(input, "text");
	struct fh_error error = FH_ERROR_INIT;

	if (json_get_bool(event->body, "password", false))
		replay->passwords = true;
	return fh_input(branch, text, &error) == 0 ? 0 : say_take(err, &error);
}

static void note_touched(struct replay *replay, const struct event *event)
{
	const struct json *files = json_get(event->body, "files");

	for (size_t i = 0; i < json_length(files); i++) {
		const char *path = json_get_string(json_at(files, i), "path");

		if (path && !json_has(json_at(files, i), "origin"))
			json_set(replay->touched, path, json_new_bool(true));
	}
}

/* Takes the events that are there. 1: the cell has ended; 0: not yet. */
static int take_events(struct replay *replay, struct replay_step *step, size_t *prompts,
		       struct fh_session *branch, struct err *err)
{
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		struct fh_error error = FH_ERROR_INIT;
		const char *line;
		size_t len;
		int got = fh_next(branch, 0, &line, &len, &error);

		if (got < 0)
			return say_take(err, &error);
		if (got == 0)
			return 0;
		if (event_parse_inlined(line, len, &event, err) != 0)
			return err_wrap(err, "the keeper sent a bad event");
		if (event.type == EVENT_STOPPED)
			return err_set(err, ERR_GONE, "the session was stopped");
		if (!event.cell || strcmp(event.cell, step->id) != 0)
			continue;
		if (event.type == EVENT_INPUT_REQUEST &&
		    answer(replay, step, (*prompts)++, &event, branch, err) != 0)
			return -1;
		if (event.type != EVENT_FINISHED)
			continue;
		note_touched(replay, &event);
		step->again = mem_string(json_get_string(event.body, "status"));
		return 1;
	}
}

static int wait_end(struct replay *replay, struct replay_step *step, struct fh_session *branch,
		    int signal_fd, int *signal, struct err *err)
{
	size_t prompts = 0;
	int ended;

	while ((ended = take_events(replay, step, &prompts, branch, err)) == 0) {
		struct pollfd fds[] = {{.fd = fh_fd(branch), .events = POLLIN},
				       {.fd = signal_fd, .events = POLLIN}};

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_sys(err, "poll");
		*signal = signals_next(signal_fd);
		if (*signal)
			return err_set(err, ERR_GONE, "given up: nothing is left of the branch");
	}
	return ended < 0 ? -1 : 0;
}

int replay_run(struct replay *replay, struct fh_session *branch, int signal_fd, int *signal,
	       struct err *err)
{
	for (size_t i = 0; i < replay->count; i++) {
		struct replay_step *step = &replay->steps[i];

		if (send(branch, step, err) != 0)
			return -1;
		if (step->kind == REPLAY_RUN &&
		    wait_end(replay, step, branch, signal_fd, signal, err) != 0)
			return -1;
	}
	return 0;
}
