/*
 * The marked form, against what is documented of the original: the marks, the order, the cut of
 * each item, and the figures that were measured there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/digest.h"
#include "digest/marks.h"

static struct digest *marked(size_t total)
{
	const struct digest_params params = {.marks = true, .total_chars_max = total};

	return digest_new(&params);
}

static void apply(struct digest *digest, enum event_type type, const char *body)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string("c1");
	event.body = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
	assert_non_null(event.body);
	digest_apply(digest, &event);
}

static void print_bytes(struct digest *digest, bool is_stderr, const char *text, size_t len)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string("c1");
	event.is_stderr = is_stderr;
	event.text = mem_copy(text, len);
	event.text_len = len;
	digest_apply(digest, &event);
}

static void print(struct digest *digest, const char *text)
{
	print_bytes(digest, false, text, strlen(text));
}

/* Ends the digest; the text is owned by the caller. */
static char *end(struct digest *digest)
{
	struct buf out = BUF_INIT;

	digest_text(digest, &out);
	digest_free(digest);
	return buf_take(&out, NULL);
}

static void expect(struct digest *digest, const char *expected)
{
	cleanup_free char *text = end(digest);

	assert_string_equal(text ? text : "", expected);
}

/* `count` times the character, as a string owned by the caller. */
static char *repeated(const char *character, size_t count)
{
	struct buf out = BUF_INIT;

	while (count-- > 0)
		buf_append_string(&out, character);
	return buf_take(&out, NULL);
}

static void test_marks_in_order(void **state)
{
	struct digest *digest = marked(0);

	(void)state;
	print(digest, "hello\n");
	apply(digest, EVENT_DISPLAY,
	      "{\"data\":{\"text/plain\":\"<Figure size 640x480 with 1 "
	      "Axes>\",\"image/png\":\"AAAA\"}}");
	apply(digest, EVENT_RESULT,
	      "{\"data\":{\"text/plain\":\"   a\\n0  "
	      "1\",\"text/html\":\"<table>\"},\"execution_count\":1}");
	expect(digest, "[stdout]\nhello\n\n"
		       "[display_text]\n<Figure size 640x480 with 1 Axes>\n"
		       "[display_png 图片已生成，内容为 base64，未展示]\n"
		       "[execute_result_text]\n   a\n0  1");
}

static void test_images(void **state)
{
	struct digest *digest = marked(0);

	(void)state;
	apply(digest, EVENT_RESULT,
	      "{\"data\":{\"image/jpeg\":\"AAAA\",\"image/png\":{\"$blob\":\"00\",\"bytes\":9}}}");
	expect(digest, "[execute_result_png 图片已生成，内容为 base64，未展示]\n"
		       "[execute_result_jpeg 图片已生成，内容为 base64，未展示]");
}

static void test_errors(void **state)
{
	struct digest *digest = marked(0);

	(void)state;
	print(digest, "before\n");
	apply(digest, EVENT_ERROR,
	      "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"\\u001b[0;31mTraceback\\u001b["
	      "0m\",\"E: v\"]}");
	expect(digest, "[stdout]\nbefore\n\n[error]\nTraceback\nE: v");
	digest = marked(0);
	apply(digest, EVENT_ERROR, "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}");
	expect(digest, "[error]\nE: v");
	digest = marked(0);
	apply(digest, EVENT_ERROR, "{\"traceback\":[\"a\\u001b\",\"\\u001b[\",\"\\u001b[31\"]}");
	expect(digest, "[error]\na\033\n\n");
}

/* "_truncate_text(text, 1000): <= 1000 unchanged; else first 500 + marker + last 500 (=> 1017
 * chars)". */
static void test_cut(void **state)
{
	cleanup_free char *fits = repeated("é", 1000 - 9), *longer = repeated("é", 1000 - 8);
	cleanup_free char *half = repeated("é", 500 - 9), *tail = repeated("é", 500);
	cleanup_buf struct buf expected = BUF_INIT;
	struct digest *digest = marked(0);
	char *text;

	(void)state;
	print(digest, fits);
	buf_printf(&expected, "[stdout]\n%s", fits);
	expect(digest, buf_bytes(&expected));
	digest = marked(0);
	print(digest, longer);
	buf_clear(&expected);
	buf_printf(&expected, "[stdout]\n%s\n... (内容已截断) ...\n%s", half, tail);
	text = end(digest);
	assert_string_equal(text, buf_bytes(&expected));
	assert_int_equal(text_count(text, strlen(text)), 1017);
	free(text);
}

/* The error's own text is cut, the mark is in front of that. */
static void test_cut_of_an_error(void **state)
{
	cleanup_free char *lines = repeated("x", 5000);
	cleanup_free char *body =
		mem_format("{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[\"%s\"]}", lines);
	struct digest *digest = marked(0);
	char *text;

	(void)state;
	apply(digest, EVENT_ERROR, body);
	text = end(digest);
	assert_int_equal(text_count(text, strlen(text)), strlen("[error]\n") + 1017);
	free(text);
}

/* "30 flushed prints of 900 chars gave 27,329 chars": never cut in total, never merged. */
static void test_many_items(void **state)
{
	cleanup_free char *line = repeated("x", 900);
	struct digest *digest = marked(0);
	char *text;

	(void)state;
	line = mem_resize(line, 902, 1);
	memcpy(line + 900, "\n", 2);
	for (int i = 0; i < 30; i++)
		print(digest, line);
	text = end(digest);
	assert_int_equal(strlen(text), 27329);
	free(text);
}

static void test_total(void **state)
{
	struct digest *digest = marked(400);
	char *text;

	(void)state;
	for (int i = 0; i < 1000; i++)
		print(digest, "some output\n");
	apply(digest, EVENT_FINISHED,
	      "{\"status\":\"died\",\"reason\":\"signal 9\",\"state\":\"reset\"}");
	text = end(digest);
	assert_true(strlen(text) <= 400);
	assert_non_null(strstr(text, "left out"));
	assert_non_null(strstr(text, "signal 9"));
	free(text);
	digest = marked(0);
	apply(digest, EVENT_FINISHED,
	      "{\"status\":\"ok\",\"state\":\"rolled_back\",\"lost\":{\"threads\":[\"t\"]}}");
	text = end(digest);
	assert_string_equal(text, "[rolled back: variables are as they were just before this cell; "
				  "not restored: thread t]");
	free(text);
	digest = marked(0);
	for (int i = 0; i < 100000; i++)
		print(digest, "some output\n");
	text = end(digest);
	assert_true(strlen(text) <= MARKS_TOTAL_CHARS);
	free(text);
}

/* What the original lost. */
static void test_what_is_not_lost(void **state)
{
	struct digest *digest = marked(0);

	(void)state;
	print_bytes(digest, true, "a warning\n", 10);
	apply(digest, EVENT_TRUNCATED,
	      "{\"name\":\"stdout\",\"bytes_dropped\":1234,\"limit\":\"output_bytes\"}");
	apply(digest, EVENT_CELL, "{\"code\":\"f()\",\"timeout\":1}");
	apply(digest, EVENT_FINISHED,
	      "{\"status\":\"timeout\",\"state\":\"kept\",\"duration_us\":1000000}");
	expect(digest,
	       "[stderr]\na warning\n\n[stdout: 1,234 bytes left out: over the limit "
	       "output_bytes]\n"
	       "[timed out: the cell was stopped at its time limit of 1 s; variables are kept]");
}

static void test_what_is_passed_over(void **state)
{
	struct digest *digest = marked(0);

	(void)state;
	expect(digest, "");
	digest = marked(0);
	apply(digest, EVENT_RESULT,
	      "{\"data\":{\"text/html\":\"<b>\",\"image/svg+xml\":\"<svg/>\"}}");
	apply(digest, EVENT_UPDATE_DISPLAY,
	      "{\"data\":{\"text/plain\":\"x\"},\"display_id\":\"d\"}");
	apply(digest, EVENT_CLEAR, "{\"wait\":false}");
	apply(digest, EVENT_FINISHED, "{\"status\":\"ok\",\"state\":\"kept\"}");
	print_bytes(digest, false, "a\0b\r\x1b[1mc", 9);
	{
		struct buf out = BUF_INIT;

		digest_text(digest, &out);
		assert_int_equal(out.len, 9 + 9);
		assert_memory_equal(buf_bytes(&out), "[stdout]\na\0b\r\x1b[1mc", 18);
		buf_release(&out);
		digest_free(digest);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks_in_order),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_of_an_error),
		cmocka_unit_test(test_many_items),
		cmocka_unit_test(test_total),
		cmocka_unit_test(test_what_is_not_lost),
		cmocka_unit_test(test_what_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
