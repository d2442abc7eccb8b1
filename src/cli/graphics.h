/*
 * Images on a terminal that can show them.
 *
 * Three protocols: kitty's (escape code APC G, https://sw.kovidgoyal.net/kitty/graphics-protocol/:
 * also Ghostty and Konsole), iTerm2's (OSC 1337 File, https://iterm2.com/documentation-images.html:
 * also WezTerm and mintty), and sixels (foot, mlterm, Windows Terminal, xterm -ti vt340). The first
 * two take the file as it is, in base64, so nothing is decoded here; for sixels a helper does it
 * (sixel.h), and without the helper such terminals get the path, as all others do.
 *
 * The bytes come from the session, so they are checked before they stand in an escape sequence:
 * base64 and nothing else, an image's header, a bounded size.
 */
#ifndef FH_CLI_GRAPHICS_H
#define FH_CLI_GRAPHICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum graphics {
	GRAPHICS_PATH, /* none: the path is all there is */
	GRAPHICS_KITTY,
	GRAPHICS_ITERM,
	GRAPHICS_SIXEL, /* PNG only */
};

enum { GRAPHICS_BASE64_BYTES_MAX = 16 << 20, GRAPHICS_PIXELS_MAX = 10000 /* either side */ };

/*
 * What the terminal on stdin and stdout can do. $FUMEHOOD_IMAGES (path, kitty, iterm, sixel)
 * decides; else variables that terminals set; else the terminal is asked, once, for at most 200 ms.
 * What was typed meanwhile is appended to `typed`. ERR_USAGE when $FUMEHOOD_IMAGES is wrong,
 * ERR_UNSUPPORTED when it is sixel and the helper is missing.
 */
int graphics_detect(enum graphics *graphics, struct buf *typed, struct err *err);

/* From variables alone: 1 when they say it, 0 when the terminal must be asked, -1. `get` is
 * getenv(3). */
int graphics_from_environment(enum graphics *graphics, const char *(*get)(const char *name),
			      struct err *err);

/*
 * Takes the terminal's answers out of what it sent: the answer to the question about kitty's
 * protocol, and to DA1 (ECMA-48 §8.3.24), which every terminal gives, which comes last, and in
 * which 4 stands for sixels (https://invisible-island.net/xterm/ctlseqs, "Send Device Attributes").
 * The rest, what was typed, is left in `bytes`. True when DA1 was there.
 */
bool graphics_take_answers(struct buf *bytes, enum graphics *graphics);

/* Appends the sequence that shows the image, at most `columns` wide (of a terminal that is
 * `width_pixels` wide; 0: not known), and a LF. False, with nothing
 * appended, when it cannot be shown so. */
bool graphics_image(struct buf *out, enum graphics graphics, const char *mime, const char *base64,
		    size_t len, unsigned columns, unsigned width_pixels);

#endif
