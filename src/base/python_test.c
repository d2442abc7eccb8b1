/* From names to interpreters, with small stand-ins in a folder of their own: a "Python" here is a
 * file that is executable, and a shim is a script that prints a path. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/python.h"

static int set_up(void **state)
{
	char template[] = "/tmp/fumehood-python-XXXXXX";

	if (!mkdtemp(template) || chdir(template) < 0)
		return -1;
	*state = mem_string(template);
	setenv("PATH", "/nowhere", 1);
	setenv("HOME", template, 1);
	unsetenv("XDG_DATA_HOME");
	unsetenv("FUMEHOOD_PYTHON");
	return 0;
}

static int tear_down(void **state)
{
	cleanup_free char *folder = *state;

	return chdir("/") < 0 ? -1 : file_remove_tree(AT_FDCWD, folder, NULL);
}

/* The test's folder. */
static char *here(void)
{
	char *folder = realpath(".", NULL);

	assert_non_null(folder);
	return folder;
}

/* Writes an executable file below the folder; `text` "" is a "Python". */
static void put(const char *name, const char *text, mode_t mode)
{
	cleanup_free char *parent = mem_string(name);
	cleanup_fd int fd = -1;
	char *slash = strrchr(parent, '/');

	if (slash) {
		*slash = '\0';
		assert_int_equal(file_make_dirs(parent, 0700, NULL), 0);
	}
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static void put_path(const char *value)
{
	setenv("PATH", value, 1);
}

/* Expects `name` to become <folder>/<expected>. */
static void expect(const char *name, const char *expected)
{
	struct err err = ERR_INIT;
	cleanup_free char *path = python_resolve(name, &err);
	cleanup_free char *folder = here();
	cleanup_free char *whole = mem_format("%s/%s", folder, expected);

	if (!path)
		fail_msg("%s: %s", name, err.text);
	assert_string_equal(path, whole);
}

static void expect_error(const char *name, enum err_code code, const char *words)
{
	struct err err = ERR_INIT;
	cleanup_free char *path = python_resolve(name, &err);

	assert_null(path);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" is not in: %s", words, err.text);
}

static void test_paths(void **state)
{
	(void)state;
	put("opt/bin/python3.11", "", 0700);
	assert_int_equal(symlink("python3.11", "opt/bin/python3"), 0);
	assert_int_equal(symlink("opt", "link"), 0);
	expect("opt/bin/python3.11", "opt/bin/python3.11");
	expect("./opt/../opt/bin/python3", "opt/bin/python3.11");
	expect("link/bin/python3", "opt/bin/python3.11");
	put("opt/bin/plain", "", 0600);
	expect_error("opt/bin/plain", ERR_INVALID, "no executable");
	expect_error("opt/bin/gone", ERR_NOT_FOUND, "opt/bin/gone");
	expect_error("", ERR_NOT_FOUND, "empty");
}

static void test_venv(void **state)
{
	(void)state;
	put("usr/bin/python3.11", "", 0700);
	put("venv/pyvenv.cfg", "home = usr/bin\n", 0600);
	assert_int_equal(file_make_dirs("venv/bin", 0700, NULL), 0);
	assert_int_equal(symlink("../../usr/bin/python3.11", "venv/bin/python"), 0);
	assert_int_equal(symlink("python", "venv/bin/python3"), 0);
	put("venv/bin/python-other", "", 0700);
	assert_int_equal(symlink("venv", "link"), 0);
	expect("venv", "venv/bin/python");
	expect("./venv/", "venv/bin/python");
	expect("venv/bin/python", "venv/bin/python");
	expect("venv/bin/python3", "venv/bin/python");
	expect("link", "venv/bin/python");
	/* Another interpreter of the same venv stays what it is. */
	expect("venv/bin/python-other", "venv/bin/python-other");
	/* By PATH, as an activated venv does it. */
	put_path("/nowhere:venv/bin");
	expect("python3", "venv/bin/python");
}

static void test_directory_without_python(void **state)
{
	(void)state;
	assert_int_equal(file_make_dirs("empty/bin", 0700, NULL), 0);
	expect_error("empty", ERR_NOT_FOUND, "no bin/python");
	put("conda/bin/python3", "", 0700);
	expect("conda", "conda/bin/python3");
}

static void test_names_on_path(void **state)
{
	(void)state;
	put("a/python3", "", 0600);      /* not executable: passed over */
	put("b/python3/file", "", 0700); /* a directory: passed over */
	put("c/python3", "", 0700);
	put("d/python3", "", 0700);
	put_path("a:b:/nowhere:c:d");
	expect("python3", "c/python3");
	expect_error("python4", ERR_NOT_FOUND, "python4");
	/* An empty part of PATH is the current directory. */
	put("pythonx", "", 0700);
	put_path("c:");
	expect("pythonx", "pythonx");
	/* PATH wins over a directory of the name. */
	put("python3/bin/python", "", 0700);
	put_path("c");
	expect("python3", "c/python3");
	put_path("/nowhere");
	expect("python3", "python3/bin/python");
	unsetenv("PATH");
	expect_error("python4", ERR_NOT_FOUND, "python4");
}

static void put_shim(const char *name, const char *body)
{
	cleanup_free char *text = mem_format("#!/bin/sh\n%s\n", body);

	put(name, text, 0700);
}

static void test_shim(void **state)
{
	cleanup_free char *folder = here();
	cleanup_free char *answer =
		mem_format("echo some talk; echo; echo more >&2; echo %s/real/bin/python3", folder);
	cleanup_free char *mise =
		mem_format("#!/bin/sh\n[ \"$2\" = -c ] && echo %s/real/bin/python3", folder);

	(void)state;
	put("real/bin/python3", "", 0700);
	put_shim("manager/shims/python3", answer);
	expect("manager/shims/python3", "real/bin/python3");
	put_path("manager/shims");
	expect("python3", "real/bin/python3");
	/* A wrapper script anywhere. */
	put("wrapper", mise, 0700);
	expect("./wrapper", "real/bin/python3");
}

/* What a session may have written must not run outside of its box. */
static void test_script_in_the_workspace(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	put_shim("work/venv/bin/python", "echo caught");
	put_shim("other/bin/python", "echo");
	put("work/good/bin/python", "", 0700);
	put("shims/project/bin/python", "", 0700); /* no shim: in no folder of that name */
	assert_int_equal(symlink("work", "alias"), 0);
	assert_int_equal(mkdir("linked", 0700) | mkdir("linked/bin", 0700), 0);
	assert_int_equal(symlink("../../work/venv/bin/python", "linked/bin/python"), 0);
	assert_int_equal(python_check_workspace("work/venv", "work", &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(python_check_workspace("alias/venv/bin/python", "work", NULL), -1);
	assert_int_equal(python_check_workspace("./work/venv", "alias", NULL), -1);
	assert_int_equal(python_check_workspace("linked", "work", NULL), -1);
	put_path("work/venv/bin");
	assert_int_equal(python_check_workspace("python", "work", NULL), -1);
	assert_int_equal(python_check_workspace("work/good", "work", &err), 0);
	assert_int_equal(python_check_workspace("other", "work", &err), 0);
	assert_int_equal(python_check_workspace("work/venv", "work/good", &err), 0);
	assert_int_equal(python_check_workspace("shims/project", "shims", &err), 0);
	assert_int_equal(python_check_workspace("nowhere/python", "work", &err), 0);
	assert_int_equal(python_check_workspace("", "work", &err), 0);
}

static void test_shim_that_fails(void **state)
{
	cleanup_free char *folder = here();
	cleanup_free char *status = mem_format("echo %s/real/bin/python3; exit 1", folder);

	(void)state;
	put("real/bin/python3", "", 0700);
	put_shim("one", "echo 'pyenv: version 3.99 is not installed' >&2; exit 1");
	expect_error("./one", ERR_ENGINE, "3.99 is not installed");
	put_shim("two", "exit 0");
	expect_error("./two", ERR_ENGINE, "said nothing");
	put_shim("three", "echo /nowhere/python");
	expect_error("./three", ERR_ENGINE, "/nowhere/python");
	put_shim("four", status);
	expect_error("./four", ERR_ENGINE, "does not work");
	put_shim("five", "echo real/bin/python3"); /* not absolute */
	expect_error("./five", ERR_ENGINE, "does not work");
	put("six", "#!/nowhere/interpreter\n", 0700);
	expect_error("./six", ERR_NOT_FOUND, "cannot be run");
	/* Too much to be an answer; it is ended although it would never end by itself. */
	put_shim("seven", "while :; do echo "
			  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
	expect_error("./seven", ERR_TIMEOUT, "no answer");
}

static void expect_default(const char *expected)
{
	struct err err = ERR_INIT;
	cleanup_free char *path = python_default(&err);
	cleanup_free char *folder = here();
	cleanup_free char *whole = mem_format("%s/%s", folder, expected);

	if (!path)
		fail_msg("%s", err.text);
	assert_string_equal(path, whole);
}

static void test_default(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	put("bin/python3", "", 0700);
	put_path("bin");
	expect_default("bin/python3");
	put(".local/share/fumehood/venv/bin/python", "", 0700);
	expect_default(".local/share/fumehood/venv/bin/python");
	put("mine/bin/python", "", 0700);
	setenv("FUMEHOOD_PYTHON", "mine", 1);
	expect_default("mine/bin/python");
	setenv("FUMEHOOD_PYTHON", "", 1);
	expect_default(".local/share/fumehood/venv/bin/python");
	/* What was asked for and does not work is an error, not something else. */
	setenv("FUMEHOOD_PYTHON", "gone", 1);
	assert_null(python_default(&err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "FUMEHOOD_PYTHON"));
}

static void test_is(void **state)
{
	cleanup_free char *folder = here();
	cleanup_free char *venv = mem_format("%s/venv", folder);
	cleanup_free char *link = mem_format("%s/venv/bin/python3", folder);
	cleanup_free char *other = mem_format("%s/usr/bin/python3.11", folder);
	cleanup_free char *gone = mem_format("%s/gone", folder);
	cleanup_free char *python = NULL;

	(void)state;
	put("usr/bin/python3.11", "", 0700);
	put("venv/pyvenv.cfg", "home = usr/bin\n", 0600);
	assert_int_equal(file_make_dirs("venv/bin", 0700, NULL), 0);
	assert_int_equal(symlink("../../usr/bin/python3.11", "venv/bin/python"), 0);
	assert_int_equal(symlink("python", "venv/bin/python3"), 0);
	python = python_resolve("venv", NULL);
	assert_true(python_is(python, python));
	assert_true(python_is(python, venv));
	assert_true(python_is(python, link));
	assert_false(python_is(python, other));
	assert_false(python_is(python, gone));
	assert_false(python_is(python, folder));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_venv, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_directory_without_python, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_names_on_path, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_shim, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_script_in_the_workspace, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_shim_that_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_default, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_is, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
