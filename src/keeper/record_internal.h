/*
 * What the files of the record share: record.c (appending, opening, closing), record_sync.c
 * (fdatasync on a worker), record_full.c (the full disk and the limit). Everyone else uses
 * record.h.
 */
#ifndef FH_KEEPER_RECORD_INTERNAL_H
#define FH_KEEPER_RECORD_INTERNAL_H

#include "keeper/record.h"

struct pending {
	char cell[65];
	bool is_stderr;
	bool background;
	struct buf text;
};

struct record {
	uv_loop_t *loop;
	int dirfd;
	const struct record_events *events;
	void *data;
	struct journal *journal;
	struct notebook *notebook;
	struct saver *saver;
	struct pending pending;
	struct event *held; /* waiting for disk space, in order */
	size_t held_count, held_cap;
	bool full;
	bool said_spent, said_too_long; /* the warnings for events that will never fit */
	uv_timer_t *sync_timer, *retry_timer;
	uv_work_t sync_work;
	bool syncing, sync_again;
	uint64_t last_sync_ms; /* uv_now() at its beginning */
	struct err sync_err;   /* the worker's, while syncing */
	int64_t sync_us;       /* how long it took; the worker's, while syncing */
	int64_t sync_us_most;  /* of those that have ended since record_take_sync_us() */
	void (*closed)(void *data, const struct err *err);
	void *closed_data;
	bool closing, save_ended;
	struct err save_err;
};

/* record.c: journal, then notebook, then readers. -1: it cannot be written now, and nothing has
 * happened. An event that will never fit is dropped, counted and told, which is no failure. */
int record_append_now(struct record *record, struct event *event, struct err *err);

/* record_sync.c: within 200 ms of an event. */
void record_sync_later(struct record *record);
/* record_sync.c: calls back record_close()'s caller once the save and the last sync are over. */
void record_maybe_closed(struct record *record);

/* record_full.c: takes the event, which waits for disk space. */
void record_hold(struct record *record, struct event *event);
/* record_full.c: the disk is full from now on; tells it, and tries again every half second. */
void record_become_full(struct record *record, const struct err *err);
/* record_full.c: tells the session how much output goes with an event that is dropped. */
void record_count_dropped(struct record *record, const struct event *event);
/* record_full.c: says once that the journal will not have an event, ever. */
void record_refuse(struct record *record, const struct err *err);
/* record_full.c: makes a `finished` that does not fit shorter; false when there is nothing to leave
 * out. */
bool record_shorten(struct event *event);

#endif
