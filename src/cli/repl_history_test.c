/* The history's file: entries come back whole, it stays bounded, and damage costs a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/repl_history.h"

static int make_dir(char path[static 32])
{
	int fd;

	memcpy(path, "/tmp/fh-history-XXXXXX", sizeof("/tmp/fh-history-XXXXXX"));
	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void remove_dir(const char *path, int fd)
{
	close(fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, path, NULL), 0);
}

static void add(struct repl_history *history, const char *text, int outcome)
{
	assert_int_equal(repl_history_add(history, text, strlen(text), NULL), outcome);
}

static void test_round_trip(void **state)
{
	struct repl_history history;
	struct stat st;
	char path[32];
	int dir = make_dir(path);

	(void)state;
	assert_int_equal(repl_history_open(&history, dir, "h", NULL), 0);
	add(&history, "x = 1\n", 1);
	add(&history, "def f():\n\treturn '\\n é \033'\n\n", 1);
	add(&history, "def f():\n\treturn '\\n é \033'\n", 0); /* the same again */
	add(&history, "\n", 0);
	repl_history_release(&history);
	assert_int_equal(repl_history_open(&history, dir, "h", NULL), 0);
	assert_int_equal(history.count, 2);
	assert_string_equal(history.entries[0], "x = 1");
	assert_string_equal(history.entries[1], "def f():\n\treturn '\\n é \033'");
	repl_history_release(&history);
	assert_int_equal(fstatat(dir, "h", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	remove_dir(path, dir);
}

static void test_two_at_once(void **state)
{
	struct repl_history one, two;
	char path[32];
	int dir = make_dir(path);

	(void)state;
	assert_int_equal(repl_history_open(&one, dir, "h", NULL), 0);
	assert_int_equal(repl_history_open(&two, dir, "h", NULL), 0);
	add(&one, "a", 1);
	add(&two, "b", 1);
	add(&one, "c", 1);
	repl_history_release(&two);
	repl_history_release(&one);
	assert_int_equal(repl_history_open(&one, dir, "h", NULL), 0);
	assert_int_equal(one.count, 3);
	assert_string_equal(one.entries[2], "c");
	repl_history_release(&one);
	remove_dir(path, dir);
}

static void test_damage(void **state)
{
	static const char bytes[] = "\"a\"\nnonsense\n\n{}\n\"\"\n\"\\u0000\"\n\"b\"\n\"torn";
	struct repl_history history;
	char path[32];
	int dir = make_dir(path);

	(void)state;
	assert_int_equal(file_replace(dir, "h", bytes, sizeof(bytes) - 1, 0600, NULL), 0);
	assert_int_equal(repl_history_open(&history, dir, "h", NULL), 0);
	assert_int_equal(history.count, 2);
	assert_string_equal(history.entries[0], "a");
	assert_string_equal(history.entries[1], "b");
	repl_history_release(&history);
	remove_dir(path, dir);
}

static void test_bounded(void **state)
{
	struct repl_history history;
	char path[32];
	int dir = make_dir(path);
	cleanup_buf struct buf bytes = BUF_INIT;
	char *longest = mem_zalloc(HISTORY_ENTRY_BYTES_MAX + 2);

	(void)state;
	for (unsigned i = 0; i < 2 * HISTORY_ENTRIES_MAX + 1; i++)
		buf_printf(&bytes, "\"x%u\"\n", i);
	assert_int_equal(file_replace(dir, "h", buf_bytes(&bytes), bytes.len, 0600, NULL), 0);
	assert_int_equal(repl_history_open(&history, dir, "h", NULL), 0);
	assert_int_equal(history.count, HISTORY_ENTRIES_MAX);
	assert_string_equal(history.entries[0], "x2001");
	memset(longest, 'x', HISTORY_ENTRY_BYTES_MAX + 1);
	add(&history, longest, 0);
	longest[HISTORY_ENTRY_BYTES_MAX] = '\0';
	add(&history, longest, 1);
	assert_int_equal(history.count, HISTORY_ENTRIES_MAX);
	repl_history_release(&history);
	buf_clear(&bytes);
	assert_int_equal(file_read(dir, "h", SIZE_MAX, &bytes, NULL), 0);
	assert_true(strncmp(buf_bytes(&bytes), "\"x2001\"\n", 8) == 0);
	free(longest);
	remove_dir(path, dir);
}

static void test_no_file(void **state)
{
	struct repl_history history;
	struct err err = ERR_INIT;
	char path[32];
	int dir = make_dir(path);

	(void)state;
	assert_int_equal(mkdirat(dir, "h", 0700), 0);
	assert_int_equal(repl_history_open(&history, dir, "h", &err), -1);
	add(&history, "a", 1); /* in memory */
	assert_int_equal(history.count, 1);
	repl_history_release(&history);
	assert_int_equal(symlinkat("/etc/passwd", dir, "link"), 0);
	assert_int_equal(repl_history_open(&history, dir, "link", &err), -1);
	repl_history_release(&history);
	remove_dir(path, dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_two_at_once),
		cmocka_unit_test(test_damage),     cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
