/*
 * Reading a guest's output in the order in which it was written; python.h says why this is exact.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/python/internal.h"

enum {
	PUMP_MESSAGES_MAX = 64, /* control messages a turn */
	QUICK_READ_US = 300,    /* reads closer than this are a flood ... */
	QUICK_READS_MIN = 6,    /* ... when there are so many in a row */
	FLOOD_PAUSE_NS = 500 * 1000,
	FLOOD_BYTES_ENOUGH = 32 << 10, /* a read of so many needs no pause to be worth a turn */
	QUICK_READS_GRACE = 64, /* reads without a pause after the guest had to ask for one */
	GARBAGE_WARNING = 1,
};

/* Bytes waiting in a pipe. */
static size_t pipe_waiting(const struct python_pipe *pipe)
{
	int count = 0;

	if (pipe->fd < 0 || ioctl(pipe->fd, FIONREAD, &count) != 0 || count < 0)
		return 0;
	return (size_t)count;
}

static void deliver(struct python *python, int which, const struct buf *text)
{
	if (text->len == 0)
		return;
	python->engine.events->stream(python->engine.data, python->cell, which == 1,
				      !python->in_cell, buf_bytes(text), text->len);
}

/* Reads at most `count` bytes and delivers them as text. Returns what it read. */
static size_t pipe_read(struct python *python, int which, size_t count)
{
	struct python_pipe *pipe = &python->pipes[which];
	size_t total = 0;

	while (total < count && pipe->fd >= 0) {
		cleanup_buf struct buf text = BUF_INIT;
		size_t want = count - total;
		ssize_t got = read(pipe->fd, python->chunk,
				   want < sizeof(python->chunk) ? want : sizeof(python->chunk));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		total += (size_t)got;
		text_decode(&pipe->decoder, &text, python->chunk, (size_t)got);
		deliver(python, which, &text);
	}
	return total;
}

void python_drain(struct python *python)
{
	size_t waiting[2] = {pipe_waiting(&python->pipes[0]), pipe_waiting(&python->pipes[1])};

	pipe_read(python, 0, waiting[0]);
	pipe_read(python, 1, waiting[1]);
}

/* An unfinished sequence at the end of a cell stays held: the next write may finish it. */
void python_drain_end(struct python *python)
{
	python_drain(python);
	for (int which = 0; which < 2; which++) {
		cleanup_buf struct buf text = BUF_INIT;

		text_decode_end(&python->pipes[which].decoder, &text);
		deliver(python, which, &text);
	}
}

static void garbage_met(struct python *python)
{
	if (++python->garbage == GARBAGE_WARNING)
		python->engine.events->warning(
			python->engine.data, python->cell, "garbage",
			"the cell wrote unreadable bytes to Fumehood's own socket "
			"(descriptor 3); they were ignored");
}

/* A message whose body is JSON: an object, or garbage. */
static void output_message(struct python *python, enum engine_output kind)
{
	static const struct json_limits limits = {.bytes_max = GUEST_BODY_BYTES_MAX,
						  .depth_max = 200,
						  .keys_unique = false,
						  .nan_as_text = true};
	const struct channel_message *message = &python->message;
	struct json *body = json_parse(message->body, message->body_len, &limits, NULL);

	if (json_type_of(body) != JSON_OBJECT) {
		json_free(body);
		garbage_met(python);
		return;
	}
	python->engine.events->output(python->engine.data, message->header.cell, kind, body);
}

static void done_message(struct python *python)
{
	const struct channel_message *message = &python->message;
	cleanup_json struct json *body = NULL;
	enum engine_end end = ENGINE_CELL_OK;
	const char *status;

	if (python->state != PYTHON_RUNNING || message->header.cell != python->cell) {
		garbage_met(python);
		return;
	}
	body = json_parse(message->body, message->body_len, &JSON_LIMITS, NULL);
	status = json_get_string(body, "status");
	if (!status) {
		garbage_met(python);
		return;
	}
	if (strcmp(status, "error") == 0)
		end = ENGINE_CELL_ERROR;
	else if (strcmp(status, "interrupted") == 0)
		end = ENGINE_CELL_INTERRUPTED;
	python_drain(python);
	python->state = PYTHON_IDLE;
	python->in_cell = false;
	python->engine.events->done(python->engine.data, python->cell, end,
				    json_get_int(body, "execution_count", 0));
}

static void answer_message(struct python *python)
{
	static const struct json_limits limits = {.bytes_max = GUEST_ANSWER_BYTES_MAX,
						  .depth_max = 200,
						  .keys_unique = false,
						  .nan_as_text = true};
	const struct channel_message *message = &python->message;
	struct json *body;

	if (python->state != PYTHON_ASKING || message->header.cell != python->ask) {
		garbage_met(python);
		return;
	}
	body = json_parse(message->body, message->body_len, &limits, NULL);
	if (json_type_of(body) != JSON_OBJECT) {
		json_free(body);
		body = NULL;
	}
	python->state = PYTHON_IDLE;
	python->engine.events->answer(python->engine.data, python->ask, body);
}

/* Text from a guest that is not trusted to be UTF-8. */
static void text_message(struct python *python, bool is_prompt)
{
	const struct channel_message *message = &python->message;
	const struct engine_events *events = python->engine.events;
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf text = BUF_INIT;

	text_decode(&decoder, &text, message->body, message->body_len);
	text_decode_end(&decoder, &text);
	if (is_prompt)
		events->input_request(python->engine.data, message->header.cell, buf_bytes(&text),
				      text.len, (message->header.flags & GUEST_FLAG_PASSWORD) != 0);
	else if (text.len > 0)
		events->stream(python->engine.data, message->header.cell,
			       (message->header.flags & GUEST_FLAG_STDERR) != 0, true,
			       buf_bytes(&text), text.len);
}

static void handle_message(struct python *python)
{
	const struct guest_header *header = &python->message.header;

	if (header->type == GUEST_HELLO && python->state == PYTHON_STARTING) {
		python_hello(python);
		return;
	}
	if (header->type ==
	    GUEST_WAITING) { /* it alternates between its streams: pauses only delay it */
		python->quick_reads = -QUICK_READS_GRACE;
		return;
	}
	if (header->type == GUEST_ANSWER) {
		answer_message(python);
		return;
	}
	/* Output may name any cell that has run; a prompt only the one that runs. */
	if (header->cell == 0 || header->cell > python->cell || python->state == PYTHON_STARTING) {
		garbage_met(python);
		return;
	}
	switch ((enum guest_message)header->type) {
	case GUEST_DISPLAY:
		output_message(python, ENGINE_DISPLAY);
		break;
	case GUEST_UPDATE:
		output_message(python, ENGINE_UPDATE_DISPLAY);
		break;
	case GUEST_RESULT:
		output_message(python, ENGINE_RESULT);
		break;
	case GUEST_ERROR:
		output_message(python, ENGINE_ERROR);
		break;
	case GUEST_CLEAR:
		python->engine.events->clear(python->engine.data, header->cell,
					     (header->flags & GUEST_FLAG_WAIT) != 0);
		break;
	case GUEST_INPUT_REQUEST:
		if (python->state == PYTHON_RUNNING && header->cell == python->cell)
			text_message(python, true);
		else
			garbage_met(python);
		break;
	case GUEST_TAGGED:
		text_message(python, false);
		break;
	case GUEST_DONE:
		done_message(python);
		break;
	case GUEST_RUN:
	case GUEST_INPUT:
	case GUEST_ASK:
	case GUEST_ENVIRONMENT:
	case GUEST_COPY:
	case GUEST_COPIED:
	case GUEST_COPY_FAILED:
	case GUEST_WAKE:
	case GUEST_MEASURE:
	case GUEST_MEASURED:
	case GUEST_ANSWER:
	case GUEST_HELLO:
	case GUEST_WAITING:
	default:
		garbage_met(python);
		break;
	}
}

/* Lets a flood collect in the pipe, unless the guest says something first. */
static void flood_pause(struct python *python, size_t bytes)
{
	int64_t now = clock_monotonic_us();
	struct pollfd control = {.fd = python->control, .events = POLLIN};
	struct timespec pause = {.tv_sec = 0, .tv_nsec = FLOOD_PAUSE_NS};

	if (bytes == 0 || bytes >= FLOOD_BYTES_ENOUGH)
		return;
	if (now - python->last_read_us < QUICK_READ_US + FLOOD_PAUSE_NS / 1000)
		python->quick_reads++;
	else
		python->quick_reads = 0;
	if (python->quick_reads >= QUICK_READS_MIN)
		ppoll(&control, 1, &pause, NULL);
	python->last_read_us = now;
}

/* Handles the control messages that wait. CHANNEL_EMPTY: all read, the bytes measured before are
 * next. */
static enum channel_outcome drain_control(struct python *python)
{
	int control = python->control;

	for (int count = 0; count < PUMP_MESSAGES_MAX; count++) {
		enum channel_outcome outcome = channel_receive(control, &python->message);

		if (outcome == CHANNEL_EMPTY || outcome == CHANNEL_END)
			return outcome;
		if (outcome == CHANNEL_GARBAGE)
			garbage_met(python);
		else
			handle_message(python);
		/* The handler may have ended or paused this guest; `done` has drained the pipes
		 * itself. */
		if (python->control != control || python->paused ||
		    (outcome == CHANNEL_MESSAGE && python->message.header.type == GUEST_DONE))
			return CHANNEL_MESSAGE;
	}
	return CHANNEL_EMPTY;
}

bool python_pump(struct python *python)
{
	size_t waiting[2] = {pipe_waiting(&python->pipes[0]), pipe_waiting(&python->pipes[1])};
	size_t bytes;

	/* A guest that has closed its control socket is only read until it is gone. */
	if (python->state != PYTHON_ENDING) {
		enum channel_outcome outcome = drain_control(python);

		if (outcome != CHANNEL_EMPTY)
			return outcome != CHANNEL_END;
	}
	bytes = pipe_read(python, 0, waiting[0]);
	bytes += pipe_read(python, 1, waiting[1]);
	if (python->control >= 0 && !python->paused)
		flood_pause(python, bytes);
	return true;
}
