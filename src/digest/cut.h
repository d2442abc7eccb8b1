/*
 * Cutting in the middle: where head and tail end, and the line that says what is missing.
 *
 * A cut never splits a grapheme (base/text.h). It falls at the end of a line when one is near,
 * since half a line misleads: "row 12" out of "row 1234" reads as a fact.
 */
#ifndef FH_DIGEST_CUT_H
#define FH_DIGEST_CUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A text that may lack its middle: of what stood between text[gap_at - 1] and text[gap_at],
 * `left_out` code points are missing (0: the text is whole). `text` is owned, from malloc. */
struct piece {
	char *text;
	size_t len;
	size_t gap_at;
	uint64_t chars; /* code points of `text` */
	uint64_t left_out;
};

void piece_release(struct piece *piece);
struct piece piece_copy(const struct piece *piece);

/* Bytes of the head: at most `points` code points of `text`. */
size_t cut_head(const char *text, size_t len, size_t points);

/* Byte offset at which the tail begins: at most `points` code points behind it. */
size_t cut_tail(const char *text, size_t len, size_t points);

/* The byte offset behind the first `points` code points (len when there are fewer). */
size_t cut_offset(const char *text, size_t len, uint64_t points);

/*
 * Appends the line that stands for a gap of `chars` code points, the longest of these forms that
 * has at most `room` code points with the LF before and behind it (the one before is left out when
 * `out` is empty or ends with LF):
 *
 *	[... 123,456 characters left out; the whole is in: WHOLE ...]
 *	[... 123,456 characters left out ...]
 *	[... 123,456 left out ...]
 *	[...]
 *	…             (without LF, in the line)
 *
 * With `outputs` > 0 the first two say "12 outputs with 123,456 characters". `whole` may be NULL.
 * Room 0 appends nothing. Returns the code points that it may take, both LF counted.
 */
size_t cut_line(struct buf *out, uint64_t chars, uint64_t outputs, size_t room, const char *whole);

/* The code points to set aside for such a line in a text of at most `limit`: no more than half of
 * it (but 1 when the limit is not 0), so that something of the text itself is left. `chars` is an
 * upper bound. */
size_t cut_line_room(uint64_t chars, uint64_t outputs, size_t limit, const char *whole);

#endif
