/*
 * Stream text with a cursor: a gap buffer whose gap is the cursor.
 *
 * The cursor can only stand in the last line (LF takes it to the end, BS and CR stop at the
 * line's start), so the text behind it is the rest of that line. A character enters `front` when
 * it is written; CR carries it over the gap once; it comes back once at the next LF, or is
 * overwritten. That is why each added byte costs amortised constant time, however CR, BS and
 * texts are mixed. The usual case, text at the end without CR and BS, is one copy.
 */
#include "notebook/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { STREAM_CAP_MIN = 64 };

void stream_release(struct stream *stream)
{
	free(stream->bytes);
	*stream = (struct stream)STREAM_INIT;
}

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Makes the gap at least `extra` bytes wide. */
static void stream_reserve(struct stream *stream, size_t extra)
{
	size_t need = stream->front + stream->back + extra;
	size_t cap = stream->cap;

	if (need <= cap)
		return;
	cap += cap / 2;
	if (cap < need)
		cap = need;
	if (cap < STREAM_CAP_MIN)
		cap = STREAM_CAP_MIN;
	stream->bytes = mem_resize(stream->bytes, cap, 1);
	memmove(stream->bytes + cap - stream->back, stream->bytes + stream->cap - stream->back,
		stream->back);
	stream->cap = cap;
}

static void stream_append(struct stream *stream, const char *text, size_t len)
{
	if (len == 0)
		return;
	stream_reserve(stream, len);
	memcpy(stream->bytes + stream->front, text, len);
	stream->front += len;
}

/* Drops up to `points` code points behind the cursor. */
static void stream_drop(struct stream *stream, size_t points)
{
	const char *end = stream->bytes + stream->cap;

	while (points > 0 && stream->back > 0) {
		stream->back--;
		while (stream->back > 0 && is_continuation(*(end - stream->back)))
			stream->back--;
		points--;
	}
}

static void stream_overwrite(struct stream *stream, const char *text, size_t len)
{
	if (stream->back > 0)
		stream_drop(stream, text_count(text, len));
	stream_append(stream, text, len);
}

static void stream_line_feed(struct stream *stream)
{
	if (stream->back > 0) {
		memmove(stream->bytes + stream->front, stream->bytes + stream->cap - stream->back,
			stream->back);
		stream->front += stream->back;
		stream->back = 0;
	}
	stream_append(stream, "\n", 1);
	stream->line = stream->front;
}

static void stream_carriage_return(struct stream *stream)
{
	size_t count = stream->front - stream->line;

	if (count == 0)
		return;
	memmove(stream->bytes + stream->cap - stream->back - count, stream->bytes + stream->line,
		count);
	stream->back += count;
	stream->front = stream->line;
}

static void stream_backspace(struct stream *stream)
{
	if (stream->front == stream->line)
		return;
	stream->front--;
	while (stream->front > stream->line && is_continuation(stream->bytes[stream->front]))
		stream->front--;
}

void stream_add(struct stream *stream, const char *text, size_t len)
{
	size_t start = 0;

	if (len == 0)
		return;
	if (stream->back == 0 && memchr(text, '\r', len) == NULL &&
	    memchr(text, '\b', len) == NULL) {
		const char *feed = memrchr(text, '\n', len);

		stream_append(stream, text, len);
		if (feed != NULL)
			stream->line = stream->front - (len - (size_t)(feed - text) - 1);
		return;
	}
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\n' && text[i] != '\r' && text[i] != '\b')
			continue;
		stream_overwrite(stream, text + start, i - start);
		start = i + 1;
		if (text[i] == '\n')
			stream_line_feed(stream);
		else if (text[i] == '\r')
			stream_carriage_return(stream);
		else
			stream_backspace(stream);
	}
	stream_overwrite(stream, text + start, len - start);
}

bool stream_at_line_start(const struct stream *stream)
{
	return stream->front == stream->line && stream->back == 0;
}

size_t stream_length(const struct stream *stream)
{
	return stream->front + stream->back;
}

const char *stream_text(const struct stream *stream, struct buf *scratch)
{
	if (stream->back == 0)
		return stream->front == 0 ? "" : stream->bytes;
	buf_clear(scratch);
	buf_append(scratch, stream->bytes, stream->front);
	buf_append(scratch, stream->bytes + stream->cap - stream->back, stream->back);
	return buf_bytes(scratch);
}
