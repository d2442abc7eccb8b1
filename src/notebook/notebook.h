/*
 * The notebook: a fold over the journal into nbformat 4.5.
 *
 * notebook_apply() takes each event once, in order; notebook_write() gives the file's bytes at
 * any moment, valid and equal to what nbformat.write() would print for the same notebook. Each
 * cell's serialised form is cached and made anew only when one of its outputs changed, so that
 * writing a long notebook costs a copy. Rules: reference for the form is nbformat's v4.5 schema
 * and nbjson.py; for streams JupyterLab's (cursor, CR, BS; one output per run of the same
 * stream); for the rest DESIGN §4.4.
 *
 * What becomes what:
 *   session     metadata: kernelspec {display_name, language, name:"python3"}, language_info,
 *               `fumehood` {session, version}; kernelspec and language_info of the event instead
 *               when it has them. Its field `notebook` {metadata} (from a notebook that is being
 *               run) is merged over these, but language_info of the event stays: it says what ran
 *   section     a markdown cell "#"*level + " " + title (level 1 when not given)
 *   ask         a markdown cell of the `instruction`, tag `ask`, metadata `fumehood` {`ask`}, and a
 *               line that says how the answer is known (`verdict`), or that there is none. It goes
 *               with the cell that has answered: what is undone is undone with its question.
 *               By option (`notebook_attempts` `show`) the other attempts stand behind it, each
 *               collapsed, in one markdown cell of the tag `attempt`: never as code, which somebody
 *               would run
 *   note        a markdown cell of `text`, or raw (`cell_type`), with `id`, `attachments` and
 *               `metadata` if given
 *   cell        a code cell: id, source = code, metadata of the event if any
 *   started     execution.iopub.execute_input and iopub.status.busy: its time
 *   stream, display, update_display, result, error, clear, truncated
 *               outputs of the event's cell, also after its finished
 *   finished    execution_count, the other times; status died, timeout, interrupted, cancelled
 *               without an `error` event gets an `error` output that says so
 *   rollback, and a `finished` of state rolled_back
 *               cells whose effect someone had undone are left out, or kept with the tag
 *               `rolled-back`, metadata `fumehood` {`rolled_back` {`by`}} and a line of output
 *               that says so, by option. A rollback to a checkpoint that they are in brings them
 *               back as they were. Cells that died stay: their output is the record of it
 *   finished, died of state recovered
 *               cells that were lost with it, which nobody asked for, are kept and marked in
 *               either case
 * Notes and sections stay where they are, and so does what a cell that is left out has done to the
 * displays of others: it was to be seen there.
 * (The input of a password is never in the journal, so it cannot be here.)
 */
#ifndef FH_NOTEBOOK_NOTEBOOK_H
#define FH_NOTEBOOK_NOTEBOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "journal/event.h"
#include "journal/timeline.h"
#include "notebook/document.h"

struct notebook;

/* What becomes of cells that were rolled back. */
enum notebook_rolled_back {
	NOTEBOOK_AS_SAID, /* by the session's own wish: `notebook.rolled_back` of its first event */
	NOTEBOOK_OMIT,    /* which is also the wish of a session that says nothing */
	NOTEBOOK_KEEP
};

/* "omit" and "keep"; anything else, NULL too, is NOTEBOOK_AS_SAID. */
enum notebook_rolled_back notebook_rolled_back_from_name(const char *name);

struct notebook *notebook_new(void);
void notebook_free(struct notebook *notebook);

/* Takes an event (values inline). Parts of event->body are shared, not copied: nobody may change
 * them afterwards. Never fails on hostile content: what cannot be in a notebook is converted (a
 * JSON value under a text mime type becomes its JSON text) or left out. */
void notebook_apply(struct notebook *notebook, const struct event *event);

/* Adds a cell of a notebook that was read, whether or not it is run: events whose `cell` is its id
 * then go to it. `outputs`: with the outputs and the count it had. Parts of it are shared, not
 * copied. It is never left out nor marked: it is not ours. */
void notebook_take(struct notebook *notebook, const struct document_cell *cell, bool outputs);

/* How notebook_write() prints cells that were rolled back, from now on. */
void notebook_set_rolled_back(struct notebook *notebook, enum notebook_rolled_back what);

/* From now on cells that are added get no metadata.execution. */
void notebook_omit_timing(struct notebook *notebook);

/* Whether anything changed since the last notebook_write(). */
bool notebook_changed(const struct notebook *notebook);

/* Appends the whole file, LF at the end. */
void notebook_write(struct notebook *notebook, struct buf *out);

/* The notebook as nbformat.read() gives it: multi-line strings joined. One compact JSON text.
 * `what`: NOTEBOOK_AS_SAID for as notebook_write() has it. */
void notebook_write_joined(struct notebook *notebook, enum notebook_rolled_back what,
			   struct buf *out);

/* Appends the outputs of the cell with this event id, left out or not and without a mark, as in
 * notebook_write_joined(): a JSON array. False when there is no such cell. */
bool notebook_write_outputs(struct notebook *notebook, const char *cell, struct buf *out);

/* What has become of the cell with this event id (timeline.h); NULL: there is none. Borrowed. */
const struct timeline_cell *notebook_fate(const struct notebook *notebook, const char *cell);

/* Of those that notebook_write() prints. */
size_t notebook_cell_count(const struct notebook *notebook);

#endif
