/* Words about a return: each list, long ones, hostile names, nothing at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/went_back.h"

static void check(const char *body, const char *want)
{
	cleanup_json struct json *json = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
	cleanup_buf struct buf out = BUF_INIT;

	assert_non_null(json);
	went_back_cells(&out, json);
	went_back_rest(&out, json);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_lists(void **state)
{
	(void)state;
	check("{\"rolled_back\":[\"c1\",\"c2\"],\"lost\":{},\"files\":{}}",
	      "rolled back: c1, c2\n");
	check("{\"rolled_back\":[]}", "no cell was rolled back\n");
	check("{}", "no cell was rolled back\n");
	check("{\"rolled_back\":[\"c1\"],\"lost\":{\"threads\":[\"work\"]},\"files\":{\"restored\":"
	      "[\"a\",\"b\"],\"removed\":[\"c\"],\"not_protected\":[{\"path\":\"big\",\"reason\":"
	      "\"larger than 32 MiB\"}],\"differ\":[{\"path\":\"d\",\"change\":\"changed\"}],"
	      "\"more\":3}}",
	      "rolled back: c1\n"
	      "not restored: thread work\n"
	      "files restored: a, b\n"
	      "files removed: c\n"
	      "files that could not be restored: big (larger than 32 MiB)\n"
	      "files that are not as they were then: d (changed)\n"
	      "and 3 more files\n");
}

static void test_long_and_hostile(void **state)
{
	(void)state;
	check("{\"rolled_back\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\","
	      "\"11\",\"12\"]}",
	      "rolled back: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more\n");
	check("{\"rolled_back\":[\"c\"],\"files\":{\"restored\":[\"a\\u001b[2J\\nb\",7,{}],"
	      "\"differ\":\"x\",\"more\":-1}}",
	      "rolled back: c\nfiles restored: a\\x1b[2J\\x0ab, ?, ?\n");
	check("{\"rolled_back\":7,\"lost\":[1],\"files\":null}", "no cell was rolled back\n");
}

static void test_option(void **state)
{
	enum fh_files files = FH_FILES_DEFAULT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(went_back_files("yes", &files, &err), 0);
	assert_int_equal(files, FH_FILES_BACK);
	assert_int_equal(went_back_files("no", &files, &err), 0);
	assert_int_equal(files, FH_FILES_STAY);
	assert_int_equal(went_back_files("true", &files, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_long_and_hostile),
		cmocka_unit_test(test_option),
	};

	return cmocka_run_group_tests_name("went_back", tests, NULL, NULL);
}
