/*
 * Lines: what the journal's files know about the text of an event without parsing it.
 *
 * Private to src/journal. Every line that Fumehood writes begins {"seq":N,"t":"...","type":"..." in
 * this order, so a reader that only passes lines on finds their number in the first bytes.
 */
#ifndef FH_JOURNAL_LINE_H
#define FH_JOURNAL_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "journal/event.h"

enum { LINE_SEQ_BYTES_MAX = 32 }; /* the seq of a line stands within its first 32 bytes */

/* Appends the line up to and with its cell (and, for a stream, its own fields): everything but the
 * body, the closing brace and the LF. Returns how many U+FFFD were put in for bad UTF-8. */
size_t line_write_head(struct buf *out, const struct event *event);

/* Whether `key` is written by line_write_head() and so cannot be a field of the body. */
bool line_is_head_key(const char *key, size_t len);

/* The positive seq that a line begins with, or 0. `len` may cut the line anywhere. */
uint64_t line_seq(const char *line, size_t len);

/* As line_seq for a whole line without its LF, 0 also when it can not be passed on as it is:
 * another beginning than Fumehood writes, no closing brace, control characters, bad UTF-8. */
uint64_t line_seq_whole(const char *line, size_t len);

#endif
