/*
 * One way from an event to disk, notebook and readers; see record.h. What happens when the disk
 * will not have it is in record_full.c, the syncing in record_sync.c.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "journal/cursor.h"
#include "keeper/record_internal.h"

/* --- images -------------------------------------------------------------------------------------
 */

static const struct json *image_data(const struct event *event, const char **extension)
{
	const char *mime = event_image(event, extension);

	return mime ? json_get(json_get(event->body, "data"), mime) : NULL;
}

/* A mime value as nbformat has it: a string, or a list of strings. */
static void join_value(const struct json *value, struct buf *text)
{
	size_t len = 0;
	const char *part = json_string(value, &len);

	if (part)
		buf_append(text, part, len);
	for (size_t i = 0; i < json_length(value); i++) {
		part = json_string(json_at(value, i), &len);
		if (part)
			buf_append(text, part, len);
	}
}

/* Writes images/<cell>-<n>.<ext>; a courtesy copy of what the journal holds, so a failure is no
 * event. */
static void write_image(struct record *record, const struct event *event)
{
	const char *extension = NULL;
	const struct json *value = image_data(event, &extension);
	cleanup_buf struct buf text = BUF_INIT, bytes = BUF_INIT;
	char name[160];
	cleanup_fd int fd = -1;

	if (!value || !event->cell)
		return;
	snprintf(name, sizeof(name), "images/%s-%u.%s", event->cell,
		 record->events->image(record->data, event->cell), extension);
	join_value(value, &text);
	if (strcmp(extension, "svg") == 0)
		buf_append(&bytes, buf_bytes(&text), text.len);
	else if (hash_base64_decode(&bytes, buf_bytes(&text), text.len) != 0)
		return;
	(void)mkdirat(record->dirfd, "images", 0700);
	fd = file_open_beneath(record->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);
	if (fd >= 0)
		(void)file_write_all(fd, buf_bytes(&bytes), bytes.len, NULL);
}

/* --- appending ----------------------------------------------------------------------------------
 */

/* Journal, then notebook; the readers are not told yet. */
static int append_untold(struct record *record, struct event *event, struct err *err)
{
	if (journal_append(record->journal, event, err) != 0)
		return -1;
	notebook_apply(record->notebook, event);
	if (event->type == EVENT_DISPLAY || event->type == EVENT_RESULT ||
	    event->type == EVENT_UPDATE_DISPLAY)
		write_image(record, event);
	record_sync_later(record);
	if (notebook_changed(record->notebook))
		saver_touch(record->saver);
	return 0;
}

/* Journal, then notebook, then readers. -1: it cannot be written now, and nothing has happened. */
int record_append_now(struct record *record, struct event *event, struct err *err)
{
	if (append_untold(record, event, err) == 0) {
		record->events->appended(record->data);
		return 0;
	}
	if (err->code != ERR_LIMIT)
		return -1;
	if (record_shorten(event))
		return record_append_now(record, event, err);
	record_count_dropped(record, event);
	record_refuse(record, err);
	return 0;
}

static void append_or_hold(struct record *record, struct event *event)
{
	struct err err = ERR_INIT;

	if (record->full) {
		record_hold(record, event);
		return;
	}
	if (record_append_now(record, event, &err) != 0) {
		record_hold(record, event);
		record_become_full(record, &err);
	}
}

void record_event(struct record *record, struct event *event)
{
	record_flush(record);
	append_or_hold(record, event);
	event_release(event);
	*event = (struct event)EVENT_INIT;
}

int record_append(struct record *record, struct event *event, struct err *err)
{
	struct err why = ERR_INIT;
	int status = -1;

	record_flush(record);
	if (record->full)
		err_set(&why, ERR_NO_SPACE, "the disk is full; free some space and try again");
	else
		status = append_untold(record, event, &why);
	event_release(event);
	*event = (struct event)EVENT_INIT;
	if (status == 0)
		return 0;
	if (why.code == ERR_LIMIT)
		record_refuse(record, &why);
	else if (!record->full)
		record_become_full(record, &why);
	if (err)
		*err = why;
	return -1;
}

void record_body(struct record *record, enum event_type type, const char *cell, struct json *body)
{
	struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string(cell);
	event.body = body;
	record_event(record, &event);
}

static void flush_bytes(struct record *record, size_t len)
{
	struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string(record->pending.cell);
	event.is_stderr = record->pending.is_stderr;
	event.background = record->pending.background;
	event.text = mem_copy(buf_bytes(&record->pending.text), len);
	event.text_len = len;
	buf_consume(&record->pending.text, len);
	append_or_hold(record, &event);
	event_release(&event);
}

/* The longest prefix of at most EVENT_STREAM_BYTES_MAX bytes that ends between code points. */
static size_t stream_prefix(const char *text, size_t len)
{
	size_t cut = len < EVENT_STREAM_BYTES_MAX ? len : EVENT_STREAM_BYTES_MAX;

	while (cut < len && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

void record_flush(struct record *record)
{
	struct buf *text = &record->pending.text;

	while (text->len > 0)
		flush_bytes(record, stream_prefix(buf_bytes(text), text->len));
}

void record_stream(struct record *record, const char *cell, bool is_stderr, bool background,
		   const char *text, size_t len)
{
	struct pending *pending = &record->pending;

	if (pending->text.len > 0 &&
	    (pending->is_stderr != is_stderr || pending->background != background ||
	     strcmp(pending->cell, cell) != 0))
		record_flush(record);
	snprintf(pending->cell, sizeof(pending->cell), "%s", cell);
	pending->is_stderr = is_stderr;
	pending->background = background;
	buf_append(&pending->text, text, len);
	while (pending->text.len >= EVENT_STREAM_BYTES_MAX)
		flush_bytes(record, stream_prefix(buf_bytes(&pending->text), pending->text.len));
}

void record_set_limit(struct record *record, uint64_t bytes_max)
{
	journal_set_limit(record->journal, bytes_max);
	if (!journal_is_spent(record->journal))
		record->said_spent = false; /* it can be met again */
}

/* --- opening and closing ------------------------------------------------------------------------
 */

/* Nothing comes after the last event of a record that is being closed. */
static void warn(struct record *record, const char *code, const char *message)
{
	struct json *body;

	if (record->closing)
		return;
	body = json_new_object();
	json_set_string(body, "code", code);
	json_set_string(body, "message", message);
	record_body(record, EVENT_WARNING, NULL, body);
}

static void saver_moved(void *data, const char *name)
{
	struct record *record = data;
	cleanup_free char *message = mem_format("notebook.ipynb was changed by someone else; it is "
						"left alone and the notebook is saved as %s",
						name);

	warn(record, "foreign_edit", message);
}

static void saver_failed(void *data, const struct err *err)
{
	struct record *record = data;
	cleanup_free char *message =
		mem_format("the notebook could not be saved, it is tried again: %s", err->text);

	if (!record->closed) /* else `stopped` is there already, which is the last line */
		warn(record, "save", message);
}

static const struct saver_events SAVER_EVENTS = {.moved = saver_moved, .failed = saver_failed};

/* Folds what is in the journal already, also when lines in the middle are damaged. */
static int replay(struct record *record, struct err *err)
{
	struct cursor *cursor = cursor_open(record->dirfd, 0, err);
	enum cursor_step step = CURSOR_EVENT;

	if (!cursor)
		return -1;
	while (step == CURSOR_EVENT || step == CURSOR_DAMAGED) {
		cleanup_event struct event event = EVENT_INIT;

		step = cursor_next(cursor, &event, err);
		if (step != CURSOR_EVENT)
			continue;
		if (event_inline(record->dirfd, &event, UINT64_MAX, NULL, NULL) != 0)
			continue; /* a blob that cannot be read: the notebook lacks that one output
				   */
		notebook_apply(record->notebook, &event);
		record->events->replayed(record->data, &event);
	}
	cursor_free(cursor);
	return step == CURSOR_ERROR ? -1 : 0;
}

static uv_timer_t *timer_new(struct record *record)
{
	uv_timer_t *timer = mem_zalloc(sizeof(*timer));

	uv_timer_init(record->loop, timer);
	timer->data = record;
	return timer;
}

struct record *record_open(uv_loop_t *loop, int dirfd, uint64_t bytes_max,
			   const struct record_events *events, void *data,
			   struct journal_report *report, struct err *err)
{
	struct record *record = mem_zalloc(sizeof(*record));

	record->loop = loop;
	record->dirfd = dirfd;
	record->events = events;
	record->data = data;
	record->sync_timer = timer_new(record);
	record->retry_timer = timer_new(record);
	record->notebook = notebook_new();
	record->journal = journal_open(dirfd, bytes_max, report, err);
	if (!record->journal || (!report->fresh && replay(record, err) != 0))
		goto failed;
	record->saver = saver_new(loop, dirfd, !report->fresh, record->notebook, &SAVER_EVENTS,
				  record, err);
	if (!record->saver)
		goto failed;
	return record;
failed:
	record_free(record);
	return NULL;
}

static void close_saved(void *data, const struct err *err)
{
	struct record *record = data;

	record->save_ended = true;
	saver_stop(record->saver);
	uv_timer_stop(record->retry_timer);
	if (err)
		record->save_err = *err;
	record_maybe_closed(record);
}

void record_close(struct record *record, void (*done)(void *data, const struct err *err),
		  void *data)
{
	record_flush(record);
	record->closing = true;
	record->closed = done;
	record->closed_data = data;
	record_sync_now(record);
	saver_wait(record->saver, close_saved, record);
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

void record_free(struct record *record)
{
	if (!record)
		return;
	assert(!record->syncing);
	uv_close((uv_handle_t *)record->sync_timer, timer_closed);
	uv_close((uv_handle_t *)record->retry_timer, timer_closed);
	for (size_t i = 0; i < record->held_count; i++)
		event_release(&record->held[i]);
	free(record->held);
	buf_release(&record->pending.text);
	saver_free(record->saver);
	notebook_free(record->notebook);
	journal_free(record->journal);
	free(record);
}

struct journal *record_journal(const struct record *record)
{
	return record->journal;
}

struct notebook *record_notebook(const struct record *record)
{
	return record->notebook;
}

struct saver *record_saver(const struct record *record)
{
	return record->saver;
}
