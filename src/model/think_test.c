/* Thoughts in the answer, cut at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/think.h"

static void check(const char *text, const char *reasoning, const char *answer)
{
	size_t len = strlen(text);

	for (size_t piece = 1; piece <= len + 1; piece++) {
		cleanup_buf struct buf thought = BUF_INIT;
		cleanup_buf struct buf said = BUF_INIT;
		struct think think = THINK_INIT;

		for (size_t at = 0; at < len; at += piece) {
			size_t step = len - at < piece ? len - at : piece;

			think_feed(&think, text + at, step, &thought, &said);
		}
		think_end(&think, &thought, &said);
		assert_string_equal(buf_bytes(&thought), reasoning);
		assert_string_equal(buf_bytes(&said), answer);
	}
}

static void test_tags(void **state)
{
	(void)state;
	check("", "", "");
	check("print(1)", "", "print(1)");
	check("<think>a</think>b", "a", "b");
	check(" \n\t<think>\na\n</think>\n\n b\n", "\na\n", "b\n");
	check("<think></think>b", "", "b");
	check("<think>a</think>", "a", "");
	check("<think>a</think> \n", "a", "");
	check("<think>a", "a", "");
	check("<think>a</thin", "a</thin", "");
	check("<think>a</</think>b", "a</", "b");
	check("<think>a<</think>b", "a<", "b");
	check("<think>1 < 2 </thinking></think>b", "1 < 2 </thinking>", "b");
	check("<think>a<think>b</think>c", "a<think>b", "c");
	check("<think>a</think>b<think>c</think>", "a", "b<think>c</think>");
	check("x<think>a</think>", "", "x<think>a</think>");
	check("<thinker>a", "", "<thinker>a");
	check("<thi", "", "<thi");
	check("  \n", "", "  \n");
	check("  <x", "", "  <x");
}

static void test_endless_blanks(void **state)
{
	cleanup_buf struct buf thought = BUF_INIT;
	cleanup_buf struct buf said = BUF_INIT;
	struct think think = THINK_INIT;

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		think_feed(&think, " ", 1, &thought, &said);
	assert_true(said.len + think.held_len == 1000);
	think_feed(&think, "<think>a", 8, &thought, &said);
	think_end(&think, &thought, &said);
	assert_int_equal(said.len, 1008);
	assert_int_equal(thought.len, 0);
}

static void test_unopened(void **state)
{
	size_t thoughts = 9;

	(void)state;
	assert_int_equal(think_unopened("ab</think>\n\nx", 13, &thoughts), 12);
	assert_int_equal(thoughts, 2);
	assert_int_equal(think_unopened("ab", 2, &thoughts), 0);
	assert_int_equal(think_unopened("```\n</think>", 12, &thoughts), 0);
	assert_int_equal(thoughts, 0);
	assert_int_equal(think_unopened("</think>", 8, &thoughts), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_endless_blanks),
		cmocka_unit_test(test_unopened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
