/*
 * The body of a request: its members, what is left out of it, and what a refusal names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/fault.h"
#include "model/request.h"

static const struct message MESSAGES[] = {
	{.role = ROLE_SYSTEM, .text = "Be brief.", .len = 9},
	{.role = ROLE_USER, .text = "a \"b\"\n\xff", .len = 7},
	{.role = ROLE_ASSISTANT, .text = "", .len = 0},
};

static struct generation_request wish(void)
{
	return (struct generation_request){
		.messages = MESSAGES, .count = 3, .seed = -1, .tokens_max = 100};
}

/* What is sent of it. */
static void assert_sent(const struct json *request, const struct json *extra, unsigned dropped,
			const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	request_write(&out, request, extra, dropped);
	assert_string_equal(buf_bytes(&out), text);
}

#define BEGIN \
	"{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}," \
	"{\"role\":\"user\",\"content\":\"a \\\"b\\\"\\n\xef\xbf\xbd\"}," \
	"{\"role\":\"assistant\",\"content\":\"\"}],\"stream\":true,"
#define OPTIONS "\"stream_options\":{\"include_usage\":true},"

static void test_the_least(void **state)
{
	const struct generation_request least = wish();
	cleanup_json struct json *request = request_new("m", &least);

	(void)state;
	assert_sent(request, NULL, 0, BEGIN OPTIONS "\"temperature\":0.0,\"max_tokens\":100}");
	assert_int_equal(request_fields(request), FIELD_EXTRA | FIELD_STREAM_OPTIONS |
							  FIELD_TEMPERATURE | FIELD_MAX_TOKENS);
}

static void test_all_and_what_is_left_out(void **state)
{
	static const char *const stop[] = {"\n```\n", "END", NULL};
	struct generation_request most = wish();
	cleanup_json struct json *request = NULL;
	cleanup_json struct json *extra = json_new_object();

	(void)state;
	most.temperature = 0.7;
	most.top_p = 0.95;
	most.seed = 0;
	most.stop = stop;
	request = request_new("m", &most);
	json_set(extra, "cache_prompt", json_new_bool(true));
	assert_sent(request, extra, 0,
		    BEGIN OPTIONS "\"temperature\":0.7,\"top_p\":0.95,\"max_tokens\":100,"
				  "\"seed\":0,\"stop\":[\"\\n```\\n\",\"END\"],"
				  "\"cache_prompt\":true}");
	assert_int_equal(request_fields(request),
			 FIELD_EXTRA | FIELD_STREAM_OPTIONS | FIELD_SEED | FIELD_TOP_P |
				 FIELD_TEMPERATURE | FIELD_STOP | FIELD_MAX_TOKENS);
	assert_sent(request, extra, FIELD_SEED | FIELD_STOP | FIELD_EXTRA | FIELD_STREAM_OPTIONS,
		    BEGIN "\"temperature\":0.7,\"top_p\":0.95,\"max_tokens\":100}");
	/* Newer models want the same under another name. */
	assert_sent(request, NULL,
		    FIELD_MAX_TOKENS | FIELD_TEMPERATURE | FIELD_TOP_P | FIELD_SEED | FIELD_STOP,
		    BEGIN "\"stream_options\":{\"include_usage\":true},"
			  "\"max_completion_tokens\":100}");
	/* It is not changed by being written. */
	assert_sent(request, NULL, FIELD_EXTRA,
		    BEGIN OPTIONS "\"temperature\":0.7,\"top_p\":0.95,\"max_tokens\":100,"
				  "\"seed\":0,\"stop\":[\"\\n```\\n\",\"END\"]}");
}

static void test_no_stop_texts(void **state)
{
	static const char *const none[] = {NULL};
	struct generation_request request = wish();
	cleanup_json struct json *json = NULL;

	(void)state;
	request.stop = none;
	json = request_new("m", &request);
	assert_false(json_has(json, "stop"));
	assert_false(json_has(json, "seed"));
	assert_false(json_has(json, "top_p"));
}

static void test_a_refusal_names_a_further_member(void **state)
{
	cleanup_json struct json *extra = json_new_object();

	(void)state;
	assert_int_equal(request_named(NULL, "unknown field: cache_prompt"), 0);
	assert_int_equal(request_named(extra, "unknown field: cache_prompt"), 0);
	json_set(extra, "cache_prompt", json_new_bool(true));
	json_set_int(extra, "slot", 1);
	assert_int_equal(request_named(extra, "unknown field: cache_prompt"), FIELD_EXTRA);
	assert_int_equal(request_named(extra, "'slot' is not allowed"), FIELD_EXTRA);
	assert_int_equal(request_named(extra, "the model is not there"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_least),
		cmocka_unit_test(test_all_and_what_is_left_out),
		cmocka_unit_test(test_no_stop_texts),
		cmocka_unit_test(test_a_refusal_names_a_further_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
