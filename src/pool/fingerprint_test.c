/* What counts as a change of an environment, on real files. Times are set, never waited for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "pool/fingerprint.h"

static char *make_folder(void)
{
	char template[] = "/tmp/fumehood-fingerprint-XXXXXX";

	assert_non_null(mkdtemp(template));
	return mem_string(template);
}

static void remove_folder(char *folder)
{
	assert_int_equal(file_remove_tree(AT_FDCWD, folder, NULL), 0);
	free(folder);
}

static char *make_dir(const char *folder, const char *name)
{
	char *path = mem_format("%s/%s", folder, name);

	assert_int_equal(file_make_dirs(path, 0700, NULL), 0);
	return path;
}

/* Gives the path an mtime that no clock of this test can have set. */
static void touch(const char *path, long second)
{
	const struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void write_file(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static void test_directory(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *cache = NULL, *other = NULL;

	(void)state;
	fingerprint_init(&print);
	assert_null(fingerprint_changed(&print));
	free(make_dir(folder, "numpy"));
	touch(folder, 1000);
	fingerprint_add(&print, folder);
	fingerprint_add(&print, folder);
	assert_int_equal(print.count, 1);
	assert_null(fingerprint_changed(&print));
	/* What the first import does. */
	cache = make_dir(folder, "__pycache__");
	touch(folder, 2000);
	assert_null(fingerprint_changed(&print));
	assert_int_equal(print.entries[0].mtime_ns, 2000 * INT64_C(1000000000));
	/* A package more. */
	other = make_dir(folder, "numpy-2.0.dist-info");
	touch(folder, 3000);
	assert_string_equal(fingerprint_changed(&print), folder);
	assert_string_equal(fingerprint_changed(&print), folder);
	/* Taken again it is no change; the package removed, it is. */
	fingerprint_release(&print);
	fingerprint_add(&print, folder);
	assert_null(fingerprint_changed(&print));
	assert_int_equal(rmdir(other), 0);
	touch(folder, 4000);
	assert_string_equal(fingerprint_changed(&print), folder);
	fingerprint_release(&print);
	remove_folder(folder);
}

static void test_renamed_package(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *old = make_dir(folder, "a-1.0.dist-info");
	cleanup_free char *new = mem_format("%s/a-1.1.dist-info", folder);

	(void)state;
	fingerprint_init(&print);
	touch(folder, 1000);
	fingerprint_add(&print, folder);
	assert_int_equal(rename(old, new), 0);
	touch(folder, 2000);
	assert_non_null(fingerprint_changed(&print));
	fingerprint_release(&print);
	remove_folder(folder);
}

/* The same names and inodes; but the installer has written anew. */
static void test_package_installed_again(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *info = make_dir(folder, "a-1.0.dist-info");
	cleanup_free char *package = make_dir(folder, "a");
	cleanup_free char *module = mem_format("%s/b.py", folder);

	(void)state;
	fingerprint_init(&print);
	write_file(module, "1");
	touch(info, 1000);
	touch(module, 1000);
	touch(folder, 1000);
	fingerprint_add(&print, folder);
	touch(package, 5000); /* its __pycache__ */
	touch(folder, 2000);
	assert_null(fingerprint_changed(&print));
	touch(info, 1001);
	touch(folder, 3000);
	assert_non_null(fingerprint_changed(&print));
	fingerprint_release(&print);
	fingerprint_add(&print, folder);
	touch(module, 1001);
	touch(folder, 4000);
	assert_non_null(fingerprint_changed(&print));
	fingerprint_release(&print);
	remove_folder(folder);
}

static void test_file(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *path = mem_format("%s/python", folder);
	cleanup_free char *other = mem_format("%s/other", folder);

	(void)state;
	fingerprint_init(&print);
	fingerprint_add(&print, path); /* not there yet */
	assert_null(fingerprint_changed(&print));
	write_file(path, "1");
	assert_string_equal(fingerprint_changed(&print), path);
	fingerprint_release(&print);

	touch(path, 1000);
	fingerprint_add(&print, path);
	assert_null(fingerprint_changed(&print));
	touch(path, 1001);
	assert_string_equal(fingerprint_changed(&print), path);
	touch(path, 1000);
	assert_null(fingerprint_changed(&print));
	/* Replaced by one with the same time. */
	write_file(other, "2");
	touch(other, 1000);
	assert_int_equal(rename(other, path), 0);
	assert_string_equal(fingerprint_changed(&print), path);
	assert_int_equal(unlink(path), 0);
	assert_string_equal(fingerprint_changed(&print), path);
	fingerprint_release(&print);
	remove_folder(folder);
}

static void test_prefix(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *site64 = make_dir(folder, "lib64/python3.11/site-packages");
	cleanup_free char *two = make_dir(folder, "lib/python2.7/site-packages");
	cleanup_free char *package = NULL;

	(void)state;
	free(make_dir(folder, "lib/python3.11/site-packages"));
	free(make_dir(folder, "lib/python3/dist-packages"));
	fingerprint_init(&print);
	fingerprint_add_prefix(&print, folder);
	assert_int_equal(print.count, 5);
	assert_null(fingerprint_changed(&print));
	package = make_dir(two, "a");
	touch(two, 5000);
	assert_null(fingerprint_changed(&print));
	free(mem_take(package));
	package = make_dir(site64, "a");
	touch(site64, 5000);
	assert_string_equal(fingerprint_changed(&print), site64);
	fingerprint_release(&print);
	remove_folder(folder);
}

static void test_package(void **state)
{
	struct fingerprint print;
	char *folder = make_folder();
	cleanup_free char *module = mem_format("%s/shell.py", folder);
	cleanup_free char *other = mem_format("%s/notes.txt", folder);

	(void)state;
	write_file(module, "1");
	write_file(other, "1");
	touch(module, 1000);
	fingerprint_init(&print);
	fingerprint_add_package(&print, folder);
	assert_int_equal(print.count, 2);
	touch(other, 1000);
	assert_null(fingerprint_changed(&print));
	touch(module, 1001);
	assert_string_equal(fingerprint_changed(&print), module);
	fingerprint_release(&print);
	remove_folder(folder);
}

static void test_bound(void **state)
{
	struct fingerprint print;

	(void)state;
	fingerprint_init(&print);
	for (int i = 0; i < FINGERPRINT_ENTRIES_MAX + 10; i++) {
		cleanup_free char *path = mem_format("/nowhere/%d", i);

		fingerprint_add(&print, path);
	}
	assert_int_equal(print.count, FINGERPRINT_ENTRIES_MAX);
	assert_null(fingerprint_changed(&print));
	fingerprint_release(&print);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_renamed_package),
		cmocka_unit_test(test_package_installed_again),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_package),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
