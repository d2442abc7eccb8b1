/*
 * Copies and their sockets on the loop; guests.h has the rules.
 */
#include "engine/python/guests.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/socket.h"
#include "engine/python/internal.h"

enum { SETTLE_MS_MAX = 1000, INFO_BYTES_MAX = 64 << 10 };

enum sleeper_state { SLEEPER_COMING, SLEEPER_ASLEEP };

struct sleeper {
	struct sleeper *next;
	struct guests *guests;
	struct python *python; /* whose guest it is a copy of; told of what becomes of it */
	struct python *waking; /* the engine that waits for the guest that it wakes as */
	uv_poll_t *poll;       /* on the heap until libuv has closed it */
	enum sleeper_state state;
	uint32_t number;
	int control, pidfd;
	pid_t pid; /* inside */
	int64_t asked_us;
};

struct guests {
	struct sleeper *sleepers; /* the newest first */
	struct python *pythons;
	uint32_t last_number;
};

struct guests *guests_new(void)
{
	return mem_zalloc(sizeof(struct guests));
}

/* --- the list ----------------------------------------------------------------------------------
 */

static void poll_closed(uv_handle_t *handle)
{
	free(handle);
}

void sleeper_drop(struct sleeper *sleeper)
{
	struct sleeper **at = &sleeper->guests->sleepers;

	while (*at != sleeper)
		at = &(*at)->next;
	*at = sleeper->next;
	if (sleeper->python && sleeper->state == SLEEPER_COMING)
		sleeper->python->copying--;
	if (sleeper->poll) {
		uv_poll_stop(sleeper->poll);
		uv_close((uv_handle_t *)sleeper->poll, poll_closed);
	}
	close(sleeper->control); /* at its end of file it ends */
	if (sleeper->pidfd >= 0)
		close(sleeper->pidfd);
	free(sleeper);
}

void guests_free(struct guests *guests)
{
	if (!guests)
		return;
	while (guests->sleepers)
		sleeper_drop(guests->sleepers);
	free(guests);
}

void guests_join(struct guests *guests, struct python *python)
{
	python->next_in_box = guests->pythons;
	guests->pythons = python;
}

void guests_leave(struct guests *guests, struct python *python)
{
	struct python **at = &guests->pythons;
	struct sleeper *next;

	while (*at && *at != python)
		at = &(*at)->next_in_box;
	if (*at)
		*at = python->next_in_box;
	for (struct sleeper *sleeper = guests->sleepers; sleeper; sleeper = next) {
		next = sleeper->next;
		if (sleeper->waking == python)
			sleeper->waking = NULL;
		if (sleeper->python == python)
			sleeper_drop(sleeper);
	}
}

struct sleeper *guests_find(const struct guests *guests, uint32_t number)
{
	struct sleeper *sleeper = guests->sleepers;

	while (sleeper && (sleeper->number != number || sleeper->state != SLEEPER_ASLEEP))
		sleeper = sleeper->next;
	return sleeper;
}

uint32_t sleeper_number(const struct sleeper *sleeper)
{
	return sleeper->number;
}

size_t guests_to_spare(const struct guests *guests, const struct python *dying, pid_t *pids)
{
	size_t count = 0;

	for (const struct python *python = guests->pythons; python && count < GUESTS_KEEP_MAX;
	     python = python->next_in_box)
		if (python != dying && python->pid > 0)
			pids[count++] = python->pid;
	for (const struct sleeper *sleeper = guests->sleepers; sleeper && count < GUESTS_KEEP_MAX;
	     sleeper = sleeper->next)
		if (sleeper->pid > 0)
			pids[count++] = sleeper->pid;
	return count;
}

bool guests_are_shared(const struct guests *guests)
{
	return guests->pythons && guests->pythons->next_in_box;
}

void guests_exited(const struct guests *guests, pid_t pid, int status)
{
	for (struct python *python = guests->pythons; python; python = python->next_in_box)
		if (python->pid == pid)
			python->exit_status = status;
}

/* --- what a copy says ---------------------------------------------------------------------------
 */

/* The copy is not there, or is no more: whoever waits is told. */
static void gone(struct sleeper *sleeper, const struct err *err)
{
	struct python *python = sleeper->python, *waking = sleeper->waking;
	uint32_t number = sleeper->number;
	bool came = sleeper->state == SLEEPER_ASLEEP;

	sleeper_drop(sleeper);
	if (python)
		python->engine.events->copy_failed(python->engine.data, number, came, err);
	if (waking && waking->waking == number)
		python_start_failed(waking, err);
	if (python && !python->copying)
		python_copy_settled(python);
}

static void came(struct sleeper *sleeper, struct channel_message *message)
{
	struct python *python = sleeper->python;
	struct err err = ERR_INIT;
	struct json *info = NULL;
	struct box_guest guest;

	if (sleeper->state != SLEEPER_COMING || message->fd < 0 ||
	    message->body_len > INFO_BYTES_MAX)
		return;
	if (box_meet(python->params.box, message->fd, &guest, &err) != 0) {
		gone(sleeper, &err);
		return;
	}
	if (guest.status >= 0)
		close(guest.status);
	sleeper->pid = guest.pid;
	info = json_parse(message->body, message->body_len, &JSON_LIMITS, NULL);
	sleeper->pidfd = fd_take(&message->fd);
	sleeper->state = SLEEPER_ASLEEP;
	python->copying--;
	python->engine.events->copied(python->engine.data, sleeper->number,
				      clock_monotonic_us() - sleeper->asked_us, info);
	if (!python->copying)
		python_copy_settled(python);
}

/* Why there is no copy, in the words of a guest that has tried. */
static void read_failure(struct err *err, const struct channel_message *message)
{
	cleanup_json struct json *body =
		json_parse(message->body, message->body_len, &JSON_LIMITS, NULL);
	const char *words = json_get_string(body, "message");

	err_set(err, json_get_int(body, "errno", 0) == EOPNOTSUPP ? ERR_UNSUPPORTED : ERR_ENGINE,
		"no copy of the interpreter can be made: %.160s",
		words ? words : "no reason was given");
}

static void measured(struct sleeper *sleeper, const struct channel_message *message)
{
	struct python *python = sleeper->python;
	cleanup_json struct json *body =
		json_parse(message->body, message->body_len, &JSON_LIMITS, NULL);

	if (python)
		python->engine.events->copy_measured(python->engine.data, sleeper->number,
						     json_get_int(body, "private_bytes", 0),
						     json_get_int(body, "rss_bytes", 0));
}

/* Handles one message. False: none waits, or the copy is no more. */
static bool hear(struct sleeper *sleeper)
{
	struct channel_message message;
	enum channel_outcome outcome;
	struct err err = ERR_INIT;
	bool more = true;

	channel_message_init(&message);
	outcome = channel_receive(sleeper->control, &message);
	if (outcome == CHANNEL_EMPTY) {
		more = false;
	} else if (outcome == CHANNEL_END) {
		err_set(&err, ERR_ENGINE, "a copy of the interpreter has ended");
		gone(sleeper, &err);
		more = false;
	} else if (outcome == CHANNEL_MESSAGE && message.header.cell == sleeper->number) {
		struct python *waking = sleeper->waking;

		if (message.header.type == GUEST_COPIED) {
			came(sleeper, &message);
			more = false;
		} else if (message.header.type == GUEST_MEASURED) {
			measured(sleeper, &message);
		} else if (message.header.type == GUEST_COPY_FAILED &&
			   sleeper->state == SLEEPER_COMING) {
			read_failure(&err, &message);
			gone(sleeper, &err);
			more = false;
		} else if (message.header.type == GUEST_COPY_FAILED && waking &&
			   waking->waking == sleeper->number) {
			read_failure(&err, &message);
			python_start_failed(waking, &err);
			more = false;
		}
	}
	channel_message_release(&message);
	return more;
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	while (hear(poll->data))
		;
}

/* --- asking -------------------------------------------------------------------------------------
 */

static int watch(struct sleeper *sleeper, uv_loop_t *loop, struct err *err)
{
	uv_poll_t *poll = mem_zalloc(sizeof(*poll));
	int status = uv_poll_init(loop, poll, sleeper->control);

	if (status != 0) {
		free(poll);
		return err_set(err, ERR_IO, "watching a descriptor: %s", uv_strerror(status));
	}
	poll->data = sleeper;
	sleeper->poll = poll;
	uv_poll_start(poll, UV_READABLE, poll_ready);
	return 0;
}

struct sleeper *guests_copy(struct guests *guests, struct python *python, struct err *err)
{
	struct guest_header header = {.type = GUEST_COPY};
	struct sleeper *sleeper;
	int pair[2], sent;

	if (socket_pair(SOCK_SEQPACKET, pair, err) != 0)
		return NULL;
	sleeper = mem_zalloc(sizeof(*sleeper));
	*sleeper = (struct sleeper){.next = guests->sleepers,
				    .guests = guests,
				    .python = python,
				    .number = ++guests->last_number,
				    .control = pair[0],
				    .pidfd = -1,
				    .asked_us = clock_monotonic_us()};
	guests->sleepers = sleeper;
	python->copying++; /* sleeper_drop() counts it down, whatever it is dropped for */
	header.cell = sleeper->number;
	if (fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0 ||
	    watch(sleeper, python->params.loop, err) != 0) {
		close(pair[1]);
		sleeper_drop(sleeper);
		return NULL;
	}
	sent = socket_send(python->control, &header, sizeof(header), &pair[1], 1);
	close(pair[1]);
	if (sent != 0) {
		err_sys(err, "asking the interpreter for a copy");
		sleeper_drop(sleeper);
		return NULL;
	}
	return sleeper;
}

/* The oldest copy of `python`'s that is on its way. */
static struct sleeper *coming(const struct python *python)
{
	struct sleeper *found = NULL;

	for (struct sleeper *sleeper = python->params.guests->sleepers; sleeper;
	     sleeper = sleeper->next)
		if (sleeper->python == python && sleeper->state == SLEEPER_COMING)
			found = sleeper;
	return found;
}

void guests_await(struct python *python, unsigned ms)
{
	int64_t until = clock_monotonic_us() + ms * INT64_C(1000);
	struct sleeper *sleeper;

	while ((sleeper = coming(python))) {
		struct pollfd control = {.fd = sleeper->control, .events = POLLIN};
		int64_t left_us = until - clock_monotonic_us();

		if (left_us <= 0 || poll(&control, 1, (int)(left_us / 1000) + 1) <= 0)
			return;
		(void)hear(sleeper);
	}
}

void guests_settle(struct python *python)
{
	struct sleeper *sleeper;
	struct err err = ERR_INIT;

	guests_await(python, SETTLE_MS_MAX);
	err_set(&err, ERR_TIMEOUT, "the copy of the interpreter did not come");
	while ((sleeper = coming(python)))
		gone(sleeper, &err);
}

int sleeper_wake(struct sleeper *sleeper, struct python *python, const int *fds, struct err *err)
{
	const struct guest_header header = {.type = GUEST_WAKE, .cell = sleeper->number};

	if (socket_send(sleeper->control, &header, sizeof(header), fds, GUEST_WAKE_FDS) != 0)
		return err_sys(err, "waking a copy of the interpreter");
	sleeper->waking = python;
	return 0;
}

int sleeper_measure(struct sleeper *sleeper, struct err *err)
{
	const struct guest_header header = {.type = GUEST_MEASURE, .cell = sleeper->number};

	if (socket_send(sleeper->control, &header, sizeof(header), NULL, 0) != 0)
		return err_sys(err, "asking a copy of the interpreter");
	return 0;
}
