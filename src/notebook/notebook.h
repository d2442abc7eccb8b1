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
 *   note        a markdown cell of `text`, or raw (`cell_type`), with `id`, `attachments` and
 *               `metadata` if given
 *   cell        a code cell: id, source = code, metadata of the event if any
 *   started     execution.iopub.execute_input and iopub.status.busy: its time
 *   stream, display, update_display, result, error, clear, truncated
 *               outputs of the event's cell, also after its finished
 *   finished    execution_count, the other times; status died, timeout, interrupted, cancelled
 *               without an `error` event gets an `error` output that says so
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
#include "notebook/document.h"

struct notebook;

struct notebook *notebook_new(void);
void notebook_free(struct notebook *notebook);

/* Takes an event (values inline). Parts of event->body are shared, not copied: nobody may change
 * them afterwards. Never fails on hostile content: what cannot be in a notebook is converted (a
 * JSON value under a text mime type becomes its JSON text) or left out. */
void notebook_apply(struct notebook *notebook, const struct event *event);

/* Adds a cell of a notebook that was read, whether or not it is run: events whose `cell` is its id
 * then go to it. `outputs`: with the outputs and the count it had. Parts of it are shared, not
 * copied. */
void notebook_take(struct notebook *notebook, const struct document_cell *cell, bool outputs);

/* From now on cells that are added get no metadata.execution. */
void notebook_omit_timing(struct notebook *notebook);

/* Whether anything changed since the last notebook_write(). */
bool notebook_changed(const struct notebook *notebook);

/* Appends the whole file, LF at the end. */
void notebook_write(struct notebook *notebook, struct buf *out);

/* The notebook as nbformat.read() gives it: multi-line strings joined. One compact JSON text. */
void notebook_write_joined(struct notebook *notebook, struct buf *out);

size_t notebook_cell_count(const struct notebook *notebook);

#endif
