/*
 * The text for a model while it is put together: pieces, the lines about their gaps, and the last
 * cut.
 *
 * A page knows where its gap lines are. So the cut to the total never goes through one of them,
 * what they stand for is counted into the line that replaces them, and no two follow each other.
 */
#ifndef FH_DIGEST_PAGE_H
#define FH_DIGEST_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "digest/cut.h"

struct page_gap {
	size_t at; /* byte offset; the line has its LFs with it */
	size_t len;
	uint64_t chars;
	uint64_t outputs;
};

struct page {
	struct buf text;
	struct page_gap *gaps; /* in order */
	size_t gap_count;
	size_t gap_cap;
	const char *whole; /* as in cut_line(); borrowed */
};

void page_init(struct page *page, const char *whole);
void page_release(struct page *page);

/* Ends the line, if one was begun. */
void page_break(struct page *page);

void page_puts(struct page *page, const char *string);

/* Adds a piece that was cut to `limit` code points. */
void page_piece(struct page *page, const struct piece *piece, size_t limit);

/* Adds a line for a gap; `room` as in cut_line(). */
void page_gap(struct page *page, uint64_t chars, uint64_t outputs, size_t room);

/* Appends the text without LFs at its end, cut to `limit` code points, to `out`. The page's text is
 * trimmed by that, otherwise as it was. */
void page_finish(struct page *page, size_t limit, struct buf *out);

#endif
