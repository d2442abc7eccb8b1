/*
 * text/event-stream.
 *
 * Bytes are gathered until a line ends; then the line is understood at once and forgotten. So at
 * most one line and one event's data are held, each within SSE_EVENT_BYTES_MAX.
 */
#include "model/sse.h"

#include <string.h>

static const char BOM[] = "\xEF\xBB\xBF";

static void forget(struct sse *sse)
{
	buf_clear(&sse->data);
	sse->has_data = false;
	sse->type[0] = '\0';
}

static int dispatch(struct sse *sse, bool unfinished, sse_visit *visit, void *context)
{
	struct sse_event event = {
		.type = sse->type[0] ? sse->type : "message",
		.data = buf_bytes(&sse->data),
		.len = sse->data.len,
		.unfinished = unfinished,
	};
	int answer = sse->has_data ? visit(context, &event) : 0;

	forget(sse);
	return answer;
}

static int add_data(struct sse *sse, const char *value, size_t len, struct err *err)
{
	if (sse->data.len + len + 1 > SSE_EVENT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "an event of the stream has more than %d MiB",
			       SSE_EVENT_BYTES_MAX >> 20);
	if (sse->has_data)
		buf_append_char(&sse->data, '\n');
	buf_append(&sse->data, value, len);
	sse->has_data = true;
	return 0;
}

static int take_field(struct sse *sse, const char *line, size_t len, struct err *err)
{
	const char *colon = memchr(line, ':', len);
	size_t name_len = colon ? (size_t)(colon - line) : len;
	const char *value = colon ? colon + 1 : line + len;
	size_t value_len = len - (size_t)(value - line);

	if (value_len > 0 && value[0] == ' ') {
		value++;
		value_len--;
	}
	if (name_len == 4 && memcmp(line, "data", 4) == 0)
		return add_data(sse, value, value_len, err);
	if (name_len == 5 && memcmp(line, "event", 5) == 0) {
		if (value_len > SSE_NAME_BYTES_MAX)
			value_len = SSE_NAME_BYTES_MAX;
		memcpy(sse->type, value, value_len);
		sse->type[value_len] = '\0';
	}
	return 0;
}

static int take_line(struct sse *sse, sse_visit *visit, void *context, struct err *err)
{
	const char *line = buf_bytes(&sse->line);
	size_t len = sse->line.len;
	int answer;

	if (!sse->begun && len >= strlen(BOM) && memcmp(line, BOM, strlen(BOM)) == 0) {
		line += strlen(BOM);
		len -= strlen(BOM);
	}
	sse->begun = true;
	if (len == 0)
		answer = dispatch(sse, false, visit, context);
	else if (line[0] == ':')
		answer = 0;
	else
		answer = take_field(sse, line, len, err);
	buf_clear(&sse->line);
	return answer;
}

int sse_feed(struct sse *sse, const void *bytes, size_t len, sse_visit *visit, void *context,
	     struct err *err)
{
	const char *at = bytes;
	const char *end = at + len;

	while (at < end) {
		const char *stop = at;
		int answer;

		if (sse->after_cr && *at == '\n') {
			sse->after_cr = false;
			at++;
			continue;
		}
		sse->after_cr = false;
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		if (sse->line.len + (size_t)(stop - at) > SSE_EVENT_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "a line of the stream has more than %d MiB",
				       SSE_EVENT_BYTES_MAX >> 20);
		buf_append(&sse->line, at, (size_t)(stop - at));
		at = stop;
		if (at == end)
			break;
		sse->after_cr = *at++ == '\r';
		answer = take_line(sse, visit, context, err);
		if (answer)
			return answer;
	}
	return 0;
}

int sse_end(struct sse *sse, sse_visit *visit, void *context, struct err *err)
{
	if (sse->line.len > 0 && take_line(sse, visit, context, err))
		return -1;
	return dispatch(sse, true, visit, context);
}

void sse_release(struct sse *sse)
{
	buf_release(&sse->line);
	buf_release(&sse->data);
}
