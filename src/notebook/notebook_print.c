/*
 * The notebook's bytes; see notebook.h.
 *
 * Each cell keeps its printed form until something in it changes, so that saving a long notebook
 * again costs a copy. The joined form is made anew each time: it is asked for rarely.
 */
#include "notebook/emit.h"
#include "notebook/notebook_internal.h"

enum { CELL_DEPTH = 2 }; /* a cell stands in the array of the notebook's object */

bool notebook_keeps(const struct notebook *notebook, enum notebook_rolled_back what)
{
	if (what == NOTEBOOK_AS_SAID)
		what = notebook->wanted;
	return (what == NOTEBOOK_AS_SAID ? notebook->said : what) == NOTEBOOK_KEEP;
}

static void cell_emit(const struct cell *cell, enum undone shown, struct emit *emit)
{
	static const char *const names[] = {"code", "markdown", "raw"};
	const char *name = names[cell->type];
	const char *remark = shown == UNDONE_MARKED ? undone_remark(cell->place) : NULL;
	cleanup_json struct json *marked =
		remark != NULL ? undone_metadata(cell->place, cell->metadata) : NULL;

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
	emit_value(emit, marked != NULL ? marked : cell->metadata);
	if (cell->type == CELL_CODE) {
		emit_key(emit, "outputs");
		outputs_emit(&cell->outputs, cell->given, remark, emit);
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
	if (cell->shown == UNDONE_OMITTED)
		buf_release(&cell->form);
	else
		cell_emit(cell, cell->shown, &emit);
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

		if (notebook->cells[i]->shown == UNDONE_OMITTED)
			continue;
		emit_item(&emit);
		buf_append(out, buf_bytes(form), form->len);
	}
	emit_close(&emit, ']');
	emit_foot(notebook, &emit);
	buf_append_char(out, '\n');
	notebook->displays.generation++;
	notebook->changed = false;
}

void notebook_write_joined(struct notebook *notebook, enum notebook_rolled_back what,
			   struct buf *out)
{
	struct emit emit = EMIT_INIT(out, true, 0);
	bool keep = notebook_keeps(notebook, what);

	emit_open(&emit, '{');
	emit_key(&emit, "cells");
	emit_open(&emit, '[');
	for (size_t i = 0; i < notebook->count; i++) {
		enum undone shown = undone_of(notebook->cells[i]->place, keep);

		if (shown == UNDONE_OMITTED)
			continue;
		emit_item(&emit);
		cell_emit(notebook->cells[i], shown, &emit);
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
	size_t count = 0;

	for (size_t i = 0; i < notebook->count; i++)
		count += notebook->cells[i]->shown != UNDONE_OMITTED;
	return count;
}
