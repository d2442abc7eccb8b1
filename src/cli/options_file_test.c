/*
 * Options from a file: what is taken, what is refused, and where the words go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/options_file.h"

static char NAME[] = "ask", FLAG[] = "--json", DASH[] = "-";
static char *const WORDS[] = {NAME, FLAG, DASH, NULL};

static int split(struct options_file *file, const char *bytes, size_t len, struct err *err)
{
	char *argv[4];

	memcpy(argv, WORDS, sizeof(argv));
	return options_file_split(file, bytes, len, 3, argv, err);
}

static void test_words_go_behind_the_name(void **state)
{
	static const char bytes[] = "--expect=a b\nc\0--private\0--input=\xff--x";
	cleanup_options_file struct options_file file = OPTIONS_FILE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(split(&file, bytes, sizeof(bytes), &err), 0);
	assert_int_equal(file.argc, 6);
	assert_string_equal(file.argv[0], "ask");
	assert_string_equal(file.argv[1], "--expect=a b\nc");
	assert_string_equal(file.argv[2], "--private");
	assert_string_equal(file.argv[3], "--input=\xff--x");
	assert_string_equal(file.argv[4], "--json");
	assert_string_equal(file.argv[5], "-");
	assert_null(file.argv[6]);
}

static void test_an_empty_file_adds_nothing(void **state)
{
	cleanup_options_file struct options_file file = OPTIONS_FILE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(split(&file, "", 0, &err), 0);
	assert_int_equal(file.argc, 3);
	assert_string_equal(file.argv[2], "-");
}

static void refused(const char *bytes, size_t len, const char *words)
{
	cleanup_options_file struct options_file file = OPTIONS_FILE_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(split(&file, bytes, len, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_non_null(strstr(err.text, words));
}

static void test_refused(void **state)
{
	size_t len = ((size_t)OPTIONS_FILE_WORDS_MAX + 1) * 4;
	cleanup_free char *many = mem_zalloc(len);

	(void)state;
	refused("--a", 3, "does not end");
	refused("--a\0instruction\0", 16, "word 2");
	refused("--\0", 3, "word 1");
	refused("-q\0", 3, "word 1");
	refused("--=x\0", 5, "word 1");
	refused("\0", 1, "word 1");
	for (size_t i = 0; i < len; i += 4)
		memcpy(many + i, "--a", 3);
	refused(many, len, "more than 256");
}

static void test_a_file_that_is_not_there(void **state)
{
	cleanup_options_file struct options_file file = OPTIONS_FILE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(options_file_read(&file, "/nonexistent/options", 0, NULL, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "--options"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_go_behind_the_name),
		cmocka_unit_test(test_an_empty_file_adds_nothing),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_a_file_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
