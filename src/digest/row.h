/*
 * The line on which a terminal's cursor stands, in bounded memory.
 *
 * JupyterLab's rule: text overwrites at the cursor and appends at the end, CR moves the cursor to
 * the start and erases nothing, BS deletes the code point before the cursor. (The notebook keeps to
 * the same rule, so what a person reads there is what the model reads here.) One cell is one code
 * point.
 *
 * Of a long line the first `keep` cells and the last `keep` to 2 * `keep` are held; the cells
 * between are counted. What is written over a cell that is not held is forgotten, as that cell was.
 */
#ifndef FH_DIGEST_ROW_H
#define FH_DIGEST_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest/ends.h"

struct row {
	size_t keep;
	uint32_t *head;
	size_t head_len;
	size_t head_cap;
	uint64_t lost; /* cells between head and tail */
	uint32_t *tail;
	size_t tail_len;
	size_t tail_cap;
	uint64_t cursor; /* <= row_length() */
};

void row_init(struct row *row, size_t keep);
void row_release(struct row *row);
void row_clear(struct row *row); /* empty, cursor at the start, memory kept */
uint64_t row_length(const struct row *row);

void row_put(struct row *row, uint32_t point);
void row_return(struct row *row);    /* CR */
void row_back(struct row *row);      /* BS */
void row_erase_end(struct row *row); /* ESC [ K: from the cursor on */

/* Appends the line, without LF. */
void row_write(const struct row *row, struct ends *out);

#endif
