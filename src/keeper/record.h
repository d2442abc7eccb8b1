/*
 * The record of a session: journal, notebook, images, and who is told.
 *
 * Every event passes through here once: it is appended to the journal, then applied to the
 * notebook, then the readers are poked. Text of streams is merged until another event comes or the
 * loop turn ends (record_flush), so that a thousand short prints become one event.
 *
 * When the disk is full, events wait here in memory, in order, and `full` is called: the session
 * then stops reading the guest's pipes, so that only what was under way has to be held. Every half
 * second the disk is tried again.
 */
#ifndef FH_KEEPER_RECORD_H
#define FH_KEEPER_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "journal/event.h"
#include "journal/journal.h"
#include "keeper/saver.h"
#include "notebook/notebook.h"

struct record;

struct record_events {
	void (*appended)(void *data); /* the journal has one more event */
	/* A sync begins, which covers all that is in the journal now; and its end: err NULL, or
	 * what the disk said. After a failure nobody knows which events are on the disk: the kernel
	 * tells it once, and a later sync that succeeds says nothing of them (fsync(2)). */
	void (*sync_began)(void *data);
	void (*sync_ended)(void *data, const struct err *err);
	void (*full)(void *data, bool full); /* disk full, or again not */
	/* This much of a cell's output will never be in the record: its limit has been met, or the
	 * session ends on a full disk. Only counted here; saying so is the session's. */
	void (*dropped)(void *data, const char *cell, bool is_stderr, uint64_t bytes);
	/* The number of the image that the cell now shows, from 1 (event.h says how images count).
	 */
	unsigned (*image)(void *data, const char *cell);
	void (*replayed)(void *data,
			 const struct event *event); /* record_open(): an event of before */
};

/* Opens the journal in dirfd (borrowed) and replays what is in it. The caller owns the record. */
struct record *record_open(uv_loop_t *loop, int dirfd, uint64_t bytes_max,
			   const struct record_events *events, void *data,
			   struct journal_report *report, struct err *err);

/* Flushes, saves the notebook and syncs the journal; done(data, err) is called when nothing is
 * under way any more. err is that of a failed save, else NULL. */
void record_close(struct record *record, void (*done)(void *data, const struct err *err),
		  void *data);

/* After record_close() has called back, or when record_open() failed half way. NULL is fine. */
void record_free(struct record *record);

/* Takes the event (its members move). Not yet in the journal when the disk is full; ERR_LIMIT
 * events are dropped and counted. */
void record_event(struct record *record, struct event *event);

/* As record_event(), but nothing is held and nobody is told: the caller answers first and then
 * pokes the readers. Fails with ERR_NO_SPACE, ERR_LIMIT or ERR_IO when the event cannot be written
 * now; then nothing has happened. The event is released in any case. */
int record_append(struct record *record, struct event *event, struct err *err);

/* A convenience for an event that has only a body (taken; NULL means {}) and perhaps a cell. */
void record_body(struct record *record, enum event_type type, const char *cell, struct json *body);

/* Text of a stream; merged with what came before it from the same cell, stream and origin. */
void record_stream(struct record *record, const char *cell, bool is_stderr, bool background,
		   const char *text, size_t len);

/* Another limit of journal and blobs together, from now on (journal.h). */
void record_set_limit(struct record *record, uint64_t bytes_max);

/* Writes the text that record_stream() holds. Called at the end of each loop turn. */
void record_flush(struct record *record);

/* fdatasync within 50 ms (the end of a cell; 5 ms if the last one is some time ago) instead of
 * within 200. */
void record_sync_soon(struct record *record);

/* fdatasync at once, or, if one is under way, after it: what came since then needs another. */
void record_sync_now(struct record *record);

/* How long the journal's slowest sync took of those that have ended since this was asked last, in
 * microseconds; 0: there was none. */
int64_t record_take_sync_us(struct record *record);

bool record_is_full(const struct record *record);

/* record_close() has been called: nothing more can be told in the journal. */
bool record_is_closing(const struct record *record);

/* Whether the limit `record_bytes` has been met: output is dropped, new cells should be refused. */
bool record_is_at_limit(const struct record *record);

/* The session ends on a full disk: of what is held, the words on how things ended go into the
 * journal's reserve, the rest is dropped and counted (record_events.dropped). */
void record_drop_held(struct record *record);

struct journal *record_journal(const struct record *record); /* borrowed */
struct notebook *record_notebook(const struct record *record);
struct saver *record_saver(const struct record *record);

#endif
