/*
 * Cutting in the middle. The forms of the line about a gap are tried from the longest on, so that
 * even a limit of a few characters gives a text that says that it was cut, and no caller needs a
 * case for it.
 */
#include "digest/cut.h"

#include <stdbool.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/figure.h"

enum { FORM_WHOLE, FORM_WORDS, FORM_COUNT, FORM_DOTS, FORM_MARK, FORM_END };

/* A line end is taken instead of the exact place when it costs no more than this part of the
 * share. */
enum { SNAP_PART = 4 };

void piece_release(struct piece *piece)
{
	free(piece->text);
	*piece = (struct piece){0};
}

struct piece piece_copy(const struct piece *piece)
{
	struct piece copy = *piece;

	copy.text = mem_copy(piece->text, piece->len);
	return copy;
}

size_t cut_head(const char *text, size_t len, size_t points)
{
	size_t end = text_prefix(text, len, points);
	size_t near = points / SNAP_PART;

	if (end == len)
		return end;
	for (size_t back = 0; back <= near && back < end; back++)
		if (text[end - back - 1] == '\n')
			return end - back;
	return end;
}

size_t cut_tail(const char *text, size_t len, size_t points)
{
	size_t begin = text_suffix(text, len, points);
	size_t near = points / SNAP_PART;

	if (begin == 0 || text[begin - 1] == '\n')
		return begin;
	/* A line end that is the last byte would leave nothing. */
	for (size_t on = 0; on <= near && begin + on + 1 < len; on++)
		if (text[begin + on] == '\n')
			return begin + on + 1;
	return begin;
}

size_t cut_offset(const char *text, size_t len, uint64_t points)
{
	size_t at = 0;

	for (uint64_t passed = 0; at < len && passed < points; passed++) {
		at++;
		while (at < len && ((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
	}
	return at;
}

static void write_count(struct buf *out, uint64_t chars, uint64_t outputs)
{
	if (outputs > 0) {
		figure_count(out, outputs);
		buf_append_string(out, outputs == 1 ? " output with " : " outputs with ");
	}
	figure_count(out, chars);
	buf_append_string(out, chars == 1 ? " character" : " characters");
}

static void write_form(struct buf *out, int form, uint64_t chars, uint64_t outputs,
		       const char *whole)
{
	if (form == FORM_MARK) {
		buf_append_string(out, "\xe2\x80\xa6");
		return;
	}
	if (form == FORM_DOTS) {
		buf_append_string(out, "[...]");
		return;
	}
	buf_append_string(out, "[... ");
	if (form == FORM_COUNT)
		figure_count(out, chars);
	else
		write_count(out, chars, outputs);
	buf_append_string(out, " left out");
	if (form == FORM_WHOLE) {
		buf_append_string(out, "; the whole is in: ");
		buf_append_string(out, whole);
	}
	buf_append_string(out, " ...]");
}

size_t cut_line(struct buf *out, uint64_t chars, uint64_t outputs, size_t room, const char *whole)
{
	cleanup_buf struct buf line = BUF_INIT;

	for (int form = whole ? FORM_WHOLE : FORM_WORDS; form < FORM_END; form++) {
		size_t around = form == FORM_MARK ? 0 : 2;
		size_t points;

		buf_clear(&line);
		write_form(&line, form, chars, outputs, whole);
		points = text_count(buf_bytes(&line), line.len) + around;
		if (points > room)
			continue;
		if (around && out->len > 0 && buf_bytes(out)[out->len - 1] != '\n')
			buf_append_char(out, '\n');
		buf_append(out, buf_bytes(&line), line.len);
		if (around)
			buf_append_char(out, '\n');
		return points;
	}
	return 0;
}

size_t cut_line_room(uint64_t chars, uint64_t outputs, size_t limit, const char *whole)
{
	cleanup_buf struct buf line = BUF_INIT;

	return cut_line(&line, chars, outputs, limit > 1 ? limit / 2 : limit, whole);
}
