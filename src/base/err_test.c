/*
 * Errors: texts are filled, cut and cleaned; the table has no holes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

static void test_set(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&err, ERR_LIMIT, "%s of %d", "cell", 7), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(err.sys, 0);
	assert_string_equal(err.text, "cell of 7");
	/* The text may be one of its own arguments. */
	err_set(&err, ERR_BUSY, "again: %s", err.text);
	assert_string_equal(err.text, "again: cell of 7");
	assert_int_equal(err_set(NULL, ERR_LIMIT, "x"), -1);
}

static void test_sys(void **state)
{
	static const struct {
		int sys;
		enum err_code code;
	} CASES[] = {
		{ENOSPC, ERR_NO_SPACE}, {EDQUOT, ERR_NO_SPACE}, {ENOENT, ERR_NOT_FOUND},
		{EACCES, ERR_DENIED},	{EPERM, ERR_DENIED},	{EIO, ERR_IO},
		{123456, ERR_IO},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct err err = ERR_INIT;

		errno = CASES[i].sys;
		assert_int_equal(err_sys(&err, "cannot open %s", "x"), -1);
		assert_int_equal(err.code, CASES[i].code);
		assert_int_equal(err.sys, CASES[i].sys);
		assert_memory_equal(err.text, "cannot open x: ", 15);
	}
	assert_int_equal(err_sys(NULL, "x"), -1);
}

static void test_wrap(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	errno = ENOENT;
	err_sys(&err, "cannot open x");
	assert_int_equal(err_wrap(&err, "session %s", "s1"), -1);
	assert_string_equal(err.text, "session s1: cannot open x: No such file or directory");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(err.sys, ENOENT);
	for (int i = 0; i < 100; i++)
		err_wrap(&err, "layer %d", i);
	assert_true(strlen(err.text) < sizeof(err.text));
	assert_memory_equal(err.text, "layer 99: layer 98: ", 20);
	assert_int_equal(err_wrap(NULL, "x"), -1);
}

/* Whatever the length, a text that does not fit is cut at a code point. */
static void test_cut(void **state)
{
	static const char *const POINTS[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};

	(void)state;
	for (size_t p = 0; p < 4; p++) {
		for (size_t shift = 0; shift < 4; shift++) {
			struct err err = ERR_INIT;
			char text[600] = "";
			size_t width = strlen(POINTS[p]);
			size_t len = shift;

			memset(text, 'x', shift);
			for (; len + width < sizeof(text); len += width)
				memcpy(text + len, POINTS[p], width);
			text[len] = '\0';
			err_set(&err, ERR_INVALID, "%s", text);
			assert_true(text_is_utf8(err.text, strlen(err.text)));
			assert_true(strlen(err.text) > sizeof(err.text) - 1 - width);
			assert_memory_equal(err.text, text, strlen(err.text));
		}
	}
}

static void test_foreign_bytes(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, ERR_NOT_FOUND, "no file a%sb", "\xff\xc3\x28\xed\xa0\x80");
	assert_true(text_is_utf8(err.text, strlen(err.text)));
	assert_string_equal(err.text, "no file a?" "?(?" "?" "?b");
}

static void test_table(void **state)
{
	(void)state;
	for (int i = 0; i < ERR_CODE_COUNT; i++) {
		enum err_code code = (enum err_code)i;

		assert_non_null(err_name(code));
		assert_int_equal(err_from_name(err_name(code)), code);
		assert_in_range(err_http_status(code), 400, 599);
		assert_true(err_jsonrpc(code) < 0);
		if (code != ERR_OK && code != ERR_USAGE)
			assert_int_equal(err_exit_status(code), 125);
	}
	assert_int_equal(err_exit_status(ERR_OK), 0);
	assert_int_equal(err_exit_status(ERR_USAGE), 2);
	assert_string_equal(err_name(ERR_NO_SPACE), "no_space");
	assert_true(err_retry(ERR_BUSY));
	assert_false(err_retry(ERR_INVALID));
	assert_int_equal(err_from_name("nonsense"), ERR_INTERNAL);
	assert_int_equal(err_from_name(NULL), ERR_INTERNAL);
	assert_string_equal(err_name((enum err_code)999), "internal");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),  cmocka_unit_test(test_sys),
		cmocka_unit_test(test_wrap), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_foreign_bytes), cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
