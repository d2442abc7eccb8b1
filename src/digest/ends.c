/*
 * Both ends of a growing text. The tail is trimmed to `keep` code points when it holds twice as
 * many, so each byte is moved at most once more: appending is linear.
 *
 * Invariant: when total == head_count + tail_count nothing lies between head and tail and the two
 * together are the text; otherwise the tail holds at least `keep` code points or `lost` is set.
 */
#include "digest/ends.h"

#include <assert.h>

#include "base/mem.h"
#include "base/text.h"

void ends_init(struct ends *ends, size_t keep)
{
	assert(keep > 0 && keep < SIZE_MAX / 16);
	*ends = (struct ends){.keep = keep, .head = BUF_INIT, .tail = BUF_INIT};
}

void ends_release(struct ends *ends)
{
	buf_release(&ends->head);
	buf_release(&ends->tail);
}

void ends_clear(struct ends *ends)
{
	buf_clear(&ends->head);
	buf_clear(&ends->tail);
	ends->head_count = 0;
	ends->tail_count = 0;
	ends->total = 0;
	ends->lost = false;
}

static void put_tail(struct ends *ends, const char *text, size_t len, size_t count)
{
	if (count > ends->keep) {
		/* The text fills the tail by itself: nothing older is needed. */
		size_t from = cut_offset(text, len, count - ends->keep);

		buf_clear(&ends->tail);
		buf_append(&ends->tail, text + from, len - from);
		ends->tail_count = ends->keep;
		return;
	}
	buf_append(&ends->tail, text, len);
	ends->tail_count += count;
	if (ends->tail_count > 2 * ends->keep) {
		buf_consume(&ends->tail, cut_offset(buf_bytes(&ends->tail), ends->tail.len,
						    ends->tail_count - ends->keep));
		ends->tail_count = ends->keep;
	}
}

void ends_put(struct ends *ends, const char *text, size_t len)
{
	size_t count = text_count(text, len);
	size_t room = ends->lost ? 0 : ends->keep - ends->head_count;

	ends->total += count;
	if (room > 0) {
		size_t taken = count <= room ? len : cut_offset(text, len, room);

		buf_append(&ends->head, text, taken);
		ends->head_count += count < room ? count : room;
		if (taken == len)
			return;
		text += taken;
		len -= taken;
		count -= room;
	}
	put_tail(ends, text, len, count);
}

void ends_skip(struct ends *ends, uint64_t points)
{
	if (points == 0)
		return;
	ends->total += points;
	ends->lost = true;
	buf_clear(&ends->tail);
	ends->tail_count = 0;
}

void ends_copy(struct ends *ends, const struct ends *from)
{
	assert(ends->total == 0 && ends->keep == from->keep);
	buf_append(&ends->head, buf_bytes(&from->head), from->head.len);
	buf_append(&ends->tail, buf_bytes(&from->tail), from->tail.len);
	ends->head_count = from->head_count;
	ends->tail_count = from->tail_count;
	ends->total = from->total;
	ends->lost = from->lost;
}

/* Puts a head out of `first` and a tail out of `last` together; the two may be the same bytes. */
static struct piece join(const struct ends *ends, const struct buf *first, const struct buf *last,
			 const char *whole)
{
	struct piece piece = {0};
	cleanup_buf struct buf text = BUF_INIT;
	size_t room = cut_line_room(ends->total, 0, ends->keep, whole);
	size_t budget = ends->keep - room;
	size_t end = cut_head(buf_bytes(first), first->len, budget - budget / 2);
	size_t begin = cut_tail(buf_bytes(last), last->len, budget / 2);

	buf_append(&text, buf_bytes(first), end);
	piece.gap_at = text.len;
	buf_append(&text, buf_bytes(last) + begin, last->len - begin);
	piece.chars = text_count(buf_bytes(&text), text.len);
	piece.left_out = ends->total - piece.chars;
	piece.text = buf_take(&text, &piece.len);
	return piece;
}

struct piece ends_piece(const struct ends *ends, const char *whole)
{
	cleanup_buf struct buf all = BUF_INIT;
	struct piece piece = {0};

	if (!ends->lost && ends->total <= ends->keep) {
		piece.text = mem_copy(buf_bytes(&ends->head), ends->head.len);
		piece.len = ends->head.len;
		piece.gap_at = piece.len;
		piece.chars = ends->total;
		return piece;
	}
	if (ends->total > ends->head_count + ends->tail_count)
		return join(ends, &ends->head, &ends->tail, whole);
	buf_append(&all, buf_bytes(&ends->head), ends->head.len);
	buf_append(&all, buf_bytes(&ends->tail), ends->tail.len);
	return join(ends, &all, &all, whole);
}
