/*
 * The page: a buffer and the list of its gap lines, sorted by offset because pieces come in order.
 */
#include "digest/page.h"

#include <assert.h>

#include "base/mem.h"
#include "base/text.h"

void page_init(struct page *page, const char *whole)
{
	*page = (struct page){.text = BUF_INIT, .whole = whole};
}

void page_release(struct page *page)
{
	buf_release(&page->text);
	free(page->gaps);
	*page = (struct page){.text = BUF_INIT};
}

void page_break(struct page *page)
{
	if (page->text.len > 0 && buf_bytes(&page->text)[page->text.len - 1] != '\n')
		buf_append_char(&page->text, '\n');
}

void page_puts(struct page *page, const char *string)
{
	buf_append_string(&page->text, string);
}

void page_gap(struct page *page, uint64_t chars, uint64_t outputs, size_t room)
{
	size_t at = page->text.len;

	cut_line(&page->text, chars, outputs, room, page->whole);
	if (page->gap_count == page->gap_cap) {
		page->gap_cap = page->gap_cap ? 2 * page->gap_cap : 8;
		page->gaps = mem_resize(page->gaps, page->gap_cap, sizeof(*page->gaps));
	}
	page->gaps[page->gap_count++] = (struct page_gap){
		.at = at,
		.len = page->text.len - at,
		.chars = chars,
		.outputs = outputs,
	};
}

void page_piece(struct page *page, const struct piece *piece, size_t limit)
{
	buf_append(&page->text, piece->text, piece->gap_at);
	if (piece->left_out > 0)
		page_gap(page, piece->left_out, 0, limit - (size_t)piece->chars);
	buf_append(&page->text, piece->text + piece->gap_at, piece->len - piece->gap_at);
}

static void trim(struct page *page)
{
	size_t len = page->text.len;

	while (len > 0 && buf_bytes(&page->text)[len - 1] == '\n')
		len--;
	buf_truncate(&page->text, len);
	for (size_t i = page->gap_count;
	     i > 0 && page->gaps[i - 1].at + page->gaps[i - 1].len > len; i--) {
		struct page_gap *gap = &page->gaps[i - 1];

		gap->at = gap->at < len ? gap->at : len;
		gap->len = len - gap->at;
	}
}

/* Moves both ends of the cut out of gap lines, and over those that would touch the new one. */
static void widen(const struct page *page, size_t *end, size_t *begin)
{
	for (size_t i = page->gap_count; i > 0; i--) {
		const struct page_gap *gap = &page->gaps[i - 1];

		if (gap->at < *end && *end <= gap->at + gap->len)
			*end = gap->at;
	}
	for (size_t i = 0; i < page->gap_count; i++) {
		const struct page_gap *gap = &page->gaps[i];

		if (gap->at <= *begin && *begin < gap->at + gap->len)
			*begin = gap->at + gap->len;
	}
}

/* What is missing when text[end..begin) goes, the gaps in it counted for what they stand for. */
static struct page_gap missing(const struct page *page, size_t end, size_t begin)
{
	const char *text = buf_bytes(&page->text);
	struct page_gap sum = {.chars = text_count(text + end, begin - end)};

	for (size_t i = 0; i < page->gap_count; i++) {
		const struct page_gap *gap = &page->gaps[i];

		if (gap->at < end || gap->at + gap->len > begin)
			continue;
		sum.chars -= text_count(text + gap->at, gap->len);
		sum.chars += gap->chars;
		sum.outputs += gap->outputs;
	}
	return sum;
}

void page_finish(struct page *page, size_t limit, struct buf *out)
{
	cleanup_buf struct buf cut = BUF_INIT;
	struct page_gap most;
	struct page_gap gap;
	const char *text;
	size_t budget;
	size_t end;
	size_t begin;
	size_t len;
	size_t shown;

	assert(limit > 0);
	trim(page);
	text = buf_bytes(&page->text);
	len = page->text.len;
	if (text_count(text, len) <= limit) {
		buf_append(out, text, len);
		return;
	}
	most = missing(page, 0, len);
	budget = limit - cut_line_room(most.chars, most.outputs, limit, page->whole);
	end = cut_head(text, len, budget - budget / 2);
	begin = cut_tail(text, len, budget / 2);
	widen(page, &end, &begin);
	gap = missing(page, end, begin);
	shown = text_count(text, end) + text_count(text + begin, len - begin);
	buf_append(&cut, text, end);
	cut_line(&cut, gap.chars, gap.outputs, limit - shown, page->whole);
	buf_append(&cut, text + begin, len - begin);
	/* The line about the gap comes last, with its LF, when nothing of the tail was short
	 * enough. */
	while (cut.len > 0 && buf_bytes(&cut)[cut.len - 1] == '\n')
		buf_truncate(&cut, cut.len - 1);
	buf_append(out, buf_bytes(&cut), cut.len);
}
