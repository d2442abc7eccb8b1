/*
 * The fold from events to cells; see notebook.h.
 *
 * Cells are kept in the order of their events. Two trees find them: `by_key` finds the code cell
 * of an event, `by_id` says which ids the file uses. The two ids of a cell are the same, except
 * when an event's id is no id by nbformat's rule. Each cell keeps its printed form until one of
 * its events, or an update of a display it shows, changes it. Events refer to cells by id only,
 * so the order in which outputs of several cells arrive does not matter.
 */
#include "notebook/notebook.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "notebook/emit.h"
#include "notebook/meta.h"
#include "notebook/outputs.h"

enum { CELL_DEPTH = 2 };    /* a cell stands in the array of the notebook's object */
enum { HEADING_MAX = 6 };   /* Markdown knows six levels */
enum { CELL_ID_SIZE = 65 }; /* nbformat: 1 to 64 characters */

enum cell_type { CELL_CODE, CELL_MARKDOWN, CELL_RAW };

struct cell {
	enum cell_type type;
	char *key;             /* the `cell` of its events; NULL for notes and sections */
	char id[CELL_ID_SIZE]; /* in the file */
	bool id_made;          /* by this fold: gives way to an event that names it */
	bool printed;          /* `form` is up to date (and outputs.changed is false) */
	bool failed;           /* there was an `error` event */
	char *source;
	size_t source_len;
	struct json *metadata;    /* owned, fits the schema */
	struct json *attachments; /* shared with the event, may be NULL */
	struct json *given; /* outputs of another run, before those of this one; may be NULL */
	struct outputs outputs;
	int64_t execution_count; /* -1: none */
	bool untimed;
	struct buf form; /* as it stands in the file */
};

struct notebook {
	struct cell **cells;
	size_t count;
	size_t cap;
	void *by_key;
	void *by_id;
	struct cell *recent; /* of the last event: a shortcut past by_key */
	struct displays displays;
	struct json *metadata;
	unsigned ids_made;
	bool changed;
	bool untimed; /* new cells get no times */
};

static int cell_compare_key(const void *a, const void *b)
{
	return strcmp(((const struct cell *)a)->key, ((const struct cell *)b)->key);
}

static int cell_compare_id(const void *a, const void *b)
{
	return strcmp(((const struct cell *)a)->id, ((const struct cell *)b)->id);
}

struct notebook *notebook_new(void)
{
	struct notebook *notebook = mem_zalloc(sizeof(*notebook));

	notebook->displays = (struct displays)DISPLAYS_INIT;
	notebook->metadata = json_new_object();
	notebook->changed = true;
	return notebook;
}

static void cell_free(struct cell *cell)
{
	outputs_release(&cell->outputs);
	buf_release(&cell->form);
	json_free(cell->metadata);
	json_free(cell->attachments);
	json_free(cell->given);
	free(cell->source);
	free(cell->key);
	free(cell);
}

void notebook_free(struct notebook *notebook)
{
	if (notebook == NULL)
		return;
	for (size_t i = 0; i < notebook->count; i++) {
		struct cell *cell = notebook->cells[i];

		if (cell->key != NULL)
			tdelete(cell, &notebook->by_key, cell_compare_key);
		tdelete(cell, &notebook->by_id, cell_compare_id);
	}
	for (size_t i = 0; i < notebook->count; i++)
		cell_free(notebook->cells[i]);
	free(notebook->cells);
	json_free(notebook->metadata);
	free(notebook);
}

/* --- ids -------------------------------------------------------------------------------------- */

static struct cell *cell_with_id(const struct notebook *notebook, const char *id)
{
	struct cell key = {.type = CELL_CODE};
	struct cell **found;

	memcpy(key.id, id, strlen(id) + 1);
	found = tfind(&key, &notebook->by_id, cell_compare_id);
	return found == NULL ? NULL : *found;
}

static void id_enter(struct notebook *notebook, struct cell *cell)
{
	if (tsearch(cell, &notebook->by_id, cell_compare_id) == NULL)
		abort(); /* out of memory, as in base/mem */
}

/* The next of n1, n2, ... that is free. The counter never goes back, so this ends soon. */
static void id_make(struct notebook *notebook, struct cell *cell)
{
	do {
		snprintf(cell->id, sizeof(cell->id), "n%u", ++notebook->ids_made);
	} while (cell_with_id(notebook, cell->id) != NULL);
	cell->id_made = true;
	id_enter(notebook, cell);
}

/* Gives the cell the id it asks for when that is a good id and free. A made id makes room. */
static void id_take(struct notebook *notebook, struct cell *cell, const char *wish)
{
	struct cell *holder;

	if (wish == NULL || !text_is_id(wish, strlen(wish))) {
		id_make(notebook, cell);
		return;
	}
	holder = cell_with_id(notebook, wish);
	if (holder != NULL && !holder->id_made) {
		id_make(notebook, cell);
		return;
	}
	if (holder != NULL) {
		tdelete(holder, &notebook->by_id, cell_compare_id);
		holder->printed = false;
	}
	memcpy(cell->id, wish, strlen(wish) + 1);
	id_enter(notebook, cell);
	if (holder != NULL)
		id_make(notebook, holder);
}

/* --- cells ------------------------------------------------------------------------------------ */

static struct cell *cell_add(struct notebook *notebook, enum cell_type type, const char *id)
{
	struct cell *cell = mem_zalloc(sizeof(*cell));

	if (notebook->count == notebook->cap) {
		notebook->cap = notebook->cap == 0 ? 16 : 2 * notebook->cap;
		notebook->cells = mem_resize(notebook->cells, notebook->cap, sizeof(struct cell *));
	}
	cell->type = type;
	cell->execution_count = -1;
	cell->untimed = notebook->untimed;
	outputs_init(&cell->outputs, &notebook->displays);
	id_take(notebook, cell, id);
	notebook->cells[notebook->count++] = cell;
	notebook->changed = true;
	return cell;
}

static void cell_set_source(struct cell *cell, const struct json *text)
{
	size_t len = 0;
	const char *source = json_string(text, &len);

	cell->source = mem_copy(source, len);
	cell->source_len = len;
}

static struct cell *cell_find(struct notebook *notebook, const char *name)
{
	struct cell *recent = notebook->recent;
	struct cell key = {.type = CELL_CODE};
	struct cell **found;

	if (name == NULL)
		return NULL;
	if (recent != NULL && strcmp(recent->key, name) == 0)
		return recent;
	key.key = mem_string(name);
	found = tfind(&key, &notebook->by_key, cell_compare_key);
	free(key.key);
	if (found == NULL)
		return NULL;
	notebook->recent = *found;
	return *found;
}

static void apply_cell(struct notebook *notebook, const struct event *event)
{
	struct cell *cell;

	/* The keeper lets no id come twice; in a damaged journal the first one stays. */
	if (event->cell == NULL || cell_find(notebook, event->cell) != NULL)
		return;
	cell = cell_add(notebook, CELL_CODE, event->cell);
	cell->key = mem_string(event->cell);
	if (tsearch(cell, &notebook->by_key, cell_compare_key) == NULL)
		abort(); /* out of memory, as in base/mem */
	cell_set_source(cell, json_get(event->body, "code"));
	cell->metadata = meta_cell(json_get(event->body, "metadata"), true);
}

/* A note of type code is a cell that was not run; attachments are for the others. */
static void apply_note(struct notebook *notebook, const struct json *body)
{
	const char *name = json_get_string(body, "cell_type");
	struct json *attachments = json_get(body, "attachments");
	enum cell_type type = CELL_MARKDOWN;
	struct cell *cell;

	if (name != NULL && strcmp(name, "raw") == 0)
		type = CELL_RAW;
	else if (name != NULL && strcmp(name, "code") == 0)
		type = CELL_CODE;
	cell = cell_add(notebook, type, json_get_string(body, "id"));
	cell_set_source(cell, json_get(body, "text"));
	cell->metadata = meta_cell(json_get(body, "metadata"), type == CELL_CODE);
	if (type != CELL_CODE && json_type_of(attachments) == JSON_OBJECT)
		cell->attachments = json_keep(attachments);
}

void notebook_take(struct notebook *notebook, const struct document_cell *given, bool outputs)
{
	static const enum cell_type types[] = {CELL_CODE, CELL_MARKDOWN, CELL_RAW};
	struct cell *cell = cell_add(notebook, types[given->type], given->id);

	cell->source = mem_copy(given->source, given->source_len);
	cell->source_len = given->source_len;
	if (given->attachments != NULL)
		cell->attachments = json_keep(given->attachments);
	cell->metadata = json_copy(given->metadata);
	if (given->type != DOCUMENT_CODE)
		return;
	if (outputs && given->outputs != NULL)
		cell->given = json_keep(given->outputs);
	if (outputs)
		cell->execution_count = given->execution_count;
	else
		json_remove(cell->metadata, "execution");
	cell->key = mem_string(given->id);
	if (tsearch(cell, &notebook->by_key, cell_compare_key) == NULL)
		abort(); /* out of memory, as in base/mem */
}

void notebook_omit_timing(struct notebook *notebook)
{
	notebook->untimed = true;
}

static void apply_section(struct notebook *notebook, const struct json *body)
{
	cleanup_buf struct buf heading = BUF_INIT;
	int64_t level = json_get_int(body, "level", 1);
	size_t len = 0;
	const char *title = json_string(json_get(body, "title"), &len);
	struct cell *cell = cell_add(notebook, CELL_MARKDOWN, json_get_string(body, "id"));

	for (int64_t i = 0; i < HEADING_MAX && (i < level || i == 0); i++)
		buf_append_char(&heading, '#');
	buf_append_char(&heading, ' ');
	/* A heading is one line. */
	for (size_t i = 0; i < len; i++)
		buf_append_char(&heading, title[i] == '\n' || title[i] == '\r' ? ' ' : title[i]);
	cell->source_len = heading.len;
	cell->source = buf_take(&heading, NULL);
	cell->metadata = json_new_object();
}

/* --- a cell's life ---------------------------------------------------------------------------- */

/* Sets two of the times of metadata.execution, which are strings in nbformat. */
static void cell_set_times(struct cell *cell, int64_t t_us, const char *first, const char *second)
{
	struct json *execution = json_get(cell->metadata, "execution");
	char text[CLOCK_TEXT_SIZE];

	if (cell->untimed)
		return;
	if (execution == NULL) {
		execution = json_new_object();
		json_set(cell->metadata, "execution", execution);
	}
	clock_format(t_us, text);
	json_set_string(execution, first, text);
	json_set_string(execution, second, text);
	cell->printed = false;
}

/* A count that nbformat takes: an integer that is not negative, else -1. */
static int64_t count_of(const struct json *body)
{
	const struct json *count = json_get(body, "execution_count");

	return json_type_of(count) == JSON_INT && json_int(count, -1) >= 0 ? json_int(count, -1)
									   : -1;
}

/* An ending that the guest could not report itself is said in its stead. */
static void cell_explain(struct cell *cell, const struct json *body)
{
	static const struct {
		const char *status, *ename, *evalue;
	} endings[] = {
		{"died", "Died", "the interpreter died"},
		{"timeout", "Timeout", "the cell took longer than it may"},
		{"interrupted", "Interrupted", "the cell was interrupted"},
		{"cancelled", "Cancelled", "the cell was cancelled before it ran"},
	};
	const char *status = json_get_string(body, "status");
	const char *reason = json_get_string(body, "reason");

	if (cell->failed || status == NULL)
		return;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (strcmp(status, endings[i].status) == 0)
			outputs_failure(&cell->outputs, endings[i].ename,
					reason != NULL && reason[0] != '\0' ? reason
									    : endings[i].evalue);
}

static void cell_finish(struct cell *cell, const struct event *event)
{
	if (json_get(cell->metadata, "execution") != NULL)
		cell_set_times(cell, event->t_us, "shell.execute_reply", "iopub.status.idle");
	cell->execution_count = count_of(event->body);
	cell->printed = false;
	cell_explain(cell, event->body);
}

static void cell_truncate(struct cell *cell, const struct json *body)
{
	const char *name = json_get_string(body, "name");
	bool known = name != NULL && (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0);
	cleanup_free char *line =
		mem_format("[fumehood: %" PRId64 " bytes of %s dropped: output limit]",
			   json_get_int(body, "bytes_dropped", 0), known ? name : "output");

	outputs_remark(&cell->outputs, line);
}

/* Events of a code cell that exists. */
static void cell_apply(struct cell *cell, const struct event *event)
{
	const struct json *body = event->body;
	struct outputs *outputs = &cell->outputs;

	switch (event->type) {
	case EVENT_STARTED:
		cell_set_times(cell, event->t_us, "iopub.status.busy", "iopub.execute_input");
		break;
	case EVENT_STREAM:
		outputs_stream(outputs, event->is_stderr, event->text, event->text_len);
		break;
	case EVENT_DISPLAY:
	case EVENT_RESULT:
		outputs_display(outputs, event->type == EVENT_RESULT, json_get(body, "data"),
				json_get(body, "metadata"), json_get(body, "display_id"),
				count_of(body));
		break;
	case EVENT_CLEAR:
		outputs_clear(outputs, json_get_bool(body, "wait", false));
		break;
	case EVENT_ERROR:
		cell->failed = true;
		outputs_error(outputs, body);
		break;
	case EVENT_TRUNCATED:
		cell_truncate(cell, body);
		break;
	case EVENT_FINISHED:
		cell_finish(cell, event);
		break;
	case EVENT_SESSION:
	case EVENT_SECTION:
	case EVENT_NOTE:
	case EVENT_CELL:
	case EVENT_UPDATE_DISPLAY:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_DIED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_WARNING:
	case EVENT_NETWORK:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		break;
	}
}

void notebook_apply(struct notebook *notebook, const struct event *event)
{
	const struct json *body = event->body;
	struct cell *cell;

	if (event->type == EVENT_SESSION) {
		json_free(notebook->metadata);
		notebook->metadata = meta_notebook(body);
		notebook->changed = true;
	} else if (event->type == EVENT_SECTION) {
		apply_section(notebook, body);
	} else if (event->type == EVENT_NOTE) {
		apply_note(notebook, body);
	} else if (event->type == EVENT_CELL) {
		apply_cell(notebook, event);
	} else if (event->type == EVENT_UPDATE_DISPLAY) {
		if (displays_update(&notebook->displays, json_get(body, "display_id"),
				    json_get(body, "data"), json_get(body, "metadata")))
			notebook->changed = true;
	} else {
		cell = cell_find(notebook, event->cell);
		if (cell == NULL)
			return;
		cell_apply(cell, event);
		/* A display may have changed other cells: any change of outputs counts. */
		if (cell->outputs.changed || !cell->printed)
			notebook->changed = true;
	}
}

/* --- printing --------------------------------------------------------------------------------- */

static void cell_emit(const struct cell *cell, struct emit *emit)
{
	static const char *const names[] = {"code", "markdown", "raw"};
	const char *name = names[cell->type];

	emit_open(emit, '{');
	if (cell->attachments != NULL) {
		emit_key(emit, "attachments");
		emit_attachments(emit, cell->attachments);
	}
	emit_key(emit, "cell_type");
	emit_string(emit, name, strlen(name));
	if (cell->type == CELL_CODE) {
		emit_key(emit, "execution_count");
		if (cell->execution_count >= 0)
			emit_int(emit, cell->execution_count);
		else
			emit_null(emit);
	}
	emit_key(emit, "id");
	emit_string(emit, cell->id, strlen(cell->id));
	emit_key(emit, "metadata");
	emit_value(emit, cell->metadata);
	if (cell->type == CELL_CODE) {
		emit_key(emit, "outputs");
		outputs_emit(&cell->outputs, cell->given, emit);
	}
	emit_key(emit, "source");
	emit_lines(emit, cell->source, cell->source_len);
	emit_close(emit, '}');
}

/* Brings the printed form up to date. */
static void cell_print(struct cell *cell)
{
	struct emit emit = EMIT_INIT(&cell->form, false, CELL_DEPTH);

	if (cell->printed && !cell->outputs.changed)
		return;
	buf_clear(&cell->form);
	cell_emit(cell, &emit);
	cell->printed = true;
	cell->outputs.changed = false;
}

static void emit_foot(struct notebook *notebook, struct emit *emit)
{
	emit_key(emit, "metadata");
	emit_value(emit, notebook->metadata);
	emit_key(emit, "nbformat");
	emit_int(emit, 4);
	emit_key(emit, "nbformat_minor");
	emit_int(emit, 5);
	emit_close(emit, '}');
}

void notebook_write(struct notebook *notebook, struct buf *out)
{
	struct emit emit = EMIT_INIT(out, false, 0);
	size_t bytes = 0;

	for (size_t i = 0; i < notebook->count; i++) {
		cell_print(notebook->cells[i]);
		bytes += notebook->cells[i]->form.len + CELL_DEPTH + 2;
	}
	buf_reserve(out, bytes);
	emit_open(&emit, '{');
	emit_key(&emit, "cells");
	emit_open(&emit, '[');
	for (size_t i = 0; i < notebook->count; i++) {
		const struct buf *form = &notebook->cells[i]->form;

		emit_item(&emit);
		buf_append(out, buf_bytes(form), form->len);
	}
	emit_close(&emit, ']');
	emit_foot(notebook, &emit);
	buf_append_char(out, '\n');
	notebook->displays.generation++;
	notebook->changed = false;
}

void notebook_write_joined(struct notebook *notebook, struct buf *out)
{
	struct emit emit = EMIT_INIT(out, true, 0);

	emit_open(&emit, '{');
	emit_key(&emit, "cells");
	emit_open(&emit, '[');
	for (size_t i = 0; i < notebook->count; i++) {
		emit_item(&emit);
		cell_emit(notebook->cells[i], &emit);
	}
	emit_close(&emit, ']');
	emit_foot(notebook, &emit);
}

bool notebook_changed(const struct notebook *notebook)
{
	return notebook->changed;
}

size_t notebook_cell_count(const struct notebook *notebook)
{
	return notebook->count;
}
