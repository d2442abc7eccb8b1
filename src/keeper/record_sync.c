/*
 * fdatasync of the journal on a worker thread: within 200 ms of any event, and soon after the end
 * of a cell (doc/decisions/004-sync-soon-after-a-cell.md). One at a time; what comes meanwhile asks
 * for another.
 *
 * With durability `power` the session asks for one whenever somebody waits for it. Then the same
 * rule makes groups by itself: all that happens while the disk is busy is covered by the next one,
 * and the loop waits for none of them (doc/decisions/012-durability-power.md).
 */
#include "base/clock.h"
#include "keeper/record_internal.h"

enum { SYNC_INTERVAL_MS = 200, SYNC_CELL_MS = 5, SYNC_PAUSE_MS = 50 };

static void sync_work(uv_work_t *work)
{
	struct record *record = work->data;

	int64_t begin = clock_monotonic_us();

	record->sync_err = (struct err)ERR_INIT;
	(void)journal_sync(record->journal, &record->sync_err);
	record->sync_us = clock_monotonic_us() - begin;
}

/* record_close() has called back once the save and the last sync are over. */
void record_maybe_closed(struct record *record)
{
	void (*closed)(void *data, const struct err *err) = record->closed;

	if (!closed || !record->save_ended || record->syncing)
		return;
	record->closed = NULL;
	uv_timer_stop(record->sync_timer);
	journal_seal(record->journal); /* the lock is let go next */
	closed(record->closed_data, record->save_err.code == ERR_OK ? NULL : &record->save_err);
}

static void sync_ended(uv_work_t *work, int status)
{
	struct record *record = work->data;
	struct err err = record->sync_err;

	(void)status; /* nobody cancels it */
	record->syncing = false;
	if (record->sync_us > record->sync_us_most)
		record->sync_us_most = record->sync_us;
	record->events->sync_ended(record->data, err.code == ERR_OK ? NULL : &err);
	if (record->sync_again)
		record_sync_now(record);
	record_maybe_closed(record);
}

void record_sync_now(struct record *record)
{
	uv_timer_stop(record->sync_timer);
	record->sync_again = record->syncing;
	if (record->syncing)
		return;
	record->syncing = true;
	record->last_sync_ms = uv_now(record->loop);
	record->events->sync_began(record->data);
	record->sync_work.data = record;
	uv_queue_work(record->loop, &record->sync_work, sync_work, sync_ended);
}

int64_t record_take_sync_us(struct record *record)
{
	int64_t most = record->sync_us_most;

	record->sync_us_most = 0;
	return most;
}

static void sync_timer_fired(uv_timer_t *timer)
{
	record_sync_now(timer->data);
}

/* Not at once: the worker would wake up beside the client that has just been told, and cells that
 * follow one another closely would each pay for a sync of their own, or wait for the disk's journal
 * behind it. */
void record_sync_soon(struct record *record)
{
	uint64_t since = uv_now(record->loop) - record->last_sync_ms;
	uint64_t delay = since < SYNC_PAUSE_MS ? SYNC_PAUSE_MS - since : SYNC_CELL_MS;

	if (!uv_is_active((uv_handle_t *)record->sync_timer) ||
	    uv_timer_get_due_in(record->sync_timer) > delay)
		uv_timer_start(record->sync_timer, sync_timer_fired, delay, 0);
}

void record_sync_later(struct record *record)
{
	if (!uv_is_active((uv_handle_t *)record->sync_timer))
		uv_timer_start(record->sync_timer, sync_timer_fired, SYNC_INTERVAL_MS, 0);
}
