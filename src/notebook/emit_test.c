/* The printed form: each value against the bytes that Python's json.dumps gives for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "notebook/emit.h"

static struct json *parse(const char *text)
{
	struct err err = ERR_INIT;
	struct json *json = json_parse(text, strlen(text), &JSON_LIMITS, &err);

	assert_int_equal(err.code, ERR_OK);
	return json;
}

static void check_value(const char *text, const char *want)
{
	cleanup_json struct json *json = parse(text);
	cleanup_buf struct buf out = BUF_INIT;
	struct emit emit = EMIT_INIT(&out, false, 0);

	emit_value(&emit, json);
	assert_string_equal(buf_bytes(&out), want);
}

static void check_bundle(const char *text, bool joined, const char *want)
{
	cleanup_json struct json *json = parse(text);
	cleanup_buf struct buf out = BUF_INIT;
	struct emit emit = EMIT_INIT(&out, joined, 0);

	emit_bundle(&emit, json);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_values(void **state)
{
	(void)state;
	check_value("null", "null");
	check_value("[]", "[]");
	check_value("{}", "{}");
	check_value("[[],{}]", "[\n [],\n {}\n]");
	check_value("{\"b\":1,\"a\":[true,false,null]}",
		    "{\n \"a\": [\n  true,\n  false,\n  null\n ],\n \"b\": 1\n}");
	check_value("\"\\u0000\\u001f\\\"\\\\/\\u007f\\b\\f\\n\\r\\t\\u2028\"",
		    "\"\\u0000\\u001f\\\"\\\\/\x7f\\b\\f\\n\\r\\t\u2028\"");
}

static void test_numbers_keep_their_digits(void **state)
{
	(void)state;
	check_value("1.0", "1.0");
	check_value("-0.0", "-0.0");
	check_value("1E5", "1E5");
	check_value("1e400", "1e400");
	check_value("0.1000", "0.1000");
	check_value("123456789012345678901234567890", "123456789012345678901234567890");
}

/* Python would not read the file with such an integer in it. */
static void test_endless_integer_becomes_text(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf want = BUF_INIT;

	(void)state;
	buf_append_char(&text, '-');
	for (int i = 0; i < EMIT_INT_DIGITS_MAX; i++)
		buf_append_char(&text, '9');
	check_value(buf_bytes(&text), buf_bytes(&text));
	buf_append_char(&text, '9');
	buf_printf(&want, "\"%s\"", buf_bytes(&text));
	check_value(buf_bytes(&text), buf_bytes(&want));
	buf_append_string(&text, ".0");
	check_value(buf_bytes(&text), buf_bytes(&text));
}

static void test_keys_are_sorted_by_code_point(void **state)
{
	(void)state;
	/* U+FFFD sorts before U+10000, where UTF-16 order would have it the other way. */
	check_value("{\"\xf0\x90\x80\x80\":1,\"\xef\xbf\xbd\":2,\"ab\":3,\"a\":4,\"\":5,\"B\":6}",
		    "{\n \"\": 5,\n \"B\": 6,\n \"a\": 4,\n \"ab\": 3,\n \"\xef\xbf\xbd\": 2,\n "
		    "\"\xf0\x90\x80\x80\": 1\n}");
	check_value("{\"a\\u0000b\":1,\"a\":2,\"a\\u0001\":3}",
		    "{\n \"a\": 2,\n \"a\\u0000b\": 1,\n \"a\\u0001\": 3\n}");
}

static void check_lines(const char *text, size_t len, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct emit emit = EMIT_INIT(&out, false, 0);

	emit_lines(&emit, text, len);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_lines(void **state)
{
	(void)state;
	check_lines("", 0, "[]");
	check_lines("a", 1, "[\n \"a\"\n]");
	check_lines("a\n", 2, "[\n \"a\\n\"\n]");
	check_lines("\n\n", 2, "[\n \"\\n\",\n \"\\n\"\n]");
	check_lines("a\r\nb\rc", 6, "[\n \"a\\r\\n\",\n \"b\\r\",\n \"c\"\n]");
	check_lines("\v\f\x1c\x1d\x1e\x1f|", 7,
		    "[\n \"\\u000b\",\n \"\\f\",\n \"\\u001c\",\n \"\\u001d\",\n \"\\u001e\",\n "
		    "\"\\u001f|\"\n]");
	check_lines("\xc2\x85\u2028\u2029\u00a0\u2027", 13,
		    "[\n \"\xc2\x85\",\n \"\u2028\",\n \"\u2029\",\n \"\u00a0\u2027\"\n]");
	check_lines("a\0b\nc", 5, "[\n \"a\\u0000b\\n\",\n \"c\"\n]");
	check_lines("\xe2\x80", 2, "[\n \"\xef\xbf\xbd\"\n]"); /* never from a valid text */
}

static void test_bundle(void **state)
{
	(void)state;
	check_bundle("{\"text/plain\":\"a\\nb\",\"image/png\":\"AA\\nBB\\n\"}", false,
		     "{\n \"image/png\": \"AA\\nBB\\n\",\n \"text/plain\": [\n  \"a\\n\",\n  "
		     "\"b\"\n ]\n}");
	check_bundle("{\"text/html\":[\"a\\n\",\"b\"],\"image/svg+xml\":\"\"}", false,
		     "{\n \"image/svg+xml\": [],\n \"text/html\": [\n  \"a\\n\",\n  \"b\"\n ]\n}");
	check_bundle("{\"text/html\":[\"a\\n\",\"b\"],\"application/json\":[\"a\",\"b\"]}", true,
		     "{\"application/json\":[\"a\",\"b\"],\"text/html\":\"a\\nb\"}");
	check_bundle("{\"text/plain\":{\"b\":1.50},\"a\":null,\"b\":[\"x\",1],\"c\":[]}", true,
		     "{\"a\":\"null\",\"b\":\"[\\\"x\\\",1]\",\"c\":\"\",\"text/"
		     "plain\":\"{\\\"b\\\":1.50}\"}");
}

static void test_json_mimes(void **state)
{
	(void)state;
	check_bundle("{\"application/vnd.plotly.v1+json\":{\"x\":[1]},\"application/+json\":1}",
		     true,
		     "{\"application/+json\":1,\"application/vnd.plotly.v1+json\":{\"x\":[1]}}");
	/* These look like JSON types but nbformat takes only texts under them. */
	check_bundle("{\"application/vnd.vegalite.v5.json\":{\"x\":1},\"image/svg+json\":{},"
		     "\"application/json;charset=utf8\":1,\"application/a\\n+json\":2}",
		     true,
		     "{\"application/a\\n+json\":\"2\",\"application/json;charset=utf8\":\"1\","
		     "\"application/vnd.vegalite.v5.json\":\"{\\\"x\\\":1}\",\"image/"
		     "svg+json\":\"{}\"}");
}

static void test_what_is_no_bundle(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct emit emit = EMIT_INIT(&out, true, 0);
	cleanup_json struct json *attachments =
		parse("{\"b.png\":{\"image/png\":\"QQ==\"},\"a.png\":null,\"c\":[1]}");

	(void)state;
	check_bundle("[1]", true, "{}");
	check_bundle("null", true, "{}");
	emit_attachments(&emit, attachments);
	assert_string_equal(buf_bytes(&out), "{\"b.png\":{\"image/png\":\"QQ==\"}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_numbers_keep_their_digits),
		cmocka_unit_test(test_endless_integer_becomes_text),
		cmocka_unit_test(test_keys_are_sorted_by_code_point),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_bundle),
		cmocka_unit_test(test_json_mimes),
		cmocka_unit_test(test_what_is_no_bundle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
