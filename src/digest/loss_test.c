/* Words about what is lost: each kind, many of them, hostile names, nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/text.h"
#include "digest/loss.h"

static void check(const char *lost, const char *want)
{
	cleanup_json struct json *json = json_parse(lost, strlen(lost), &JSON_LIMITS, NULL);
	cleanup_buf struct buf words = BUF_INIT;

	assert_int_equal(loss_words(&words, json), want[0] != '\0');
	assert_string_equal(buf_bytes(&words), want);
}

static void test_kinds(void **state)
{
	(void)state;
	check("{\"threads\":[\"Thread-1 (work)\"]}", "thread Thread-1 (work)");
	check("{\"native_threads\":[\"polars-0\",\"polars-1\"],\"processes\":[\"sleep 60\"],"
	      "\"connections\":3,\"shared_memory\":[\"/dev/shm/x\"],\"transactions\":"
	      "[\"/workspace/a.db\"],\"notes\":[\"a note\"]}",
	      "native threads polars-0 and polars-1; process sleep 60; 3 connections; shared "
	      "memory "
	      "/dev/shm/x; open transaction of /workspace/a.db; a note");
	check("{\"connections\":1}", "1 connection");
	check("{\"threads\":7}", "7 threads");
	check("{\"processes\":[\"a\",\"b\",\"c\"]}", "processes a, b and c");
	check("{\"processes\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", "processes a, b, c and 2 more");
}

static void test_nothing(void **state)
{
	(void)state;
	check("{}", "");
	check("null", "");
	check("7", "");
	check("{\"threads\":[],\"connections\":0,\"colour\":[\"red\"],\"notes\":{\"a\":1}}", "");
	check("{\"threads\":\"a\",\"processes\":-1,\"notes\":null}", "");
}

static void test_hostile_names(void **state)
{
	cleanup_json struct json *lost = NULL;
	cleanup_buf struct buf line = BUF_INIT, words = BUF_INIT;

	(void)state;
	check("{\"threads\":[\"a\\u001b[31m\\nb\\u0000c\",7]}",
	      "threads a\\x1b[31m\\x0ab\\x00c and ?");
	buf_append_string(&line, "{\"processes\":[\"");
	for (int i = 0; i < 1000; i++)
		buf_append_string(&line, "\xe2\x82\xac");
	buf_append_string(&line, "\"]}");
	lost = json_parse(buf_bytes(&line), line.len, &JSON_LIMITS, NULL);
	assert_true(loss_words(&words, lost));
	assert_int_equal(text_count(buf_bytes(&words), words.len), 8 + LOSS_NAME_CHARS_MAX + 3);
	assert_true(text_is_utf8(buf_bytes(&words), words.len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_hostile_names),
	};

	return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
