/*
 * The cursor's line: a head array, a count, a tail array. Cell n is head[n], or lost, or tail[n -
 * head_len - lost].
 *
 * Appending fills the head, then the tail; a full tail gives its older half to `lost`. Deleting in
 * the head leaves it shorter for good, since the cell that would move up may be lost; so head_len <
 * keep is possible with lost > 0, and appending looks at `lost` and the tail before it uses the
 * head.
 */
#include "digest/row.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { CELLS_MIN = 64 };

void row_init(struct row *row, size_t keep)
{
	*row = (struct row){.keep = keep};
}

void row_release(struct row *row)
{
	free(row->head);
	free(row->tail);
	*row = (struct row){.keep = row->keep};
}

void row_clear(struct row *row)
{
	row->head_len = 0;
	row->lost = 0;
	row->tail_len = 0;
	row->cursor = 0;
}

uint64_t row_length(const struct row *row)
{
	return row->head_len + row->lost + row->tail_len;
}

/* Room for one more cell, doubling up to `max`. */
static void grow(uint32_t **cells, size_t *cap, size_t len, size_t max)
{
	size_t wanted = *cap ? *cap * 2 : CELLS_MIN;

	if (len < *cap)
		return;
	*cap = wanted < max ? wanted : max;
	*cells = mem_resize(*cells, *cap, sizeof(**cells));
}

static void append(struct row *row, uint32_t point)
{
	if (row->lost == 0 && row->tail_len == 0 && row->head_len < row->keep) {
		grow(&row->head, &row->head_cap, row->head_len, row->keep);
		row->head[row->head_len++] = point;
		return;
	}
	if (row->tail_len == 2 * row->keep) {
		memmove(row->tail, row->tail + row->keep, row->keep * sizeof(*row->tail));
		row->tail_len = row->keep;
		row->lost += row->keep;
	}
	grow(&row->tail, &row->tail_cap, row->tail_len, 2 * row->keep);
	row->tail[row->tail_len++] = point;
}

void row_put(struct row *row, uint32_t point)
{
	uint64_t at = row->cursor++;

	if (at < row->head_len)
		row->head[at] = point;
	else if (at >= row_length(row))
		append(row, point);
	else if (at >= row->head_len + row->lost)
		row->tail[at - row->head_len - row->lost] = point;
}

void row_return(struct row *row)
{
	row->cursor = 0;
}

static void delete_cell(uint32_t *cells, size_t *len, size_t at)
{
	memmove(cells + at, cells + at + 1, (*len - at - 1) * sizeof(*cells));
	(*len)--;
}

void row_back(struct row *row)
{
	uint64_t at;

	if (row->cursor == 0)
		return;
	at = --row->cursor;
	if (at < row->head_len)
		delete_cell(row->head, &row->head_len, (size_t)at);
	else if (at < row->head_len + row->lost)
		row->lost--;
	else
		delete_cell(row->tail, &row->tail_len, (size_t)(at - row->head_len - row->lost));
}

void row_erase_end(struct row *row)
{
	uint64_t at = row->cursor;

	if (at <= row->head_len) {
		row->head_len = (size_t)at;
		row->lost = 0;
		row->tail_len = 0;
	} else if (at <= row->head_len + row->lost) {
		row->lost = at - row->head_len;
		row->tail_len = 0;
	} else {
		row->tail_len = (size_t)(at - row->head_len - row->lost);
	}
}

static void write_cells(struct ends *out, const uint32_t *cells, size_t count)
{
	cleanup_buf struct buf text = BUF_INIT;

	for (size_t i = 0; i < count; i++)
		text_put(&text, cells[i]);
	ends_put(out, buf_bytes(&text), text.len);
}

void row_write(const struct row *row, struct ends *out)
{
	write_cells(out, row->head, row->head_len);
	ends_skip(out, row->lost);
	write_cells(out, row->tail, row->tail_len);
}
