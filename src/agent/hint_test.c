/*
 * What a model is told, and what is doubted: errors, outputs and workspaces in words.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/describe.h"
#include "agent/hint.h"
#include "agent/suspect.h"
#include "base/mem.h"

static const struct hint_place PLACE = {
	.modules = "numpy, pandas", .files = "a.csv, b.txt", .timeout_s = 10};

static struct attempt failed(enum attempt_status status, const char *ename, const char *evalue)
{
	struct attempt attempt = {.number = 1, .status = status, .outcome = OUTCOME_INIT};

	attempt.outcome.ename = mem_string(ename);
	attempt.outcome.evalue = mem_string(evalue);
	return attempt;
}

struct row {
	enum attempt_status status;
	const char *ename, *evalue;
	const char *advice; /* a part of it */
};

static const struct row ROWS[] = {
	{ATTEMPT_ERROR, "ModuleNotFoundError", "No module named 'sklearn.svm'",
	 "sklearn is not installed and cannot be: do not import it. Use what is here: numpy "
	 "(arrays, numpy.linalg), statistics (mean, median, stdev), math"},
	{ATTEMPT_ERROR, "ModuleNotFoundError", "odd", "That is not installed"},
	{ATTEMPT_ERROR, "FileNotFoundError", "[Errno 2] ...", "a.csv, b.txt"},
	{ATTEMPT_ERROR, "EOFError", "input() was called", "input()"},
	{ATTEMPT_ERROR, "ValueError", "could not convert string to float: ''", "empty"},
	{ATTEMPT_ERROR, "KeyError", "'Name'", "no such key"},
	{ATTEMPT_TIMEOUT, NULL, NULL, "10 seconds"},
	{ATTEMPT_EMPTY, NULL, NULL, "print()"},
};

static void test_advice(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct attempt attempt = failed(ROWS[i].status, ROWS[i].ename, ROWS[i].evalue);
		cleanup_buf struct buf out = BUF_INIT, what = BUF_INIT;

		hint_advice(&out, &attempt, &PLACE);
		hint_failure(&what, &attempt);
		if (!strstr(buf_bytes(&out), ROWS[i].advice))
			fail_msg("row %zu: %s", i, buf_bytes(&out));
		assert_true(what.len > 0 && what.len < 1000);
		attempt_release(&attempt);
	}
}

static void test_the_expected_text_is_not_given_away(void **state)
{
	static const char TEXT[] = "[{\"kind\":\"expect\",\"ok\":false,\"message\":"
				   "\"the output is 7, expected is 5050\"}]";
	static const char REGEX[] = "[{\"kind\":\"expect\",\"ok\":false,\"message\":"
				    "\"/^[0-9]{4}$/ is not found in the output 7\"}]";
	struct attempt attempt = failed(ATTEMPT_OK, NULL, NULL);
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	outcome_add(&attempt.outcome, false, "7\n", 2);
	attempt.checks = json_parse(TEXT, strlen(TEXT), &JSON_LIMITS, NULL);
	hint_failure(&out, &attempt);
	assert_string_equal(buf_bytes(&out), "It printed: 7\nThat is not the right output.\n");
	json_free(attempt.checks);
	attempt.checks = json_parse(REGEX, strlen(REGEX), &JSON_LIMITS, NULL);
	buf_clear(&out);
	hint_failure(&out, &attempt);
	assert_non_null(strstr(buf_bytes(&out), "This does not hold: /^[0-9]{4}$/"));
	attempt_release(&attempt);
}

static void test_failure_is_short(void **state)
{
	struct attempt attempt = failed(ATTEMPT_ERROR, "ValueError", NULL);
	cleanup_buf struct buf value = BUF_INIT, out = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		buf_append_string(&value, "é");
	attempt.outcome.evalue = mem_string(buf_bytes(&value));
	attempt.outcome.line = 3;
	attempt.outcome.source = mem_string("x = int(y)");
	hint_failure(&out, &attempt);
	assert_memory_equal(buf_bytes(&out), "Line 3: x = int(y)\nValueError: ", 31);
	assert_true(out.len < 700);
	attempt_release(&attempt);
}

/* --- doubts ----------------------------------------------------------------------------------- */

struct doubt {
	const char *out, *err, *result;
	bool doubtful;
	size_t suspicions;
};

static const struct doubt DOUBTS[] = {
	{"42\n", "", NULL, false, 0},
	{"Error: no such file\n", "", NULL, true, 1},
	{"An error occurred: x\n", "", NULL, true, 1},
	{"ValueError: x\n", "", NULL, true, 1},
	{"Errors: 3\n", "", NULL, false, 0},
	{"mean error: 0.3\n", "", NULL, false, 0},
	{"None\n", "", NULL, true, 1},
	{"None\n1\n", "", NULL, false, 0},
	{"", "", "42", false, 1},
	{"3\n", "<cell 1>:2: FutureWarning: use x instead\n  y\n", NULL, false, 1},
	{"3\n", "a.py:2: ChainedAssignmentError: A value is being set on a copy\n", NULL, true, 1},
	{"3\n", "loading ...\n", NULL, false, 0},
};

static void test_doubts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(DOUBTS) / sizeof(DOUBTS[0]); i++) {
		const struct doubt *row = &DOUBTS[i];
		struct attempt attempt = {.status = ATTEMPT_OK, .outcome = OUTCOME_INIT};

		attempt.code = mem_string("x = 6 * 7\nprint(x)\n");
		attempt.outcome.status = OUTCOME_OK;
		attempt.outcome.result = mem_string(row->result);
		outcome_add(&attempt.outcome, false, row->out, strlen(row->out));
		outcome_add(&attempt.outcome, true, row->err, strlen(row->err));
		suspect(&attempt);
		if (attempt.doubtful != row->doubtful ||
		    json_length(attempt.suspicions) != row->suspicions)
			fail_msg("row %zu: doubtful %d, %zu suspicions", i, attempt.doubtful,
				 json_length(attempt.suspicions));
		attempt_release(&attempt);
	}
}

static void test_typed_in(void **state)
{
	(void)state;
	assert_true(suspect_typed_in("print(42)\n"));
	assert_true(suspect_typed_in("# computed\nprint('Ann, Bob')\nprint(-1.5)\n"));
	assert_false(suspect_typed_in("print(6 * 7)\n"));
	assert_false(suspect_typed_in("print(len('abc'))\n"));
	assert_false(suspect_typed_in("x = 3\nprint(x)\n"));
	assert_false(suspect_typed_in(""));
	assert_true(suspect_typed_in("print('it\\'s x = 1')"));
	assert_true(suspect_typed_in("print('unclosed"));
}

static void test_warnings_once(void **state)
{
	static const char TEXT[] = "a:1: FutureWarning: x\nb:9: FutureWarning: x\n"
				   "a:1: UserWarning: 1\na:1: UserWarning: 2\nWarning: 3\n";
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	assert_int_equal(suspect_warnings(&out, TEXT, strlen(TEXT)), 3);
	assert_string_equal(buf_bytes(&out), "FutureWarning: x\nUserWarning: 1\nUserWarning: 2\n");
}

/* --- workspaces ------------------------------------------------------------------------------- */

static void test_files(void **state)
{
	const struct describe_file files[] = {
		{.name = "a.csv",
		 .bytes = 22,
		 .head = "x,y\r\n1,2\r\n3,4\r\n5,6\r\n",
		 .head_len = 20},
		{.name = "b.bin", .bytes = 2048, .head = "a\0b", .head_len = 3},
		{.name = "c\n.txt", .bytes = 2, .head = "h\xc3", .head_len = 2},
		{.name = "sub", .folder = true},
	};
	cleanup_buf struct buf out = BUF_INIT, names = BUF_INIT;

	(void)state;
	describe_files(&out, files, 4, 0, 10000);
	assert_string_equal(buf_bytes(&out), "Files in the current folder:\n"
					     "- a.csv (22 bytes):\n    x,y\n    1,2\n    3,4\n"
					     "    ...\n"
					     "- b.bin (2.0 KB)\n"
					     "- c\\x0a.txt (2 bytes):\n    h\n"
					     "- sub/\n\n");
	describe_names(&names, files, 2);
	assert_string_equal(buf_bytes(&names), "a.csv, b.bin");
}

static void test_files_within_a_budget(void **state)
{
	struct describe_file files[DESCRIBE_FILES_MAX];

	(void)state;
	for (size_t i = 0; i < DESCRIBE_FILES_MAX; i++)
		files[i] = (struct describe_file){.name = "name.csv",
						  .bytes = 100,
						  .head = "col,other,and,more\n",
						  .head_len = 19};
	for (size_t budget = 0; budget < 3000; budget += 13) {
		cleanup_buf struct buf out = BUF_INIT;

		describe_files(&out, files, DESCRIBE_FILES_MAX, 7, budget);
		assert_true(out.len <= budget + 64);
		assert_non_null(strstr(buf_bytes(&out), "more\n"));
	}
}

static void test_variables(void **state)
{
	static const char ANSWER[] =
		"{\"variables\":[{\"name\":\"df\",\"type\":\"DataFrame\",\"shape\":[5,3],"
		"\"repr\":\"   a\\n0  1\"},{\"name\":\"n\",\"type\":\"int\",\"repr\":\"5\"},"
		"{\"name\":\"l\",\"type\":\"list\",\"length\":2,\"repr\":\"[1, 2]\"},{},null]}";
	cleanup_json struct json *answer = json_parse(ANSWER, strlen(ANSWER), &JSON_LIMITS, NULL);
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	describe_variables(&out, answer, 1000);
	assert_string_equal(buf_bytes(&out), "Variables that exist already and can be used:\n"
					     "- df: DataFrame [5,3]\n- n: int = 5\n"
					     "- l: list of 2 = [1, 2]\n\n");
	buf_clear(&out);
	describe_variables(&out, NULL, 1000);
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_advice),    cmocka_unit_test(test_failure_is_short),
		cmocka_unit_test(test_doubts),    cmocka_unit_test(test_typed_in),
		cmocka_unit_test(test_files),     cmocka_unit_test(test_files_within_a_budget),
		cmocka_unit_test(test_variables), cmocka_unit_test(test_warnings_once),
		cmocka_unit_test(test_the_expected_text_is_not_given_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
