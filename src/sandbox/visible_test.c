/* Visible: the walk over symlinks, and what of it is bound. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/visible.h"

struct tree {
	char top[64];
	struct visible visible;
};

static char *at(const struct tree *tree, const char *path)
{
	return mem_format("%s/%s", tree->top, path);
}

static void make_dir(const struct tree *tree, const char *path)
{
	cleanup_free char *full = at(tree, path);

	assert_int_equal(file_make_dirs(full, 0755, NULL), 0);
}

static void make_link(const struct tree *tree, const char *path, const char *text)
{
	cleanup_free char *full = at(tree, path);

	assert_int_equal(symlink(text, full), 0);
}

static void add(struct tree *tree, const char *path)
{
	cleanup_free char *full = at(tree, path);
	struct err err = ERR_INIT;

	if (visible_add_checked(&tree->visible, full, &err) < 0)
		fail_msg("%s", err.text);
}

static bool has_bind(const struct tree *tree, const char *path)
{
	cleanup_free char *full = at(tree, path);

	for (size_t i = 0; i < tree->visible.bind_count; i++) {
		if (strcmp(tree->visible.binds[i], full) == 0)
			return true;
	}
	return false;
}

static bool has_link(const struct tree *tree, const char *path, const char *text)
{
	cleanup_free char *full = at(tree, path);

	for (size_t i = 0; i < tree->visible.link_count; i++) {
		if (strcmp(tree->visible.links[i].path, full) == 0)
			return strcmp(tree->visible.links[i].text, text) == 0;
	}
	return false;
}

static int set_up(void **state)
{
	struct tree *tree = mem_zalloc(sizeof(*tree));
	char top[] = "/tmp/fumehood-visible-XXXXXX";

	if (!mkdtemp(top))
		return -1;
	memcpy(tree->top, top, sizeof(top));
	*state = tree;
	return 0;
}

static int tear_down(void **state)
{
	struct tree *tree = *state;

	visible_release(&tree->visible);
	file_remove_tree(AT_FDCWD, tree->top, NULL);
	free(tree);
	return 0;
}

static void test_relative_and_absolute_links(void **state)
{
	struct tree *tree = *state;
	cleanup_free char *opt = at(tree, "opt");

	make_dir(tree, "versions/3.11.7/bin");
	make_link(tree, "versions/3.11", "3.11.7");
	make_link(tree, "opt", "versions");
	make_link(tree, "python", opt);
	add(tree, "python/./3.11//bin/../bin");
	visible_settle(&tree->visible);
	assert_int_equal(tree->visible.bind_count, 1);
	assert_true(has_bind(tree, "versions/3.11.7/bin"));
	assert_int_equal(tree->visible.link_count, 3);
	assert_true(has_link(tree, "python", opt));
	assert_true(has_link(tree, "opt", "versions"));
	assert_true(has_link(tree, "versions/3.11", "3.11.7"));
}

static void test_covered(void **state)
{
	struct tree *tree = *state;

	make_dir(tree, "env/lib/python");
	make_dir(tree, "environment");
	make_link(tree, "env/link", "lib");
	add(tree, "env/lib");
	add(tree, "env/link/python");
	add(tree, "env");
	add(tree, "env");
	add(tree, "environment");
	visible_settle(&tree->visible);
	assert_int_equal(tree->visible.bind_count, 2);
	assert_true(has_bind(tree, "env"));
	assert_true(has_bind(tree, "environment"));
	assert_int_equal(tree->visible.link_count, 0);
}

static void test_missing_and_loop(void **state)
{
	struct tree *tree = *state;
	cleanup_free char *fifo = at(tree, "fifo");

	make_link(tree, "a", "b");
	make_link(tree, "b", "a");
	make_link(tree, "dangling", "nowhere");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	add(tree, "a");
	add(tree, "dangling/x");
	add(tree, "no/such");
	add(tree, "fifo");
	visible_settle(&tree->visible);
	assert_int_equal(tree->visible.bind_count, 0);
	assert_true(has_link(tree, "dangling", "nowhere"));
}

/* `..` after a symlink is the parent of where it leads, as the kernel sees it. */
static void test_up_from_link(void **state)
{
	struct tree *tree = *state;

	make_dir(tree, "deep/inner");
	make_dir(tree, "deep/other");
	make_link(tree, "jump", "deep/inner");
	add(tree, "jump/../other");
	visible_settle(&tree->visible);
	assert_int_equal(tree->visible.bind_count, 1);
	assert_true(has_bind(tree, "deep/other"));
}

static void refused(struct tree *tree, const char *path, enum err_code code)
{
	struct err err = ERR_INIT;

	assert_int_equal(visible_add_checked(&tree->visible, path, &err), -1);
	if (err.code != code)
		fail_msg("%s: %s", path, err.text);
}

static void test_refused(void **state)
{
	struct tree *tree = *state;
	cleanup_free char *link = at(tree, "root");
	cleanup_free char *proc = at(tree, "proc");

	make_link(tree, "root", "/");
	make_link(tree, "proc", "/proc/self/root/usr");
	refused(tree, "/", ERR_DENIED);
	refused(tree, "/usr/..", ERR_DENIED);
	refused(tree, "/etc", ERR_DENIED);
	refused(tree, "/tmp", ERR_DENIED);
	refused(tree, "/dev/shm", ERR_DENIED);
	refused(tree, "/proc/self/cwd", ERR_DENIED);
	refused(tree, link, ERR_DENIED);
	refused(tree, proc, ERR_DENIED);
	refused(tree, "usr/bin", ERR_INVALID);
	refused(tree, "", ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_relative_and_absolute_links, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_covered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_missing_and_loop, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_up_from_link, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
