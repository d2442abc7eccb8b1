/*
 * Lines of the keeper, ranges, and types of files.
 */
#include "serve/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "serve/range.h"

static struct scan scan_of(const char *line)
{
	struct scan scan;

	scan_line(line, strlen(line), &scan);
	return scan;
}

static void events(void **state)
{
	struct scan scan = scan_of("{\"seq\":12,\"t\":\"2026\",\"type\":\"stream\",\"cell\":\"c1\","
				   "\"name\":\"stdout\"}");

	(void)state;
	assert_int_equal(scan.kind, SCAN_EVENT);
	assert_int_equal(scan.seq, 12);
	assert_true(slice_is(&scan.type, "stream"));
	assert_true(slice_is(&scan.cell, "c1"));
	scan = scan_of("{\"seq\":1,\"t\":\"x\",\"type\":\"session\",\"id\":\"a\"}");
	assert_int_equal(scan.kind, SCAN_EVENT);
	assert_int_equal(scan.cell.len, 0);
	assert_int_equal(scan_of("{\"seq\":1,\"t\":\"x\"}").kind, SCAN_OTHER);
	assert_int_equal(scan_of("{\"seq\":,\"t\":\"x\",\"type\":\"a\"}").kind, SCAN_OTHER);
	assert_int_equal(scan_of("{\"type\":\"gap\",\"from\":1}").kind, SCAN_OTHER);
	assert_int_equal(scan_of("").kind, SCAN_OTHER);
}

static void answers(void **state)
{
	struct scan scan = scan_of("{\"type\":\"reply\",\"id\":7,\"a\":1,\"b\":{}}");
	struct buf out = BUF_INIT;

	(void)state;
	assert_int_equal(scan.kind, SCAN_REPLY);
	assert_int_equal(scan.number, 7);
	scan_put_rest(&out, &scan);
	assert_string_equal(buf_bytes(&out), "{\"a\":1,\"b\":{}}");
	buf_clear(&out);
	scan = scan_of("{\"type\":\"reply\",\"id\":\"c1\"}");
	assert_true(slice_is(&scan.id, "c1"));
	scan_put_rest(&out, &scan);
	assert_string_equal(buf_bytes(&out), "{}");
	buf_release(&out);
	scan = scan_of("{\"type\":\"refused\",\"id\":null,\"code\":\"busy\",\"message\":\"x\"}");
	assert_int_equal(scan.kind, SCAN_REFUSED);
	assert_int_equal(scan.number, 0);
	assert_int_equal(scan_of("{\"type\":\"reply\",\"id\":\"a\\\"b\"}").kind, SCAN_OTHER);
	assert_int_equal(scan_of("{\"type\":\"reply\",\"id\":7").kind, SCAN_OTHER);
}

static enum range_kind range_of(const char *text, uint64_t total, uint64_t *start, uint64_t *end)
{
	struct slice field = {text, strlen(text)};

	*start = *end = 99;
	return range_read(&field, total, start, end);
}

static void ranges(void **state)
{
	static const struct {
		const char *text;
		enum range_kind kind;
		uint64_t start, end;
	} cases[] = {
		{"bytes=0-0", RANGE_SOME, 0, 1},
		{"bytes=2-", RANGE_SOME, 2, 10},
		{"bytes=-3", RANGE_SOME, 7, 10},
		{"bytes=-30", RANGE_SOME, 0, 10},
		{"bytes=9-99", RANGE_SOME, 9, 10},
		{"Bytes=1-2", RANGE_SOME, 1, 3},
		{"bytes=10-", RANGE_OUTSIDE, 99, 99},
		{"bytes=-0", RANGE_OUTSIDE, 99, 99},
		{"bytes=5-4", RANGE_NONE, 99, 99},
		{"bytes=1-2,4-5", RANGE_NONE, 99, 99},
		{"bytes=", RANGE_NONE, 99, 99},
		{"bytes=-", RANGE_NONE, 99, 99},
		{"lines=1-2", RANGE_NONE, 99, 99},
		{"bytes=1 -2", RANGE_NONE, 99, 99},
		{"bytes=9999999999999999999999-", RANGE_NONE, 99, 99},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t start, end;

		assert_int_equal(range_of(cases[i].text, 10, &start, &end), cases[i].kind);
		assert_int_equal(start, cases[i].start);
		assert_int_equal(end, cases[i].end);
	}
}

static void types(void **state)
{
	(void)state;
	assert_string_equal(file_type("\x89PNG\r\n\x1a\n...", 11), "image/png");
	assert_string_equal(file_type("<svg onload=x>", 14), "text/plain; charset=utf-8");
	assert_string_equal(file_type("", 0), "text/plain; charset=utf-8");
	assert_string_equal(file_type("a\0b", 3), "application/octet-stream");
	assert_string_equal(file_type("\xe2\x82", 2), "text/plain; charset=utf-8"); /* cut */
	assert_string_equal(file_type("\xff\xfe", 2), "application/octet-stream");
	assert_string_equal(file_type("RIFFxxxxWEBP", 12), "image/webp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events),
		cmocka_unit_test(answers),
		cmocka_unit_test(ranges),
		cmocka_unit_test(types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
