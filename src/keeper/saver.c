/*
 * The schedule of saves; see saver.h.
 *
 * `version` counts touches. A waiter is done when a save that began at or after its version has
 * ended.
 */
#include "keeper/saver.h"

#include <assert.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/mem.h"
#include "notebook/save.h"

enum { SAVE_INTERVAL_MS_MIN = 200, SAVE_INTERVAL_FACTOR = 20, SAVE_RETRY_MS = 5000 };

struct waiter {
	struct waiter *next;
	uint64_t version;
	void (*done)(void *data, const struct err *err);
	void *data;
};

struct saver {
	uv_loop_t *loop;
	uv_timer_t *timer;
	uv_work_t work;
	struct save *save;
	struct notebook *notebook;
	const struct saver_events *events;
	void *data;
	struct waiter *waiters;
	uint64_t version;   /* of the notebook */
	uint64_t saved;     /* version in the file */
	uint64_t in_flight; /* version being written, 0: none */
	int64_t last_end_us;
	int64_t last_duration_us;
	bool failing;
	bool stopped;
	/* used by the worker between queueing and its end: */
	struct buf bytes;
	struct err err;
	int status;
	bool moved;
};

struct saver *saver_new(uv_loop_t *loop, int dirfd, bool adopt, struct notebook *notebook,
			const struct saver_events *events, void *data, struct err *err)
{
	struct save *save = save_new(dirfd, "notebook.ipynb", adopt, err);
	struct saver *saver;

	if (!save)
		return NULL;
	saver = mem_zalloc(sizeof(*saver));
	saver->loop = loop;
	saver->save = save;
	saver->notebook = notebook;
	saver->events = events;
	saver->data = data;
	saver->last_end_us =
		clock_monotonic_us(); /* the first save is not in the way of the first answer */
	saver->timer = mem_zalloc(sizeof(*saver->timer));
	uv_timer_init(loop, saver->timer);
	uv_unref((uv_handle_t *)saver->timer);
	saver->timer->data = saver;
	return saver;
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

void saver_free(struct saver *saver)
{
	if (!saver)
		return;
	assert(!saver->in_flight);
	uv_close((uv_handle_t *)saver->timer, timer_closed);
	save_free(saver->save);
	buf_release(&saver->bytes);
	free(saver);
}

const char *saver_name(const struct saver *saver)
{
	return save_name(saver->save);
}

static void save_work(uv_work_t *work)
{
	struct saver *saver = work->data;

	saver->err = (struct err)ERR_INIT;
	saver->moved = false;
	saver->status = save_write(saver->save, buf_bytes(&saver->bytes), saver->bytes.len,
				   &saver->moved, &saver->err);
}

/* Calls the waiters whose version is in the file, or all that were in flight when the save failed.
 */
static void waiters_call(struct saver *saver, uint64_t version, const struct err *err)
{
	struct waiter **at = &saver->waiters, *due = NULL;

	/* Taken off first: who is called may wait again, for the save that starts then. */
	while (*at) {
		struct waiter *waiter = *at;

		if (waiter->version > version) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->next = due;
		due = waiter;
	}
	while (due) {
		struct waiter *waiter = due;

		due = waiter->next;
		waiter->done(waiter->data, err);
		free(waiter);
	}
}

static void saver_schedule(struct saver *saver);

static void save_ended(uv_work_t *work, int status)
{
	struct saver *saver = work->data;
	uint64_t version = saver->in_flight;
	bool failed = status != 0 || saver->status != 0;
	bool was_failing = saver->failing;

	saver->last_duration_us = clock_monotonic_us() - saver->last_end_us;
	saver->last_end_us = clock_monotonic_us();
	buf_release(&saver->bytes);
	if (!failed)
		saver->saved = version;
	saver->failing = failed;
	/* Still in flight: what is said of it may touch the saver, which must not start the next
	 * one here. */
	if (failed && !was_failing)
		saver->events->failed(saver->data, &saver->err);
	if (saver->moved)
		saver->events->moved(saver->data, save_name(saver->save));
	saver->in_flight = 0;
	waiters_call(saver, version, failed ? &saver->err : NULL);
	saver_schedule(saver);
}

static void save_start(struct saver *saver)
{
	assert(!saver->in_flight);
	saver->in_flight = saver->version;
	saver->last_end_us = clock_monotonic_us(); /* its start, until it has ended */
	notebook_write(saver->notebook, &saver->bytes);
	saver->work.data = saver;
	uv_queue_work(saver->loop, &saver->work, save_work, save_ended);
}

static void timer_fired(uv_timer_t *timer)
{
	struct saver *saver = timer->data;

	if (!saver->in_flight && saver->version > saver->saved)
		save_start(saver);
}

/* Arms the timer for the next save, or starts it at once if someone waits. */
static void saver_schedule(struct saver *saver)
{
	int64_t interval_ms = saver->last_duration_us * SAVE_INTERVAL_FACTOR / 1000;
	int64_t since_ms = (clock_monotonic_us() - saver->last_end_us) / 1000;

	if (saver->stopped || saver->in_flight || saver->version == saver->saved ||
	    uv_is_active((uv_handle_t *)saver->timer))
		return;
	if (saver->waiters && !saver->failing) {
		save_start(saver);
		return;
	}
	if (interval_ms < SAVE_INTERVAL_MS_MIN)
		interval_ms = SAVE_INTERVAL_MS_MIN;
	if (saver->failing)
		interval_ms = SAVE_RETRY_MS;
	uv_timer_start(saver->timer, timer_fired,
		       since_ms < interval_ms ? (uint64_t)(interval_ms - since_ms) : 0, 0);
}

void saver_touch(struct saver *saver)
{
	/* The first save can wait like any other: a session that has just begun has better things
	 * to do. */
	if (saver->version++ == 0)
		saver->last_end_us = clock_monotonic_us();
	saver_schedule(saver);
}

void saver_wait(struct saver *saver, void (*done)(void *data, const struct err *err), void *data)
{
	struct waiter *waiter;

	if (saver->version == saver->saved) {
		done(data, NULL);
		return;
	}
	waiter = mem_zalloc(sizeof(*waiter));
	*waiter = (struct waiter){
		.next = saver->waiters, .version = saver->version, .done = done, .data = data};
	saver->waiters = waiter;
	uv_timer_stop(saver->timer);
	saver->failing = false; /* a waiter wants an answer now, also a bad one */
	saver_schedule(saver);
}

void saver_stop(struct saver *saver)
{
	struct err err = ERR_INIT;

	assert(!saver->in_flight);
	saver->stopped = true;
	uv_timer_stop(saver->timer);
	err_set(&err, ERR_GONE, "the session has stopped");
	waiters_call(saver, UINT64_MAX, &err);
}
