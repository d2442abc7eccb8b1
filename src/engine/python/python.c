/*
 * The engine's calls, and its descriptors on the loop; see python.h for the whole picture.
 */
#include "engine/python/python.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/python/internal.h"

enum { COPY_MS_MAX = 5000 }; /* that a kill waits for a copy on its way */

static void watcher_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void watcher_ready(uv_poll_t *poll, int status, int events)
{
	struct python_watcher *watcher = poll->data;
	struct python *python = watcher->python;

	(void)status;
	(void)events;
	if (!python)
		return;
	switch (watcher->kind) {
	case WATCH_OUT:
	case WATCH_ERR:
	case WATCH_CONTROL:
		if (!python_pump(python))
			python_control_closed(python);
		break;
	case WATCH_PIDFD:
		python_pidfd_ready(python);
		break;
	case WATCH_POOL:
		python_pool_ready(python);
		break;
	case WATCH_COUNT:
		break;
	}
}

int python_watch(struct python *python, enum python_watch kind, int fd, struct err *err)
{
	struct python_watcher *watcher = mem_zalloc(sizeof(*watcher));
	int status;

	watcher->python = python;
	watcher->kind = kind;
	status = uv_poll_init(python->params.loop, &watcher->poll, fd);
	if (status != 0) {
		free(watcher);
		return err_set(err, ERR_IO, "watching a descriptor: %s", uv_strerror(status));
	}
	watcher->poll.data = watcher;
	python->watchers[kind] = watcher;
	uv_poll_start(&watcher->poll, UV_READABLE, watcher_ready);
	return 0;
}

void python_unwatch(struct python *python, enum python_watch kind)
{
	struct python_watcher *watcher = python->watchers[kind];

	if (!watcher)
		return;
	python->watchers[kind] = NULL;
	watcher->python = NULL;
	uv_poll_stop(&watcher->poll);
	uv_close((uv_handle_t *)&watcher->poll, watcher_closed);
}

void python_arm_timer(struct python *python, uint64_t ms)
{
	uv_timer_start(python->timer, python_timer_fired, ms, 0);
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void python_close_guest(struct python *python)
{
	python_unwatch(python, WATCH_OUT);
	python_unwatch(python, WATCH_ERR);
	python_unwatch(python, WATCH_CONTROL);
	python_unwatch(python, WATCH_PIDFD);
	fd_close(&python->pipes[0].fd);
	fd_close(&python->pipes[1].fd);
	fd_close(&python->control);
	fd_close(&python->pidfd);
	fd_close(&python->status_fd);
	python->pid = python->host_pid = 0;
	python->exit_status = -1;
}

void python_close_pool(struct python *python)
{
	python_unwatch(python, WATCH_POOL);
	fd_close(&python->params.pool_fd);
}

/* --- the calls of engine.h ----------------------------------------------------------------------
 */

static struct python *python_of(struct engine *engine)
{
	return (struct python *)engine;
}

static int64_t guest_cpu_us(const struct python *python)
{
	struct timespec used;

	if (python->host_pid <= 0 || clock_gettime(python->clock, &used) != 0)
		return 0;
	return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static int python_run(struct engine *engine, uint32_t cell, const struct engine_code *code,
		      struct err *err)
{
	struct python *python = python_of(engine);
	unsigned flags = (code->allow_stdin ? GUEST_FLAG_ALLOW_STDIN : 0u) |
			 (code->script ? GUEST_FLAG_SCRIPT : 0u);

	if (python->state != PYTHON_IDLE)
		return err_set(err, ERR_BUSY, "the interpreter is not idle");
	python->cell = cell;
	python->garbage = 0;
	python->cpu_start_us = guest_cpu_us(python);
	if (channel_send(python->control, GUEST_RUN, (uint8_t)flags, cell, code->text, code->len,
			 err) != 0)
		return -1;
	python->state = PYTHON_RUNNING;
	python->in_cell = true;
	return 0;
}

static int python_ask(struct engine *engine, uint32_t number, const char *body, size_t len,
		      struct err *err)
{
	struct python *python = python_of(engine);

	if (python->state != PYTHON_IDLE)
		return err_set(err, ERR_BUSY, "the interpreter is not idle");
	if (channel_send(python->control, GUEST_ASK, 0, number, body, len, err) != 0)
		return -1;
	python->ask = number;
	python->garbage = 0;
	python->state = PYTHON_ASKING;
	return 0;
}

static int python_set_environment(struct engine *engine, const struct json *order, struct err *err)
{
	struct python *python = python_of(engine);
	cleanup_buf struct buf text = BUF_INIT;

	if (python->state != PYTHON_IDLE)
		return err_set(err, ERR_BUSY, "the interpreter is not idle");
	json_write(&text, order);
	return channel_send(python->control, GUEST_ENVIRONMENT, 0, 0, buf_bytes(&text), text.len,
			    err);
}

static int python_interrupt(struct engine *engine, uint32_t number, struct err *err)
{
	struct python *python = python_of(engine);
	bool runs = (python->state == PYTHON_RUNNING && number == python->cell) ||
		    (python->state == PYTHON_ASKING && number == python->ask);

	if (!runs)
		return 0;
	*python->word = number;
	return box_signal(python->params.box, python->pid, SIGINT, err);
}

static int python_input(struct engine *engine, const char *text, size_t len, struct err *err)
{
	struct python *python = python_of(engine);

	if (python->state != PYTHON_RUNNING)
		return err_set(err, ERR_NOT_FOUND, "no cell runs that could take input");
	return channel_send(python->control, GUEST_INPUT, text ? 0 : GUEST_FLAG_EOF, python->cell,
			    text, len, err);
}

static int python_copy(struct engine *engine, uint32_t *number, struct err *err)
{
	struct python *python = python_of(engine);
	struct sleeper *sleeper;

	if (python->dying)
		return err_set(err, ERR_GONE, "the interpreter has ended");
	if (python->state != PYTHON_IDLE || python->copying >= GUESTS_COMING_MAX)
		return err_set(err, ERR_BUSY, "the interpreter is not idle");
	sleeper = guests_copy(python->params.guests, python, err);
	if (!sleeper)
		return -1;
	*number = sleeper_number(sleeper);
	return 0;
}

static void python_await_copies(struct engine *engine, unsigned ms)
{
	guests_await(python_of(engine), ms);
}

static void python_drop(struct engine *engine, uint32_t number)
{
	struct sleeper *sleeper = guests_find(python_of(engine)->params.guests, number);

	if (sleeper)
		sleeper_drop(sleeper);
}

static int python_measure(struct engine *engine, uint32_t number, struct err *err)
{
	struct sleeper *sleeper = guests_find(python_of(engine)->params.guests, number);

	if (!sleeper)
		return err_set(err, ERR_NOT_FOUND, "there is no such copy");
	return sleeper_measure(sleeper, err);
}

static void python_kill(struct engine *engine)
{
	struct python *python = python_of(engine);

	if (python->state == PYTHON_OFF)
		return;
	python->kill_asked = true;
	if (python->copying) {
		python->kill_waits = true;
		python_arm_timer(python, COPY_MS_MAX);
		return;
	}
	python_clear_box(python);
	if (python->pidfd < 0) { /* killed before its hello */
		struct err err = ERR_INIT;

		err_set(&err, ERR_ENGINE, "the interpreter was killed while it started");
		python_start_failed(python, &err);
	}
}

static void python_pause(struct engine *engine, bool paused)
{
	struct python *python = python_of(engine);

	if (python->paused == paused)
		return;
	python->paused = paused;
	for (int kind = WATCH_OUT; kind <= WATCH_CONTROL; kind++) {
		struct python_watcher *watcher = python->watchers[kind];

		if (!watcher)
			continue;
		if (paused)
			uv_poll_stop(&watcher->poll);
		else
			uv_poll_start(&watcher->poll, UV_READABLE, watcher_ready);
	}
}

int64_t python_status_bytes(const struct python *python, const char *name)
{
	char text[4096];
	const char *line;
	ssize_t got =
		python->status_fd < 0 ? -1 : pread(python->status_fd, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return 0;
	text[got] = '\0';
	line = strstr(text, name);
	return line ? strtoll(line + strlen(name), NULL, 10) * 1024 : 0;
}

static int64_t python_memory(const struct engine *engine)
{
	return python_status_bytes((const struct python *)engine, "VmRSS:");
}

static bool python_is_dying(const struct engine *engine)
{
	return ((const struct python *)engine)->dying;
}

/* The peak is read only after cells long enough that 30 us do not matter. */
enum { RSS_CPU_US_MIN = 5000 };

static void python_usage(struct engine *engine, int64_t *cpu_us, int64_t *rss_peak_bytes)
{
	struct python *python = python_of(engine);
	int64_t used = guest_cpu_us(python) - python->cpu_start_us;

	*cpu_us = used > 0 ? used : 0;
	if (python->host_pid > 0 && (*cpu_us > RSS_CPU_US_MIN || python->rss_peak == 0)) {
		int64_t peak = python_status_bytes(python, "VmHWM:");

		if (peak > 0)
			python->rss_peak = peak;
	}
	*rss_peak_bytes = python->rss_peak;
}

static void python_await(struct engine *engine, unsigned us)
{
	struct python *python = python_of(engine);
	struct pollfd control = {.fd = python->control, .events = POLLIN};
	int64_t until = clock_monotonic_us() + us;

	if (python->state != PYTHON_RUNNING || python->paused)
		return;
	while (poll(&control, 1, 0) == 0) {
		if (clock_monotonic_us() >= until)
			return;
		sched_yield();
	}
	if (!python_pump(python))
		python_control_closed(python);
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

static void python_free(struct engine *engine)
{
	struct python *python = python_of(engine);

	/* Alone, it is the end of the box that ends them. */
	if (guests_are_shared(python->params.guests))
		python_clear_box(python);
	guests_leave(python->params.guests, python);
	python_close_guest(python);
	python_close_pool(python);
	uv_timer_stop(python->timer);
	uv_close((uv_handle_t *)python->timer, timer_closed);
	munmap((void *)(uintptr_t)python->word, GUEST_WORD_BYTES);
	fd_close(&python->word_fd);
	channel_message_release(&python->message);
	free(python);
}

static const struct engine_ops PYTHON_OPS = {
	.start = python_start,
	.run = python_run,
	.ask = python_ask,
	.set_environment = python_set_environment,
	.interrupt = python_interrupt,
	.input = python_input,
	.copy = python_copy,
	.await_copies = python_await_copies,
	.wake = python_wake,
	.drop = python_drop,
	.measure = python_measure,
	.is_dying = python_is_dying,
	.memory = python_memory,
	.kill = python_kill,
	.pause = python_pause,
	.usage = python_usage,
	.await = python_await,
	.free = python_free,
};

/* The interrupt word: mapped for writing here, then sealed so that nobody can map it so again. */
static int word_open(struct python *python, struct err *err)
{
	cleanup_fd int fd = memfd_create("interrupt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *page;

	if (fd < 0 || ftruncate(fd, GUEST_WORD_BYTES) != 0)
		return err_sys(err, "making the interrupt word");
	page = mmap(NULL, GUEST_WORD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return err_sys(err, "mapping the interrupt word");
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		munmap(page, GUEST_WORD_BYTES);
		return err_sys(err, "sealing the interrupt word");
	}
	python->word = page;
	python->word_fd = fd_take(&fd);
	return 0;
}

struct engine *python_new(const struct python_params *params, struct err *err)
{
	struct python *python = mem_zalloc(sizeof(*python));

	python->engine.ops = &PYTHON_OPS;
	python->engine.events = params->events;
	python->engine.data = params->data;
	python->params = *params;
	python->state = PYTHON_OFF;
	python->pipes[0].fd = python->pipes[1].fd = -1;
	python->control = python->pidfd = python->status_fd = python->exit_status = -1;
	if (word_open(python, err) != 0) {
		free(python);
		return NULL;
	}
	channel_message_init(&python->message);
	python->timer = mem_zalloc(sizeof(*python->timer));
	uv_timer_init(params->loop, python->timer);
	python->timer->data = python;
	guests_join(params->guests, python);
	return &python->engine;
}
