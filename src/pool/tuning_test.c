/* What a pool takes from the configuration, and that it notices when the file changes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "pool/tuning.h"

/* Replaces the file as editors do: each time it is another inode, so no clock is needed. */
static void configure(const char *text)
{
	cleanup_fd int dirfd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(dirfd >= 0);
	unlink("old.json");
	rename("config.json", "old.json"); /* keeps its inode from being used again */
	assert_int_equal(file_replace(dirfd, "config.json", text, strlen(text), 0600, NULL), 0);
}

static int set_up(void **state)
{
	char template[] = "/tmp/fumehood-tuning-XXXXXX";
	cleanup_free char *path = NULL;

	if (!mkdtemp(template) || chdir(template) < 0)
		return -1;
	path = mem_format("%s/config.json", template);
	setenv("HOME", template, 1);
	setenv("FUMEHOOD_CONFIG", path, 1);
	unsetenv("FUMEHOOD_POOL_IDLE_S");
	unsetenv("FUMEHOOD_SPARE");
	*state = mem_string(template);
	return 0;
}

static int tear_down(void **state)
{
	cleanup_free char *folder = *state;

	return chdir("/") < 0 ? -1 : file_remove_tree(AT_FDCWD, folder, NULL);
}

static void test_values(void **state)
{
	struct tuning tuning;

	(void)state;
	configure("{}");
	tuning_init(&tuning, "/usr/bin/python3", 0);
	assert_null(tuning.modules);
	assert_int_equal(tuning.idle_s, 600);
	assert_true(tuning.spare);
	tuning_release(&tuning);
	configure("{\"preload\":[\"a\",\"b\"],\"pool\":{\"idle_s\":9},\"spare\":false}");
	tuning_init(&tuning, "/usr/bin/python3", 0);
	assert_string_equal(tuning.modules, "[\"a\",\"b\"]");
	assert_int_equal(tuning.idle_s, 9);
	assert_false(tuning.spare);
	tuning_release(&tuning);
	tuning_init(&tuning, "/usr/bin/python3", 5);
	assert_int_equal(tuning.idle_s, 5);
	tuning_release(&tuning);
	/* Nobody could use a spare. */
	configure("{\"limits\":{\"files\":200}}");
	tuning_init(&tuning, "/usr/bin/python3", 0);
	assert_false(tuning.spare);
	tuning_release(&tuning);
	configure("{\"limits\":{\"queue\":100}}");
	tuning_init(&tuning, "/usr/bin/python3", 0);
	assert_true(tuning.spare);
	tuning_release(&tuning);
}

static void test_environments(void **state)
{
	const char *folder = *state;
	cleanup_free char *python = mem_format("%s/venv/bin/python", folder);
	cleanup_free char *text = mem_format(
		"{\"preload\":{\"default\":[\"d\"],\"/nowhere\":[],\"%s/venv\":[\"v\"]}}", folder);
	cleanup_fd int fd = -1;
	struct tuning tuning;

	assert_int_equal(file_make_dirs("venv/bin", 0700, NULL), 0);
	fd = open("venv/bin/python", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	configure(text);
	tuning_init(&tuning, python, 0);
	assert_string_equal(tuning.modules, "[\"v\"]");
	tuning_release(&tuning);
	tuning_init(&tuning, "/usr/bin/other", 0);
	assert_string_equal(tuning.modules, "[\"d\"]");
	tuning_release(&tuning);
	configure("{\"preload\":{\"/nowhere\":[]}}");
	tuning_init(&tuning, python, 0);
	assert_null(tuning.modules);
	tuning_release(&tuning);
}

static void test_changes(void **state)
{
	struct tuning tuning;
	uint64_t first;

	(void)state;
	configure("{\"preload\":[\"a\"]}");
	tuning_init(&tuning, "/usr/bin/python3", 0);
	first = tuning.generation;
	tuning_refresh(&tuning);
	assert_int_equal(tuning.generation, first);
	/* Another file with the same list is no reason to import anew. */
	configure("{\"preload\": [ \"a\" ], \"pool\":{\"idle_s\":7}}");
	tuning_refresh(&tuning);
	assert_int_equal(tuning.generation, first);
	assert_int_equal(tuning.idle_s, 7);
	configure("{\"preload\":[\"b\"]}");
	tuning_refresh(&tuning);
	assert_int_equal(tuning.generation, first + 1);
	assert_string_equal(tuning.modules, "[\"b\"]");
	assert_int_equal(tuning.idle_s, 600);
	/* Broken: what was good stays. */
	configure("{\"preload\":[\"c\"],\"x\":1}");
	tuning_refresh(&tuning);
	assert_string_equal(tuning.modules, "[\"b\"]");
	configure("{\"preload\":[\"c\"]}");
	tuning_refresh(&tuning);
	assert_string_equal(tuning.modules, "[\"c\"]");
	/* Gone is broken too, if it was named. */
	assert_int_equal(unlink("config.json"), 0);
	tuning_refresh(&tuning);
	assert_string_equal(tuning.modules, "[\"c\"]");
	configure("{}");
	tuning_refresh(&tuning);
	assert_null(tuning.modules);
	tuning_release(&tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_environments, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
