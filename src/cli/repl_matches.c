/*
 * Matches of a completion. See repl_matches.h.
 */
#include "cli/repl_matches.h"

#include "base/mem.h"
#include "base/text.h"

enum { GAP = 2 };

static bool can_be_typed(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return len > 0;
}

void repl_matches_read(struct repl_matches *matches, const struct json *answer)
{
	const struct json *texts = json_get(answer, "matches");
	size_t count = json_length(texts);
	int64_t start = json_get_int(answer, "cursor_start", 0);
	int64_t end = json_get_int(answer, "cursor_end", 0);

	*matches = (struct repl_matches)REPL_MATCHES_INIT;
	if (start < 0 || end < start)
		return;
	matches->start = (size_t)start;
	matches->end = (size_t)end;
	if (count > REPL_MATCHES_MAX)
		count = REPL_MATCHES_MAX;
	matches->texts = mem_resize(NULL, count + 1, sizeof(*matches->texts));
	for (size_t i = 0; i < count; i++) {
		size_t len = 0;
		const char *text = json_string(json_at(texts, i), &len);

		if (text && can_be_typed(text, len))
			matches->texts[matches->count++] = text;
	}
}

void repl_matches_release(struct repl_matches *matches)
{
	free(matches->texts);
	*matches = (struct repl_matches)REPL_MATCHES_INIT;
}

size_t repl_matches_common(const struct repl_matches *matches)
{
	size_t common = matches->count ? strlen(matches->texts[0]) : 0;

	for (size_t i = 1; i < matches->count; i++) {
		size_t same = 0;

		while (same < common && matches->texts[0][same] == matches->texts[i][same])
			same++;
		common = same;
	}
	/* Not between the bytes of a code point. */
	while (common && ((unsigned char)matches->texts[0][common] & 0xc0) == 0x80)
		common--;
	return common;
}

void repl_matches_list(const struct repl_matches *matches, size_t width, size_t rows_max,
		       struct buf *out)
{
	size_t widest = 1, columns, rows, shown;

	for (size_t i = 0; i < matches->count; i++) {
		size_t points = text_count(matches->texts[i], strlen(matches->texts[i]));

		widest = points > widest ? points : widest;
	}
	columns = width > widest ? (width - widest) / (widest + GAP) + 1 : 1;
	rows = (matches->count + columns - 1) / columns;
	if (rows > rows_max)
		rows = rows_max;
	shown = rows * columns < matches->count ? rows * columns : matches->count;
	for (size_t row = 0; row < rows; row++) {
		for (size_t i = row; i < shown; i += rows) {
			const char *text = matches->texts[i];
			size_t points = text_count(text, strlen(text));

			text_escape(out, text, strlen(text), false, false);
			if (i + rows < shown)
				buf_printf(out, "%*s", (int)(widest - points + GAP), "");
		}
		buf_append_char(out, '\n');
	}
	if (shown < matches->count)
		buf_printf(out, "... and %zu more\n", matches->count - shown);
}
