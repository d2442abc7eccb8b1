/*
 * Printing a notebook exactly as nbformat.write() does.
 *
 * nbformat writes json.dumps(notebook, indent=1, sort_keys=True, separators=(",", ": "),
 * ensure_ascii=False) after it has split long texts into lists of lines (nbformat/v4/nbjson.py,
 * rwbase.py). A struct emit writes that form piece by piece, so that no tree of the whole
 * notebook has to exist; in the joined form it writes one compact JSON text with the texts in one
 * piece, which is what nbformat.read() gives. The caller opens and closes containers and gives
 * the keys in sorted order.
 */
#ifndef FH_NOTEBOOK_EMIT_H
#define FH_NOTEBOOK_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

/* Python refuses to read an integer with more digits (sys.int_info.default_max_str_digits), so a
 * longer one would make the file unreadable: it is written as a string. */
enum { EMIT_INT_DIGITS_MAX = 4300 };

struct emit {
	struct buf *out; /* borrowed */
	bool joined;
	bool empty;     /* nothing is in the innermost open container yet */
	unsigned depth; /* open containers */
};

/* Scope initialiser for a value that stands `level` containers deep. */
#define EMIT_INIT(buffer, compact, level) \
	{ \
		.out = (buffer), .joined = (compact), .empty = true, .depth = (level) \
	}

/* '[' or '{', and its end: ']' or '}'. */
void emit_open(struct emit *emit, char bracket);
void emit_close(struct emit *emit, char bracket);

/* What stands in front of an element of an array / a member of an object. The value follows. */
void emit_item(struct emit *emit);
void emit_key(struct emit *emit, const char *key);

/* Values. */
void emit_null(struct emit *emit);
void emit_int(struct emit *emit, int64_t value);
void emit_string(struct emit *emit, const char *text, size_t len); /* valid UTF-8 */

/* A text that nbformat keeps as a list of lines: str.splitlines(keepends=True); "" is []. */
void emit_lines(struct emit *emit, const char *text, size_t len);

/* Any JSON value, members sorted by code point; numbers keep their digits. */
void emit_value(struct emit *emit, const struct json *value);

/* A mime bundle as nbformat's schema wants it: under a JSON mime type any value, under every
 * other a text. A list of strings is joined; any other value becomes its JSON text. Text types
 * and image/svg+xml are split into lines. What is no object gives {}. */
void emit_bundle(struct emit *emit, const struct json *data);

/* An `attachments` object: names to mime bundles; what is no bundle is left out. */
void emit_attachments(struct emit *emit, const struct json *attachments);

/* Bytes of the first line of text (len > 0) with its line break, by Python's str.splitlines(). */
size_t emit_line_length(const char *text, size_t len);

#endif
