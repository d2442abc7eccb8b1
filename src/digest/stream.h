/*
 * What a terminal would show of the bytes that a program wrote, as plain text.
 *
 * Escape sequences are removed, also when they come in pieces: CSI, OSC, DCS, SOS, PM, APC (ECMA-48
 * §5.3 to §5.6, §8.3), two-character ones, and their forms with C1 controls. CR and BS move and
 * delete on the current line (row.h); ESC [ K erases from the cursor on and ESC [ 2 K the whole
 * line, after which writing goes on at its start (a terminal would leave blanks before the cursor,
 * which say nothing). LF and TAB stay; other controls go. Movement between lines is not followed.
 *
 * Memory depends on `keep` alone (ends.h, row.h), time is linear in the bytes written.
 */
#ifndef FH_DIGEST_STREAM_H
#define FH_DIGEST_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest/cut.h"
#include "digest/ends.h"
#include "digest/row.h"

enum screen_state {
	SCREEN_GROUND,
	SCREEN_ESCAPE,      /* behind ESC */
	SCREEN_ESCAPE_MORE, /* behind ESC and an intermediate byte */
	SCREEN_CSI,
	SCREEN_STRING,     /* OSC, DCS, SOS, PM, APC, up to ST or BEL */
	SCREEN_STRING_ESC, /* ESC within one */
};

struct screen {
	struct ends done; /* lines that LF has ended */
	struct row row;   /* the one that can still change */
	enum screen_state state;
	unsigned number; /* of a CSI, its only parameter */
	bool unknown;    /* of a CSI: it has more than digits, so it is none of ours */
	bool redrawn;    /* something that was visible has been overwritten or erased */
};

/* `keep`: code points held at either end, at least 1. */
void screen_init(struct screen *screen, size_t keep);
void screen_release(struct screen *screen);
void screen_clear(struct screen *screen); /* as new, memory kept */

/* Writes valid UTF-8 (a bad byte is shown as U+FFFD). */
void screen_write(struct screen *screen, const char *text, size_t len);
void screen_puts(struct screen *screen, const char *string);

/* Whether anything is to be seen. */
bool screen_is_empty(const struct screen *screen);

/* Whether the cursor stands on a line with something on it. */
bool screen_in_line(const struct screen *screen);

/* The text so far, cut to `keep` code points; the screen stays as it is. `whole` as in
 * ends_piece(). */
struct piece screen_piece(const struct screen *screen, const char *whole);

#endif
