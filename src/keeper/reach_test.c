/* Reach: which Python a session could write, and what a box shows of one that cannot be asked. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "keeper/reach.h"

struct tree {
	char top[64];
	struct reach reach;
};

static char *at(const struct tree *tree, const char *path)
{
	return mem_format("%s/%s", tree->top, path);
}

static void make_file(const struct tree *tree, const char *path, const char *text)
{
	cleanup_free char *full = at(tree, path);
	char *slash = strrchr(full, '/');
	cleanup_fd int fd = -1;

	*slash = '\0';
	assert_int_equal(file_make_dirs(full, 0755, NULL), 0);
	*slash = '/';
	fd = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

/* `text` is taken beneath the tree when it begins with "top/". */
static void make_link(const struct tree *tree, const char *path, const char *text)
{
	cleanup_free char *full = at(tree, path);
	cleanup_free char *target =
		strncmp(text, "top/", 4) == 0 ? at(tree, text + 4) : mem_string(text);

	assert_int_equal(symlink(target, full), 0);
}

/* A Python: bin/python3 -> python3.11, lib/python3.11/os.py. */
static void make_python(const struct tree *tree, const char *prefix)
{
	cleanup_free char *program = mem_format("%s/bin/python3.11", prefix);
	cleanup_free char *script = mem_format("%s/bin/python3-config", prefix);
	cleanup_free char *link = mem_format("%s/bin/python3", prefix);
	cleanup_free char *os = mem_format("%s/lib/python3.11/os.py", prefix);

	make_file(tree, program, "\177ELF and so on");
	make_file(tree, script, "#!/bin/sh");
	make_file(tree, os, "");
	make_link(tree, link, "python3.11");
}

/* A venv whose bin/python is a symlink to `python`, with `home`; both beneath the tree. */
static void make_venv(const struct tree *tree, const char *venv, const char *python,
		      const char *home)
{
	cleanup_free char *config = mem_format("%s/pyvenv.cfg", venv);
	cleanup_free char *packages = mem_format("%s/lib/python3.11/site-packages/x.py", venv);
	cleanup_free char *bin = mem_format("%s/bin/activate", venv);
	cleanup_free char *link = mem_format("%s/bin/python", venv);
	cleanup_free char *text = mem_format("home = %s/%s\nversion = 3.11.7\n", tree->top, home);

	make_file(tree, config, text);
	make_file(tree, packages, "");
	make_file(tree, bin, "");
	make_link(tree, link, python);
}

static bool is_writable(struct tree *tree, const char *python, const char *workspace)
{
	cleanup_free char *full_python = at(tree, python);
	cleanup_free char *full_workspace = at(tree, workspace);

	reach_release(&tree->reach);
	reach_find(&tree->reach, full_python, full_workspace);
	return tree->reach.writable;
}

static bool shows(const struct tree *tree, const char *path)
{
	cleanup_free char *full = at(tree, path);

	for (size_t i = 0; i < tree->reach.count; i++) {
		if (strcmp(tree->reach.paths[i], full) == 0)
			return true;
	}
	return false;
}

static int set_up(void **state)
{
	struct tree *tree = mem_zalloc(sizeof(*tree));
	char top[] = "/tmp/fumehood-reach-XXXXXX";

	if (!mkdtemp(top))
		return -1;
	memcpy(tree->top, top, sizeof(top));
	make_python(tree, "base");
	make_file(tree, "work/data.csv", "");
	*state = tree;
	return 0;
}

static int tear_down(void **state)
{
	struct tree *tree = *state;

	reach_release(&tree->reach);
	file_remove_tree(AT_FDCWD, tree->top, NULL);
	free(tree);
	return 0;
}

static void test_out_of_reach(void **state)
{
	struct tree *tree = *state;

	make_venv(tree, "venv", "top/base/bin/python3", "base/bin");
	make_file(tree, "base/share/notebooks/a.py", "");
	assert_false(is_writable(tree, "base/bin/python3.11", "work"));
	assert_false(is_writable(tree, "venv/bin/python", "work"));
	/* Its data may lie beside the libraries, not among them. */
	assert_false(is_writable(tree, "base/bin/python3.11", "base/share/notebooks"));
	assert_true(is_writable(tree, "base/bin/python3.11", "base/lib/python3.11"));
	assert_true(is_writable(tree, "venv/bin/python", "base/bin"));
	assert_true(is_writable(tree, "venv/bin/python", "venv/lib/python3.11/site-packages"));
}

static void test_in_the_workspace(void **state)
{
	struct tree *tree = *state;
	cleanup_free char *python = at(tree, "alias/venv/bin/python");
	cleanup_free char *work = at(tree, "work"), *inside = NULL;

	make_venv(tree, "work/venv", "top/base/bin/python3", "base/bin");
	make_link(tree, "alias", "work");
	make_link(tree, "linked", "top/work/venv");
	assert_true(is_writable(tree, "work/venv/bin/python", "work"));
	assert_true(is_writable(tree, "work/venv/bin/python", "alias"));
	assert_true(is_writable(tree, "work/venv/bin/python", "."));
	assert_true(is_writable(tree, "alias/venv/bin/python", "work"));
	assert_true(is_writable(tree, "linked/bin/python", "work"));
	assert_true(is_writable(tree, "work/../alias/./venv//bin/python", "work"));
	inside = reach_inside(python, work);
	assert_string_equal(inside, "/workspace/venv/bin/python");
}

/* What it stands on, or what lies on its way, is as good as itself. */
static void test_stands_on_the_workspace(void **state)
{
	struct tree *tree = *state;

	make_python(tree, "work/base");
	make_venv(tree, "one", "top/work/base/bin/python3", "work/base/bin");
	make_venv(tree, "two", "top/base/bin/python3", "work/base/bin");
	make_venv(tree, "three", "top/work/hop", "base/bin");
	make_link(tree, "work/hop", "top/base/bin/python3");
	make_file(tree, "four/bin/activate", "");
	make_link(tree, "four/bin/python", "top/base/bin/python3");
	make_file(tree, "four/lib/python3.11/pip.py", "");
	make_link(tree, "four/lib/python3.11/site-packages", "top/work");
	assert_true(is_writable(tree, "one/bin/python", "work"));
	assert_true(is_writable(tree, "two/bin/python", "work"));
	assert_true(is_writable(tree, "three/bin/python", "work"));
	assert_true(is_writable(tree, "four/bin/python", "work"));
}

static void test_base_is_shown(void **state)
{
	struct tree *tree = *state;

	make_link(tree, "current", "base");
	make_venv(tree, "work/venv", "top/current/bin/python3", "base/bin");
	assert_true(is_writable(tree, "work/venv/bin/python", "work"));
	assert_true(shows(tree, "base/lib") && shows(tree, "current/lib"));
	assert_true(shows(tree, "base/bin/python3") && shows(tree, "base/bin/python3.11"));
	assert_true(shows(tree, "current/bin/python3"));
	assert_false(shows(tree, "base/bin/python3-config")); /* a script */
	assert_false(shows(tree, "base") || shows(tree, "current"));
	assert_int_equal(tree->reach.count, 6);
}

/* A session may write pyvenv.cfg and symlinks: they are no way to see anything else. */
static void test_nothing_else_is_shown(void **state)
{
	struct tree *tree = *state;

	make_file(tree, "secret/lib/key", "");
	make_file(tree, "secret/bin/python3", "not a program");
	make_venv(tree, "work/a", "top/secret/bin/python3", "secret/bin");
	make_file(tree, "work/fake/lib/python3.11/os.py", "");
	make_file(tree, "work/fake/bin/python3", "\177ELF");
	make_venv(tree, "work/b", "top/work/fake/bin/python3", "work/fake/bin");
	make_file(tree, "work/trap/bin/python3", "\177ELF");
	make_link(tree, "work/trap/lib", "top/base/lib");
	make_venv(tree, "work/c", "top/work/trap/bin/python3", "work/trap/bin");
	make_venv(tree, "work/d", "/", "..");
	assert_true(is_writable(tree, "work/a/bin/python", "work"));
	assert_int_equal(tree->reach.count, 0);
	assert_true(is_writable(tree, "work/b/bin/python", "work"));
	assert_int_equal(tree->reach.count, 0);
	assert_true(is_writable(tree, "work/c/bin/python", "work"));
	assert_int_equal(tree->reach.count, 0);
	assert_true(is_writable(tree, "work/d/bin/python", "work"));
	assert_int_equal(tree->reach.count, 0);
}

/* One outside that stands on the workspace is the user's own choice. */
static void test_environment_is_shown(void **state)
{
	struct tree *tree = *state;

	make_venv(tree, "venv", "top/work/hop", "base/bin");
	make_link(tree, "work/hop", "top/base/bin/python3");
	assert_true(is_writable(tree, "venv/bin/python", "work"));
	assert_true(shows(tree, "venv") && shows(tree, "base/lib"));
}

static void home_is(const char *text, const char *expected)
{
	cleanup_free char *home = reach_home(text, strlen(text));

	if (!expected)
		assert_null(home);
	else
		assert_string_equal(home, expected);
}

static void test_home(void **state)
{
	char *long_text = mem_zalloc(20000);
	cleanup_free char *home = NULL;

	(void)state;
	home_is("home = /usr/bin\n", "/usr/bin");
	home_is("HOME=/usr/bin", "/usr/bin");
	home_is("a\nversion = 3\n \thome\t =  /opt/my python/bin \r\nhome = /x\n",
		"/opt/my python/bin");
	home_is("home = bin\n", NULL);
	home_is("homes = /usr\n", NULL);
	home_is("home\n= /usr\n", NULL);
	home_is("", NULL);
	home_is("home =", NULL);
	memset(long_text, '/', 19999);
	memcpy(long_text, "home=", 5);
	home_is(long_text, NULL);
	free(long_text);
	home = reach_home("home = /a\0b\n", 12);
	assert_string_equal(home, "/a");
}

static void test_not_there(void **state)
{
	struct tree *tree = *state;

	assert_false(is_writable(tree, "no/bin/python", "work"));
	assert_false(is_writable(tree, "base/bin/python3.11", "no"));
	assert_true(is_writable(tree, "work/gone", ".") || tree->reach.count == 0);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TREE(test_out_of_reach),
		WITH_TREE(test_in_the_workspace),
		WITH_TREE(test_stands_on_the_workspace),
		WITH_TREE(test_base_is_shown),
		WITH_TREE(test_nothing_else_is_shown),
		WITH_TREE(test_environment_is_shown),
		cmocka_unit_test(test_home),
		WITH_TREE(test_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
