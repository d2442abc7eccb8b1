/*
 * A line-by-line reader of CPython's traceback text with two states:
 *
 *	FRAMES  `  File "...", line N, in F`, then its source and caret lines, deeper indented
 *	TEXT    the exception, its message and notes, the sentences between chained exceptions
 *
 * A header ("Traceback (most recent call last):"), a sentence about a cause and a separator of an
 * exception group lead to FRAMES, a line that is not indented leads to TEXT. What a message
 * contains can look like any of these; then a part of the message is shown as if it were a
 * traceback, which is no harm.
 *
 * Frames are collected up to the end of their block, since only there it is known which is the
 * innermost. They borrow from the event's JSON. The number of the cell that ran is the largest in
 * the text: a cell only runs code of itself and of cells before it.
 */
#include "digest/traceback.h"

#include <string.h>

#include "base/text.h"
#include "digest/frame.h"

enum {
	CONTEXT_LINES = 2,     /* before and behind the failing line */
	CONTEXT_SHOWN_MAX = 3, /* in one error; a group may have thousands of blocks */
	CONTEXT_TRIED_MAX = 16,
	SOURCE_CHARS_MAX = 240,
};

static const char *const HEADERS[] = {
	"Traceback (most recent call last):",
	"Exception Group Traceback (most recent call last):",
};

static const char *const CAUSES[] = {
	"The above exception was the direct cause of the following exception:",
	"During handling of the above exception, another exception occurred:",
};

struct reader {
	struct screen *out;
	struct span code;
	const char *name; /* the exception's, or NULL */
	size_t name_len;
	bool name_seen;
	bool in_frames;
	bool in_group; /* lines have a margin */
	uint64_t cell; /* number of the cell that ran, 0: not in the traceback */
	struct frame_list frames;
	uint64_t shown[CONTEXT_SHOWN_MAX]; /* line numbers */
	unsigned shown_count;
	unsigned tried;
};

static void put_span(struct screen *out, struct span span)
{
	screen_write(out, span.text, span.len);
}

/* One line of source, cut when it is long. */
static void put_source(struct screen *out, struct span span)
{
	size_t end = text_prefix(span.text, span.len, SOURCE_CHARS_MAX);

	screen_write(out, span.text, end);
	screen_puts(out, end < span.len ? " ...\n" : "\n");
}

static struct span strip(struct span span)
{
	while (span.len > 0 && strchr(" \t\f\r", span.text[span.len - 1]) &&
	       span.text[span.len - 1])
		span.len--;
	while (span.len > 0 && strchr(" \t\f\r", span.text[0]) && span.text[0]) {
		span.text++;
		span.len--;
	}
	return span;
}

static bool same(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

static bool is_one_of(struct span span, const char *const *strings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (span_is(span, strings[i]))
			return true;
	return false;
}

static bool is_cause(struct span body)
{
	return is_one_of(body, CAUSES, sizeof(CAUSES) / sizeof(CAUSES[0]));
}

/* Up to `count` lines of the code from line `number` (from 1) on; returns how many there are. */
static size_t code_lines(struct span code, uint64_t number, struct span *lines, size_t count)
{
	size_t found = 0;

	for (uint64_t n = 1; code.len > 0 && found < count; n++) {
		struct span line = span_take_line(&code);

		if (n >= number)
			lines[found++] = line;
	}
	return found;
}

/* The caret line below a source line, or an empty span. */
static struct span carets(const struct frame *frame)
{
	struct span line = frame->line_count > 1 ? frame->lines[1] : (struct span){"", 0};

	for (size_t i = 0; i < line.len; i++)
		if (!strchr(" ~^", line.text[i]) || line.text[i] == '\0')
			return (struct span){"", 0};
	return line.len > 4 && line.len <= SOURCE_CHARS_MAX ? line : (struct span){"", 0};
}

static void put_gutter(struct screen *out, struct span margin, bool here, uint64_t number,
		       int width)
{
	cleanup_buf struct buf text = BUF_INIT;

	put_span(out, margin);
	if (number > 0)
		buf_printf(&text, "    %s %*llu |", here ? ">" : " ", width,
			   (unsigned long long)number);
	else
		buf_printf(&text, "      %*s |", width, "");
	screen_write(out, buf_bytes(&text), text.len);
}

static void put_context(struct screen *out, const struct frame *frame, const struct span *lines,
			size_t count, uint64_t first)
{
	char digits[24];
	int width =
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)(first + count - 1));
	struct span caret = carets(frame);

	for (size_t i = 0; i < count; i++) {
		bool here = first + i == frame->line;
		struct span line = strip(lines[i]);
		struct span indent = {lines[i].text, (size_t)(line.text - lines[i].text)};

		put_gutter(out, frame->margin, here, first + i, width);
		if (line.len > 0) {
			screen_puts(out, " ");
			put_source(out, (struct span){indent.text, indent.len + line.len});
		} else {
			screen_puts(out, "\n");
		}
		if (!here || caret.len == 0)
			continue;
		put_gutter(out, frame->margin, false, 0, width);
		screen_puts(out, " ");
		put_span(out, indent);
		screen_write(out, caret.text + 4, caret.len - 4);
		screen_puts(out, "\n");
	}
}

/* Shows the frame's line within the cell's code; false when that cannot be or was done before. */
static bool show_context(struct reader *reader, const struct frame *frame)
{
	struct span lines[2 * CONTEXT_LINES + 1];
	uint64_t first = frame->line > CONTEXT_LINES ? frame->line - CONTEXT_LINES : 1;
	size_t count;
	size_t at = (size_t)(frame->line - first);

	for (unsigned i = 0; i < reader->shown_count; i++)
		if (reader->shown[i] == frame->line)
			return false;
	if (frame->line == 0 || reader->shown_count == CONTEXT_SHOWN_MAX ||
	    reader->tried == CONTEXT_TRIED_MAX)
		return false;
	reader->tried++;
	count = code_lines(reader->code, first, lines, at + CONTEXT_LINES + 1);
	if (at >= count ||
	    (frame->line_count > 0 && !same(strip(lines[at]), strip(frame->lines[0]))))
		return false;
	reader->shown[reader->shown_count++] = frame->line;
	put_context(reader->out, frame, lines, count, first);
	return true;
}

static void put_library(struct screen *out, const struct frame *frame)
{
	cleanup_buf struct buf text = BUF_INIT;

	put_span(out, frame->margin);
	buf_printf(&text, "  [%llu library frame%s left out; the last is \"",
		   (unsigned long long)frame->count, frame->count == 1 ? "" : "s");
	screen_write(out, buf_bytes(&text), text.len);
	put_span(out, frame_place(frame));
	screen_puts(out, "]\n");
}

static void put_frame(struct reader *reader, const struct frame *frame, bool innermost)
{
	if (frame->count > 0) {
		put_library(reader->out, frame);
		return;
	}
	put_span(reader->out, frame->margin);
	put_source(reader->out, frame->head);
	if (!innermost || !show_context(reader, frame)) {
		for (unsigned i = 0; i < frame->line_count; i++) {
			put_span(reader->out, frame->margin);
			put_source(reader->out, frame->lines[i]);
		}
	}
	if (frame->repeats.len > 0) {
		put_span(reader->out, frame->margin);
		put_source(reader->out, frame->repeats);
	}
}

static void flush(struct reader *reader)
{
	struct frame_list *list = &reader->frames;
	size_t count = frame_list_count(list);
	size_t innermost = count;

	for (size_t i = 0; i < count; i++) {
		const struct frame *frame = frame_list_at(list, i);

		if (frame->count == 0 && reader->cell > 0 && frame->cell == reader->cell)
			innermost = i;
	}
	for (size_t i = 0; i < count; i++) {
		const struct frame *frame = frame_list_at(list, i);

		if (list->dropped > 0 && i == FRAMES_FIRST) {
			cleanup_buf struct buf text = BUF_INIT;

			put_span(reader->out, frame->margin);
			buf_printf(&text, "  [%llu more frames left out]\n",
				   (unsigned long long)list->dropped);
			screen_write(reader->out, buf_bytes(&text), text.len);
		}
		put_frame(reader, frame, i == innermost);
	}
	frame_list_clear(list);
}

static void echo(struct reader *reader, struct span line)
{
	put_span(reader->out, line);
	screen_puts(reader->out, "\n");
	if (reader->name && !reader->name_seen)
		reader->name_seen =
			memmem(line.text, line.len, reader->name, reader->name_len) != NULL;
}

/* The margin of a line in an exception group ("  | ", "    | ", "  + "), and whether the line is
 * one of its separators ("  +-+---------------- 1 ----------------"). */
static struct span margin_of(struct span line, bool *separator)
{
	size_t at = 0;

	*separator = false;
	while (at < line.len && line.text[at] == ' ')
		at++;
	if (at < 2 || at == line.len || (line.text[at] != '|' && line.text[at] != '+'))
		return (struct span){line.text, 0};
	if (line.text[at] == '+' && at + 1 < line.len && line.text[at + 1] == '-')
		*separator = true;
	at++;
	if (at < line.len && line.text[at] == ' ')
		at++;
	return (struct span){line.text, at};
}

static void read_frames(struct reader *reader, struct span line, struct span margin,
			struct span body)
{
	if (frame_list_add(&reader->frames, margin, body))
		return;
	if (body.len > 0 && body.text[0] != ' ') {
		flush(reader);
		reader->in_frames = is_cause(body);
		echo(reader, line);
	} else if (frame_list_count(&reader->frames) == 0) {
		echo(reader, line);
	} else {
		frame_list_add_source(&reader->frames, body);
	}
}

static void read_line(struct reader *reader, struct span line, bool first)
{
	bool separator;
	struct span margin = margin_of(line, &separator);
	struct span body = {line.text + margin.len, line.len - margin.len};
	bool header = is_one_of(body, HEADERS, sizeof(HEADERS) / sizeof(HEADERS[0]));

	if (header || first)
		reader->in_group = margin.len > 0;
	if (!reader->in_group) {
		margin.len = 0;
		body = line;
		separator = false;
	}
	if (header || separator) {
		flush(reader);
		reader->in_frames = true;
		echo(reader, line);
	} else if (reader->in_frames) {
		read_frames(reader, line, margin, body);
	} else {
		reader->in_frames = is_cause(body);
		echo(reader, line);
	}
}

/* Reads the lines of one string of the list, which may hold several and may end with LF. */
static void read_string(struct reader *reader, struct span text, bool first)
{
	while (text.len > 0) {
		read_line(reader, span_take_line(&text), first);
		first = false;
	}
}

static void find_cell(struct reader *reader, struct span text)
{
	while (text.len > 0) {
		uint64_t cell = frame_cell(span_take_line(&text), reader->frames.script);

		reader->cell = cell > reader->cell ? cell : reader->cell;
	}
}

static struct span string_at(const struct json *traceback, size_t index)
{
	struct span span = {NULL, 0};

	span.text = json_string(json_at(traceback, index), &span.len);
	return span.text ? span : (struct span){"", 0};
}

static void put_name(struct reader *reader, const struct json *body)
{
	size_t len = 0;
	const char *value = json_string(json_get(body, "evalue"), &len);

	screen_write(reader->out, reader->name, reader->name_len);
	if (value && len > 0) {
		screen_puts(reader->out, ": ");
		screen_write(reader->out, value, len);
	}
}

/* A string of an object, empty when there is none. */
static struct span span_of(const struct json *object, const char *key)
{
	struct span span = {NULL, 0};

	span.text = json_string(json_get(object, key), &span.len);
	return span.text ? span : (struct span){"", 0};
}

void traceback_text(const struct json *body, const struct json *cell, struct screen *out)
{
	const struct json *traceback = json_get(body, "traceback");
	struct reader reader = {.out = out,
				.code = span_of(cell, "code"),
				.frames = {.script = span_of(cell, "file")},
				.in_frames = true};
	size_t count = json_length(traceback);

	reader.name = json_string(json_get(body, "ename"), &reader.name_len);
	if (!reader.name || reader.name_len == 0) {
		reader.name = "Error";
		reader.name_len = 5;
	}
	if (json_type_of(traceback) != JSON_ARRAY)
		count = 0;
	for (size_t i = 0; i < count; i++)
		find_cell(&reader, string_at(traceback, i));
	for (size_t i = 0; i < count; i++)
		read_string(&reader, string_at(traceback, i), i == 0);
	flush(&reader);
	if (!reader.name_seen)
		put_name(&reader, body);
}
