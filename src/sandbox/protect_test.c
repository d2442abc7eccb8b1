/*
 * What is protected: patterns against paths, and the walk.
 */
#include "sandbox/protect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static void patterns(void **state)
{
	static const struct {
		const char *path;
		bool folder, meant;
	} cases[] = {
		{".git/hooks", true, true},
		{"a/b/.git/hooks", true, true},
		{".git/hooks/x", false, false}, /* within: the folder above it is what is meant */
		{"x.git/hooks", true, false},
		{"hooks", true, false},
		{".git", true, false},
		{".git", false, true}, /* a file that points to another repository */
		{"sub/.git", false, true},
		{".envrc", false, true},
		{"a/.envrc", false, true},
		{".envrc2", false, false},
		{"lib/site-packages/x.pth", false, true},
		{"lib/x.pth", false, false},
		{"site-packages/a/x.pth", false, false},
		{"conftest.py", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (protect_matches(PROTECT_DEFAULT, cases[i].path, cases[i].folder) !=
		    cases[i].meant)
			fail_msg("%s", cases[i].path);
	assert_false(protect_matches(NULL, ".envrc", false));
	for (size_t i = 0; PROTECT_DEFAULT[i]; i++)
		assert_int_equal(protect_check(PROTECT_DEFAULT[i], NULL), 0);
	assert_int_equal(protect_check("/x", NULL), -1);
	assert_int_equal(protect_check("x/", NULL), -1);
	assert_int_equal(protect_check("", NULL), -1);
	assert_int_equal(protect_check(":file", NULL), 0); /* a name */
	assert_int_equal(protect_check("a/b/c/d", NULL), -1);
}

static void make(int root, const char *path)
{
	cleanup_free char *part = mem_string(path);

	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdirat(root, part, 0755);
		*slash = '/';
	}
	if (part[strlen(part) - 1] != '/')
		close(openat(root, part, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

static void walk(void **state)
{
	static const char *const there[] = {
		".git/hooks/",         ".git/config",          ".git/info/attributes",
		".git/objects/.envrc", "sub/deep/.git/config", "sub/.vscode/tasks.json",
		"src/main.py",         "sub/.vscode/.envrc",
	};
	static const char *const found[] = {
		".git/config", ".git/hooks",  ".git/info/attributes",
		"link/.git",   "sub/.vscode", "sub/deep/.git/config",
	};
	cleanup_protect struct protect_list list = PROTECT_LIST_INIT, again = PROTECT_LIST_INIT;
	cleanup_protect struct protect_list few = PROTECT_LIST_INIT;
	char name[] = "/tmp/fumehood-protect-XXXXXX";
	cleanup_fd int root = -1;

	(void)state;
	assert_non_null(mkdtemp(name));
	root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(there) / sizeof(*there); i++)
		make(root, there[i]);
	make(root, "link/");
	assert_int_equal(symlinkat("../.git", root, "link/.git"), 0);
	assert_int_equal(symlinkat("sub", root, "other"), 0); /* not followed */
	protect_find(root, PROTECT_DEFAULT, 1000, &list);
	assert_false(list.incomplete);
	assert_int_equal(list.count, sizeof(found) / sizeof(*found));
	for (size_t i = 0; i < list.count; i++) {
		assert_string_equal(list.items[i].path, found[i]);
		assert_true(protect_has(&list, &list.items[i]));
	}
	assert_true(list.items[3].link);
	/* The same name, another thing. */
	assert_int_equal(renameat(root, ".git/config", root, "old"), 0);
	make(root, ".git/config");
	protect_find(root, PROTECT_DEFAULT, 1000, &again);
	assert_false(protect_has(&list, &again.items[0]));
	assert_true(protect_has(&list, &again.items[1]));
	protect_find(root, PROTECT_DEFAULT, 5, &few);
	assert_true(few.incomplete);
	assert_int_equal(file_remove_tree(AT_FDCWD, name, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns),
		cmocka_unit_test(walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
