/* session.json: defaults, every key, and the words for what is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "keeper/config.h"

struct folder {
	char path[64];
	int fd;
};

static int folder_make(void **state)
{
	static struct folder folder;

	folder = (struct folder){.path = "/tmp/config_test_XXXXXX", .fd = -1};
	if (!mkdtemp(folder.path))
		return -1;
	folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &folder;
	return folder.fd < 0 ? -1 : 0;
}

static int folder_remove(void **state)
{
	const struct folder *folder = *state;

	close(folder->fd);
	return file_remove_tree(AT_FDCWD, folder->path, NULL);
}

static int read_text(const struct folder *folder, const char *text, struct config *config,
		     struct err *err)
{
	assert_int_equal(file_replace(folder->fd, "session.json", text, strlen(text), 0600, NULL),
			 0);
	return config_read(folder->fd, config, err);
}

#define HEAD \
	"{\"format\":1,\"id\":\"abc\",\"python\":\"/usr/bin/python3\",\"workspace\":{\"path\":\"/" \
	"w\"}"

static void defaults(void **state)
{
	struct config config;
	struct err err = ERR_INIT;

	assert_int_equal(read_text(*state, HEAD "}", &config, &err), 0);
	assert_string_equal(config.id, "abc");
	assert_null(config.name);
	assert_int_equal(config.tier, TIER_FULL);
	assert_int_equal(config.workspace_mode, WORKSPACE_RW);
	assert_false(config.ends_with_client);
	assert_false(config.durability_power);
	assert_true(config.limits.wall_s == 300.0);
	assert_int_equal(config.limits.output_bytes, 64 << 20);
	assert_int_equal(config.limits.record_bytes, 4LL << 30);
	config_release(&config);
}

static void every_key(void **state)
{
	struct config config;
	struct err err = ERR_INIT;

	assert_int_equal(read_text(*state,
				   "{\"format\":1,\"id\":\"abc\",\"name\":\"n "
				   "m\",\"created\":\"2026-11-29T00:00:00Z\","
				   "\"engine\":\"python\",\"python\":\"/"
				   "p\",\"tier\":\"none\",\"ends_with_client\":true,"
				   "\"workspace\":{\"path_base64\":\"L3f/"
				   "Cg==\",\"mode\":\"ro\",\"private\":true},"
				   "\"limits\":{\"wall_s\":1.5,\"output_bytes\":7,\"queue\":3,"
				   "\"processes\":9},\"durability\":\"power\","
				   "\"notebook\":{\"metadata\":{\"a\":1}}}",
				   &config, &err),
			 0);
	assert_string_equal(config.name, "n m");
	assert_string_equal(config.workspace, "/w\xff\n"); /* any bytes but NUL */
	assert_int_equal(config.workspace_mode, WORKSPACE_RO);
	assert_true(config.workspace_private && config.ends_with_client);
	assert_int_equal(config.tier, TIER_NONE);
	assert_true(config.limits.wall_s == 1.5);
	assert_int_equal(config.limits.output_bytes, 7);
	assert_int_equal(config.limits.queue, 3);
	assert_int_equal(config.limits.processes, 9);
	assert_true(config.durability_power);
	assert_int_equal(json_get_int(json_get(config.notebook, "metadata"), "a", 0), 1);
	config_release(&config);
}

struct bad {
	const char *text;
	const char *words;
};

static const struct bad BAD[] = {
	{"", "session.json"},
	{"[]", "object"},
	{"{}", "id"},
	{HEAD ",\"colour\":1}", "colour"},
	{HEAD ",\"limits\":{\"wall_s\":0}}", "wall_s"},
	{HEAD ",\"limits\":{\"wall\":1}}", "wall"},
	{HEAD ",\"limits\":{\"queue\":-1}}", "queue"},
	{HEAD ",\"limits\":{\"queue\":\"4\"}}", "queue"},
	{HEAD ",\"limits\":[]}", "limits"},
	{HEAD ",\"limits\":{\"wall_s\":1e13}}", "wall_s"},
	{HEAD ",\"limits\":{\"colour\":1}}", "session.json"},
	{HEAD ",\"tier\":\"half\"}", "tier"},
	{HEAD ",\"durability\":\"disk\"}", "durability"},
	{HEAD ",\"durability\":true}", "durability"},
	{HEAD ",\"notebook\":{\"rolled_back\":\"no\"}}", "rolled_back"},
	{HEAD ",\"notebook\":{\"rolled_back\":true}}", "rolled_back"},
	{HEAD ",\"ends_with_client\":\"yes\"}", "ends_with_client"},
	{HEAD ",\"engine\":\"ruby\"}", "engine"},
	{HEAD ",\"policy\":[]}", "policy"},
	{HEAD ",\"policy\":{\"memory\":1}}", "memory"},
	{HEAD ",\"policy\":{\"processes\":0}}", "processes"},
	{HEAD ",\"policy\":{\"tier_floor\":\"none\"}}", "tier_floor"},
	{"{\"format\":2}", "format"},
	{"{\"format\":1,\"id\":\"../x\"}", "id"},
	{"{\"format\":1,\"id\":\"a\",\"python\":\"/p\"}", "workspace"},
	{"{\"format\":1,\"id\":\"a\",\"python\":\"p\",\"workspace\":{\"path\":\"/w\"}}", "python"},
	{"{\"format\":1,\"id\":\"a\",\"workspace\":{\"path\":\"w\"}}", "path"},
	{"{\"format\":1,\"id\":\"a\",\"workspace\":{\"path\":\"/w\\u0000x\"}}", "path"},
	{"{\"format\":1,\"id\":\"a\",\"workspace\":{\"path\":\"/w\",\"mode\":\"rwx\"}}", "mode"},
};

static void wrong_values(void **state)
{
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
		struct config config;
		struct err err = ERR_INIT;

		if (read_text(*state, BAD[i].text, &config, &err) == 0)
			fail_msg("taken: %s", BAD[i].text);
		if (!strstr(err.text, BAD[i].words))
			fail_msg("%s: \"%s\" does not say \"%s\"", BAD[i].text, err.text,
				 BAD[i].words);
		config_release(&config);
	}
}

static int choose(const char *text, struct config *config, struct buf *written, struct err *err)
{
	struct json *chosen = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	int status;

	assert_non_null(chosen);
	config_init(config);
	config->id = strdup("abc");
	config->python = strdup("/p");
	config->workspace = strdup("/w\xff");
	config->workspace_private = true;
	status = config_choose(config, chosen, err);
	if (written && status == 0)
		config_write(written, config, chosen);
	json_free(chosen);
	return status;
}

/* What is written of a spare is read again by every later keeper of the session. */
static void what_is_chosen_is_written(void **state)
{
	struct config config, again;
	struct buf written = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(
		choose("{\"name\":\"n "
		       "m\",\"limits\":{\"wall_s\":1.5,\"output_bytes\":7,\"queue\":3,"
		       "\"record_bytes\":9000000,\"background_bytes\":8},\"ends_with_client\":true,"
		       "\"durability\":\"power\","
		       "\"notebook\":{\"metadata\":{\"a\":1}}}",
		       &config, &written, &err),
		0);
	assert_int_equal(read_text(*state, buf_bytes(&written), &again, &err), 0);
	assert_string_equal(again.id, "abc");
	assert_string_equal(again.name, "n m");
	assert_string_equal(again.python, "/p");
	assert_string_equal(again.workspace, "/w\xff");
	assert_true(again.workspace_private && again.ends_with_client);
	assert_true(again.durability_power);
	assert_int_equal(again.tier, TIER_FULL);
	assert_memory_equal(&again.limits, &config.limits, sizeof(again.limits));
	assert_int_equal(again.limits.record_bytes, 9000000);
	assert_int_equal(json_get_int(json_get(again.notebook, "metadata"), "a", 0), 1);
	config_release(&config);
	config_release(&again);
	buf_release(&written);
}

static void what_cannot_be_chosen(void **state)
{
	static const struct bad bad[] = {
		{"{\"id\":\"x\"}", "id"},
		{"{\"tier\":\"none\"}", "tier"},
		{"{\"python\":\"/q\"}", "python"},
		{"{\"workspace\":{\"path\":\"/\"}}", "workspace"},
		{"{\"colour\":1}", "colour"},
		{"{\"name\":1}", "name"},
		{"{\"limits\":{\"processes\":9}}", "processes"},
		{"{\"limits\":{\"tmp_bytes\":9}}", "tmp_bytes"},
		{"{\"limits\":{\"queue\":0}}", "queue"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct config config;
		struct err err = ERR_INIT;

		if (choose(bad[i].text, &config, NULL, &err) == 0)
			fail_msg("taken: %s", bad[i].text);
		if (!strstr(err.text, bad[i].words))
			fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, err.text,
				 bad[i].words);
		config_release(&config);
	}
}

/* Limits can be changed in it; everything else stays as it was, also what no keeper would know. */
static void limits_are_rewritten(void **state)
{
	const struct folder *folder = *state;
	struct json *set = json_parse("{\"wall_s\":2.5,\"files\":700}", 26, &JSON_LIMITS, NULL);
	struct config config;
	struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	assert_non_null(set);
	assert_int_equal(read_text(folder,
				   HEAD ",\"limits\":{\"wall_s\":9,\"queue\":3},\"name\":\"n\"}",
				   &config, &err),
			 0);
	config_release(&config);
	assert_int_equal(config_rewrite(folder->fd, set, NULL, &err), 0);
	assert_int_equal(config_read(folder->fd, &config, &err), 0);
	assert_true(config.limits.wall_s == 2.5);
	assert_int_equal(config.limits.files, 700);
	assert_int_equal(config.limits.queue, 3);
	assert_string_equal(config.name, "n");
	config_release(&config);
	assert_int_equal(read_text(folder, "{\"colour\":1}", &config, NULL), -1);
	config_release(&config);
	assert_int_equal(config_rewrite(folder->fd, set, NULL, &err), 0);
	assert_int_equal(file_read(folder->fd, "session.json", 1000, &text, NULL), 0);
	assert_string_equal(buf_bytes(&text),
			    "{\"colour\":1,\"limits\":{\"wall_s\":2.5,\"files\":700}}\n");
	buf_release(&text);
	assert_int_equal(read_text(folder, "[]", &config, NULL), -1);
	config_release(&config);
	assert_int_equal(config_rewrite(folder->fd, set, NULL, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	json_free(set);
}

/* What of it is a limit is one, unless "limits" says otherwise, wherever either stands. */
static void policies_are_read(void **state)
{
	const struct folder *folder = *state;
	struct config config;
	struct err err = ERR_INIT;

	assert_int_equal(read_text(folder,
				   HEAD ",\"limits\":{\"files\":300},\"policy\":{\"files\":200,"
					"\"processes\":7,\"read\":[\"/d\"],\"memory_bytes\":null,"
					"\"env\":{\"A\":\"b\",\"C\":null}}}",
				   &config, &err),
			 0);
	assert_int_equal(config.limits.files, 300);
	assert_int_equal(config.limits.processes, 7);
	assert_string_equal(config.policy.lists[POLICY_READ][0], "/d");
	assert_string_equal(config.policy.lists[POLICY_ENV][0], "A=b");
	assert_null(config.policy.lists[POLICY_ENV][1]);
	assert_true(json_has(config.policy.json, "memory_bytes"));
	config_release(&config);
}

static void policies_are_rewritten(void **state)
{
	const struct folder *folder = *state;
	struct json *limits = json_parse("{\"queue\":5}", 11, &JSON_LIMITS, NULL);
	struct json *policy = json_parse("{\"net\":[\"b.example\"]}", 21, &JSON_LIMITS, NULL);
	struct config config;
	struct err err = ERR_INIT;

	assert_int_equal(read_text(folder,
				   HEAD ",\"policy\":{\"net\":[\"a.example\"],\"swap\":true}}",
				   &config, &err),
			 0);
	config_release(&config);
	assert_int_equal(config_rewrite(folder->fd, limits, policy, &err), 0);
	assert_int_equal(config_read(folder->fd, &config, &err), 0);
	assert_int_equal(config.limits.queue, 5);
	assert_string_equal(config.policy.lists[POLICY_NET][0], "b.example");
	assert_true(json_get_bool(config.policy.json, "swap", false));
	config_release(&config);
	json_free(limits);
	json_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_key),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(what_is_chosen_is_written),
		cmocka_unit_test(what_cannot_be_chosen),
		cmocka_unit_test(limits_are_rewritten),
		cmocka_unit_test(policies_are_read),
		cmocka_unit_test(policies_are_rewritten),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
