/* Tests of branches.c and names.c: where a branch is, and what is no branch. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "journal/branches.h"
#include "journal/names.h"

struct scene {
	char path[64];
	int fd;
	char root[HASH_ID_SIZE], branch[HASH_ID_SIZE];
};

static void make(int at, const char *path)
{
	assert_int_equal(mkdirat(at, path, 0700), 0);
}

/* A session with a branch inside, and its link. */
static int scene_open(void **state)
{
	struct scene *scene = mem_zalloc(sizeof(*scene));
	cleanup_free char *folder = NULL, *inside = NULL;

	hash_random_id(scene->root);
	hash_random_id(scene->branch);
	snprintf(scene->path, sizeof(scene->path), "/tmp/fumehood-branches-XXXXXX");
	assert_non_null(mkdtemp(scene->path));
	scene->fd = open(scene->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(scene->fd >= 0);
	folder = mem_format("%s/" BRANCHES_FOLDER, scene->root);
	inside = mem_format("%s/%s", folder, scene->branch);
	make(scene->fd, scene->root);
	make(scene->fd, folder);
	make(scene->fd, inside);
	assert_int_equal(branches_link(scene->fd, scene->root, scene->branch, NULL), 0);
	*state = scene;
	return 0;
}

static int scene_close(void **state)
{
	struct scene *scene = *state;

	close(scene->fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, scene->path, NULL), 0);
	free(scene);
	return 0;
}

static ino_t number_of(const struct scene *scene, const char *id)
{
	cleanup_fd int fd = branches_open(scene->fd, id);
	struct stat st = {.st_ino = 0};

	if (fd >= 0)
		assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static bool is_link(const struct scene *scene, const char *id)
{
	struct stat st;

	return fstatat(scene->fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static void test_settles(void **state)
{
	const struct scene *scene = *state;
	ino_t before = number_of(scene, scene->branch);
	cleanup_fd int root = branches_open(scene->fd, scene->root);

	assert_true(before != 0 && is_link(scene, scene->branch));
	assert_true(branches_any(root) && branches_inside(root));
	assert_int_equal(branches_settle(scene->fd, scene->branch, NULL), 0);
	assert_false(is_link(scene, scene->branch));
	assert_true(number_of(scene, scene->branch) == before);
	assert_true(branches_any(root));
	assert_false(branches_inside(root));
	assert_int_equal(branches_settle(scene->fd, scene->branch, NULL), 0); /* nothing to do */
	assert_true(number_of(scene, scene->branch) == before);
}

static void test_branch_of_a_branch(void **state)
{
	const struct scene *scene = *state;
	char id[HASH_ID_SIZE];
	cleanup_free char *directory =
		mem_format("%s/" BRANCHES_FOLDER "/%s", scene->root, scene->branch);
	cleanup_free char *folder = mem_format("%s/" BRANCHES_FOLDER, directory);
	cleanup_free char *inside = NULL;

	hash_random_id(id);
	inside = mem_format("%s/%s", folder, id);
	make(scene->fd, folder);
	make(scene->fd, inside);
	assert_int_equal(branches_link(scene->fd, directory, id, NULL), 0);
	assert_true(number_of(scene, id) != 0);
	assert_int_equal(branches_settle(scene->fd, id, NULL), 0);
	assert_false(is_link(scene, id));
}

/* Links that lead anywhere else are nobody's session. */
static void test_other_links(void **state)
{
	const struct scene *scene = *state;
	char id[HASH_ID_SIZE];
	struct err err = ERR_INIT;
	cleanup_free char *wrong = mem_format("%s/workspace/%s", scene->root, scene->branch);
	const char *const targets[] = {"/tmp", "..", scene->root, wrong};

	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		hash_random_id(id);
		assert_int_equal(symlinkat(targets[i], scene->fd, id), 0);
		assert_int_equal(branches_open(scene->fd, id), -1);
		assert_int_equal(branches_settle(scene->fd, id, NULL), 0);
		branches_unlink(scene->fd, id);
		assert_true(is_link(scene, id));
	}
	hash_random_id(id);
	assert_int_equal(branches_link(scene->fd, "../elsewhere", id, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(branches_link(scene->fd, "", id, NULL), -1);
}

static void test_unlink(void **state)
{
	const struct scene *scene = *state;

	branches_unlink(scene->fd, scene->branch);
	assert_int_equal(branches_open(scene->fd, scene->branch), -1);
}

/* The name of a branch is as good as another's. */
static void test_names(void **state)
{
	const struct scene *scene = *state;
	struct names_at names = {.root_fd = scene->fd, .sessions_fd = scene->fd};
	char id[HASH_ID_SIZE], other[HASH_ID_SIZE];
	struct err err = ERR_INIT;
	cleanup_fd int folder = -1;

	make(scene->fd, "by-name");
	folder = openat(scene->fd, "by-name", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	names.names_fd = folder;
	hash_random_id(other);
	assert_int_equal(names_give(&names, "b", scene->branch, NULL), 0);
	assert_int_equal(names_read(&names, "b", id), 0);
	assert_string_equal(id, scene->branch);
	assert_int_equal(names_give(&names, "b", other, &err), -1);
	assert_int_equal(err.code, ERR_DUPLICATE);
	names_drop(&names, "b", other);
	assert_int_equal(names_read(&names, "b", id), 0);
	branches_unlink(scene->fd, scene->branch);
	assert_int_equal(names_give(&names, "b", other, NULL), 0); /* it pointed nowhere */
	names_drop(&names, "b", other);
	assert_int_equal(names_read(&names, "b", id), -1);
	assert_int_equal(names_check("a/b", NULL), -1);
	assert_int_equal(names_check(other, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_settles, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_branch_of_a_branch, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_other_links, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_unlink, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_names, scene_open, scene_close),
	};

	return cmocka_run_group_tests_name("branches", tests, NULL, NULL);
}
