/*
 * Both ends of a text that only grows: the first and the last `keep` code points, whatever comes
 * between, in memory that depends on `keep` alone.
 *
 * This is why a cell that prints a gigabyte costs the digest some kilobytes. Text of up to `keep`
 * code points is held whole.
 */
#ifndef FH_DIGEST_ENDS_H
#define FH_DIGEST_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "digest/cut.h"

struct ends {
	size_t keep; /* code points held at either end, at least 1 */
	struct buf head;
	size_t head_count; /* code points in `head` */
	struct buf tail;   /* what follows, its last `keep` to 2 * `keep` code points */
	size_t tail_count;
	uint64_t total; /* code points of the text */
	bool lost;      /* some of them were never seen: nothing more goes into the head */
};

void ends_init(struct ends *ends, size_t keep);
void ends_release(struct ends *ends);
void ends_clear(struct ends *ends); /* empty again, memory kept */

/* Appends valid UTF-8. */
void ends_put(struct ends *ends, const char *text, size_t len);

/* Appends `points` code points that nobody knows. */
void ends_skip(struct ends *ends, uint64_t points);

/* Appends all of `from` (with the same `keep`) to the empty `ends`. */
void ends_copy(struct ends *ends, const struct ends *from);

/* The text cut to `keep` code points, together with the line about its gap (cut_line() with what
 * the piece leaves free of `keep`). Owned by the caller. */
struct piece ends_piece(const struct ends *ends, const char *whole);

#endif
