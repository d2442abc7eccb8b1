/*
 * Frames of a traceback block. `count` entries were added: entry i < FRAMES_FIRST is first[i],
 * every later one stands in the ring at (i - FRAMES_FIRST) % FRAMES_LAST, over which the next round
 * goes.
 */
#include "digest/frame.h"

#include <string.h>

static const char HEAD[] = "  File \"";
static const char CELL[] = "<cell ";
static const char LINE[] = "\", line ";
static const char REPEATS[] = "  [Previous line repeated ";

bool span_is(struct span span, const char *string)
{
	return span.len == strlen(string) && memcmp(span.text, string, span.len) == 0;
}

static bool starts_with(struct span span, const char *string)
{
	size_t len = strlen(string);

	return span.len >= len && memcmp(span.text, string, len) == 0;
}

struct span span_take_line(struct span *text)
{
	const char *end = text->len > 0 ? memchr(text->text, '\n', text->len) : NULL;
	size_t len = end ? (size_t)(end - text->text) : text->len;
	struct span line = {text->text, len};

	text->text += end ? len + 1 : len;
	text->len -= end ? len + 1 : len;
	return line;
}

/* Takes digits off the span; 0 when there are none or too many. */
static uint64_t take_number(struct span *span)
{
	uint64_t value = 0;

	while (span->len > 0 && *span->text >= '0' && *span->text <= '9') {
		value = value < UINT64_MAX / 100 ? value * 10 + (uint64_t)(*span->text - '0') : 0;
		span->text++;
		span->len--;
	}
	return value;
}

/* Cuts the span behind the first `string`, false when it is not there. */
static bool pass(struct span *span, const char *string)
{
	const char *at =
		span->len > 0 ? memmem(span->text, span->len, string, strlen(string)) : NULL;

	if (!at)
		return false;
	at += strlen(string);
	span->len -= (size_t)(at - span->text);
	span->text = at;
	return true;
}

/* N of `<cell N>` at the start of the span, FRAME_SCRIPT for the script, 0 for anything else. */
static uint64_t cell_number(struct span name, struct span script)
{
	uint64_t cell;

	if (script.len > 0 && name.len > script.len && name.text[script.len] == '"' &&
	    memcmp(name.text, script.text, script.len) == 0)
		return FRAME_SCRIPT;
	if (!starts_with(name, CELL))
		return 0;
	name.text += sizeof(CELL) - 1;
	name.len -= sizeof(CELL) - 1;
	cell = take_number(&name);
	return starts_with(name, ">\"") ? cell : 0;
}

uint64_t frame_cell(struct span line, struct span script)
{
	return pass(&line, "File \"") ? cell_number(line, script) : 0;
}

static struct frame *slot(struct frame_list *list, size_t entry)
{
	if (entry < FRAMES_FIRST)
		return &list->first[entry];
	return &list->last[(entry - FRAMES_FIRST) % FRAMES_LAST];
}

static void push(struct frame_list *list, const struct frame *frame)
{
	struct frame *last = list->count > 0 ? slot(list, list->count - 1) : NULL;

	if (frame->count > 0 && last && last->count > 0) {
		last->count += frame->count;
		last->head = frame->head;
		return;
	}
	last = slot(list, list->count);
	if (list->count >= FRAMES_FIRST + FRAMES_LAST)
		list->dropped += last->count > 0 ? last->count : 1;
	*last = *frame;
	list->count++;
}

bool frame_list_add(struct frame_list *list, struct span margin, struct span body)
{
	struct frame frame = {.margin = margin, .head = body, .repeats = {"", 0}};
	struct span rest = body;

	if (!starts_with(body, HEAD))
		return false;
	rest.text += sizeof(HEAD) - 1;
	rest.len -= sizeof(HEAD) - 1;
	frame.cell = cell_number(rest, list->script);
	if (!pass(&rest, LINE))
		return false;
	frame.line = take_number(&rest);
	/* Without a function it is the place that a SyntaxError speaks of. */
	if (frame.cell == 0 && starts_with(rest, ", in "))
		frame.count = 1;
	push(list, &frame);
	return true;
}

void frame_list_add_source(struct frame_list *list, struct span body)
{
	struct frame *frame = list->count > 0 ? slot(list, list->count - 1) : NULL;

	if (!frame || frame->count > 0)
		return;
	if (starts_with(body, REPEATS))
		frame->repeats = body;
	else if (frame->line_count < FRAME_LINES_MAX)
		frame->lines[frame->line_count++] = body;
}

size_t frame_list_count(const struct frame_list *list)
{
	return list->count < FRAMES_FIRST + FRAMES_LAST ? list->count : FRAMES_FIRST + FRAMES_LAST;
}

const struct frame *frame_list_at(const struct frame_list *list, size_t index)
{
	size_t passed = list->count - frame_list_count(list);

	if (index < FRAMES_FIRST)
		return &list->first[index];
	return &list->last[(index + passed - FRAMES_FIRST) % FRAMES_LAST];
}

void frame_list_clear(struct frame_list *list)
{
	list->count = 0;
	list->dropped = 0;
}

struct span frame_place(const struct frame *frame)
{
	struct span file = frame->head;
	const char *slash;
	size_t len;

	if (!pass(&file, HEAD))
		return file;
	/* The file's last component: what stands between the last '/' before `", line` and it. */
	slash = memmem(file.text, file.len, LINE, sizeof(LINE) - 1);
	len = slash ? (size_t)(slash - file.text) : file.len;
	slash = memrchr(file.text, '/', len);
	if (slash) {
		file.len -= (size_t)(slash + 1 - file.text);
		file.text = slash + 1;
	}
	return file;
}
