/*
 * The user's checks: texts, expressions and what is refused.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/check.h"

struct row {
	const char *expect, *output;
	bool holds;
};

static const struct row ROWS[] = {
	{"5", "5\n", true},
	{"5", "5.0\n", false},
	{"5", "15", false},
	{"a\nb", "a  \nb\n\n", true},
	{"/5/", "15\n", true},
	{"/^5$/", "4\n5\n6\n", true},
	{"/^5$/", "55\n", false},
	{"/\\d{3}/", "ab 123", true},
	{"/^[\\d.]+$/", "12.5\n", true},
	{"/\\D/", "123", false},
	{"/total: \\w+/", "total: äöü", true},
	{"/hello/i", "Say HELLO", true},
	{"/hello/", "Say HELLO", false},
	{"/^.$/", "é", true}, /* characters, not bytes */
	{"/a\\/b/", "a/b", true},
	{"/[]a]/", "]", true},
	{"/[^\\s]/", "   ", false},
	{"/usr/bin", "/usr/bin\n", true}, /* a path is no expression */
	{"//", "//", true},
	{"/", "/", true},
	{"", "", true},
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct checks checks = CHECKS_INIT;
		cleanup_buf struct buf message = BUF_INIT;
		struct err err = ERR_INIT;
		bool holds;

		if (checks_add(&checks, CHECK_EXPECT, ROWS[i].expect, &err) != 0)
			fail_msg("row %zu: %s", i, err.text);
		holds = check_output(&checks.items[0], ROWS[i].output, strlen(ROWS[i].output),
				     &message);
		if (holds != ROWS[i].holds)
			fail_msg("row %zu: holds is %d: %s", i, holds, buf_bytes(&message));
		assert_int_equal(message.len > 0, !holds);
		checks_release(&checks);
	}
}

static void refuse(const char *text, const char *why)
{
	struct checks checks = CHECKS_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(checks_add(&checks, CHECK_EXPECT, text, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_non_null(strstr(err.text, why));
	checks_release(&checks);
}

static void test_refused(void **state)
{
	struct checks checks = CHECKS_INIT;
	struct err err = ERR_INIT;
	static char large[CHECK_BYTES_MAX + 2];

	(void)state;
	refuse("/(/", "no regular expression");
	refuse("/(a)\\1/", "back references");
	refuse("\xff", "UTF-8");
	memset(large, 'a', sizeof(large) - 1);
	refuse(large, "bytes");
	for (unsigned i = 0; i < CHECKS_MAX; i++)
		assert_int_equal(checks_add(&checks, CHECK_ASSERT, "x", &err), 0);
	assert_int_equal(checks_add(&checks, CHECK_ASSERT, "x", &err), -1);
	checks_release(&checks);
}

static void test_says_that_only_numbers_differ(void **state)
{
	struct checks checks = CHECKS_INIT;
	cleanup_buf struct buf message = BUF_INIT;

	(void)state;
	assert_int_equal(checks_add(&checks, CHECK_EXPECT, "9", NULL), 0);
	assert_false(check_output(&checks.items[0], "9.0\n", 4, &message));
	assert_non_null(strstr(buf_bytes(&message), "only numbers"));
	checks_release(&checks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_says_that_only_numbers_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
