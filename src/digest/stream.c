/*
 * A terminal's view of a byte stream: the state machine of ECMA-48 control functions, reduced to
 * what must be known to leave them out, in front of one line with a cursor.
 *
 *	GROUND --ESC--> ESCAPE --[--> CSI --final byte--> GROUND
 *	                   |--space../--> ESCAPE_MORE --0..~--> GROUND
 *	                   |--] P X ^ _--> STRING --BEL, ST, CAN, SUB--> GROUND
 *	                   `--any other printable--> GROUND
 *
 * A byte that cannot belong to the sequence ends it and is then read as text: a stray ESC must not
 * hide what follows. For the same reason LF ends a string that nobody closed.
 *
 * Most output is plain lines. As long as the current line is empty, whole lines without controls
 * are handed on in one piece instead of cell by cell; that is the difference between 1 and 10 ns a
 * byte.
 */
#include "digest/stream.h"

#include <string.h>

#include "base/text.h"

enum {
	CHAR_BEL = 0x07,
	CHAR_BS = 0x08,
	CHAR_TAB = 0x09,
	CHAR_LF = 0x0a,
	CHAR_CR = 0x0d,
	CHAR_CAN = 0x18,
	CHAR_SUB = 0x1a,
	CHAR_ESC = 0x1b,
	CHAR_DEL = 0x7f,
	C1_DCS = 0x90,
	C1_SOS = 0x98,
	C1_CSI = 0x9b,
	C1_ST = 0x9c,
	C1_OSC = 0x9d,
	C1_PM = 0x9e,
	C1_APC = 0x9f,
};

enum { NUMBER_MAX = 9999 };

void screen_init(struct screen *screen, size_t keep)
{
	*screen = (struct screen){.state = SCREEN_GROUND};
	ends_init(&screen->done, keep);
	row_init(&screen->row, keep);
}

void screen_release(struct screen *screen)
{
	ends_release(&screen->done);
	row_release(&screen->row);
}

void screen_clear(struct screen *screen)
{
	ends_clear(&screen->done);
	row_clear(&screen->row);
	screen->state = SCREEN_GROUND;
	screen->redrawn = false;
}

static void start_csi(struct screen *screen)
{
	screen->state = SCREEN_CSI;
	screen->number = 0;
	screen->unknown = false;
}

static void erase_line(struct screen *screen)
{
	struct row *row = &screen->row;

	if (screen->unknown || (screen->number != 0 && screen->number != 2))
		return;
	if (row_length(row) > 0)
		screen->redrawn = true;
	if (screen->number == 2)
		row_clear(row);
	else
		row_erase_end(row);
}

static void put(struct screen *screen, uint32_t point)
{
	if (screen->row.cursor < row_length(&screen->row))
		screen->redrawn = true;
	row_put(&screen->row, point);
}

static void control(struct screen *screen, uint32_t point)
{
	switch (point) {
	case CHAR_LF:
		/* LF goes to the end of the line first, wherever the cursor is. */
		row_write(&screen->row, &screen->done);
		row_clear(&screen->row);
		ends_put(&screen->done, "\n", 1);
		break;
	case CHAR_CR:
		row_return(&screen->row);
		break;
	case CHAR_BS:
		screen->redrawn |= screen->row.cursor > 0;
		row_back(&screen->row);
		break;
	case CHAR_TAB:
		put(screen, point);
		break;
	case CHAR_ESC:
		screen->state = SCREEN_ESCAPE;
		break;
	case C1_CSI:
		start_csi(screen);
		break;
	case C1_DCS:
	case C1_SOS:
	case C1_OSC:
	case C1_PM:
	case C1_APC:
		screen->state = SCREEN_STRING;
		break;
	default:
		break;
	}
}

static void ground(struct screen *screen, uint32_t point)
{
	screen->state = SCREEN_GROUND;
	if (point < ' ' || (point >= CHAR_DEL && point <= C1_APC))
		control(screen, point);
	else
		put(screen, point);
}

static void escape(struct screen *screen, uint32_t point)
{
	if (point < ' ' || point >= CHAR_DEL) {
		ground(screen, point);
		return;
	}
	if (point < '0') {
		screen->state = SCREEN_ESCAPE_MORE;
		return;
	}
	if (screen->state == SCREEN_ESCAPE && point == '[')
		start_csi(screen);
	else if (screen->state == SCREEN_ESCAPE && strchr("]PX^_", (int)point))
		screen->state = SCREEN_STRING;
	else
		screen->state = SCREEN_GROUND;
}

static void csi(struct screen *screen, uint32_t point)
{
	if (point < ' ' || point >= CHAR_DEL) {
		ground(screen, point);
	} else if (point >= '@') {
		if (point == 'K')
			erase_line(screen);
		screen->state = SCREEN_GROUND;
	} else if (point >= '0' && point <= '9') {
		if (screen->number <= NUMBER_MAX)
			screen->number = screen->number * 10 + (point - '0');
	} else {
		screen->unknown = true;
	}
}

static void control_string(struct screen *screen, uint32_t point)
{
	switch (point) {
	case CHAR_BEL:
	case CHAR_CAN:
	case CHAR_SUB:
	case C1_ST:
		screen->state = SCREEN_GROUND;
		break;
	case CHAR_LF:
		ground(screen, point);
		break;
	case CHAR_ESC:
		screen->state = SCREEN_STRING_ESC;
		break;
	default:
		break;
	}
}

static void step(struct screen *screen, uint32_t point)
{
	switch (screen->state) {
	case SCREEN_GROUND:
		ground(screen, point);
		break;
	case SCREEN_ESCAPE:
	case SCREEN_ESCAPE_MORE:
		escape(screen, point);
		break;
	case SCREEN_CSI:
		csi(screen, point);
		break;
	case SCREEN_STRING:
		control_string(screen, point);
		break;
	case SCREEN_STRING_ESC:
		/* ST is ESC \; ESC and anything else is the start of the next sequence. */
		screen->state = SCREEN_ESCAPE;
		if (point == '\\')
			screen->state = SCREEN_GROUND;
		else
			escape(screen, point);
		break;
	}
}

/* Bytes at the start of `text` that are whole lines without any control but LF and TAB. */
static size_t plain_lines(const char *text, size_t len)
{
	size_t lines = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte == CHAR_LF)
			lines = i + 1;
		else if ((byte < ' ' && byte != CHAR_TAB) || byte == CHAR_DEL)
			break;
		else if (byte == 0xc2 && (i + 1 == len || (unsigned char)text[i + 1] < 0xa0))
			break; /* a C1 control */
	}
	return lines;
}

/* Writes code points until one has ended the current line (or the text ends); returns the bytes
 * taken. */
static size_t write_line(struct screen *screen, const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		uint32_t point;

		at += text_next(text + at, len - at, &point);
		step(screen, point);
		if (point == CHAR_LF)
			break;
	}
	return at;
}

void screen_write(struct screen *screen, const char *text, size_t len)
{
	while (len > 0) {
		size_t taken = 0;

		if (screen->state == SCREEN_GROUND && row_length(&screen->row) == 0) {
			taken = plain_lines(text, len);
			ends_put(&screen->done, text, taken);
		}
		if (taken < len)
			taken += write_line(screen, text + taken, len - taken);
		text += taken;
		len -= taken;
	}
}

void screen_puts(struct screen *screen, const char *string)
{
	screen_write(screen, string, strlen(string));
}

bool screen_is_empty(const struct screen *screen)
{
	return screen->done.total == 0 && row_length(&screen->row) == 0;
}

bool screen_in_line(const struct screen *screen)
{
	return row_length(&screen->row) > 0;
}

struct piece screen_piece(const struct screen *screen, const char *whole)
{
	struct piece piece;
	struct ends all;

	if (!screen_in_line(screen))
		return ends_piece(&screen->done, whole);
	ends_init(&all, screen->done.keep);
	ends_copy(&all, &screen->done);
	row_write(&screen->row, &all);
	piece = ends_piece(&all, whole);
	ends_release(&all);
	return piece;
}
