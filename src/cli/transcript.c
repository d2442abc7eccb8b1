/*
 * Folding a run into its notebook. See transcript.h.
 *
 * All cells are put into the fold first. Then each event of a cell that ran is given to the cell of
 * the document whose run it belongs to; the rest of the session's history passes by.
 */
#include "cli/transcript.h"

#include <string.h>

#include "base/mem.h"
#include "cli/fold.h"
#include "journal/cursor.h"
#include "journal/journal.h"
#include "journal/timeline.h"
#include "notebook/notebook.h"

enum { CODE_BYTES_MAX = 64 << 20 };

void transcript_init(struct transcript *transcript, struct document *document)
{
	*transcript = (struct transcript){.document = document};
	transcript->cells = mem_zalloc((document->cell_count + 1) * sizeof(*transcript->cells));
}

void transcript_release(struct transcript *transcript)
{
	if (transcript->cells)
		for (size_t i = 0; i < transcript->document->cell_count; i++)
			free(transcript->cells[i].run);
	free(transcript->cells);
	transcript->cells = NULL;
}

void transcript_insert(struct transcript *transcript, size_t index, enum document_cell_type type,
		       const char *source, struct json *metadata)
{
	size_t count = transcript->document->cell_count;
	struct transcript_cell *cells =
		mem_resize(transcript->cells, count + 1, sizeof(*transcript->cells));

	memmove(&cells[index + 1], &cells[index], (count - index) * sizeof(*cells));
	cells[index] = (struct transcript_cell){.run = NULL};
	transcript->cells = cells;
	document_insert(transcript->document, index, type, source, strlen(source), metadata);
}

void transcript_ran(struct transcript *transcript, size_t index, const char *run)
{
	free(transcript->cells[index].run);
	transcript->cells[index] = (struct transcript_cell){.run = mem_string(run)};
}

/* --- looking for earlier runs ----------------------------------------------------------------- */

/* Whether a run's id is that of the cell, or the one that a repetition of it got. */
static bool is_run_of(const char *run, const char *id)
{
	size_t same = 0;
	const char *number;

	while (id[same] && run[same] == id[same])
		same++;
	if (id[same] == '\0' && run[same] == '\0')
		return true;
	number = strrchr(run, '-');
	if (!number || number[1] == '\0' || (size_t)(number - run) > same)
		return false;
	/* A long id was cut to make room for the number. */
	if (id[number - run] != '\0' && strlen(run) < 60)
		return false;
	return number[1 + strspn(number + 1, "0123456789")] == '\0';
}

static bool same_code(const struct json *code, const struct document_cell *cell)
{
	size_t len = 0;
	const char *text = json_string(code, &len);

	return text && len == cell->source_len && memcmp(text, cell->source, len) == 0;
}

static bool is_loss(const struct event *event)
{
	const char *state = json_get_string(event->body, "state");

	return (event->type == EVENT_FINISHED || event->type == EVENT_DIED ||
		event->type == EVENT_RESTARTED) &&
	       state && (strcmp(state, "reset") == 0 || strcmp(state, "gone") == 0);
}

static void note_run(struct transcript *transcript, size_t end, const struct event *event,
		     uint64_t *last_run)
{
	for (size_t i = 0; i < end; i++) {
		const struct document_cell *cell = &transcript->document->cells[i];

		if (cell->type != DOCUMENT_CODE || !is_run_of(event->cell, cell->id) ||
		    !same_code(json_get(event->body, "code"), cell))
			continue;
		transcript_ran(transcript, i, event->cell);
		*last_run = event->seq;
	}
}

/* Reads the journal for runs. Values that are no code are left where they are. */
static int read_runs(struct transcript *transcript, size_t end, struct fold_reader *reader,
		     struct timeline *timeline, uint64_t *last_run, uint64_t *last_loss,
		     struct err *err)
{
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		enum cursor_step step = cursor_next(reader->cursor, &event, err);
		bool inlined;

		if (step == CURSOR_ERROR)
			return -1;
		if (step == CURSOR_END)
			return 0;
		if (step == CURSOR_DAMAGED)
			continue;
		timeline_apply(timeline, &event);
		if (is_loss(&event))
			*last_loss = event.seq;
		if (event.type != EVENT_CELL || !event.cell)
			continue;
		if (event_inline(reader->dirfd, &event, CODE_BYTES_MAX, &inlined, err) != 0)
			return -1;
		note_run(transcript, end, &event, last_run);
	}
}

static void timeline_cleanup(struct timeline **timeline)
{
	timeline_free(*timeline);
}

/* Whether what the run did to the variables was undone, while others' work was kept. */
static bool is_undone(const struct timeline *timeline, const char *run)
{
	const struct timeline_cell *cell = timeline_find(timeline, run);

	return cell && (cell->fate == TIMELINE_ROLLED_BACK || cell->fate == TIMELINE_LOST);
}

int transcript_find(struct transcript *transcript, size_t end, int dirfd,
		    struct transcript_found *found, struct err *err)
{
	__attribute__((cleanup(timeline_cleanup))) struct timeline *timeline = timeline_new();
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	uint64_t last_run = 0, last_loss = 0;

	*found = (struct transcript_found){.missing = 0};
	if (fold_open(&reader, dirfd, err) != 0 ||
	    read_runs(transcript, end, &reader, timeline, &last_run, &last_loss, err) != 0)
		return -1;
	for (size_t i = 0; i < end; i++) {
		const struct document_cell *cell = &transcript->document->cells[i];

		if (cell->type == DOCUMENT_CODE && !transcript->cells[i].run &&
		    strspn(cell->source, " \t\r\n\f\v") < cell->source_len)
			found->missing++;
		found->undone += is_undone(timeline, transcript->cells[i].run);
	}
	found->lost = last_loss > last_run;
	return 0;
}

/* --- the fold --------------------------------------------------------------------------------- */

/* A run and the cell that it is of. */
struct pair {
	const char *run;
	const char *id;
};

static int pair_compare(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->run, ((const struct pair *)b)->run);
}

struct pairs {
	struct pair *list;
	size_t count;
};

static void pairs_release(struct pairs *pairs)
{
	free(pairs->list);
}

static void pairs_make(struct pairs *pairs, const struct transcript *transcript)
{
	size_t count = transcript->document->cell_count;

	pairs->list = mem_zalloc((count + 1) * sizeof(*pairs->list));
	for (size_t i = 0; i < count; i++)
		if (transcript->cells[i].run)
			pairs->list[pairs->count++] =
				(struct pair){.run = transcript->cells[i].run,
					      .id = transcript->document->cells[i].id};
	qsort(pairs->list, pairs->count, sizeof(*pairs->list), pair_compare);
}

static void notebook_cleanup(struct notebook **notebook)
{
	notebook_free(*notebook);
}

/* The session as the notebook's metadata want it: with those of the file. */
static void apply_session(struct notebook *notebook, const struct document *document,
			  const struct json *body)
{
	cleanup_event struct event event = EVENT_INIT;
	struct json *file = json_new_object();

	event.type = EVENT_SESSION;
	event.body = body ? json_copy(body) : json_new_object();
	json_set(file, "metadata", json_copy(document->metadata));
	json_set(event.body, "notebook", file);
	notebook_apply(notebook, &event);
}

static void apply(struct notebook *notebook, const struct transcript *transcript,
		  const struct pairs *pairs, struct event *event)
{
	struct pair key = {.run = event->cell};
	const struct pair *found;

	if (event->type == EVENT_SESSION) {
		apply_session(notebook, transcript->document, event->body);
	} else if (event->type == EVENT_UPDATE_DISPLAY) {
		notebook_apply(notebook, event);
	} else if (event->cell) {
		found = bsearch(&key, pairs->list, pairs->count, sizeof(key), pair_compare);
		if (!found)
			return;
		free(event->cell);
		event->cell = mem_string(found->id);
		notebook_apply(notebook, event);
	}
}

int transcript_fold(const struct transcript *transcript, int dirfd, struct buf *out,
		    struct err *err)
{
	__attribute__((cleanup(notebook_cleanup))) struct notebook *notebook = notebook_new();
	__attribute__((cleanup(pairs_release))) struct pairs pairs = {.list = NULL};
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	int got = 1;

	pairs_make(&pairs, transcript);
	if (transcript->untimed)
		notebook_omit_timing(notebook);
	apply_session(notebook, transcript->document, NULL);
	for (size_t i = 0; i < transcript->document->cell_count; i++)
		notebook_take(notebook, &transcript->document->cells[i], transcript->cells[i].keep);
	if (dirfd >= 0 && fold_open(&reader, dirfd, err) != 0)
		return -1;
	while (dirfd >= 0 && got == 1) {
		cleanup_event struct event event = EVENT_INIT;

		got = fold_next(&reader, &event, err);
		if (got < 0)
			return -1;
		if (got == 1)
			apply(notebook, transcript, &pairs, &event);
	}
	notebook_write(notebook, out);
	return 0;
}
