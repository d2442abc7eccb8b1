/*
 * The text of one stream output, as JupyterLab keeps it.
 *
 * Text goes in at a cursor and overwrites what is there; LF goes to the end of the text and puts
 * a line feed there; CR moves to the start of the line and erases nothing; BS deletes the
 * character before the cursor, but no line feed (@jupyterlab/outputarea 4.6, model.js,
 * processText). Every other byte, ESC too, is a character like any other. Positions count code
 * points, where JupyterLab counts UTF-16 units, so that no character is ever cut in half. One
 * difference is meant: inside a line JupyterLab's BS also drops the character under the cursor;
 * here it deletes one character.
 */
#ifndef FH_NOTEBOOK_STREAM_H
#define FH_NOTEBOOK_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* [0, front) is the text before the cursor, the last `back` bytes of `cap` are the text behind
 * it. */
struct stream {
	char *bytes;
	size_t cap;
	size_t front;
	size_t back;
	size_t line; /* where the line of the cursor starts, <= front */
};

#define STREAM_INIT \
	{ \
		.bytes = NULL, .cap = 0, .front = 0, .back = 0, .line = 0 \
	}

void stream_release(struct stream *stream);

/* Adds valid UTF-8 at the cursor. Costs time in proportion to `len`, amortised, whatever is in
 * the stream. */
void stream_add(struct stream *stream, const char *text, size_t len);

/* Whether the last line is empty, so that what is added now starts a line. */
bool stream_at_line_start(const struct stream *stream);

size_t stream_length(const struct stream *stream); /* bytes */

/* The text in one piece: `scratch` is used when the cursor stands inside a line. Valid until the
 * next change of either. */
const char *stream_text(const struct stream *stream, struct buf *scratch);

#endif
