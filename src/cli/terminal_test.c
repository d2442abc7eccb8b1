/* What reaches a terminal, also when a sequence comes in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/terminal.h"

/* A terminal that is only written to memory. */
static void pretend(struct terminal *terminal, bool tty, bool colour)
{
	*terminal = (struct terminal){.fd = -1, .tty = tty, .colour = colour, .line_start = true};
}

static void expect(struct terminal *terminal, const char *text)
{
	assert_int_equal(terminal->out.len, strlen(text));
	assert_memory_equal(buf_bytes(&terminal->out), text, terminal->out.len);
	buf_clear(&terminal->out);
}

static void guest(struct terminal *terminal, const char *text)
{
	terminal_guest(terminal, text, strlen(text));
}

static void test_no_terminal(void **state)
{
	struct terminal terminal;

	(void)state;
	pretend(&terminal, false, false);
	terminal_guest(&terminal, "a\0\033]0;x\007\xc2\x9b", 11);
	assert_int_equal(terminal.out.len, 11);
	assert_memory_equal(buf_bytes(&terminal.out), "a\0\033]0;x\007\xc2\x9b", 11);
	terminal_release(&terminal);
}

static void test_colours_pass(void **state)
{
	struct terminal terminal;

	(void)state;
	pretend(&terminal, true, true);
	guest(&terminal, "\033[1;31mred\033[K\r\b\n");
	expect(&terminal, "\033[1;31mred\033[K\r\b\n");
	assert_true(terminal.styled);
	terminal_own(&terminal, "own", true);
	expect(&terminal, "\033[0mown");
	terminal_release(&terminal);
}

static void test_the_rest_is_escaped(void **state)
{
	struct terminal terminal;

	(void)state;
	pretend(&terminal, true, true);
	guest(&terminal, "\033]0;title\007");
	expect(&terminal, "\\x1b]0;title\\x07");
	guest(&terminal, "\033[2J");
	expect(&terminal, "\\x1b[2J");
	guest(&terminal, "\xc2\x9b"
			 "2J");
	expect(&terminal, "\\u{9b}2J");
	terminal_release(&terminal);
	pretend(&terminal, true, false);
	guest(&terminal, "\033[31mx\r");
	expect(&terminal, "\\x1b[31mx\\x0d");
	assert_false(terminal.styled);
	terminal_release(&terminal);
}

/* Cut at every byte, the outcome is the same. */
static void test_pieces(void **state)
{
	static const char text[] = "a\033[31;1mb\033[2Jc\033]d\033[Ke";
	static const char shown[] = "a\033[31;1mb\\x1b[2Jc\\x1b]d\033[Ke";

	(void)state;
	for (size_t cut = 0; cut < sizeof(text); cut++) {
		struct terminal terminal;

		pretend(&terminal, true, true);
		terminal_guest(&terminal, text, cut);
		terminal_guest(&terminal, text + cut, sizeof(text) - 1 - cut);
		expect(&terminal, shown);
		terminal_release(&terminal);
	}
}

static void test_unfinished(void **state)
{
	static const char long_one[] = "\033[111111111111111111111111111111111111111111111111";
	struct terminal terminal;

	(void)state;
	assert_int_equal(terminal_unfinished("abc", 3), 0);
	assert_int_equal(terminal_unfinished("", 0), 0);
	assert_int_equal(terminal_unfinished("a\033", 2), 1);
	assert_int_equal(terminal_unfinished("a\033[3", 4), 3);
	assert_int_equal(terminal_unfinished("a\033[3m", 5), 0);
	assert_int_equal(terminal_unfinished("a\033]", 3), 0);
	assert_int_equal(terminal_unfinished(long_one, sizeof(long_one) - 1), 0);
	pretend(&terminal, true, true);
	guest(&terminal, "x\033[3");
	expect(&terminal, "x");
	terminal_own(&terminal, "end\n", false);
	expect(&terminal, "\\x1b[3end\n");
	terminal_release(&terminal);
}

static void test_own_line(void **state)
{
	struct terminal terminal;

	(void)state;
	pretend(&terminal, false, false);
	terminal_own(&terminal, "one\n", true);
	guest(&terminal, "two");
	terminal_own(&terminal, "three", true);
	terminal_own(&terminal, "", true);
	terminal_own(&terminal, "", true);
	expect(&terminal, "one\ntwo\nthree\n");
	terminal_release(&terminal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_terminal),         cmocka_unit_test(test_colours_pass),
		cmocka_unit_test(test_the_rest_is_escaped), cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_unfinished),          cmocka_unit_test(test_own_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
