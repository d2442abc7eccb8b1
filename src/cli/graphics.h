/*
 * Images on a terminal that can show them.
 *
 * Two protocols: kitty's (escape code APC G, https://sw.kovidgoyal.net/kitty/graphics-protocol/:
 * also Ghostty and Konsole) and iTerm2's (OSC 1337 File,
 * https://iterm2.com/documentation-images.html: also WezTerm and mintty). Both take the file as it
 * is, in base64, so nothing is decoded here. Sixel would need a decoder for PNG: terminals that
 * have nothing else get the path, as all others do.
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
};

enum { GRAPHICS_BASE64_BYTES_MAX = 16 << 20, GRAPHICS_PIXELS_MAX = 10000 /* either side */ };

/*
 * What the terminal on stdin and stdout can do. $FUMEHOOD_IMAGES (path, kitty, iterm) decides; else
 * variables that terminals set; else the terminal is asked, once, for at most 200 ms. What was
 * typed meanwhile is appended to `typed`. ERR_USAGE or ERR_UNSUPPORTED when $FUMEHOOD_IMAGES is
 * wrong.
 */
int graphics_detect(enum graphics *graphics, struct buf *typed, struct err *err);

/* From variables alone: 1 when they say it, 0 when the terminal must be asked, -1. `get` is
 * getenv(3). */
int graphics_from_environment(enum graphics *graphics, const char *(*get)(const char *name),
			      struct err *err);

/*
 * Takes the terminal's answers out of what it sent: the answer to the question about kitty's
 * protocol, and to DA1 (ECMA-48 §8.3.24), which every terminal gives and which comes last. The
 * rest, what was typed, is left in `bytes`. True when DA1 was there.
 */
bool graphics_take_answers(struct buf *bytes, enum graphics *graphics);

/* Appends the sequence that shows the image, at most `columns` wide, and a LF. False, with nothing
 * appended, when it cannot be shown so. */
bool graphics_image(struct buf *out, enum graphics graphics, const char *mime, const char *base64,
		    size_t len, unsigned columns, unsigned width_pixels);

#endif
