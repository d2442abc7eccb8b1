/*
 * A PNG as sixels, by the helper program fumehood-sixel, which is optional: it is built where
 * libsixel and libpng are there.
 */
#ifndef FH_CLI_SIXEL_H
#define FH_CLI_SIXEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { SIXEL_WAIT_MS = 5000, SIXEL_BYTES_MAX = 32 << 20, SIXEL_WIDTH_MAX = 10000 };

/* Whether the helper is installed. */
bool sixel_is_there(void);

/*
 * Appends the sequence that shows the image, at most `width_max` pixels wide (1 to
 * SIXEL_WIDTH_MAX). ERR_INVALID when the bytes are no such image or what came back is no sixels,
 * ERR_TIMEOUT after SIXEL_WAIT_MS, ERR_NOT_FOUND without the helper; then nothing is appended.
 */
int sixel_from_png(struct buf *out, const char *png, size_t len, unsigned width_max,
		   struct err *err);

/* Whether the bytes are one sixel sequence (DEC VT330/340 programmer reference, chapter 14) and
 * nothing else: ESC P, printable ASCII and line breaks, ESC \. */
bool sixel_is_sequence(const char *bytes, size_t len);

#endif
