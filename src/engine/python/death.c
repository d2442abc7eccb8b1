/*
 * The end of a guest: seen on its pidfd, explained by PID 1, followed by a clean box.
 *
 * The control socket closes before the pidfd becomes readable (descriptors go before memory does),
 * so its end of file only starts a wait of three seconds: long enough to tear down gigabytes, after
 * which a guest that has merely closed its socket is killed.
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
 */
static int guest_exit_status(struct python *python)
{
	struct pollfd report = {.fd = box_socket(python->params.box), .events = POLLIN};
	int status, found = STATUS_UNKNOWN;
	pid_t pid;

	for (;;) {
		int got = box_next_exit(python->params.box, &pid, &status, NULL);

		if (got < 0)
			return found >= 0 ? found : STATUS_BOX_GONE;
		if (got > 0 && pid == python->pid)
			found = status;
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
	box_kill_others(python->params.box, NULL, 0, NULL, NULL);
	/* What it said before it died is in the socket and in the pipes: read to the end of file,
	 * also when the reading is paused. It is bounded, and would be lost with them. */
	while (python->state != PYTHON_ENDING && python->state != PYTHON_OFF && python_pump(python))
		;
	python_drain_end(python);
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
		python_start_again(python, &err);
		return;
	}
	if (python->state == PYTHON_OFF || python->state == PYTHON_ENDING)
		return;
	python_unwatch(python, WATCH_CONTROL);
	python->state = PYTHON_ENDING;
	python_arm_timer(python, CONTROL_CLOSED_MS);
}

void python_start_failed(struct python *python, const struct err *err)
{
	cleanup_buf struct buf words = BUF_INIT;
	struct err told = *err;

	uv_timer_stop(python->timer);
	box_kill_others(python->params.box, NULL, 0, NULL, NULL);
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
	python->engine.events->failed(python->engine.data, &told);
}

void python_timer_fired(uv_timer_t *timer)
{
	struct python *python = timer->data;
	struct err err = ERR_INIT;

	if (python->state == PYTHON_STARTING) {
		err_set(&err, ERR_TIMEOUT, "the interpreter did not start in time");
		python_start_failed(python, &err);
	} else if (python->state == PYTHON_ENDING) {
		box_kill_others(python->params.box, NULL, 0, NULL, NULL);
	}
}
