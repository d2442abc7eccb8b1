/*
 * The text of a line: its beginning written, and read back without JSON.
 *
 * Why not always parse: a relay (SSE, WebSocket, `fumehood log`) hands lines on as they are, and
 * opening a journal looks at each line once. The form is fixed by line_write_head(), so comparing a
 * few bytes finds the seq; one pass for control characters and one for UTF-8 find torn pages
 * (zeros) and flipped high bits, which would break the relay's own framing. Finer damage shows when
 * the line is parsed.
 */
#include "journal/line.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

static const char SEQ_OPEN[] = "{\"seq\":";
static const char TIME_OPEN[] = ",\"t\":\"";
static const char TYPE_OPEN[] = "\",\"type\":\"";
enum { SEQ_DIGITS_MAX = 19 }; /* JSON readers hold integers in 64 bits with a sign */

static void append_number(struct buf *out, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	buf_append(out, digits + at, sizeof(digits) - at);
}

size_t line_write_head(struct buf *out, const struct event *event)
{
	const char *type = event_type_name(event->type);
	char time[CLOCK_TEXT_SIZE];
	size_t repaired = 0;

	if (event->type == EVENT_OTHER && json_get_string(event->body, "type"))
		type = json_get_string(event->body, "type");
	clock_format(event->t_us, time);
	buf_append(out, SEQ_OPEN, sizeof(SEQ_OPEN) - 1);
	append_number(out, event->seq);
	buf_append(out, TIME_OPEN, sizeof(TIME_OPEN) - 1);
	buf_append(out, time, CLOCK_TEXT_SIZE - 1);
	buf_append_string(out, "\",\"type\":");
	repaired += json_write_string(out, type, strlen(type));
	if (event->cell) {
		buf_append_string(out, ",\"cell\":");
		repaired += json_write_string(out, event->cell, strlen(event->cell));
	}
	if (event->type != EVENT_STREAM)
		return repaired;
	buf_append_string(out, event->is_stderr ? ",\"name\":\"stderr\",\"text\":"
						: ",\"name\":\"stdout\",\"text\":");
	repaired += json_write_string(out, event->text ? event->text : "", event->text_len);
	if (event->background)
		buf_append_string(out, ",\"origin\":\"background\"");
	return repaired;
}

bool line_is_head_key(const char *key, size_t len)
{
	return (len == 3 && memcmp(key, "seq", 3) == 0) || (len == 1 && key[0] == 't') ||
	       (len == 4 && (memcmp(key, "type", 4) == 0 || memcmp(key, "cell", 4) == 0));
}

/* As line_seq; *behind is where the text of the time begins. */
static uint64_t read_seq(const char *line, size_t len, size_t *behind)
{
	size_t at = sizeof(SEQ_OPEN) - 1;
	size_t first = at;
	uint64_t seq = 0;

	if (len < at || memcmp(line, SEQ_OPEN, at) != 0)
		return 0;
	for (; at < len && line[at] >= '0' && line[at] <= '9'; at++) {
		if (at - first == SEQ_DIGITS_MAX)
			return 0;
		seq = seq * 10 + (uint64_t)(line[at] - '0');
	}
	if (seq > INT64_MAX || at == first || line[first] == '0')
		return 0;
	if (len - at < sizeof(TIME_OPEN) - 1 ||
	    memcmp(line + at, TIME_OPEN, sizeof(TIME_OPEN) - 1) != 0)
		return 0;
	*behind = at + sizeof(TIME_OPEN) - 1;
	return seq;
}

uint64_t line_seq(const char *line, size_t len)
{
	size_t behind;

	return read_seq(line, len, &behind);
}

static bool has_control(const char *bytes, size_t len)
{
	unsigned char found = 0;

	/* No early exit: this way the compiler makes it 16 bytes a step. */
	for (size_t i = 0; i < len; i++)
		found |= (unsigned char)bytes[i] < 0x20;
	return found != 0;
}

uint64_t line_seq_whole(const char *line, size_t len)
{
	size_t at;
	uint64_t seq = read_seq(line, len, &at);

	if (seq == 0 || len - at < CLOCK_TEXT_SIZE - 1 + sizeof(TYPE_OPEN) - 1)
		return 0;
	at += CLOCK_TEXT_SIZE - 1;
	if (memcmp(line + at, TYPE_OPEN, sizeof(TYPE_OPEN) - 1) != 0 || line[len - 1] != '}')
		return 0;
	return has_control(line, len) || !text_is_utf8(line, len) ? 0 : seq;
}
