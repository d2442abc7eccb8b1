/* Refusals: codes, words, members that are named, and what must not be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/fault.h"

static const struct fault_source SOURCE = {
	.shown = "http://h/v1", .model = "m", .key = "sk-secret"};

static void read_body(const char *body, int status, unsigned *fields, bool *vague, struct err *err)
{
	*err = (struct err)ERR_INIT;
	fault_from_body(body, strlen(body), status, &SOURCE, fields, vague, err);
	assert_null(strstr(err->text, "sk-secret"));
	assert_non_null(strstr(err->text, "http://h/v1"));
}

static void check_code(const char *body, int status, enum err_code code)
{
	unsigned fields;
	bool vague;
	struct err err;

	read_body(body, status, &fields, &vague, &err);
	assert_int_equal(err.code, code);
}

static void test_codes(void **state)
{
	(void)state;
	check_code("", 400, ERR_INVALID);
	check_code("{}", 401, ERR_DENIED);
	check_code("x", 403, ERR_DENIED);
	check_code("x", 404, ERR_NOT_FOUND);
	check_code("x", 408, ERR_TIMEOUT);
	check_code("x", 413, ERR_LIMIT);
	check_code("x", 418, ERR_INVALID);
	check_code("x", 429, ERR_BUSY);
	check_code("x", 500, ERR_GONE);
	check_code("x", 503, ERR_BUSY);
	check_code("x", 504, ERR_TIMEOUT);
	check_code("{\"error\":{\"message\":\"Prompt is too long: 5 > 4\"}}", 400, ERR_LIMIT);
	check_code("{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}", 400,
		   ERR_LIMIT);
	check_code("{\"error\":{\"message\":\"x\",\"code\":\"model_not_found\"}}", 400,
		   ERR_NOT_FOUND);
	check_code("{\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\"}}", 429,
		   ERR_DENIED);
	check_code("{\"error\":{\"message\":\"x\",\"type\":\"overloaded_error\"}}", 400, ERR_BUSY);
}

static void check_fields(const char *body, unsigned fields, bool vague)
{
	unsigned found;
	bool is_vague;
	struct err err;

	read_body(body, 400, &found, &is_vague, &err);
	assert_int_equal(found, fields);
	assert_int_equal(is_vague, vague);
	read_body(body, 500, &found, &is_vague, &err);
	assert_int_equal(found, 0);
	assert_false(is_vague);
}

static void test_fields(void **state)
{
	(void)state;
	check_fields("{\"error\":\"unknown: stream_options\"}", FIELD_STREAM_OPTIONS, false);
	check_fields("seed is not known", FIELD_SEED, false);
	check_fields("{\"error\":\"birdseed, seeds and seed_x\"}", 0, true);
	check_fields("{\"error\":\"stop doing this\"}", 0, true);
	check_fields("{\"error\":\"no 'stop' here\"}", FIELD_STOP, false);
	check_fields("{\"detail\":[{\"loc\":[\"body\",\"top_p\"],\"msg\":\"no\"}]}", FIELD_TOP_P,
		     false);
	check_fields("{\"error\":\"'max_tokens' and `temperature`\"}",
		     FIELD_MAX_TOKENS | FIELD_TEMPERATURE, false);
	check_fields("", 0, true);
	/* Too long a prompt is not mended by leaving something out. */
	check_fields("{\"error\":\"maximum context length, lower 'max_tokens'\"}", 0, false);
}

static void check_quote(const char *bytes, size_t len, const char *expected)
{
	cleanup_buf struct buf out = BUF_INIT;

	fault_quote(&out, bytes, len, "sk-secret");
	assert_string_equal(buf_bytes(&out), expected);
}

static void test_quotes(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_free char *many = mem_zalloc(100000);

	(void)state;
	check_quote(" a\n\n\tb ", 7, "a b ");
	check_quote("sk-secret!sk-secret", 19, "[key]![key]");
	check_quote("a\x1b[2J", 5, "a\\x1b[2J");
	check_quote("<html><title> Not\nthere</title>x", 32, "Not there");
	check_quote("<title>x", 8, "<title>x");
	check_quote("", 0, "");
	memset(many, 'x', 100000);
	fault_quote(&out, many, 100000, NULL);
	assert_true(out.len < 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_quotes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
