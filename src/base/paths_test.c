/*
 * Paths: which variable wins, what is made, and what is refused in /tmp.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"

static char root[] = "/tmp/paths_test.XXXXXX";

/* A fresh HOME and no variables. */
static int set_up(void **state)
{
	(void)state;
	memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
	if (!mkdtemp(root) || setenv("HOME", root, 1) < 0)
		return -1;
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_DATA_HOME");
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("FUMEHOOD_LIBEXEC");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return file_remove_tree(AT_FDCWD, root, NULL);
}

static void check_made(char *path, const char *want)
{
	cleanup_free char *owned = path;
	struct stat st;

	assert_non_null(path);
	assert_string_equal(path, want);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_ptr_equal(owned, path);
}

static void test_state_and_data(void **state)
{
	cleanup_free char *state_home = mem_format("%s/.local/state/fumehood", root);
	cleanup_free char *data_home = mem_format("%s/.local/share/fumehood", root);
	cleanup_free char *other = mem_format("%s/other", root);
	cleanup_free char *state_other = mem_format("%s/other/fumehood", root);

	(void)state;
	check_made(paths_state(NULL), state_home);
	check_made(paths_data(NULL), data_home);
	setenv("XDG_STATE_HOME", "relative", 1);
	setenv("XDG_DATA_HOME", "", 1);
	check_made(paths_state(NULL), state_home);
	check_made(paths_data(NULL), data_home);
	setenv("XDG_STATE_HOME", other, 1);
	setenv("XDG_DATA_HOME", other, 1);
	check_made(paths_state(NULL), state_other);
	check_made(paths_data(NULL), state_other);
}

/* The user's own: named, never made. */
static void test_config(void **state)
{
	cleanup_free char *home = mem_format("%s/.config/fumehood", root);
	cleanup_free char *other = mem_format("%s/other", root);
	cleanup_free char *in_other = mem_format("%s/other/fumehood", root);
	cleanup_free char *first = NULL, *second = NULL;

	(void)state;
	unsetenv("XDG_CONFIG_HOME");
	first = paths_config(NULL);
	assert_string_equal(first, home);
	setenv("XDG_CONFIG_HOME", other, 1);
	second = paths_config(NULL);
	assert_string_equal(second, in_other);
	unsetenv("XDG_CONFIG_HOME");
	assert_int_equal(access(home, F_OK), -1);
	assert_int_equal(access(other, F_OK), -1);
}

static void test_state_fails(void **state)
{
	cleanup_free char *file = mem_format("%s/file", root);
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(file_replace(AT_FDCWD, "x/y", "", 0, 0600, &err), -1);
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	setenv("XDG_STATE_HOME", file, 1);
	assert_null(paths_state(&err));
	assert_int_equal(err.code, ERR_IO);
}

static void test_runtime(void **state)
{
	cleanup_free char *want = mem_format("%s/fumehood", root);
	struct err err = ERR_INIT;

	(void)state;
	setenv("XDG_RUNTIME_DIR", root, 1);
	check_made(paths_runtime(NULL), want);
	check_made(paths_runtime(NULL), want);
	/* Rights for others, a file, a symlink to a good directory. */
	assert_int_equal(chmod(want, 0750), 0);
	assert_null(paths_runtime(&err));
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(rmdir(want), 0);
	close(open(want, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	err = (struct err)ERR_INIT;
	assert_null(paths_runtime(&err));
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(unlink(want), 0);
	assert_int_equal(symlink(root, want), 0);
	err = (struct err)ERR_INIT;
	assert_null(paths_runtime(&err));
	assert_int_equal(err.code, ERR_DENIED);
}

static void test_runtime_of_another(void **state)
{
	cleanup_free char *want = mem_format("%s/fumehood", root);
	struct err err = ERR_INIT;

	(void)state;
	setenv("XDG_RUNTIME_DIR", root, 1);
	assert_int_equal(mkdir(want, 0700), 0);
	if (chown(want, geteuid() + 1, (gid_t)-1) < 0) {
		print_message("skipped: only root can give a directory away\n");
		skip();
	}
	assert_null(paths_runtime(&err));
	assert_int_equal(err.code, ERR_DENIED);
}

static void test_runtime_without_variable(void **state)
{
	cleanup_free char *want = mem_format("/tmp/fumehood-%u", (unsigned)geteuid());
	cleanup_free char *gone = mem_format("%s/gone", root);

	(void)state;
	check_made(paths_runtime(NULL), want);
	setenv("XDG_RUNTIME_DIR", gone, 1);
	check_made(paths_runtime(NULL), want);
}

static void make_program(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);

	assert_true(fd >= 0);
	close(fd);
}

static void test_helper(void **state)
{
	cleanup_free char *chosen = mem_format("%s/fumehood-keeper", root);
	cleanup_free char *found = NULL;
	cleanup_free char *again = NULL;
	struct err err = ERR_INIT;
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	assert_true(len > 0);
	self[len] = '\0';
	/* This program stands beside itself. */
	found = paths_helper(strrchr(self, '/') + 1, &err);
	assert_string_equal(found, self);
	assert_null(paths_helper("fumehood-none", &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	setenv("FUMEHOOD_LIBEXEC", root, 1);
	err = (struct err)ERR_INIT;
	assert_null(paths_helper("fumehood-keeper", &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	make_program(chosen);
	again = paths_helper("fumehood-keeper", &err);
	assert_string_equal(again, chosen);
}

#define PATHS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PATHS_TEST(test_state_and_data),
		PATHS_TEST(test_state_fails),
		PATHS_TEST(test_config),
		PATHS_TEST(test_runtime),
		PATHS_TEST(test_runtime_of_another),
		PATHS_TEST(test_runtime_without_variable),
		PATHS_TEST(test_helper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
