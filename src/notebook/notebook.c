/*
 * The fold from events to cells; see notebook.h.
 *
 * Cells are kept in the order of their events. Two trees find them: `by_key` finds the code cell
 * of an event, `by_id` says which ids the file uses. The two ids of a cell are the same, except
 * when an event's id is no id by nbformat's rule. Each cell keeps its printed form until one of
 * its events, or an update of a display it shows, changes it. Events refer to cells by id only,
 * so the order in which outputs of several cells arrive does not matter.
 *
 * What was rolled back stays here with all it has, since a later rollback may bring it back and a
 * reader may want it kept; only printing leaves it out or marks it (undone.h). `shown` says how a
 * cell's printed form has it.
 */
#include "notebook/notebook.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "notebook/meta.h"
#include "notebook/notebook_internal.h"

enum { HEADING_MAX = 6 }; /* Markdown knows six levels */

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
	notebook->timeline = timeline_new();
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
	notebook_forget_asks(notebook);
	timeline_free(notebook->timeline);
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

struct cell *notebook_add(struct notebook *notebook, enum cell_type type, const char *id)
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
	cell = notebook_add(notebook, CELL_CODE, event->cell);
	cell->key = mem_string(event->cell);
	if (tsearch(cell, &notebook->by_key, cell_compare_key) == NULL)
		abort(); /* out of memory, as in base/mem */
	cell_set_source(cell, json_get(event->body, "code"));
	cell->metadata = meta_cell(json_get(event->body, "metadata"), true);
	cell->place = timeline_find(notebook->timeline, event->cell);
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
	cell = notebook_add(notebook, type, json_get_string(body, "id"));
	cell_set_source(cell, json_get(body, "text"));
	cell->metadata = meta_cell(json_get(body, "metadata"), type == CELL_CODE);
	if (type != CELL_CODE && json_type_of(attachments) == JSON_OBJECT)
		cell->attachments = json_keep(attachments);
}

void notebook_take(struct notebook *notebook, const struct document_cell *given, bool outputs)
{
	static const enum cell_type types[] = {CELL_CODE, CELL_MARKDOWN, CELL_RAW};
	struct cell *cell = notebook_add(notebook, types[given->type], given->id);

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
		meta_remove_run(cell->metadata);
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
	struct cell *cell = notebook_add(notebook, CELL_MARKDOWN, json_get_string(body, "id"));

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
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_ROLLBACK:
	case EVENT_FORKED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_WARNING:
	case EVENT_NETWORK:
	case EVENT_ASK:
	case EVENT_ATTEMPT:
	case EVENT_TOKEN:
	case EVENT_CODE:
	case EVENT_VERDICT:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		break;
	}
}

bool notebook_write_outputs(struct notebook *notebook, const char *cell, struct buf *out)
{
	struct emit emit = EMIT_INIT(out, true, 0);
	const struct cell *found = cell_find(notebook, cell);

	if (found == NULL)
		return false;
	outputs_emit(&found->outputs, found->given, NULL, &emit);
	return true;
}

const struct timeline_cell *notebook_fate(const struct notebook *notebook, const char *cell)
{
	return timeline_find(notebook->timeline, cell);
}

/* --- what was rolled back --------------------------------------------------------------------- */

void notebook_review(struct notebook *notebook)
{
	bool keep = notebook_keeps(notebook, NOTEBOOK_AS_SAID);

	for (size_t i = 0; i < notebook->count; i++) {
		struct cell *cell = notebook->cells[i];
		enum undone shown = undone_of(cell->place, keep);
		const char *remark = shown == UNDONE_MARKED ? undone_remark(cell->place) : NULL;

		if (shown == cell->shown && remark == cell->remark)
			continue;
		cell->shown = shown;
		cell->remark = remark;
		cell->printed = false;
		notebook->changed = true;
	}
}

enum notebook_rolled_back notebook_rolled_back_from_name(const char *name)
{
	if (name != NULL && strcmp(name, "keep") == 0)
		return NOTEBOOK_KEEP;
	return name != NULL && strcmp(name, "omit") == 0 ? NOTEBOOK_OMIT : NOTEBOOK_AS_SAID;
}

void notebook_set_rolled_back(struct notebook *notebook, enum notebook_rolled_back what)
{
	notebook->wanted = what;
	notebook_review(notebook);
}

static void apply_session(struct notebook *notebook, const struct json *body)
{
	const char *said = json_get_string(json_get(body, "notebook"), "rolled_back");

	json_free(notebook->metadata);
	notebook->metadata = meta_notebook(body);
	notebook->said = notebook_rolled_back_from_name(said);
	notebook->changed = true;
	notebook_review(notebook);
}

/* --- events ----------------------------------------------------------------------------------- */

void notebook_apply(struct notebook *notebook, const struct event *event)
{
	const struct json *body = event->body;
	bool undone = timeline_apply(notebook->timeline, event);
	struct cell *cell;

	if (event->type == EVENT_SESSION) {
		apply_session(notebook, body);
	} else if (event->type == EVENT_SECTION) {
		apply_section(notebook, body);
	} else if (event->type == EVENT_NOTE) {
		apply_note(notebook, body);
	} else if (event->type == EVENT_CELL) {
		apply_cell(notebook, event);
	} else if (event->type >= EVENT_ASK && event->type <= EVENT_VERDICT) {
		notebook_apply_ask(notebook, event);
	} else if (event->type == EVENT_UPDATE_DISPLAY) {
		if (displays_update(&notebook->displays, json_get(body, "display_id"),
				    json_get(body, "data"), json_get(body, "metadata")))
			notebook->changed = true;
	} else if ((cell = cell_find(notebook, event->cell)) != NULL) {
		cell_apply(cell, event);
		/* A display may have changed other cells: any change of outputs counts. */
		if (cell->outputs.changed || !cell->printed)
			notebook->changed = true;
	}
	if (event->type == EVENT_RESTARTED)
		notebook_apply_ask(notebook, event);
	if (undone)
		notebook_review(notebook);
}
