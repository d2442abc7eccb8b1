/* text/event-stream: every way to end a line, to cut the bytes, and the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/sse.h"

/* Writes each event as "type=data;", an unfinished one with '?'. */
static int collect(void *context, const struct sse_event *event)
{
	struct buf *out = context;

	buf_append_string(out, event->type);
	buf_append_char(out, event->unfinished ? '?' : '=');
	buf_append(out, event->data, event->len);
	buf_append_char(out, ';');
	return 0;
}

static void feed_pieces(const char *bytes, size_t len, size_t piece, bool end, struct buf *out)
{
	struct sse sse = SSE_INIT;
	struct err err = ERR_INIT;

	for (size_t at = 0; at < len; at += piece) {
		size_t step = len - at < piece ? len - at : piece;
		cleanup_free char *copy = mem_copy(bytes + at, step);

		assert_int_equal(sse_feed(&sse, copy, step, collect, out, &err), 0);
	}
	if (end)
		assert_int_equal(sse_end(&sse, collect, out, &err), 0);
	sse_release(&sse);
}

static void check(const char *bytes, size_t len, const char *expected)
{
	for (size_t piece = 1; piece <= len; piece++) {
		cleanup_buf struct buf out = BUF_INIT;

		feed_pieces(bytes, len, piece, true, &out);
		assert_string_equal(buf_bytes(&out), expected);
	}
}

static void check_text(const char *text, const char *expected)
{
	check(text, strlen(text), expected);
}

static void test_lines(void **state)
{
	(void)state;
	check_text("data: a\n\ndata: b\n\n", "message=a;message=b;");
	check_text("data: a\r\n\r\ndata: b\r\n\r\n", "message=a;message=b;");
	check_text("data: a\r\rdata: b\r\r", "message=a;message=b;");
	check_text("data: a\r\n\rdata: b\n\r\n", "message=a;message=b;");
	check_text("\xEF\xBB\xBF"
		   "data: a\n\n",
		   "message=a;");
	check_text("data: a\n\n\xEF\xBB\xBF"
		   "data: b\n\n",
		   "message=a;");
	check_text("\n\n\n", "");
}

static void test_fields(void **state)
{
	(void)state;
	check_text("data\n\ndata:\n\ndata: \n\n", "message=;message=;message=;");
	check_text("data:  a:b \n\n", "message= a:b ;");
	check_text("data: a\ndata:b\ndata\n\n", "message=a\nb\n;");
	check_text("event: x\ndata: a\n\ndata: b\n\n", "x=a;message=b;");
	check_text("event: lost\n\ndata: b\n\n", "message=b;");
	check_text(": data: a\n:\nid: 1\nretry: 5\nDATA: c\ndat: d\n data: e\n\n", "");
	check("data: a\0b\n\n", 11, "message=a");
}

static void test_the_end(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	check_text("data: a\n\ndata: b\n", "message=a;message?b;");
	check_text("data: a\n\ndata: b", "message=a;message?b;");
	check_text("data: a\n\n: b", "message=a;");
	feed_pieces("data: a\n", 8, 8, false, &out);
	assert_int_equal(out.len, 0);
}

static void test_long_types_are_cut(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	buf_append_string(&text, "event: ");
	for (size_t i = 0; i < 200; i++)
		buf_append_char(&text, 'x');
	buf_append_string(&text, "\ndata: a\n\n");
	feed_pieces(buf_bytes(&text), text.len, text.len, true, &out);
	assert_int_equal(out.len, SSE_NAME_BYTES_MAX + 3);
}

/* Feeds `bytes` again and again until it is refused; how many bytes had been taken then. */
static size_t feed_until_refused(const char *bytes, struct err *err)
{
	struct sse sse = SSE_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	size_t len = strlen(bytes), fed = 0;

	while (fed < 2 * (size_t)SSE_EVENT_BYTES_MAX &&
	       sse_feed(&sse, bytes, len, collect, &out, err) == 0)
		fed += len;
	sse_release(&sse);
	return fed;
}

static void test_limits(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_true(feed_until_refused("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &err) <=
		    SSE_EVENT_BYTES_MAX);
	assert_int_equal(err.code, ERR_LIMIT);
	err = (struct err)ERR_INIT;
	assert_true(feed_until_refused("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", &err) <=
		    2 * (size_t)SSE_EVENT_BYTES_MAX);
	assert_int_equal(err.code, ERR_LIMIT);
	err = (struct err)ERR_INIT;
	assert_true(feed_until_refused("data: x\n\n", &err) >= 2 * (size_t)SSE_EVENT_BYTES_MAX);
	assert_int_equal(err.code, ERR_OK);
}

static int stop_at_once(void *context, const struct sse_event *event)
{
	++*(int *)context;
	return event->len == 1 ? 7 : 0;
}

static void test_the_visitor_stops(void **state)
{
	struct sse sse = SSE_INIT;
	int count = 0;

	(void)state;
	assert_int_equal(sse_feed(&sse, "data: a\n\ndata: b\n\n", 18, stop_at_once, &count, NULL),
			 7);
	assert_int_equal(count, 1);
	sse_release(&sse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_the_end),
		cmocka_unit_test(test_long_types_are_cut),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_the_visitor_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
