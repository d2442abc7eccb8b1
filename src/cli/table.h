/*
 * Tables for people: columns of escaped text.
 */
#ifndef FH_CLI_TABLE_H
#define FH_CLI_TABLE_H

#include <stdint.h>

#include "base/buf.h"

/* Appends text, escaped, padded to `width` characters and two blanks; what is wider is followed by
 * one. */
void table_cell(struct buf *out, const char *text, size_t width);

/* Pads what was appended since `start` (a length of the buffer) so. */
void table_pad(struct buf *out, size_t start, size_t width);

/* Appends a size: "512B", "1.5K", "20M" (powers of 1,024). */
void table_size(struct buf *out, int64_t bytes);

#endif
