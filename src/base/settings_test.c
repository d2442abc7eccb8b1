/*
 * Settings: each kind of value, what is refused and in which words, variables, where the file is,
 * and the schema in doc/ (argument of the program), which must be what the table says.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/settings.h"

static const char *schema_path;

static int read_text(struct settings *settings, const char *text, struct err *err)
{
	return settings_read(settings, text, strlen(text), "/home/u/config.json", err);
}

/* Expects the text to be refused with just this message. */
static void refuse(const char *text, const char *message)
{
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;

	settings_init(&settings);
	assert_int_equal(read_text(&settings, text, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.text, message);
}

static void take(struct settings *settings, const char *text)
{
	struct err err = ERR_INIT;

	if (read_text(settings, text, &err) != 0)
		fail_msg("%s: %s", text, err.text);
}

static void test_defaults(void **state)
{
	cleanup_settings struct settings settings;

	(void)state;
	settings_init(&settings);
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		assert_false(settings_given(&settings, id));
		/* NULL is for "null" alone: a default that is no JSON would be NULL, too. */
		assert_int_equal(settings_json(&settings, id) == NULL,
				 strcmp(SETTINGS[id].fallback, "null") == 0);
	}
	assert_true(settings_seconds(&settings, SETTING_TIMEOUT) == 300);
	assert_int_equal(settings_count(&settings, SETTING_POOL_IDLE_S), 600);
	assert_true(settings_bool(&settings, SETTING_SPARE));
	assert_null(settings_text(&settings, SETTING_PYTHON));
	assert_int_equal(json_length(settings_json(&settings, SETTING_PRELOAD)), 4);
	/* Variables are named by one rule. */
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		cleanup_free char *name = mem_format("FUMEHOOD_%s", SETTINGS[id].key);

		for (char *c = name; *c; c++)
			*c = *c == '.' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
		if (SETTINGS[id].variable)
			assert_string_equal(SETTINGS[id].variable, name);
		else
			assert_int_equal(SETTINGS[id].kind, SETTING_IS_MODULES);
	}
}

static void test_file(void **state)
{
	cleanup_settings struct settings settings;

	(void)state;
	settings_init(&settings);
	take(&settings, "{}");
	take(&settings, "{\"$schema\":\"x\",\"durability\":\"power\",\"python\":\"/opt/"
			"python\",\"timeout\":0.5,\n"
			"\"spare\":false,\"limits\":{\"queue\":7,\"files\":128},"
			"\"pool\":{\"idle_s\":1},\"text\":{\"max_chars\":67108864},"
			"\"preload\":[\"a\",\"b_1.c\"]}");
	assert_string_equal(settings_text(&settings, SETTING_PYTHON), "/opt/python");
	assert_true(settings_seconds(&settings, SETTING_TIMEOUT) == 0.5);
	assert_false(settings_bool(&settings, SETTING_SPARE));
	assert_string_equal(settings_text(&settings, SETTING_DURABILITY), "power");
	assert_int_equal(settings_count(&settings, SETTING_LIMITS_QUEUE), 7);
	assert_int_equal(settings_count(&settings, SETTING_LIMITS_FILES), 128);
	assert_int_equal(settings_count(&settings, SETTING_POOL_IDLE_S), 1);
	assert_int_equal(settings_count(&settings, SETTING_TEXT_MAX_CHARS), 1 << 26);
	assert_int_equal(json_length(settings_json(&settings, SETTING_PRELOAD)), 2);
	assert_int_equal(settings.items[SETTING_LIMITS_QUEUE].source, SETTING_FROM_FILE);
	assert_false(settings_given(&settings, SETTING_LIMITS_PROCESSES));
	take(&settings,
	     "{\"preload\":{\"default\":[],\"/a/python\":[\"x\"]},\"python\":\"python3.12\","
	     "\"limits\":{\"output_bytes\":9007199254740991}}");
	assert_int_equal(json_type_of(settings_json(&settings, SETTING_PRELOAD)), JSON_OBJECT);
}

/* Some limits can be null, which is another thing than not to be set. */
static void test_no_limit(void **state)
{
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;

	(void)state;
	settings_init(&settings);
	take(&settings, "{\"limits\":{\"memory_bytes\":null,\"disk_bytes\":1048576,"
			"\"cpus\":1.5}}");
	assert_true(settings_given(&settings, SETTING_LIMITS_MEMORY_BYTES));
	assert_null(settings_json(&settings, SETTING_LIMITS_MEMORY_BYTES));
	assert_int_equal(settings_count(&settings, SETTING_LIMITS_DISK_BYTES), 1 << 20);
	assert_true(settings_number(&settings, SETTING_LIMITS_CPUS) == 1.5);
	assert_false(settings_given(&settings, SETTING_LIMITS_CPU_S));
	assert_int_equal(settings_read_variable(&settings, SETTING_LIMITS_CPUS, "null", &err), 0);
	assert_int_equal(settings.items[SETTING_LIMITS_CPUS].source, SETTING_FROM_ENVIRONMENT);
	assert_true(settings_number(&settings, SETTING_LIMITS_CPUS) == 0);
	assert_int_equal(settings_read_variable(&settings, SETTING_LIMITS_CPUS, "nul", &err), -1);
	assert_string_equal(err.text, "FUMEHOOD_LIMITS_CPUS must be a number above 0, at most "
				      "4096, or null for no limit, not nul");
	assert_int_equal(settings_read_variable(&settings, SETTING_LIMITS_QUEUE, "null", NULL), -1);
}

static void test_unknown_keys(void **state)
{
	(void)state;
	refuse("{\n  \"timeot\": 5\n}", "/home/u/config.json:2: there is no key \"timeot\"; "
					"did you mean \"timeout\"?");
	refuse("{\"limits\":\n{\"timeout\":1,\n\"que\": 5}}",
	       "/home/u/config.json:2: there is no key \"limits.timeout\"; did you mean "
	       "\"timeout\"?");
	refuse("{\"limits\":\n{\"queue\":1,\n\"quue\": 5}}",
	       "/home/u/config.json:3: there is no key \"limits.quue\"; did you mean "
	       "\"limits.queue\"?");
	refuse("{\"output_bytes\":1}", "/home/u/config.json:1: there is no key \"output_bytes\"; "
				       "did you mean \"limits.output_bytes\"?");
	refuse("{\"limits\":{\"wall_s\":1}}",
	       "/home/u/config.json:1: there is no key \"limits.wall_s\"; did you mean "
	       "\"timeout\"?");
	refuse("{\"pool.idle_s\":1}",
	       "/home/u/config.json:1: there is no key \"pool.idle_s\"; it is "
	       "written as {\"pool\": {\"idle_s\": ...}}");
	refuse("{\"tier\":\"none\"}", "/home/u/config.json:1: there is no key \"tier\"; to run "
				      "without a sandbox is an option, --tier none");
	refuse("{\"colour\":1}",
	       "/home/u/config.json:1: there is no key \"colour\"; fumehood config lists them");
	refuse("{\"python\\u0000\":\"/x\"}",
	       "/home/u/config.json: there is no key \"python\"; did you mean \"python\"?");
	/* Unusual escapes are understood; only their line is not found. */
	refuse("{\"ti\\u006deot\":1}",
	       "/home/u/config.json: there is no key \"timeot\"; did you mean \"timeout\"?");
}

static void test_lines_are_those_of_the_key(void **state)
{
	(void)state;
	/* The same words as a value, inside another object, and at another depth. */
	refuse("{\"python\":\"spare\",\n\"preload\":{\"/spare\":[\"spare\"]},\n\"spare\":1}",
	       "/home/u/config.json:3: \"spare\" must be true or false, not 1");
	refuse("{\"pool\":{\"idle_s\":1},\n\"limits\":{\n\"files\":\n0}}",
	       "/home/u/config.json:3: \"limits.files\" must be a whole number from 128 to "
	       "1048576, "
	       "not 0");
	refuse("{\"python\":\"\\\"queue\\\":\",\n\"limits\" : {\n\"queue\" : 0}}",
	       "/home/u/config.json:3: \"limits.queue\" must be a whole number from 1 to 100000, "
	       "not 0");
}

static void test_wrong_values(void **state)
{
	static const char *const texts[] = {
		"{\"timeout\":0}",
		"{\"timeout\":-1}",
		"{\"timeout\":\"5\"}",
		"{\"timeout\":31536001}",
		"{\"timeout\":1e999}",
		"{\"timeout\":true}",
		"{\"spare\":\"yes\"}",
		"{\"durability\":\"powr\"}",
		"{\"durability\":\"\"}",
		"{\"durability\":true}",
		"{\"spare\":null}",
		"{\"limits\":{\"queue\":1.0}}",
		"{\"limits\":{\"queue\":1e3}}",
		"{\"limits\":{\"output_bytes\":9007199254740992}}",
		"{\"limits\":{\"output_bytes\":99999999999999999999}}",
		"{\"limits\":[]}",
		"{\"limits\":null}",
		"{\"python\":\"\"}",
		"{\"python\":\"venv/bin/python\"}",
		"{\"python\":\"~/venv\"}",
		"{\"python\":\"~\"}",
		"{\"python\":\"/a\\u0000b\"}",
		"{\"python\":null}",
		"{\"preload\":\"numpy\"}",
		"{\"preload\":[\"numpy\",\"numpy\"]}",
		"{\"preload\":[\"1x\"]}",
		"{\"preload\":[\"a.\"]}",
		"{\"preload\":[\".a\"]}",
		"{\"preload\":[\"a..b\"]}",
		"{\"preload\":[\"a.1\"]}",
		"{\"preload\":[\"a b\"]}",
		"{\"preload\":[\"\"]}",
		"{\"preload\":[1]}",
		"{\"preload\":{\"venv\":[]}}",
		"{\"preload\":{\"default\":\"numpy\"}}",
		"{\"$schema\":1}",
		"{\"limits\":{\"queue\":null}}",
		"{\"limits\":{\"memory_bytes\":67108863}}",
		"{\"limits\":{\"memory_bytes\":1e9}}",
		"{\"limits\":{\"cpus\":0}}",
		"{\"limits\":{\"cpus\":\"1\"}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cleanup_settings struct settings settings;
		struct err err = ERR_INIT;

		settings_init(&settings);
		if (read_text(&settings, texts[i], &err) == 0)
			fail_msg("accepted: %s", texts[i]);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.text, "config.json:1: \"") || !strstr(err.text, " must be "))
			fail_msg("%s: %s", texts[i], err.text);
	}
	refuse("{\"timeout\":\"0123456789012345678901234567890123456789\"}",
	       "/home/u/config.json:1: \"timeout\" must be a number of seconds above 0, at most "
	       "31536000, not \"012345678901234567890123456789012345678...");
}

static void test_bad_json(void **state)
{
	cleanup_buf struct buf many = BUF_INIT;

	(void)state;
	refuse("", "/home/u/config.json:1: this is no JSON: a value is missing");
	refuse("[]", "/home/u/config.json: it must be an object: {...}");
	refuse("null", "/home/u/config.json: it must be an object: {...}");
	refuse("{\n\"spare\": true,\n}",
	       "/home/u/config.json:3: this is no JSON: a key is missing");
	refuse("{\"spare\": true}\n\n// no", "/home/u/config.json:3: this is no JSON: something "
					     "follows the value");
	refuse("{\"spare\": true,\n\"spare\": true}",
	       "/home/u/config.json:2: a key is repeated: \"spare\"");
	refuse("{\"spare\": \"", "/home/u/config.json:1: this is no JSON: a string does not end");
	for (unsigned i = 0; i <= SETTING_MODULES_MAX; i++)
		buf_printf(&many, "%s\"m%u\"", i ? "," : "{\"preload\":[", i);
	buf_append_string(&many, "]}");
	refuse(buf_bytes(&many),
	       "/home/u/config.json:1: \"preload\" must be an array of up to 64 different names of "
	       "modules, or an object that has such arrays for \"default\" and for absolute paths "
	       "of Pythons, not [\"m0\",\"m1\",\"m2\",\"m3\",\"m4\",\"m5\",\"m6\",\"m7\"...");
}

/* What went wrong must be read even if the path is long. */
static void test_long_path(void **state)
{
	cleanup_settings struct settings settings;
	char path[400];
	struct err err = ERR_INIT;

	(void)state;
	memset(path, 'a', sizeof(path));
	memcpy(path + sizeof(path) - 13, "/config.json", 13);
	settings_init(&settings);
	assert_int_equal(settings_read(&settings, "{\"spare\":1}", 11, path, &err), -1);
	assert_memory_equal(err.text, "...aaa", 6);
	assert_non_null(
		strstr(err.text, "a/config.json:1: \"spare\" must be true or false, not 1"));
}

static void test_variables(void **state)
{
	static const struct {
		enum setting_id id;
		const char *text, *message;
	} wrong[] = {
		{SETTING_SPARE, "no", "FUMEHOOD_SPARE must be true or false, not no"},
		{SETTING_DURABILITY, "p", "FUMEHOOD_DURABILITY must be process or power, not p"},
		{SETTING_TIMEOUT, "2m",
		 "FUMEHOOD_TIMEOUT must be a number of seconds above 0, at most 31536000, not 2m"},
		{SETTING_LIMITS_QUEUE, "0",
		 "FUMEHOOD_LIMITS_QUEUE must be a whole number from 1 to 100000, not 0"},
		{SETTING_PYTHON, "/\xff", "FUMEHOOD_PYTHON must be UTF-8, not /"},
	};
	cleanup_settings struct settings settings;

	(void)state;
	settings_init(&settings);
	take(&settings, "{\"timeout\":5,\"spare\":false}");
	assert_int_equal(settings_read_variable(&settings, SETTING_TIMEOUT, "2.5", NULL), 0);
	assert_int_equal(settings_read_variable(&settings, SETTING_SPARE, "1", NULL), 0);
	assert_int_equal(settings_read_variable(&settings, SETTING_PYTHON, "venv/bin/x", NULL), 0);
	assert_true(settings_seconds(&settings, SETTING_TIMEOUT) == 2.5);
	assert_true(settings_bool(&settings, SETTING_SPARE));
	assert_string_equal(settings_text(&settings, SETTING_PYTHON), "venv/bin/x");
	assert_int_equal(settings.items[SETTING_SPARE].source, SETTING_FROM_ENVIRONMENT);
	assert_int_equal(settings_read_variable(&settings, SETTING_SPARE, "false", NULL), 0);
	assert_false(settings_bool(&settings, SETTING_SPARE));
	assert_int_equal(settings_read_variable(&settings, SETTING_TIMEOUT, "", NULL), 0);
	assert_true(settings_seconds(&settings, SETTING_TIMEOUT) == 2.5);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct err err = ERR_INIT;

		assert_int_equal(
			settings_read_variable(&settings, wrong[i].id, wrong[i].text, &err), -1);
		assert_string_equal(err.text, wrong[i].message);
	}
}

/* --- the process's own --------------------------------------------------------------------------
 */

static int set_up(void **state)
{
	char template[] = "/tmp/fumehood-settings-XXXXXX";

	if (!mkdtemp(template))
		return -1;
	*state = mem_string(template);
	setenv("HOME", template, 1);
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("FUMEHOOD_CONFIG");
	for (enum setting_id id = 0; id < SETTING_COUNT; id++)
		if (SETTINGS[id].variable)
			unsetenv(SETTINGS[id].variable);
	return 0;
}

static int tear_down(void **state)
{
	cleanup_free char *folder = *state;

	return file_remove_tree(AT_FDCWD, folder, NULL);
}

static void put(const char *folder, const char *name, const char *text)
{
	cleanup_free char *path = mem_format("%s/%s", folder, name);
	cleanup_fd int fd = -1;

	assert_int_equal(file_make_dirs(folder, 0700, NULL), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static double timeout_now(void)
{
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;

	if (settings_load(&settings, &err) != 0)
		fail_msg("%s", err.text);
	return settings_seconds(&settings, SETTING_TIMEOUT);
}

static void expect_failure(enum err_code code, const char *words)
{
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;

	assert_int_equal(settings_load(&settings, &err), -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" is not in: %s", words, err.text);
}

static void test_load(void **state)
{
	const char *root = *state;
	cleanup_free char *home = mem_format("%s/.config/fumehood", root);
	cleanup_free char *xdg = mem_format("%s/xdg", root);
	cleanup_free char *in_xdg = mem_format("%s/xdg/fumehood", root);
	cleanup_free char *named = mem_format("%s/named.json", root);
	cleanup_free char *gone = mem_format("%s/gone.json", root);

	assert_true(timeout_now() == 300); /* nothing there */
	assert_int_equal(access(home, F_OK), -1);
	put(home, "config.json", "{\"timeout\":1}");
	assert_true(timeout_now() == 1);
	setenv("XDG_CONFIG_HOME", xdg, 1);
	assert_true(timeout_now() == 300);
	put(in_xdg, "config.json", "{\"timeout\":2}");
	assert_true(timeout_now() == 2);
	put(root, "named.json", "{\"timeout\":3}");
	setenv("FUMEHOOD_CONFIG", named, 1);
	assert_true(timeout_now() == 3);
	setenv("FUMEHOOD_TIMEOUT", "4", 1);
	assert_true(timeout_now() == 4);
	setenv("FUMEHOOD_TIMEOUT", "x", 1);
	expect_failure(ERR_INVALID, "FUMEHOOD_TIMEOUT must be");
	setenv("FUMEHOOD_TIMEOUT", "", 1);
	setenv("FUMEHOOD_CONFIG", "", 1);
	assert_true(timeout_now() == 300);
	/* What was named and is not there is an error. */
	setenv("FUMEHOOD_CONFIG", gone, 1);
	expect_failure(ERR_NOT_FOUND, "FUMEHOOD_CONFIG");
	setenv("FUMEHOOD_CONFIG", "named.json", 1);
	expect_failure(ERR_INVALID, "absolute path");
	setenv("FUMEHOOD_CONFIG", root, 1);
	expect_failure(ERR_INVALID, "FUMEHOOD_CONFIG");
	put(root, "named.json", "{\"timeout\":x}");
	setenv("FUMEHOOD_CONFIG", named, 1);
	expect_failure(ERR_INVALID, "named.json:1: this is no JSON");
}

static void test_schema_file(void **state)
{
	cleanup_buf struct buf file = BUF_INIT, made = BUF_INIT;

	(void)state;
	settings_write_schema(&made);
	assert_int_equal(file_read(AT_FDCWD, schema_path, SETTINGS_BYTES_MAX, &file, NULL), 0);
	if (strcmp(buf_bytes(&file), buf_bytes(&made)) != 0)
		fail_msg("%s is old: fumehood config --schema > %s", schema_path, schema_path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_unknown_keys),
		cmocka_unit_test(test_lines_are_those_of_the_key),
		cmocka_unit_test(test_wrong_values),
		cmocka_unit_test(test_bad_json),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_variables),
		cmocka_unit_test_setup_teardown(test_load, set_up, tear_down),
		cmocka_unit_test(test_schema_file),
	};

	schema_path = argc > 1 ? argv[1] : "doc/config.schema.json";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
