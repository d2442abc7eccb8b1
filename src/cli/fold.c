/*
 * Reading a journal into the folds. See fold.h.
 *
 * The same folds as the keeper's over the same events, so the bytes are the same. A line that is
 * damaged is passed over and counted: what is left is still worth having.
 */
#include "cli/fold.h"

#include "base/mem.h"
#include "base/text.h"
#include "cli/fold_ask.h"
#include "digest/digest.h"
#include "journal/cursor.h"
#include "journal/journal.h"
#include "notebook/notebook.h"

/* Of one event: what a notebook or a text can use of it is in memory at once anyway. */
#define INLINE_BYTES_MAX ((uint64_t)256 << 20)

static void notebook_cleanup(struct notebook **notebook)
{
	notebook_free(*notebook);
}

static void digest_cleanup(struct digest **digest)
{
	digest_free(*digest);
}

int fold_open(struct fold_reader *reader, int dirfd, struct err *err)
{
	*reader = (struct fold_reader){.dirfd = dirfd, .cursor = cursor_open(dirfd, 0, err)};
	return reader->cursor ? 0 : -1;
}

void fold_close(struct fold_reader *reader)
{
	cursor_free(reader->cursor);
	reader->cursor = NULL;
}

int fold_next(struct fold_reader *reader, struct event *event, struct err *err)
{
	bool inlined;

	for (;;) {
		switch (cursor_next(reader->cursor, event, err)) {
		case CURSOR_EVENT:
			return event_inline(reader->dirfd, event, INLINE_BYTES_MAX, &inlined,
					    err) == 0
				       ? 1
				       : -1;
		case CURSOR_END:
			return 0;
		case CURSOR_DAMAGED:
			reader->damaged++;
			break;
		case CURSOR_ERROR:
			return -1;
		}
	}
}

int fold_notebook(int dirfd, uint64_t until, enum notebook_rolled_back what, struct buf *out,
		  uint64_t *damaged, struct err *err)
{
	__attribute__((cleanup(notebook_cleanup))) struct notebook *notebook = NULL;
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;

	if (fold_open(&reader, dirfd, err) != 0)
		return -1;
	notebook = notebook_new();
	notebook_set_rolled_back(notebook, what);
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		int got = fold_next(&reader, &event, err);

		if (got < 0)
			return -1;
		if (got == 0 || event.seq > until)
			break;
		notebook_apply(notebook, &event);
	}
	notebook_write(notebook, out);
	if (damaged)
		*damaged = reader.damaged;
	return 0;
}

/* A cell of the section. */
struct text {
	char cell[65];
	struct digest *digest;
};

struct texts {
	struct timeline *timeline;
	struct json *index; /* {cell: its place} */
	struct text *items;
	size_t count;
};

static void texts_release(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		digest_free(texts->items[i].digest);
	free(texts->items);
	json_free(texts->index);
	timeline_free(texts->timeline);
}

/* Passes the event to the digest of its cell, which is made if the cell belongs to the section. */
static void texts_take(struct texts *texts, const struct event *event, const char *section,
		       const struct digest_params *form)
{
	const char *title = json_get_string(event->body, "section");
	int64_t place;

	timeline_apply(texts->timeline, event);
	if (!event->cell)
		return;
	if (event->type == EVENT_CELL && title && strcmp(title, section) == 0) {
		struct text *item;

		texts->items = mem_resize(texts->items, texts->count + 1, sizeof(*texts->items));
		item = &texts->items[texts->count];
		snprintf(item->cell, sizeof(item->cell), "%s", event->cell);
		item->digest = digest_new(form);
		json_set_int(texts->index, event->cell, (int64_t)texts->count++);
	}
	place = json_get_int(texts->index, event->cell, -1);
	if (place >= 0)
		digest_apply(texts->items[place].digest, event);
}

static struct json *texts_tell(const struct texts *texts)
{
	struct json *cells = json_new_array();

	for (size_t i = 0; i < texts->count; i++) {
		struct json *item = json_new_object();
		cleanup_buf struct buf text = BUF_INIT;

		digest_set_fate(texts->items[i].digest,
				timeline_find(texts->timeline, texts->items[i].cell));
		digest_text(texts->items[i].digest, &text);
		json_set_string(item, "cell", texts->items[i].cell);
		json_set(item, "text", json_new_string(buf_bytes(&text), text.len));
		json_push(cells, item);
	}
	return cells;
}

struct json *fold_section(int dirfd, const char *section, const struct digest_params *form,
			  struct err *err)
{
	__attribute__((cleanup(texts_release))) struct texts texts = {.index = NULL};
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	int got = 1;

	if (fold_open(&reader, dirfd, err) != 0)
		return NULL;
	texts.index = json_new_object();
	texts.timeline = timeline_new();
	while (got > 0) {
		cleanup_event struct event event = EVENT_INIT;

		got = fold_next(&reader, &event, err);
		if (got > 0)
			texts_take(&texts, &event, section, form);
	}
	if (got < 0)
		return NULL;
	if (texts.count == 0) {
		err_set(err, ERR_NOT_FOUND, "no cell of this session is in a section \"%.80s\"",
			section);
		return NULL;
	}
	return texts_tell(&texts);
}

/* The form without the room that the line about the ask takes. The marked form has no such line:
 * what reads it expects marks and nothing else. */
static struct digest_params form_beside(const struct digest_params *form, struct buf *line)
{
	struct digest_params rest = *form;
	size_t chars = text_count(buf_bytes(line), line->len) + 1;

	if (rest.total_chars_max == 0)
		rest.total_chars_max = DIGEST_TOTAL_CHARS;
	if (form->marks || line->len == 0 || rest.total_chars_max <= chars) {
		buf_clear(line);
		return *form;
	}
	rest.total_chars_max -= chars;
	return rest;
}

static void timeline_cleanup(struct timeline **timeline)
{
	timeline_free(*timeline);
}

/* Appends the text of the cell. */
static int fold_cell(int dirfd, const char *cell, const struct digest_params *form, struct buf *out,
		     struct err *err)
{
	__attribute__((cleanup(digest_cleanup))) struct digest *digest = digest_new(form);
	__attribute__((cleanup(timeline_cleanup))) struct timeline *timeline = timeline_new();
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	bool found = false;

	if (fold_open(&reader, dirfd, err) != 0)
		return -1;
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		int got = fold_next(&reader, &event, err);

		if (got < 0)
			return -1;
		if (got == 0)
			break;
		timeline_apply(timeline, &event);
		if (!event.cell || strcmp(event.cell, cell) != 0)
			continue;
		found = found || event.type == EVENT_CELL;
		digest_apply(digest, &event);
	}
	if (!found)
		return err_set(err, ERR_NOT_FOUND, "there is no cell %s in this session", cell);
	digest_set_fate(digest, timeline_find(timeline, cell));
	digest_text(digest, out);
	return 0;
}

int fold_text(int dirfd, const char *cell, const struct digest_params *form, struct buf *out,
	      struct err *err)
{
	cleanup_wanted struct fold_wanted wanted = FOLD_WANTED_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	struct digest_params rest;

	if (fold_find(dirfd, cell, &wanted, err) != 0)
		return -1;
	rest = wanted.cell ? form_beside(form, &wanted.line) : *form;
	if (wanted.cell && fold_cell(dirfd, wanted.cell, &rest, &text, err) != 0)
		return -1;
	buf_append(out, buf_bytes(&wanted.line), wanted.line.len);
	if (wanted.line.len > 0 && wanted.cell)
		buf_append_char(out, '\n');
	buf_append(out, buf_bytes(&text), text.len);
	return 0;
}
