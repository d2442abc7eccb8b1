/*
 * When the journal cannot take an event: the disk is full, or the record's limit has been met.
 *
 * On a full disk events are held in memory, in order, and the session stops reading the guest's
 * pipes, so that only what was under way has to be held; every half second the disk is tried again.
 * What will never fit is dropped, counted, and told by name.
 */
#include <string.h>

#include "base/mem.h"
#include "keeper/record_internal.h"

enum { FULL_RETRY_MS = 500 };

void record_hold(struct record *record, struct event *event)
{
	if (record->held_count == record->held_cap) {
		record->held_cap = record->held_cap ? 2 * record->held_cap : 16;
		record->held = mem_resize(record->held, record->held_cap, sizeof(*record->held));
	}
	record->held[record->held_count++] = *event;
	*event = (struct event)EVENT_INIT;
}

static void retry_timer_fired(uv_timer_t *timer);

/* An event of a type for which the journal keeps a reserve. If even that is gone there is nowhere
 * left to say it. */
static void append_reserved(struct record *record, enum event_type type, struct json *body)
{
	struct event event = EVENT_INIT;

	event.type = type;
	event.body = body;
	if (journal_seq(record->journal) > 0 && journal_append(record->journal, &event, NULL) == 0)
		record->events->appended(record->data);
	event_release(&event);
}

void record_become_full(struct record *record, const struct err *err)
{
	bool no_space = err->code == ERR_NO_SPACE;
	struct json *warning = json_new_object(), *state = json_new_object();
	cleanup_free char *message = mem_format(
		"%s: output waits in the cell's pipes, nothing is lost%s",
		no_space ? "the disk is full" : err->text, no_space ? "; free some space" : "");

	record->full = true;
	uv_timer_start(record->retry_timer, retry_timer_fired, FULL_RETRY_MS, FULL_RETRY_MS);
	record->events->full(record->data, true);
	json_set_string(warning, "code", err_name(err->code));
	json_set_string(warning, "message", message);
	append_reserved(record, EVENT_WARNING, warning);
	json_set_string(state, "state", "full");
	append_reserved(record, EVENT_STATE, state);
}

/* How much output goes with an event that is dropped. */
static uint64_t output_bytes(const struct event *event)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (event->type == EVENT_STREAM)
		return event->text_len;
	if (event->type != EVENT_DISPLAY && event->type != EVENT_UPDATE_DISPLAY &&
	    event->type != EVENT_RESULT && event->type != EVENT_ERROR)
		return 0;
	json_write(&text, event->body);
	return text.len;
}

void record_count_dropped(struct record *record, const struct event *event)
{
	uint64_t bytes = event->cell ? output_bytes(event) : 0;

	if (bytes > 0)
		record->events->dropped(record->data, event->cell, event->is_stderr, bytes);
}

/* The journal will not have this event, ever: it is too long, or the record's limit has been met.
 */
void record_refuse(struct record *record, const struct err *err)
{
	bool spent = journal_is_spent(record->journal);
	bool *said = spent ? &record->said_spent : &record->said_too_long;
	struct json *body;

	if (*said)
		return;
	*said = true;
	body = json_new_object();
	json_set_string(body, "code", spent ? "record_bytes" : "event_bytes");
	json_set_string(body, "message", err->text);
	append_reserved(record, EVENT_WARNING, body);
}

/* Without its text for the model, which can be asked for; then without the files. */
bool record_shorten(struct event *event)
{
	if (event->type != EVENT_FINISHED)
		return false;
	if (json_remove(event->body, "text"))
		return true;
	if (json_length(json_get(event->body, "files")) == 0)
		return false;
	json_set(event->body, "files", json_new_array());
	json_set_string(event->body, "files_incomplete", "no_space");
	return true;
}

/* A record that has met its limit while it was full drops what is held, which needs no space. */
static void retry_timer_fired(uv_timer_t *timer)
{
	struct record *record = timer->data;
	struct err err = ERR_INIT;
	size_t done = 0;

	if (journal_retry_space(record->journal, &err) != 0 && err.code != ERR_LIMIT)
		return;
	while (done < record->held_count &&
	       record_append_now(record, &record->held[done], &err) == 0)
		event_release(&record->held[done++]);
	memmove(record->held, record->held + done,
		(record->held_count - done) * sizeof(*record->held));
	record->held_count -= done;
	if (record->held_count > 0)
		return;
	uv_timer_stop(record->retry_timer);
	record->full = false;
	record->events->full(record->data, false);
}

bool record_is_full(const struct record *record)
{
	return record->full;
}

bool record_is_closing(const struct record *record)
{
	return record->closing;
}

bool record_is_at_limit(const struct record *record)
{
	return journal_is_spent(record->journal);
}

void record_drop_held(struct record *record)
{
	record_flush(record);
	for (size_t i = 0; i < record->held_count; i++) {
		struct err err = ERR_INIT;

		(void)record_shorten(&record->held[i]);
		if (record_append_now(record, &record->held[i], &err) != 0)
			record_count_dropped(record, &record->held[i]);
		event_release(&record->held[i]);
	}
	record->held_count = 0;
	record->full = false;
	uv_timer_stop(record->retry_timer);
}
