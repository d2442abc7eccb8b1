/* session.json: what is written is read back; what is no session.json is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "client/config.h"

static const char ID[] = "abcdefghijklmnopqrstuvwxyz";

static void round_trip(const char *workspace)
{
	cleanup_config struct config config = CONFIG_INIT, back = CONFIG_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	memcpy(config.id, ID, sizeof(ID));
	config.name = mem_string("a \"name\"");
	config.created_us = 1700000000123456;
	config.python = mem_string("/usr/bin/python3");
	config.workspace = mem_string(workspace);
	config.workspace_read_only = true;
	config.tier = CONFIG_TIER_NONE;
	config.wall_s_max = 2.5;
	config.output_bytes_max = 4096;
	config.limits = (struct fh_limits){
		1, 2, 3, 4, 5, 6, 7, 8, FH_NO_LIMIT, 10, 1.5, 0, FH_NO_CHECKPOINTS};
	config.ends_with_client = true;
	config.durability_power = true;
	config.notebook_metadata = json_parse("{\"a\":1}", 7, &JSON_LIMITS, NULL);
	config.keeps_rolled_back = true;
	config.policy = json_parse("{\"cpus\":1.5,\"env\":{}}", 21, &JSON_LIMITS, NULL);
	assert_non_null(config.policy);
	config_write(&text, &config);
	assert_int_equal(config_read(buf_bytes(&text), text.len, &back, &err), 0);
	assert_string_equal(back.id, ID);
	assert_string_equal(back.name, "a \"name\"");
	assert_int_equal(back.created_us, config.created_us);
	assert_string_equal(back.python, "/usr/bin/python3");
	assert_string_equal(back.workspace, workspace);
	assert_true(back.workspace_read_only);
	assert_false(back.workspace_overlay);
	assert_false(back.workspace_private);
	assert_int_equal(back.tier, CONFIG_TIER_NONE);
	assert_true(back.wall_s_max == 2.5);
	assert_int_equal(back.output_bytes_max, 4096);
	assert_memory_equal(&back.limits, &config.limits, sizeof(back.limits));
	assert_non_null(strstr(buf_bytes(&text), "\"background_bytes\":1,\"queue\":2,"
						 "\"record_bytes\":3,\"processes\":4,\"files\":5,"
						 "\"file_bytes\":6,\"tmp_bytes\":7"));
	assert_true(back.ends_with_client);
	assert_true(back.durability_power);
	assert_true(back.keeps_rolled_back);
	assert_true(json_equal(back.policy, config.policy));
	assert_true(json_equal(back.notebook_metadata, config.notebook_metadata));
}

static void test_round_trip(void **state)
{
	(void)state;
	round_trip("/home/x/data");
	round_trip("/a b/\"q\"\n\xc3\xa4");
	/* No UTF-8: base64, for each of the three lengths of its last group. */
	round_trip("/\xff");
	round_trip("/\xff"
		   "a");
	round_trip("/\xff"
		   "ab");
}

static void test_bad(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"id\":\"abcdefghijklmnopqrstuvwxyz\"}",
		"{\"id\":\"short\",\"workspace\":{\"path\":\"/x\"}}",
		"{\"id\":\"abcdefghijklmnopqrstuvwxyz\",\"workspace\":{\"path_base64\":\"?\"}}",
		"{\"id\":\"abcdefghijklmnopqrstuvwxyz\",\"workspace\":{\"path_base64\":\"AAAA\"}}",
		"{\"id\":\"abcdefghijklmnopqrstuvwxyz\",\"workspace\":7}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cleanup_config struct config config = CONFIG_INIT;
		struct err err = ERR_INIT;

		assert_int_equal(config_read(texts[i], strlen(texts[i]), &config, &err), -1);
		assert_int_not_equal(err.code, ERR_OK);
	}
}

static void test_ids(void **state)
{
	(void)state;
	assert_true(config_is_id(ID));
	assert_false(config_is_id("abcdefghijklmnopqrstuvwxy"));
	assert_false(config_is_id("abcdefghijklmnopqrstuvwxy1"));
	assert_false(config_is_id("abcdefghijklmnopqrstuvwxyzz"));
	assert_false(config_is_id("../../../../../../../../aa"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
