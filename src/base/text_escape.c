/*
 * Text for a terminal: what can move the cursor, change the terminal's state or turn text round is
 * shown and not sent.
 *
 * An allow-list, not a deny-list: of the escape sequences only colours and erase-line pass
 * (terminals answer some of the others with bytes typed into the user's shell), and those only when
 * they are complete and short. A C1 control is dangerous coded as UTF-8 too (U+009B is a CSI to
 * some terminals).
 */
#include "base/text.h"

enum { SEQUENCE_MAX = 64 };

/* Bidirectional embeddings, overrides and isolates (UAX #9): they can make text read as other
 * text. */
static bool turns_text(uint32_t point)
{
	return (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/* Length of a harmless escape sequence at the start of the text (which is an ESC), or 0. */
static size_t harmless_sequence(const char *text, size_t len)
{
	size_t i = 2;

	if (len < 3 || text[1] != '[')
		return 0;
	while (i < len && i < SEQUENCE_MAX &&
	       ((text[i] >= '0' && text[i] <= '9') || text[i] == ';'))
		i++;
	if (i == len)
		return 0;
	if (text[i] == 'm')
		return i + 1;
	/* Erase to the end of the line, to its start, or the whole of it. */
	if (text[i] == 'K' && (i == 2 || (i == 3 && text[2] >= '0' && text[2] <= '2')))
		return i + 1;
	return 0;
}

/* How many bytes at the start of the text pass as they are; 0 when the first must be shown
 * escaped. */
static size_t passes(const char *text, size_t len, uint32_t point, size_t step, bool lines,
		     bool colour)
{
	if (point == '\n' || point == '\t')
		return lines ? step : 0;
	if (point == '\r' || point == '\b')
		return colour ? step : 0;
	if (point == 0x1b)
		return colour ? harmless_sequence(text, len) : 0;
	if (point < 0x20 || (point >= 0x7f && point <= 0x9f) || turns_text(point))
		return 0;
	if (point == 0xfffd && step == 1) /* a bad byte; a real U+FFFD has three */
		return 0;
	return step;
}

void text_escape(struct buf *out, const char *text, size_t len, bool lines, bool colour)
{
	size_t good_from = 0; /* bytes from here to i pass and are not yet appended */
	size_t i = 0;

	while (i < len) {
		uint32_t point;
		size_t step, good;

		if (text[i] >= ' ' && text[i] <= '~') {
			i++;
			continue;
		}
		step = text_next(text + i, len - i, &point);
		good = passes(text + i, len - i, point, step, lines, colour);
		if (good > 0) {
			i += good;
			continue;
		}
		buf_append(out, text + good_from, i - good_from);
		if (step == 1)
			buf_printf(out, "\\x%02x", (unsigned)(unsigned char)text[i]);
		else
			buf_printf(out, "\\u{%x}", (unsigned)point);
		i += step;
		good_from = i;
	}
	if (i > good_from)
		buf_append(out, text + good_from, i - good_from);
}
