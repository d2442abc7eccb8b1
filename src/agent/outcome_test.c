/*
 * Comparing outcomes: what is the same, what is alike, what is neither; where a program failed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/outcome.h"
#include "base/mem.h"

struct pair {
	const char *a, *b;
	bool same, alike;
};

static const struct pair PAIRS[] = {
	{"9", "9", true, true},
	{"9\n", "9", true, true},
	{"9  \n\n\n", "9\r\n", true, true},
	{"a\n\nb", "a\n\nb\n", true, true},
	{"a\nb", "a\n\nb", false, false},
	{" 9", "9", false, false}, /* blanks at the beginning count */
	{"", "\n \n\t\n", true, true},
	{"9", "9.0", false, true},
	{"9.50", "9.5", false, true},
	{"1,250", "1250", false, true},
	{"1,25", "125", false, false},
	{"total: 9.0 EUR", "total: 9 EUR", false, true},
	{"total: 9", "sum: 9", false, false},
	{"x9", "x9.0", false, false}, /* a name, no number */
	{"3.14159", "3.1416", false, false},
	{"0.1", "0.10000000001", false, true},
	{"-0", "0", false, true},
	{"1e5", "100000", false, false},
	{"007", "7", false, true},
	{"[1, 2]", "[1.0, 2.0]", false, true},
	{"1 2", "12", false, false},
	{"9", "9a", false, false},
	{"ä9", "ä9", true, true},
	{"2026-01-03", "2026-1-3", false, true},
};

static void test_pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(PAIRS) / sizeof(PAIRS[0]); i++) {
		const struct pair *p = &PAIRS[i];
		size_t a = strlen(p->a), b = strlen(p->b);

		if (outcome_text_same(p->a, a, p->b, b) != p->same ||
		    outcome_text_same(p->b, b, p->a, a) != p->same)
			fail_msg("pair %zu: same is not %d", i, p->same);
		if (outcome_text_alike(p->a, a, p->b, b) != p->alike ||
		    outcome_text_alike(p->b, b, p->a, a) != p->alike)
			fail_msg("pair %zu: alike is not %d", i, p->alike);
	}
}

/* Found by the fuzzer: a NUL is no blank, wherever it stands. */
static void test_nul(void **state)
{
	static const char TEXT[] = "a \0\n\0 \n\0";
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	outcome_normalise(&out, TEXT, sizeof(TEXT) - 1);
	assert_int_equal(out.len, 7);
	assert_memory_equal(buf_bytes(&out), "a \0\n\0\n\0", 7);
	assert_true(outcome_text_same(TEXT, sizeof(TEXT) - 1, TEXT, sizeof(TEXT) - 1));
}

static struct outcome made(const char *out, const char *files)
{
	struct outcome outcome = OUTCOME_INIT;

	outcome.status = OUTCOME_OK;
	outcome_add(&outcome, false, out, strlen(out));
	if (files)
		outcome.files = json_parse(files, strlen(files), &JSON_LIMITS, NULL);
	return outcome;
}

static void test_files_count(void **state)
{
	static const char ONE[] = "[{\"path\":\"a\",\"change\":\"created\",\"bytes\":1,"
				  "\"sha256\":\"x\"}]";
	static const char OTHER[] = "[{\"path\":\"a\",\"change\":\"created\",\"bytes\":1,"
				    "\"sha256\":\"y\"}]";
	cleanup_outcome struct outcome a = made("1\n", ONE), b = made("1\n", ONE),
				       c = made("1\n", OTHER), d = made("1\n", NULL);

	(void)state;
	assert_true(outcome_same(&a, &b));
	assert_false(outcome_same(&a, &c));
	assert_false(outcome_alike(&a, &c));
	assert_false(outcome_same(&a, &d));
	assert_false(outcome_is_empty(&a));
}

static void test_value_counts_when_nothing_is_printed(void **state)
{
	cleanup_outcome struct outcome a = made(" \n", NULL), b = made("42\n", NULL);

	(void)state;
	assert_true(outcome_is_empty(&a));
	a.result = mem_string("42");
	assert_false(outcome_is_empty(&a));
	assert_true(outcome_same(&a, &b));
}

/* What is not kept is compared by its length. */
static void test_flood(void **state)
{
	cleanup_outcome struct outcome a = OUTCOME_INIT, b = OUTCOME_INIT;
	cleanup_buf struct buf much = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		buf_append_string(&much, "€ many of these ");
	for (unsigned i = 0; i < 3; i++) {
		outcome_add(&a, false, buf_bytes(&much), much.len);
		outcome_add(&b, false, buf_bytes(&much), much.len);
	}
	a.status = b.status = OUTCOME_OK;
	assert_true(a.out.len <= OUTCOME_BYTES_MAX && a.out.len > OUTCOME_BYTES_MAX - 4);
	assert_int_equal(a.out_bytes, 3 * much.len);
	assert_true(outcome_same(&a, &b));
	outcome_add(&b, false, "x", 1);
	assert_false(outcome_same(&a, &b));
}

static void test_locate(void **state)
{
	cleanup_outcome struct outcome outcome = OUTCOME_INIT;

	(void)state;
	outcome.traceback = mem_string("Traceback (most recent call last):\n"
				       "  File \"<cell 3>\", line 4, in <module>\n    f()\n"
				       "  File \"<cell 3>\", line 2, in f\n    return 1 / 0\n"
				       "  File \"/usr/lib/python3/json.py\", line 99, in x\n"
				       "ZeroDivisionError: division by zero\n");
	outcome_locate(&outcome, "def f():\n\t return 1 / 0\n\nf()\n");
	assert_int_equal(outcome.line, 2);
	assert_string_equal(outcome.source, "return 1 / 0");
}

static void test_locate_nowhere(void **state)
{
	static const char *const tracebacks[] = {
		"",
		"File \"<cell 1>\", line 99, in <module>",
		"File \"<cell ",
		"File \"<cell 1>\", line -3",
		"File \"<cell 1>\nline 2\", line 2",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tracebacks) / sizeof(tracebacks[0]); i++) {
		cleanup_outcome struct outcome outcome = OUTCOME_INIT;

		outcome.traceback = mem_string(tracebacks[i]);
		outcome_locate(&outcome, "one\ntwo");
		assert_int_equal(outcome.line, 0);
		assert_null(outcome.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_files_count),
		cmocka_unit_test(test_value_counts_when_nothing_is_printed),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_locate),
		cmocka_unit_test(test_locate_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
