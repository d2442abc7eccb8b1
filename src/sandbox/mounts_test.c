/* Mounts: one directory under two names is found out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/mounts.h"

static const char TABLE[] = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			    "21 20 0:22 / /tmp rw shared:1 - tmpfs tmpfs rw\n"
			    "22 20 8:1 /home/u/work/venv /opt/venv ro - ext4 /dev/sda1 rw\n"
			    "23 20 8:2 / /data rw - ext4 /dev/sda2 rw\n"
			    "24 20 8:1 /home/u/my\\040work /mnt/a\\134b rw - ext4 /dev/sda1 rw\n"
			    "25 20 8:1 /home/u/work /data rw - ext4 /dev/sda1 rw\n"
			    "nonsense\n"
			    "26 20 8:3";

static struct mounts mounts(const char *text)
{
	struct mounts result = MOUNTS_INIT;

	buf_append_string(&result.text, text);
	return result;
}

static void place_is(const struct mounts *table, const char *path, const char *expected)
{
	cleanup_free char *place = mounts_place(table, path);

	assert_string_equal(place, expected);
}

static void test_place(void **state)
{
	struct mounts table = mounts(TABLE);

	(void)state;
	place_is(&table, "/", "8:1 /");
	place_is(&table, "/home/u", "8:1 /home/u");
	place_is(&table, "/tmp", "0:22 ");
	place_is(&table, "/tmp/x", "0:22 /x");
	place_is(&table, "/tmpx", "8:1 /tmpx");
	place_is(&table, "/opt/venv/bin/python", "8:1 /home/u/work/venv/bin/python");
	place_is(&table, "/opt/venv2", "8:1 /opt/venv2");
	place_is(&table, "/mnt/a\\b/c", "8:1 /home/u/my work/c");
	place_is(&table, "/data/venv", "8:1 /home/u/work/venv"); /* covers the one before it */
	mounts_release(&table);
}

static void test_inside(void **state)
{
	struct mounts table = mounts(TABLE);

	(void)state;
	assert_true(mounts_inside(&table, "/opt/venv/bin", "/home/u/work"));
	assert_true(mounts_inside(&table, "/home/u/work/venv", "/data"));
	assert_true(mounts_inside(&table, "/home/u/work", "/data"));
	assert_true(mounts_inside(&table, "/home/u", "/"));
	assert_true(mounts_inside(&table, "/tmp/x", "/tmp"));
	assert_false(mounts_inside(&table, "/tmp/x", "/"));
	assert_false(mounts_inside(&table, "/home/u/workshop", "/data"));
	assert_false(mounts_inside(&table, "/home/u", "/data"));
	mounts_release(&table);
}

static void test_without_table(void **state)
{
	struct mounts table = MOUNTS_INIT;

	(void)state;
	place_is(&table, "/a/b", "/a/b");
	assert_true(mounts_inside(&table, "/a/b", "/a"));
	assert_false(mounts_inside(&table, "/ab", "/a"));
}

static void test_own_table(void **state)
{
	struct mounts table = MOUNTS_INIT;
	cleanup_free char *place = NULL;

	(void)state;
	assert_int_equal(mounts_read(&table), 0);
	place = mounts_place(&table, "/proc/self");
	assert_non_null(strstr(place, " /self"));
	mounts_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_without_table),
		cmocka_unit_test(test_own_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
