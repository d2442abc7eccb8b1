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
	python->pid = python->host_pid = 0;
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

static void python_kill(struct engine *engine)
{
	struct python *python = python_of(engine);

	if (python->state == PYTHON_OFF)
		return;
	python->kill_asked = true;
	box_kill_others(python->params.box, NULL, 0, NULL, NULL);
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

/* VmHWM of the guest; read only after cells long enough that 30 us do not matter. */
static int64_t guest_rss_peak(const struct python *python)
{
	char path[64];
	cleanup_buf struct buf text = BUF_INIT;
	const char *line;
	int fd;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)python->host_pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, buf_reserve(&text, 4096), 4095);
	close(fd);
	if (got <= 0)
		return 0;
	buf_added(&text, (size_t)got);
	line = strstr(buf_bytes(&text), "VmHWM:");
	return line ? strtoll(line + 6, NULL, 10) * 1024 : 0;
}

enum { RSS_CPU_US_MIN = 5000 };

static void python_usage(struct engine *engine, int64_t *cpu_us, int64_t *rss_peak_bytes)
{
	struct python *python = python_of(engine);
	int64_t used = guest_cpu_us(python) - python->cpu_start_us;

	*cpu_us = used > 0 ? used : 0;
	if (python->host_pid > 0 && (*cpu_us > RSS_CPU_US_MIN || python->rss_peak == 0)) {
		int64_t peak = guest_rss_peak(python);

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
	python->control = python->pidfd = -1;
	if (word_open(python, err) != 0) {
		free(python);
		return NULL;
	}
	channel_message_init(&python->message);
	python->timer = mem_zalloc(sizeof(*python->timer));
	uv_timer_init(params->loop, python->timer);
	python->timer->data = python;
	return &python->engine;
}
