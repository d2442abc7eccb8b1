/*
 * Counting a workspace: what is counted, and what is not followed.
 */
#include "files/disk_use.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"

enum { KIB = 1024 };

static int setup(void **state)
{
	char *path = mem_string("/tmp/fumehood-use-XXXXXX");
	int *folder = mem_zalloc(sizeof(*folder));

	assert_non_null(mkdtemp(path));
	*folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(*folder >= 0);
	/* Found again by its descriptor. */
	free(path);
	*state = folder;
	return 0;
}

static int teardown(void **state)
{
	cleanup_free char *link = mem_format("/proc/self/fd/%d", *(int *)*state);
	char path[256];
	ssize_t len = readlink(link, path, sizeof(path) - 1);

	assert_true(len > 0);
	path[len] = '\0';
	close(*(int *)*state);
	free(*state);
	return file_remove_tree(AT_FDCWD, path, NULL);
}

static void make(int folder, const char *name, size_t bytes)
{
	cleanup_fd int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	cleanup_free char *data = mem_zalloc(bytes + 1);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, data, bytes, NULL), 0);
	assert_int_equal(fsync(fd), 0); /* so that the blocks are given */
}

static struct disk_use use_of(int folder, uint64_t inodes_max)
{
	const atomic_bool stop = false;
	struct disk_use use;

	disk_use_read(folder, inodes_max, &stop, &use);
	return use;
}

static void test_counts(void **state)
{
	int folder = *(int *)*state;
	struct disk_use use = use_of(folder, 0), more;

	assert_int_equal(use.inodes, 0);
	assert_int_equal(use.bytes, 0);
	assert_int_equal(mkdirat(folder, "a", 0700), 0);
	assert_int_equal(mkdirat(folder, "a/b", 0700), 0);
	make(folder, "a/b/c", 100 * KIB);
	make(folder, "d", 50 * KIB);
	use = use_of(folder, 0);
	assert_int_equal(use.inodes, 4);
	assert_in_range(use.bytes, 150 * KIB, 250 * KIB);
	/* A second name costs a file, and no bytes. */
	assert_int_equal(linkat(folder, "d", folder, "e", 0), 0);
	more = use_of(folder, 0);
	assert_int_equal(more.inodes, 5);
	assert_int_equal(more.bytes, use.bytes);
}

/* A hole is not on the disk, a link leads nowhere else, and a folder that may not be read costs
 * nothing but itself. */
static void test_what_is_not_there(void **state)
{
	int folder = *(int *)*state;
	struct disk_use use;
	int fd = openat(folder, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	assert_int_equal(symlinkat("/usr", folder, "link"), 0);
	assert_int_equal(mkdirat(folder, "closed", 0), 0);
	use = use_of(folder, 0);
	assert_int_equal(use.inodes, 3);
	assert_true(use.bytes < 100 * KIB);
	assert_int_equal(unlinkat(folder, "closed", AT_REMOVEDIR), 0);
}

static void test_bounds(void **state)
{
	int folder = *(int *)*state;
	const atomic_bool stop = true;
	struct disk_use use;

	for (int i = 0; i < 50; i++) {
		cleanup_free char *name = mem_format("f%d", i);

		make(folder, name, 0);
	}
	assert_int_equal(use_of(folder, 0).inodes, 50);
	assert_int_equal(use_of(folder, 10).inodes, 11); /* more than ten: that is enough */
	disk_use_read(folder, 0, &stop, &use);
	assert_int_equal(use.inodes, 0);
	disk_use_read(-1, 0, &stop, &use);
	assert_int_equal(use.inodes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
