/* Tests of unborn.c: what is swept, and above all what is not. */
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
#include "journal/unborn.h"

struct scene {
	char path[64];
	int fd;
};

static int scene_open(void **state)
{
	struct scene *scene = mem_zalloc(sizeof(*scene));

	snprintf(scene->path, sizeof(scene->path), "/tmp/fumehood-unborn-XXXXXX");
	assert_non_null(mkdtemp(scene->path));
	scene->fd = open(scene->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(scene->fd >= 0);
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

/* Makes sessions/<name>; returns its descriptor. */
static int make(struct scene *scene, const char *name)
{
	int fd;

	assert_int_equal(mkdirat(scene->fd, name, 0700), 0);
	fd = openat(scene->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void put(int dirfd, const char *name, const char *text)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static bool exists(struct scene *scene, const char *name)
{
	return faccessat(scene->fd, name, F_OK, 0) == 0;
}

static void test_what_is_unborn(void **state)
{
	struct scene *scene = *state;
	cleanup_fd int fd = make(scene, "a");

	assert_true(unborn_is(fd));
	put(fd, "journal.ndjson", "");
	put(fd, "lock", "");
	assert_true(unborn_is(fd));
	put(fd, "journal.ndjson", "{}\n");
	assert_false(unborn_is(fd));
	assert_int_equal(unlinkat(fd, "journal.ndjson", 0), 0);
	put(fd, "session.json", "{}");
	assert_false(unborn_is(fd));
}

static void test_an_orphan_is_swept(void **state)
{
	struct scene *scene = *state;
	cleanup_fd int fd = make(scene, "orphan");

	put(fd, "lock", "");
	put(fd, "journal.ndjson", "");
	assert_int_equal(mkdirat(fd, "workspace", 0700), 0);
	unborn_sweep(scene->fd);
	assert_false(exists(scene, "orphan"));
	assert_false(exists(scene, ".removing-orphan"));
}

static void test_what_is_not_swept(void **state)
{
	struct scene *scene = *state;
	cleanup_fd int fresh = make(scene, "fresh"), waiting = make(scene, "waiting");
	cleanup_fd int session = make(scene, "session"), damaged = make(scene, "damaged");
	cleanup_fd int lock = file_lock(waiting, "lock", NULL);

	assert_true(lock >= 0);
	put(session, "lock", "");
	put(session, "session.json", "{}");
	put(damaged, "lock", "");
	put(damaged, "journal.ndjson", "{}\n");
	unborn_sweep(scene->fd);
	assert_true(exists(scene, "fresh")); /* a client is making it */
	assert_true(exists(scene, "waiting"));
	assert_true(exists(scene, "session"));
	assert_true(exists(scene, "damaged"));
	assert_true(fresh >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_unborn, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_an_orphan_is_swept, scene_open, scene_close),
		cmocka_unit_test_setup_teardown(test_what_is_not_swept, scene_open, scene_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
