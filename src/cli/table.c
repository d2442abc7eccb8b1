/*
 * Columns. See table.h.
 */
#include "cli/table.h"

#include <string.h>

#include "base/text.h"

void table_pad(struct buf *out, size_t start, size_t width)
{
	size_t count = text_count(buf_bytes(out) + start, out->len - start);

	/* At least one, behind what is wider than its column. */
	do
		buf_append_char(out, ' ');
	while (++count < width + 2);
}

void table_cell(struct buf *out, const char *text, size_t width)
{
	size_t start = out->len;

	text_escape(out, text, strlen(text), false, false);
	table_pad(out, start, width);
}

void table_size(struct buf *out, int64_t bytes)
{
	static const char *const units[] = {"B", "K", "M", "G", "T"};
	double size = (double)bytes;
	size_t unit = 0;

	while (size >= 1024 && unit < 4) {
		size /= 1024;
		unit++;
	}
	buf_printf(out, size < 10 && unit ? "%.1f%s" : "%.0f%s", size, units[unit]);
}
