/*
 * Figures in the text for a model: counts with commas, sizes in decimal units, seconds.
 *
 * A model reads these lines, not a parser; so a form that is short and plain to it wins over one
 * that can be read back exactly.
 */
#ifndef FH_DIGEST_FIGURE_H
#define FH_DIGEST_FIGURE_H

#include <stdint.h>

#include "base/buf.h"

/* Appends 1234567 as "1,234,567". */
void figure_count(struct buf *out, uint64_t count);

/* Appends a size: "999 B", "23.4 kB", "5.0 MB", "1.2 GB" (powers of 1,000). */
void figure_bytes(struct buf *out, uint64_t bytes);

/* Appends a time: "1 s", "1.5 s", "300 s", "0.05 s"; at most three digits behind the point. */
void figure_seconds(struct buf *out, double seconds);

#endif
