/* One piece of an answer, in the forms that servers give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "model/delta.h"

static void read_good(struct delta *delta, const char *text)
{
	struct err err = ERR_INIT;

	assert_int_equal(delta_read(delta, text, strlen(text), &err), 0);
}

static void check_text(const char *json, const char *text, const char *reasoning)
{
	cleanup_delta struct delta delta = DELTA_INIT;

	read_good(&delta, json);
	assert_false(delta.is_error);
	assert_true(delta.is_piece);
	assert_string_equal(buf_bytes(&delta.text), text);
	assert_string_equal(buf_bytes(&delta.reasoning), reasoning);
}

static void test_text(void **state)
{
	(void)state;
	check_text("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\n\"}}]}", "a\n", "");
	check_text("{\"choices\":[{\"delta\":{\"content\":null,\"role\":\"assistant\"}}]}", "",
		   "");
	check_text("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}", "a", "");
	check_text("{\"choices\":[{\"text\":\"a\"}]}", "a", "");
	check_text("{\"choices\":[{\"delta\":{\"reasoning\":\"r\",\"content\":\"a\"}}]}", "a",
		   "r");
	check_text("{\"choices\":[{\"delta\":{\"reasoning\":\"r\",\"reasoning_content\":\"r\"}}]}",
		   "", "r");
	check_text("{\"choices\":[{\"delta\":{\"reasoning\":\"r\",\"reasoning_content\":\"\"}}]}",
		   "", "r");
	check_text("{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
		   "{\"thinking\":[{\"text\":\"r\"},7]},null,{\"thinking\":\"s\"}]}}]}",
		   "a", "rs");
	check_text("{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},"
		   "{\"index\":0,\"delta\":{\"content\":\"a\"}}]}",
		   "a", "");
	check_text("{\"choices\":[]}", "", "");
	check_text("{\"choices\":[null,7,{\"delta\":7}]}", "", "");
	check_text("{\"choices\":[{\"delta\":{\"content\":7}}],\"error\":null}", "", "");
	check_text("{\"choices\":[{\"delta\":{\"content\":\"a\"},\"logprobs\":NaN}]}", "a", "");
}

static void check_finish(const char *reason, enum delta_finish finish)
{
	cleanup_delta struct delta delta = DELTA_INIT;
	cleanup_free char *json = mem_format(
		"{\"choices\":[{\"delta\":{},\"finish_reason\":%s}]}", reason);

	read_good(&delta, json);
	assert_int_equal(delta.finish, finish);
}

static void test_finish(void **state)
{
	(void)state;
	check_finish("null", DELTA_GOES_ON);
	check_finish("\"\"", DELTA_GOES_ON);
	check_finish("7", DELTA_GOES_ON);
	check_finish("\"stop\"", DELTA_STOP);
	check_finish("\"eos_token\"", DELTA_STOP);
	check_finish("\"length\"", DELTA_LENGTH);
	check_finish("\"content_filter\"", DELTA_FILTERED);
	check_finish("\"abort\"", DELTA_BROKEN);
}

static void test_usage(void **state)
{
	struct delta delta = DELTA_INIT;

	(void)state;
	read_good(&delta, "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2.0,"
			  "\"prompt_tokens_details\":{\"cached_tokens\":3}}}");
	assert_true(delta.has_usage && delta.is_piece);
	assert_int_equal(delta.prompt_tokens, 5);
	assert_int_equal(delta.tokens, 2);
	assert_int_equal(delta.cached_tokens, 3);
	delta_release(&delta);
	read_good(&delta, "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2},"
			  "\"timings\":{\"cache_n\":4}}");
	assert_int_equal(delta.cached_tokens, 4);
	delta_release(&delta);
	read_good(&delta, "{\"usage\":{\"prompt_tokens\":-5,\"completion_tokens\":1e300}}");
	assert_false(delta.has_usage);
	delta_release(&delta);
	read_good(&delta, "{\"choices\":[],\"usage\":null}");
	assert_false(delta.has_usage);
	delta_release(&delta);
}

static void check_error(const char *json, int status, const char *message, const char *kind)
{
	cleanup_delta struct delta delta = DELTA_INIT;

	read_good(&delta, json);
	assert_true(delta.is_error);
	assert_int_equal(delta.status, status);
	assert_string_equal(buf_bytes(&delta.message), message);
	assert_string_equal(buf_bytes(&delta.kind), kind);
}

static void test_errors(void **state)
{
	(void)state;
	check_error("{\"error\":{\"message\":\"m\",\"type\":\"t\",\"code\":\"c\"}}", 0, "m", "t c");
	check_error("{\"error\":{\"message\":\"m\",\"code\":503},\"choices\":[]}", 503, "m", "");
	check_error("{\"error\":\"m\"}", 0, "m", "");
	check_error("{\"object\":\"error\",\"message\":\"m\",\"type\":\"t\",\"code\":400}", 400,
		    "m", "t");
	check_error("{\"detail\":\"Not Found\"}", 0, "Not Found", "");
	check_error("{\"detail\":[{\"loc\":[\"body\",0],\"msg\":\"m\"},{\"msg\":\"n\"}]}", 0, "m",
		    "");
	check_error("{\"error\":{\"code\":99999}}", 0, "{\"error\":{\"code\":99999}}", "");
}

static void test_long_errors_are_cut(void **state)
{
	cleanup_delta struct delta delta = DELTA_INIT;
	cleanup_buf struct buf json = BUF_INIT;

	(void)state;
	buf_append_string(&json, "{\"error\":\"x");
	for (size_t i = 0; i < 5000; i++)
		buf_append_string(&json, "é");
	buf_append_string(&json, "\"}");
	read_good(&delta, buf_bytes(&json));
	assert_true(delta.message.len <= DELTA_FAULT_BYTES_MAX);
	assert_true(text_is_utf8(buf_bytes(&delta.message), delta.message.len));
}

static void test_broken_bytes_come_out_as_they_went_in(void **state)
{
	(void)state;
	check_text("{\"choices\":[{\"delta\":{\"content\":\"a\xF0\x9F\"}}]}", "a\xF0\x9F", "");
	check_text("{\"choices\":[{\"delta\":{\"content\":\"\x98\x80\xC3\xA9\xFF\"}}]}",
		   "\x98\x80\xC3\xA9\xFF", "");
	check_text("{\"choices\":[{\"delta\":{\"reasoning\":\"\xC3\"}}],\"\xFF\":1}", "", "\xC3");
	/* The stand-ins are those characters in broken pieces only. */
	check_text("{\"choices\":[{\"delta\":{\"content\":\"\xF4\x8F\xB9\x81\"}}]}",
		   "\xF4\x8F\xB9\x81", "");
}

static void test_no_pieces(void **state)
{
	static const char *const bad[] = {"", "[]", "null", "7", "{", "{} {}", "{\"a\":}", "\xFF"};
	cleanup_delta struct delta ping = DELTA_INIT;
	cleanup_buf struct buf deep = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cleanup_delta struct delta delta = DELTA_INIT;

		assert_int_equal(delta_read(&delta, bad[i], strlen(bad[i]), &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	read_good(&ping, "{}");
	assert_false(ping.is_piece || ping.is_error);
	for (size_t i = 0; i < 1000; i++)
		buf_append_string(&deep, "{\"a\":");
	assert_int_equal(delta_read(&ping, buf_bytes(&deep), deep.len, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_finish),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_long_errors_are_cut),
		cmocka_unit_test(test_broken_bytes_come_out_as_they_went_in),
		cmocka_unit_test(test_no_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
