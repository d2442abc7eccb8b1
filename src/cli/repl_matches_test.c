/* What TAB adds, and what it lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/repl_matches.h"

static struct json *read(struct repl_matches *matches, const char *text)
{
	struct json *answer = json_parse(text, strlen(text), &JSON_LIMITS, NULL);

	assert_non_null(answer);
	repl_matches_read(matches, answer);
	return answer;
}

static void check(const char *answer_text, size_t count, size_t common, const char *list)
{
	struct repl_matches matches;
	struct json *answer = read(&matches, answer_text);
	cleanup_buf struct buf out = BUF_INIT;

	assert_int_equal(matches.count, count);
	assert_int_equal(repl_matches_common(&matches), common);
	repl_matches_list(&matches, 20, 3, &out);
	assert_string_equal(buf_bytes(&out), list);
	repl_matches_release(&matches);
	json_free(answer);
}

static void test_matches(void **state)
{
	(void)state;
	check("{\"matches\":[],\"cursor_start\":0,\"cursor_end\":0}", 0, 0, "");
	check("{}", 0, 0, "");
	check("{\"matches\":[\"append\"],\"cursor_start\":2,\"cursor_end\":4}", 1, 6, "append\n");
	check("{\"matches\":[\"abc\",\"abd\",\"ab\"]}", 3, 2, "abc  abd  ab\n");
	check("{\"matches\":[\"\u00e9\",\"\u00e8\"]}", 2, 0, "\u00e9  \u00e8\n");
	check("{\"matches\":[\"a\\nb\",\"\\u001b[2J\",3,\"\",\"ok\"]}", 1, 2, "ok\n");
	check("{\"matches\":[\"a\"],\"cursor_start\":5,\"cursor_end\":2}", 0, 0, "");
	check("{\"matches\":[\"a\"],\"cursor_start\":-1,\"cursor_end\":2}", 0, 0, "");
}

static void test_columns(void **state)
{
	(void)state;
	/* Columns of 5 + 2: three in 20. Downwards, as ls(1) does it. */
	check("{\"matches\":[\"a1\",\"a2\",\"a3\",\"a4\",\"aaaa5\"]}", 5, 1,
	      "a1     a3     aaaa5\na2     a4\n");
	check("{\"matches\":[\"a1\",\"a2\",\"a3\",\"a4\",\"a5\",\"a6\",\"a7\",\"a8\",\"a9\","
	      "\"aaaa10\"]}",
	      10, 1, "a1      a4\na2      a5\na3      a6\n... and 4 more\n");
	check("{\"matches\":[\"wider_than_the_terminal_is\",\"wider_still\"]}", 2, 6,
	      "wider_than_the_terminal_is\nwider_still\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),
		cmocka_unit_test(test_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
