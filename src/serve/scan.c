/*
 * A look at the beginning of a line; see scan.h.
 */
#include "serve/scan.h"

#include <string.h>

#include "base/buf.h"

/* Moves *at behind `text`, if that is there. */
static bool take(const char **at, const char *end, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0)
		return false;
	*at += len;
	return true;
}

static bool take_number(const char **at, const char *end, uint64_t *number)
{
	const char *start = *at;

	*number = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - start < 18)
		*number = *number * 10 + (uint64_t)(*(*at)++ - '0');
	return *at > start;
}

/* A string without escapes, of which *at is behind the first quote; ends behind the last. */
static bool take_word(const char **at, const char *end, struct slice *word)
{
	const char *start = *at;

	while (*at < end && **at != '"' && **at != '\\' && (unsigned char)**at >= ' ')
		(*at)++;
	*word = (struct slice){start, (size_t)(*at - start)};
	return take(at, end, "\"");
}

static bool scan_event(const char *at, const char *end, struct scan *scan)
{
	struct slice time;

	if (!take(&at, end, "{\"seq\":") || !take_number(&at, end, &scan->seq) ||
	    !take(&at, end, ",\"t\":\"") || !take_word(&at, end, &time) ||
	    !take(&at, end, ",\"type\":\"") || !take_word(&at, end, &scan->type))
		return false;
	if (take(&at, end, ",\"cell\":\"") && !take_word(&at, end, &scan->cell))
		scan->cell.len = 0;
	return true;
}

static bool scan_answer(const char *at, const char *end, struct scan *scan)
{
	if (take(&at, end, "{\"type\":\"reply\",\"id\":"))
		scan->kind = SCAN_REPLY;
	else if (take(&at, end, "{\"type\":\"refused\",\"id\":"))
		scan->kind = SCAN_REFUSED;
	else
		return false;
	if (take(&at, end, "\"")) {
		if (!take_word(&at, end, &scan->id))
			return false;
	} else if (!take(&at, end, "null") && !take_number(&at, end, &scan->number)) {
		return false;
	}
	scan->rest = (struct slice){at, (size_t)(end - at)};
	return at < end && (*at == ',' || *at == '}') && end[-1] == '}';
}

void scan_line(const char *line, size_t len, struct scan *scan)
{
	*scan = (struct scan){.kind = SCAN_EVENT};
	if (scan_event(line, line + len, scan))
		return;
	*scan = (struct scan){.kind = SCAN_OTHER};
	if (scan_answer(line, line + len, scan))
		return;
	*scan = (struct scan){.kind = SCAN_OTHER};
}

void scan_put_rest(struct buf *out, const struct scan *scan)
{
	buf_append_char(out, '{');
	if (scan->rest.len > 1)
		buf_append(out, scan->rest.at + 1, scan->rest.len - 1);
	else
		buf_append_char(out, '}');
}
