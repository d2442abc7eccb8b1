/*
 * Figures in the text for a model. No locale takes part: digits are grouped by hand, since printf's
 * own grouping depends on the process.
 */
#include "digest/figure.h"

#include <stddef.h>

void figure_count(struct buf *out, uint64_t count)
{
	char digits[27]; /* 20 digits of 2^64 and 6 commas */
	size_t at = sizeof(digits);
	unsigned written = 0;

	do {
		if (written > 0 && written % 3 == 0)
			digits[--at] = ',';
		digits[--at] = (char)('0' + count % 10);
		count /= 10;
		written++;
	} while (count > 0);
	buf_append(out, digits + at, sizeof(digits) - at);
}

void figure_bytes(struct buf *out, uint64_t bytes)
{
	static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
	double value = (double)bytes / 1000;
	size_t unit = 0;

	if (bytes < 1000) {
		buf_printf(out, "%u B", (unsigned)bytes);
		return;
	}
	/* 999.95 would print as 1000.0: the next unit begins where rounding does. */
	while (value >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1000;
		unit++;
	}
	buf_printf(out, "%.1f %s", value, units[unit]);
}

void figure_seconds(struct buf *out, double seconds)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%.3f", seconds < 1e15 ? seconds : 1e15);
	size_t end = len > 0 && (size_t)len < sizeof(text) ? (size_t)len : 0;

	while (end > 0 && text[end - 1] == '0')
		end--;
	if (end > 0 && text[end - 1] == '.')
		end--;
	buf_append(out, text, end);
	buf_append_string(out, " s");
}
