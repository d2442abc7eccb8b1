/* Parameters: types inferred as Python does, source as papermill prints it; and path templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/parameters.h"
#include "cli/template.h"

static void check_value(struct json *value, const char *source)
{
	cleanup_buf struct buf out = BUF_INIT;

	parameters_value_source(value, &out);
	assert_string_equal(buf_bytes(&out), source);
	json_free(value);
}

static void infer(const char *text, const char *source)
{
	check_value(parameters_infer(text, strlen(text)), source);
}

/* The right side is what papermill 2.7 on Python 3.11 prints. */
static void test_infer(void **state)
{
	char digits[4302];

	(void)state;
	infer("True", "True");
	infer("False", "False");
	infer("None", "None");
	infer("true", "\"true\"");
	infer("", "\"\"");
	infer("5", "5");
	infer("-0", "0");
	infer("+5", "5");
	infer("007", "7");
	infer("1_000", "1000");
	infer("1__0", "\"1__0\"");
	infer("_1", "\"_1\"");
	infer("1_", "\"1_\"");
	infer(" 12 ", "12");
	infer("\xc2\xa0"
	      "12\n",
	      "12");
	infer("\xd9\xa3\xd9\xa4", "34");
	infer("\xef\xbc\x91\xef\xbc\x92.5", "12.5");
	infer("0x10", "\"0x10\"");
	infer("1 2", "\"1 2\"");
	infer("- 1", "\"- 1\"");
	infer("123456789012345678901234567890", "123456789012345678901234567890");
	infer("1.50", "1.5");
	infer(".5", "0.5");
	infer("5.", "5.0");
	infer("-0.0", "-0.0");
	infer("1e5", "100000.0");
	infer("1_0.2_5e1_0", "102500000000.0");
	infer("1e400", "float('inf')");
	infer("-1e400", "float('-inf')");
	infer("nan", "float('nan')");
	infer("-NaN", "float('nan')");
	infer("Infinity", "float('inf')");
	infer("-inf", "float('-inf')");
	infer(".", "\".\"");
	infer("e5", "\"e5\"");
	infer("1e", "\"1e\"");
	infer("a\"b\\\n\t\x01", "\"a\\\"b\\\\\\n\\t\\x01\"");
	infer("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'", "\"\\xe9\\u20ac\\U0001f600'\"");
	memset(digits, '9', sizeof(digits));
	digits[4301] = '\0';
	infer(digits, "float('inf')");
	digits[4300] = '\0';
	check_value(parameters_infer(digits, 4300), digits);
}

static void check_parsed(const char *text, const char *source)
{
	struct json *value;

	assert_int_equal(parameters_parse(text, strlen(text), &value), 1);
	check_value(value, source);
}

static void test_parse(void **state)
{
	struct json *value;

	(void)state;
	check_parsed(" \n", "None");
	check_parsed("null", "None");
	check_parsed("{\"a\":[1,1.50,true,null,\"x\"],\"b c\":{}}",
		     "{\"a\": [1, 1.5, True, None, \"x\"], \"b c\": {}}");
	check_parsed("[12345678901234567890, -0, 1e5, 1e400, -1e400, {}]",
		     "[12345678901234567890, 0, 100000.0, float('inf'), float('-inf'), {}]");
	assert_int_equal(parameters_parse("a: 1", 4, &value), 0);
	assert_int_equal(parameters_parse("{a: 1}", 6, &value), 0);
	assert_int_equal(parameters_parse("[NaN]", 5, &value), 0);
	assert_int_equal(parameters_parse("{\"a\":1} x", 9, &value), 0);
	assert_null(value);
}

static void test_merge_keeps_places(void **state)
{
	cleanup_parameters struct parameters parameters = PARAMETERS_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_json struct json *json = NULL, *list = json_new_array(), *made = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(parameters_parse("{\"b\":1,\"a\":{\"x\":2}}", 19, &json), 1);
	assert_int_equal(parameters_merge(&parameters, json, &err), 0);
	assert_int_equal(parameters_merge(&parameters, NULL, &err), 0);
	parameters_set(&parameters, "c", parameters_infer("nan", 3));
	parameters_set(&parameters, "b", json_new_string("new", 3));
	parameters_source(&parameters, &out);
	assert_string_equal(buf_bytes(&out),
			    "# Parameters\nb = \"new\"\na = {\"x\": 2}\nc = float('nan')\n");
	made = parameters_json(&parameters);
	assert_string_equal(json_get_string(made, "c"), "nan");
	assert_int_equal(parameters_merge(&parameters, list, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void check_name(const char *name, bool good)
{
	cleanup_parameters struct parameters parameters = PARAMETERS_INIT;
	struct err err = ERR_INIT;

	parameters_set(&parameters, name, NULL);
	assert_int_equal(parameters_check(&parameters, &err), good ? 0 : -1);
	assert_int_equal(err.code, good ? ERR_OK : ERR_USAGE);
}

static void test_names(void **state)
{
	(void)state;
	check_name("a", true);
	check_name("_a1", true);
	check_name("h\xc3\xb6he", true);
	check_name("match", true);
	check_name("", false);
	check_name("1a", false);
	check_name("a-b", false);
	check_name("a.b", false);
	check_name("a = 1\nimport os #", false);
	check_name("class", false);
}

static void test_assigned(void **state)
{
	static const char source[] = "# x = 1\nalpha = 1\nbeta : int = 2\ngamma==3\n delta=1\nmsg=";

	(void)state;
	assert_true(parameters_assigned(source, sizeof(source) - 1, "alpha"));
	assert_true(parameters_assigned(source, sizeof(source) - 1, "beta"));
	assert_true(parameters_assigned(source, sizeof(source) - 1, "msg"));
	assert_false(parameters_assigned(source, sizeof(source) - 1, "gamma"));
	assert_false(parameters_assigned(source, sizeof(source) - 1, "delta"));
	assert_false(parameters_assigned(source, sizeof(source) - 1, "x"));
	assert_false(parameters_assigned(source, sizeof(source) - 1, "alph"));
}

/* --- templates -------------------------------------------------------------------------------- */

static const struct template_builtins BUILTINS = {.run_uuid = "1234", .now_us = 1700000000123456};

static char *fill(const char *path, struct err *err)
{
	static const char text[] = "{\"a\":\"x y\",\"n\":7,\"f\":1234.5678,\"t\":true,\"z\":null,"
				   "\"l\":[1,\"q'\",2.0],\"d\":{\"k\":{\"j\":9}}}";
	cleanup_parameters struct parameters parameters = PARAMETERS_INIT;
	cleanup_json struct json *json = NULL;

	assert_int_equal(parameters_parse(text, sizeof(text) - 1, &json), 1);
	assert_int_equal(parameters_merge(&parameters, json, err), 0);
	return template_fill(path, &parameters, &BUILTINS, err);
}

static void check_path(const char *path, const char *want)
{
	struct err err = ERR_INIT;
	cleanup_free char *made = fill(path, &err);

	if (!made)
		fail_msg("%s: %s", path, err.text);
	assert_string_equal(made, want);
}

/* The right side is what Python's str.format() gives. */
static void test_template(void **state)
{
	(void)state;
	check_path("plain \xff.ipynb", "plain \xff.ipynb");
	check_path("out_{a}_{n}.ipynb", "out_x y_7.ipynb");
	check_path("{{a}}{{", "{a}{");
	check_path("{n:03d}|{n:>4}|{n:<4}|{n:^5}|{n:+}|{n:x}|{n:*^5}",
		   "007|   7|7   |  7  |+7|7|**7**");
	check_path("{f}|{f:.2f}|{f:,.1f}|{f:010.2f}|{f:e}|{f:.0%}",
		   "1234.5678|1234.57|1,234.6|0001234.57|1.234568e+03|123457%");
	check_path("{a:>5}|{a:.1}|{a:_<5}|{a!r}|{a!s:5}", "  x y|x|x y__|'x y'|x y  ");
	check_path("{t}{z}{t:d}", "TrueNone1");
	check_path("{l}|{l[1]}|{d[k][j]}|{d.k.j}|{d}", "[1, \"q'\", 2.0]|q'|9|9|{'k': {'j': 9}}");
	check_path("{pm[run_uuid]}|{pm.run_uuid}", "1234|1234");
	check_path("{pm[current_datetime_utc]:%Y-%m-%d}", "2023-11-14");
	check_path("{pm[current_datetime_utc]}", "2023-11-14 22:13:20.123456+00:00");
}

static void check_wrong(const char *path, const char *says)
{
	struct err err = ERR_INIT;
	char *made = fill(path, &err);

	assert_null(made);
	assert_int_equal(err.code, ERR_USAGE);
	if (!strstr(err.text, says))
		fail_msg("\"%s\" says nothing of \"%s\"", err.text, says);
}

static void test_template_wrong(void **state)
{
	(void)state;
	check_wrong("{missing}", "missing");
	check_wrong("{", "single {");
	check_wrong("}", "single }");
	check_wrong("{a", "single {");
	check_wrong("{}", "parameter");
	check_wrong("{l[9]}", "l[9]");
	check_wrong("{l[x]}", "l[x]");
	check_wrong("{d[x]}", "d[x]");
	check_wrong("{a!x}", "no good field");
	check_wrong("{d[}", "no good field");
	check_wrong("{d.}", "no good field");
	check_wrong("{d[]}", "no good field");
	check_wrong("{d[k]x}", "no good field");
	check_wrong("{pm.}", "pm.");
	check_wrong("{a:d}", "does not fit");
	check_wrong("{f:d}", "does not fit");
	check_wrong("{n:99999}", "does not fit");
	check_wrong("{l:5}", "does not fit");
	check_wrong("{pm[x]}", "pm[x]");
	check_wrong("{pm}", "pm");
	check_wrong("{pm[current_datetime_utc]:%b}", "time format");
	check_wrong("{pm[current_datetime_utc]:%}", "time format");
	check_wrong("", "no path");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infer),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_merge_keeps_places),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_assigned),
		cmocka_unit_test(test_template),
		cmocka_unit_test(test_template_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
