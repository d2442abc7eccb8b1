/*
 * The end of a guest: seen on its pidfd, explained by PID 1, followed by a clean box.
 *
 * The control socket closes before the pidfd becomes readable (descriptors go before memory does),
 * so its end of file only starts a wait of three seconds: long enough to tear down gigabytes, after
 * which it is killed. A guest that has merely closed its socket is killed at once.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"

#include "engine/python/internal.h"

enum { CONTROL_CLOSED_MS = 3000, EXIT_REPORT_MS = 1000 };
enum { STATUS_UNKNOWN = -1, STATUS_BOX_GONE = -2 };

/* The wait status of the guest from PID 1, which may still be about to reap it; else a STATUS_...
 * What is reported of other engines' guests is kept for them.
 */
static int guest_exit_status(struct python *python)
{
	struct pollfd report = {.fd = box_socket(python->params.box), .events = POLLIN};
	int status, found = python->exit_status;
	pid_t pid;

	for (;;) {
		int got = box_next_exit(python->params.box, &pid, &status, NULL);

		if (got < 0)
			return found >= 0 ? found : STATUS_BOX_GONE;
		if (got > 0 && pid == python->pid)
			found = status;
		else if (got > 0)
			guests_exited(python->params.guests, pid, status);
		if (got > 0)
			continue;
		if (found >= 0 || poll(&report, 1, EXIT_REPORT_MS) <= 0)
			return found;
	}
}

static void death_reason(const struct python *python, int status, char *text, size_t size)
{
	if (status == STATUS_BOX_GONE)
		snprintf(text, size, "the box was killed (PID 1 is gone)");
	else if (status < 0)
		snprintf(text, size, "unknown");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "exit status %d", WEXITSTATUS(status));
	if (python->closed)
		snprintf(text, size,
			 "it closed descriptor 3, its connection to Fumehood (or became another "
			 "program), and was killed");
	if (python->kill_asked)
		snprintf(text, size, "killed by the keeper");
}

void python_pidfd_ready(struct python *python)
{
	char reason[96];
	struct engine_death death = {.reason = reason, .by_keeper = python->kill_asked};
	int status = guest_exit_status(python);

	if (status == STATUS_BOX_GONE)
		death.signal = SIGKILL; /* nothing else ends a PID 1 */
	else if (status >= 0 && WIFSIGNALED(status))
		death.signal = WTERMSIG(status);
	uv_timer_stop(python->timer);
	death_reason(python, status, reason, sizeof(reason));
	python->dying = true;
	python->kill_waits = false;
	guests_settle(python); /* a copy that is on its way is not to be killed with the rest */
	python_clear_box(python);
	/* What it said before it died is in the socket and in the pipes: read to the end of file,
	 * also when the reading is paused. It is bounded, and would be lost with them. */
	while (python->state != PYTHON_ENDING && python->state != PYTHON_OFF && python_pump(python))
		;
	python_drain_end(python);
	python->dying = python->closed = false;
	if (python->state == PYTHON_OFF)
		return;
	python_close_guest(python);
	python->state = PYTHON_OFF;
	python->in_cell = false;
	python->engine.events->died(python->engine.data, &death);
}

void python_control_closed(struct python *python)
{
	struct err err = ERR_INIT;

	if (python->state == PYTHON_STARTING) {
		err_set(&err, ERR_ENGINE, "the interpreter ended while it started");
		if (python->waking)
			python_start_failed(python, &err);
		else
			python_start_again(python, &err);
		return;
	}
	if (python->state == PYTHON_OFF || python->state == PYTHON_ENDING)
		return;
	python_unwatch(python, WATCH_CONTROL);
	python->state = PYTHON_ENDING;
	python_arm_timer(python, CONTROL_CLOSED_MS);
	/* One that ends has given its memory back before its descriptors (do_exit(),
	 * kernel/exit.c): one that has some can never be heard again. */
	if (!python->copying && python_status_bytes(python, "VmRSS:") > 0) {
		python->closed = true;
		python_clear_box(python);
	}
}

void python_clear_box(struct python *python)
{
	pid_t spared[GUESTS_KEEP_MAX];
	size_t count = guests_to_spare(python->params.guests, python, spared);

	if (guests_are_shared(python->params.guests))
		box_kill_brand(python->params.box, python->params.brand, spared, count, NULL, NULL);
	else
		box_kill_others(python->params.box, spared, count, NULL, NULL);
}

void python_copy_settled(struct python *python)
{
	if (!python->kill_waits)
		return;
	python->kill_waits = false;
	uv_timer_stop(python->timer);
	python_clear_box(python);
}

void python_start_failed(struct python *python, const struct err *err)
{
	cleanup_buf struct buf words = BUF_INIT;
	struct err told = *err;

	uv_timer_stop(python->timer);
	python_clear_box(python);
	/* A cold interpreter that failed says why on its stderr. */
	if (python->pipes[1].fd >= 0) {
		char tail[160];
		ssize_t got = read(python->pipes[1].fd, tail, sizeof(tail) - 1);

		if (got > 0)
			buf_append(&words, tail, (size_t)got);
	}
	if (words.len > 0)
		err_set(&told, err->code, "%s: %s", err->text, buf_bytes(&words));
	python_close_guest(python);
	python->state = PYTHON_OFF;
	python->wants_pool = false;
	python->waking = 0;
	python->engine.events->failed(python->engine.data, &told);
}

void python_timer_fired(uv_timer_t *timer)
{
	struct python *python = timer->data;
	struct err err = ERR_INIT;

	if (python->state == PYTHON_STARTING) {
		err_set(&err, ERR_TIMEOUT, "the interpreter did not start in time");
		python_start_failed(python, &err);
	} else if (python->kill_waits) {
		guests_settle(python);
		python_copy_settled(python);
	} else if (python->state == PYTHON_ENDING) {
		python_clear_box(python);
	}
}
