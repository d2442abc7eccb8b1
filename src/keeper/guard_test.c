/*
 * The guard: what is new by a protected name gets another one, whatever that takes.
 */
#include "keeper/guard.h"

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

static void make(int root, const char *path)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(int root, const char *path)
{
	return faccessat(root, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void puts_aside(void **state)
{
	static const char *const patterns[] = {".envrc", "x*", ".git/hooks", NULL};
	char name[] = "/tmp/fumehood-guard-XXXXXX", longest[256];
	struct json *items;
	struct guard *guard;
	int root;

	(void)state;
	memset(longest, 'x', 255);
	longest[255] = '\0';
	assert_non_null(mkdtemp(name));
	root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make(root, ".envrc");
	guard = guard_new(name, patterns);
	assert_non_null(guard);
	assert_null(guard_look(guard, false)); /* it was there before */
	assert_int_equal(mkdirat(root, "a", 0755), 0);
	make(root, "a/.envrc");
	make(root, "a/.envrc.held-by-fumehood"); /* the name is taken */
	make(root, longest);                     /* no room for more */
	assert_int_equal(mkdirat(root, ".git", 0755), 0);
	assert_int_equal(symlinkat("/etc", root, ".git/hooks"), 0);
	items = guard_look(guard, false);
	assert_int_equal(json_length(items), 3);
	assert_string_equal(json_get_string(json_at(items, 0), "held_as"),
			    "hooks.held-by-fumehood");
	assert_string_equal(json_get_string(json_at(items, 1), "path"), "a/.envrc");
	assert_string_equal(json_get_string(json_at(items, 1), "held_as"),
			    ".envrc.held-by-fumehood-1");
	json_free(items);
	assert_true(is_there(root, ".envrc") && is_there(root, ".held-by-fumehood"));
	assert_false(is_there(root, "a/.envrc") || is_there(root, ".git/hooks"));
	/* Another file in the place of the known one. */
	assert_int_equal(renameat(root, ".envrc", root, "old"), 0);
	make(root, ".envrc");
	items = guard_look(guard, true);
	assert_int_equal(json_length(items), 1);
	json_free(items);
	assert_null(guard_look(guard, true));
	assert_false(guard_is_incomplete(guard));
	guard_free(guard);
	close(root);
	assert_int_equal(file_remove_tree(AT_FDCWD, name, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_aside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
