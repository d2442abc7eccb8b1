/*
 * Policies as JSON: each member, what is refused and in which words, what is told of a policy in
 * force, and the schema in doc/ (argument of the program), which must be what the table says.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/policy_read.h"
#include "sandbox/protect.h"

static const char *schema_path;

/* Expects the text to be refused with just this message. */
static void refuse(const char *text, const char *message)
{
	struct err err = ERR_INIT;
	struct json *json = policy_parse(text, strlen(text), "/home/u/p.json", &err);

	if (json)
		fail_msg("accepted: %s", text);
	assert_string_equal(err.text, message);
}

/* A policy of the defaults and the text; the wish owns what it borrows. */
static void take(struct policy_wish *wish, struct policy *policy, const char *text)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *json = policy_parse(text, strlen(text), "/p.json", &err);

	if (!json)
		fail_msg("%s: %s", text, err.text);
	policy_init(policy);
	assert_int_equal(policy_wish_read(wish, json, "/p.json", &err), 0);
	policy_wish_apply(wish, policy);
}

static void test_every_member(void **state)
{
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;
	struct policy policy;

	(void)state;
	take(&wish, &policy,
	     "{\"$schema\":\"x\",\"tier_floor\":\"full\",\"read\":[\"/data\",\"/b c\"],"
	     "\"write\":[\"/out\"],\"net\":[\"pypi.org\",\"*.example.org:443\"],"
	     "\"env\":{\"A\":\"1=2\",\"B\":null,\"_c9\":\"\"},\"protect\":[\"bin/*\"],"
	     "\"memory_bytes\":536870912,\"swap\":true,\"processes\":7,\"files\":128,"
	     "\"file_bytes\":4096,\"disk_bytes\":1048576,\"disk_inodes\":16,"
	     "\"tmp_bytes\":1048577,\"tmp_inodes\":64,\"cpus\":1.5,\"cpu_s\":60}");
	assert_int_equal(policy.floor, TIER_FULL);
	assert_string_equal(policy.read[0], "/data");
	assert_string_equal(policy.read[1], "/b c");
	assert_null(policy.read[2]);
	assert_string_equal(policy.write[0], "/out");
	assert_null(policy.write[1]);
	assert_string_equal(policy.net[1], "*.example.org:443");
	assert_string_equal(policy.env[0], "A=1=2");
	assert_string_equal(policy.env[1], "_c9=");
	assert_null(policy.env[2]);
	assert_string_equal(policy.protect[0], "bin/*");
	assert_int_equal(policy.memory_bytes_max, 512 << 20);
	assert_true(policy.swap);
	assert_int_equal(policy.processes_max, 7);
	assert_int_equal(policy.files_max, 128);
	assert_int_equal(policy.file_bytes_max, 4096);
	assert_int_equal(policy.disk_bytes_max, 1 << 20);
	assert_int_equal(policy.disk_inodes_max, 16);
	assert_int_equal(policy.tmp_bytes_max, (1 << 20) + 1);
	assert_int_equal(policy.tmp_inodes_max, 64);
	assert_true(policy.cpus == 1.5);
	assert_true(policy.cpu_s_max == 60);
	assert_null(json_get(wish.json, "$schema"));
}

/* What is not asked for stays; an empty list is asked for, and null is no limit. */
static void test_what_is_asked_for(void **state)
{
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;
	cleanup_wish struct policy_wish nothing = POLICY_WISH_INIT;
	cleanup_json struct json *told = NULL, *usual = NULL;
	struct policy policy, defaults;

	(void)state;
	policy_init(&defaults);
	take(&nothing, &policy, "{}");
	told = policy_describe(&policy);
	usual = policy_describe(&defaults);
	assert_true(json_equal(told, usual));
	take(&wish, &policy, "{\"protect\":[],\"memory_bytes\":null,\"cpus\":null}");
	assert_non_null(policy.protect);
	assert_null(policy.protect[0]);
	assert_int_equal(policy.memory_bytes_max, 0);
	assert_true(policy.cpus == 0);
	assert_int_equal(policy.files_max, defaults.files_max);
}

static void test_protect_list(void **state)
{
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;
	struct policy policy;
	size_t count = 0;

	(void)state;
	take(&wish, &policy, "{\"protect\":[\"deploy.sh\",\"...\"]}");
	assert_string_equal(policy.protect[0], "deploy.sh");
	while (PROTECT_DEFAULT[count])
		count++;
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(policy.protect[1 + i], PROTECT_DEFAULT[i]);
	assert_null(policy.protect[1 + count]);
}

static void test_unknown_keys(void **state)
{
	(void)state;
	refuse("{\"memory\": 5}", "/home/u/p.json: there is no key \"memory\" in a policy; "
				  "fumehood-policy(5) lists them");
	refuse("{\"memory_byte\": 5}", "/home/u/p.json: there is no key \"memory_byte\" in a "
				       "policy; did you mean \"memory_bytes\"?");
	refuse("{\"reads\": []}", "/home/u/p.json: there is no key \"reads\" in a policy; did you "
				  "mean \"read\"?");
	refuse("{\"tier\": \"none\"}", "/home/u/p.json: there is no key \"tier\" in a policy; did "
				       "you mean \"tier_floor\"?");
	refuse("{\"read\\u0000\": []}", "/home/u/p.json: there is no key \"read\" in a policy; did "
					"you mean \"read\"?");
}

static void test_wrong_values(void **state)
{
	(void)state;
	refuse("{\"tier_floor\":\"none\"}", "/home/u/p.json: \"tier_floor\" must be \"full\" or "
					    "\"degraded\", not \"none\"");
	refuse("{\"memory_bytes\":1.5}", "/home/u/p.json: \"memory_bytes\" must be a whole number "
					 "from 16777216 to 9007199254740991, or null for no limit, "
					 "not 1.5");
	refuse("{\"files\":null}", "/home/u/p.json: \"files\" must be a whole number from 128 to "
				   "1048576, not null");
	refuse("{\"processes\":0}", "/home/u/p.json: \"processes\" must be a whole number from 1 "
				    "to 4194304, not 0");
	refuse("{\"cpus\":0}", "/home/u/p.json: \"cpus\" must be a number above 0, at most 4096, "
			       "or null for no limit, not 0");
	refuse("{\"swap\":1}", "/home/u/p.json: \"swap\" must be true or false, not 1");
	refuse("{\"read\":\"/x\"}", "/home/u/p.json: \"read\" must be an array of up to 256 "
				    "absolute paths, not \"/x\"");
	refuse("{\"write\":[\"/x\",\"y\"]}", "/home/u/p.json: \"write\" must be an array of up to "
					     "256 absolute paths, not \"y\"");
	refuse("{\"read\":[\"/x\\u0000y\"]}", "/home/u/p.json: \"read\" must be an array of up to "
					      "256 absolute paths, not \"/x\\u0000y\"");
	refuse("{\"env\":{\"1A\":\"\"}}", "/home/u/p.json: \"env\": the name of a variable has "
					  "letters, digits and _, and no digit first, not \"1A\"");
	refuse("{\"env\":{\"A\":1}}", "/home/u/p.json: \"env\": A must be null, or a string of at "
				      "most 65536 bytes without NUL");
	refuse("{\"env\":[\"secret\"]}", "/home/u/p.json: \"env\" must be an object of up to 256 "
					 "variables: a string for each, or null for the value of "
					 "whoever starts it");
	refuse("{\"net\":[1]}", "/home/u/p.json: \"net\" must be an array of hosts, such as "
				"[\"pypi.org\", \"*.example.org\"], not 1");
	refuse("{\"protect\":[\"...\",1]}", "/home/u/p.json: \"protect\" must be an array of up to "
					    "256 patterns, such as [\"...\", \"bin/*\"], not 1");
}

/* In words of whoever knows the form: only that it is refused, and where. */
static void test_wrong_rules(void **state)
{
	static const char *const texts[] = {
		"{\"net\":[\"\"]}",     "{\"net\":[\"pypi.org\",\"*\"]}", "{\"net\":[\"a.b:0\"]}",
		"{\"protect\":[\"\"]}", "{\"protect\":[\"a//b\"]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct err err = ERR_INIT;

		if (policy_parse(texts[i], strlen(texts[i]), "/p.json", &err))
			fail_msg("accepted: %s", texts[i]);
		if (strncmp(err.text, "/p.json: \"", 10) != 0)
			fail_msg("%s", err.text);
	}
}

static void test_bad_json(void **state)
{
	(void)state;
	refuse("[]", "/home/u/p.json: a policy is an object: {...}");
	refuse("null", "/home/u/p.json: a policy is an object: {...}");
	refuse("{\n\"swap\": true,\n}", "/home/u/p.json:3: this is no JSON: a key is missing");
	refuse("{\"swap\":true,\n\"swap\":true}",
	       "/home/u/p.json:2: this is no JSON: a key is repeated");
}

/* What is told can be read again, and holds no secret. */
static void test_describe(void **state)
{
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT, again = POLICY_WISH_INIT;
	cleanup_json struct json *told = NULL, *told_again = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	struct policy policy, other;
	struct err err = ERR_INIT;

	(void)state;
	take(&wish, &policy,
	     "{\"env\":{\"TOKEN\":\"hunter2\"},\"read\":[\"/x\"],\"cpus\":0.5,\"disk_bytes\":null,"
	     "\"net\":[\"pypi.org\"]}");
	told = policy_describe(&policy);
	json_write(&text, told);
	assert_null(strstr(buf_bytes(&text), "hunter2"));
	assert_int_equal(json_length(told), POLICY_MEMBER_COUNT);
	assert_true(json_get_double(told, "cpus", 0) == 0.5);
	assert_int_equal(json_get_int(told, "files", 0), 1024);
	assert_int_equal(json_type_of(json_get(told, "disk_bytes")), JSON_NULL);
	assert_string_equal(json_string(json_at(json_get(told, "net"), 0), NULL), "pypi.org");
	assert_int_equal(json_length(json_get(told, "protect")), 1);
	assert_string_equal(json_string(json_at(json_get(told, "protect"), 0), NULL), "...");
	if (policy_wish_read(&again, told, "told", &err) != 0)
		fail_msg("%s", err.text);
	policy_init(&other);
	policy_wish_apply(&again, &other);
	other.env = policy.env;
	other.protect = policy.protect; /* the list itself, by now */
	told_again = policy_describe(&other);
	assert_true(json_equal(told, told_again));
}

static void test_schema(void **state)
{
	cleanup_buf struct buf made = BUF_INIT, file = BUF_INIT;

	(void)state;
	policy_write_schema(&made);
	assert_int_equal(file_read(AT_FDCWD, schema_path, POLICY_BYTES_MAX, &file, NULL), 0);
	if (strcmp(buf_bytes(&file), buf_bytes(&made)) != 0)
		fail_msg("%s is old: fumehood sandbox schema > %s", schema_path, schema_path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_member), cmocka_unit_test(test_what_is_asked_for),
		cmocka_unit_test(test_protect_list), cmocka_unit_test(test_unknown_keys),
		cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_wrong_rules),
		cmocka_unit_test(test_bad_json),     cmocka_unit_test(test_describe),
		cmocka_unit_test(test_schema),
	};

	schema_path = argc > 1 ? argv[1] : "doc/policy.schema.json";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
