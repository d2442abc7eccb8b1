/* Variables of a policy that take the value of this process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/policy.h"

/* Expects the policy to become that text. */
static void becomes(const char *before, const char *after)
{
	cleanup_json struct json *policy = json_parse(before, strlen(before), &JSON_LIMITS, NULL);
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	assert_non_null(policy);
	if (policy_take_variables(policy, &err) != 0)
		fail_msg("%s", err.text);
	json_write(&text, policy);
	assert_string_equal(buf_bytes(&text), after);
}

static void test_variables(void **state)
{
	(void)state;
	setenv("FH_TEST_THERE", "a=b", 1);
	setenv("FH_TEST_EMPTY", "", 1);
	setenv("FH_TEST_BYTES", "a\xff", 1);
	unsetenv("FH_TEST_NONE");
	becomes("{\"env\":{\"FH_TEST_THERE\":null,\"X\":\"FH_TEST_THERE\",\"FH_TEST_NONE\":null,"
		"\"FH_TEST_EMPTY\":null}}",
		"{\"env\":{\"FH_TEST_THERE\":\"a=b\",\"X\":\"FH_TEST_THERE\","
		"\"FH_TEST_EMPTY\":\"\"}}");
	becomes("{\"env\":{\"FH_TEST_BYTES\":null}}",
		"{\"env\":{\"FH_TEST_BYTES\":\"a\xef\xbf\xbd\"}}");
}

/* What is no object, or of the wrong kind, is the keeper's to refuse. */
static void test_others(void **state)
{
	(void)state;
	becomes("{}", "{}");
	becomes("{\"env\":[null],\"cpus\":null}", "{\"env\":[null],\"cpus\":null}");
	becomes("{\"env\":{\"A\":1}}", "{\"env\":{\"A\":1}}");
	assert_int_equal(policy_take_variables(NULL, NULL), 0);
}

static void test_name_with_nul(void **state)
{
	static const char text[] = "{\"env\":{\"A\\u0000\":null}}";
	cleanup_json struct json *policy = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(policy);
	assert_int_equal(policy_take_variables(policy, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_name_with_nul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
