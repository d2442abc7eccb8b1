/*
 * Fuzzes what comes from a model's server as a stream of events. The first byte says in which
 * pieces: however the bytes are cut, the same events come out, and each is a NUL-terminated text
 * within the limits. Then each event's data is read as a piece of an answer would be, and goes
 * through the search for thoughts, whose pieces together are what was put in.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "model/sse.h"
#include "model/think.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

static int collect(void *context, const struct sse_event *event)
{
	struct buf *out = context;

	check(event->len <= SSE_EVENT_BYTES_MAX && event->data[event->len] == '\0');
	check(strlen(event->type) <= SSE_NAME_BYTES_MAX && event->type[0] != '\0');
	buf_printf(out, "%s %zu %d ", event->type, event->len, event->unfinished);
	buf_append(out, event->data, event->len);
	return 0;
}

static void read_stream(const char *bytes, size_t len, size_t piece, struct buf *out)
{
	struct sse sse = SSE_INIT;

	for (size_t at = 0; at < len; at += piece) {
		size_t step = len - at < piece ? len - at : piece;
		cleanup_free char *copy = mem_copy(bytes + at, step);

		check(sse_feed(&sse, copy, step, collect, out, NULL) == 0);
	}
	check(sse_end(&sse, collect, out, NULL) == 0);
	sse_release(&sse);
}

static void sort_thoughts(const char *bytes, size_t len, size_t piece, struct buf *reasoning,
			  struct buf *answer)
{
	struct think think = THINK_INIT;
	size_t thoughts;

	for (size_t at = 0; at < len; at += piece) {
		size_t step = len - at < piece ? len - at : piece;

		think_feed(&think, bytes + at, step, reasoning, answer);
		check(think.held_len < THINK_HELD_MAX);
	}
	think_end(&think, reasoning, answer);
	check(reasoning->len + answer->len <= len);
	check(think_unopened(bytes, len, &thoughts) <= len && thoughts <= len);
}

static void check_same(const struct buf *a, const struct buf *b)
{
	check(a->len == b->len && memcmp(buf_bytes(a), buf_bytes(b), a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf whole = BUF_INIT;
	cleanup_buf struct buf pieces = BUF_INIT;
	cleanup_buf struct buf thoughts = BUF_INIT;
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_buf struct buf thoughts_again = BUF_INIT;
	cleanup_buf struct buf answer_again = BUF_INIT;
	const char *bytes = (const char *)data + 1;
	size_t piece;

	if (size < 2)
		return 0;
	piece = 1 + data[0] % 16;
	read_stream(bytes, size - 1, size, &whole);
	read_stream(bytes, size - 1, piece, &pieces);
	check_same(&whole, &pieces);
	sort_thoughts(bytes, size - 1, size, &thoughts, &answer);
	sort_thoughts(bytes, size - 1, piece, &thoughts_again, &answer_again);
	check_same(&thoughts, &thoughts_again);
	check_same(&answer, &answer_again);
	return 0;
}
