/* Lines of stdin as answers to prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/input.h"

static void expect_line(struct input *input, const char *text)
{
	assert_int_equal(input_next(input), INPUT_LINE);
	assert_int_equal(input->answer.len, strlen(text));
	assert_memory_equal(buf_bytes(&input->answer), text, input->answer.len);
	input_done(input);
}

static void test_lines(void **state)
{
	static const char text[] = "one\ntwo\r\n\n\xff\nlast";
	struct input input;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(file_write_all(fds[1], text, sizeof(text) - 1, NULL), 0);
	close(fds[1]);
	input_init(&input, fds[0]);
	assert_false(input_wants(&input)); /* nothing is read before a prompt */
	assert_int_equal(input_next(&input), INPUT_NONE);
	input_ask(&input, true); /* a password from no terminal is a line like any other */
	assert_true(input_wants(&input));
	assert_int_equal(input_next(&input), INPUT_NONE);
	input_read(&input);
	expect_line(&input, "one");
	assert_int_equal(input_next(&input), INPUT_NONE); /* no prompt waits */
	input_ask(&input, false);
	expect_line(&input, "two");
	input_ask(&input, false);
	expect_line(&input, "");
	input_ask(&input, false);
	expect_line(&input, "\xef\xbf\xbd");
	input_ask(&input, false);
	assert_int_equal(input_next(&input), INPUT_NONE); /* more may come */
	input_read(&input);
	assert_false(input_wants(&input));
	expect_line(&input, "last");
	input_ask(&input, false);
	assert_int_equal(input_next(&input), INPUT_END);
	assert_int_equal(input_next(&input), INPUT_END);
	input_release(&input);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
