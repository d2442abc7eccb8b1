/*
 * Saving: foreign edits before and between saves, symlinks, modes, full disks. The races are in
 * save_race_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "notebook/save_kit.h"

static void test_plain_saves(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n.ipynb", false);

	assert_false(write_text(save, "one"));
	check_file(place->dirfd, "n.ipynb", "one");
	assert_false(write_text(save, ""));
	check_file(place->dirfd, "n.ipynb", "");
	assert_false(write_text(save, "three"));
	check_file(place->dirfd, "n.ipynb", "three");
	assert_string_equal(save_name(save), "n.ipynb");
	assert_int_equal(count_files(place->dirfd), 1);
	assert_int_equal(save_write(save, "4", 1, NULL, NULL), 0);
	save_free(save);
	save_free(NULL);
}

static void test_bad_names(void **state)
{
	static const char *const names[] = {"", ".", "..", "a/b", "/a"};
	struct place *place = *state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct err err = ERR_INIT;

		assert_null(save_new(place->dirfd, names[i], false, &err));
		assert_int_equal(err.code, ERR_INVALID);
	}
}

static void test_file_that_was_there(void **state)
{
	struct place *place = *state;
	struct save *save;

	edit(place->dirfd, "n.ipynb", "theirs");
	edit(place->dirfd, "n-1.ipynb", "theirs too");
	save = make(place->dirfd, "n.ipynb", false);
	assert_true(write_text(save, "ours"));
	assert_string_equal(save_name(save), "n-2.ipynb");
	assert_false(write_text(save, "ours again"));
	check_file(place->dirfd, "n.ipynb", "theirs");
	check_file(place->dirfd, "n-1.ipynb", "theirs too");
	check_file(place->dirfd, "n-2.ipynb", "ours again");
	assert_int_equal(count_files(place->dirfd), 3);
	save_free(save);
}

static void test_adopted_file(void **state)
{
	struct place *place = *state;
	struct save *save;

	edit(place->dirfd, "n.ipynb", "read before");
	save = make(place->dirfd, "n.ipynb", true);
	assert_false(write_text(save, "ours"));
	check_file(place->dirfd, "n.ipynb", "ours");
	save_free(save);

	save = make(place->dirfd, "n.ipynb", true);
	edit(place->dirfd, "n.ipynb", "edit"); /* before the first save, of the same size */
	assert_true(write_text(save, "more"));
	check_file(place->dirfd, "n.ipynb", "edit");
	check_file(place->dirfd, "n-1.ipynb", "more");
	save_free(save);

	save = make(place->dirfd, "absent.ipynb", true);
	assert_false(write_text(save, "new"));
	check_file(place->dirfd, "absent.ipynb", "new");
	save_free(save);
}

/* In place or by rename, of another size or of the same size within the same tick of the clock. */
static void test_edits_between(void **state)
{
	static const char *const edits[] = {"another size", "edit"};
	struct place *place = *state;

	for (int i = 0; i < 200; i++) {
		cleanup_free char *name = mem_format("e%d.ipynb", i);
		cleanup_free char *aside = mem_format("e%d-1.ipynb", i);
		const char *text = edits[i % 2];
		struct save *save = make(place->dirfd, name, false);

		assert_false(write_text(save, "ours"));
		if (i % 4 < 2)
			edit(place->dirfd, name, text);
		else
			edit_by_rename(place->dirfd, name, text);
		assert_true(write_text(save, "next"));
		assert_false(write_text(save, "last"));
		check_file(place->dirfd, name, text);
		check_file(place->dirfd, aside, "last");
		save_free(save);
	}
	assert_int_equal(count_files(place->dirfd), 400);
}

static void test_moves_again(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n", false);

	assert_false(write_text(save, "1"));
	edit(place->dirfd, "n", "edit");
	assert_true(write_text(save, "2"));
	edit(place->dirfd, "n-1.ipynb", "edit");
	assert_true(write_text(save, "3"));
	assert_string_equal(save_name(save), "n-2.ipynb");
	check_file(place->dirfd, "n-2.ipynb", "3");
	save_free(save);
}

/* A file that was only touched, or copied back, is still what was put there. */
static void test_same_content_is_ours(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n.ipynb", false);

	write_text(save, "ours");
	assert_int_equal(utimensat(place->dirfd, "n.ipynb", NULL, 0), 0);
	assert_false(write_text(save, "next"));
	edit_by_rename(place->dirfd, "n.ipynb", "next");
	assert_false(write_text(save, "last"));
	check_file(place->dirfd, "n.ipynb", "last");
	assert_int_equal(count_files(place->dirfd), 1);
	save_free(save);
}

static void test_removed_file_comes_back(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n.ipynb", false);

	write_text(save, "one");
	assert_int_equal(unlinkat(place->dirfd, "n.ipynb", 0), 0);
	assert_false(write_text(save, "two"));
	check_file(place->dirfd, "n.ipynb", "two");
	save_free(save);
}

/* What is no regular file is never ours, whoever put it there. */
static void test_other_things_at_the_name(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n.ipynb", false);
	struct stat st;

	write_text(save, "one");
	assert_int_equal(unlinkat(place->dirfd, "n.ipynb", 0), 0);
	edit(place->dirfd, "secret", "one");
	assert_int_equal(symlinkat("secret", place->dirfd, "n.ipynb"),
			 0); /* planted after save_new() */
	assert_true(write_text(save, "two"));
	check_file(place->dirfd, "secret", "one");
	check_file(place->dirfd, "n-1.ipynb", "two");
	assert_int_equal(unlinkat(place->dirfd, "n-1.ipynb", 0), 0);
	assert_int_equal(mkdirat(place->dirfd, "n-1.ipynb", 0700), 0);
	assert_true(write_text(save, "three"));
	check_file(place->dirfd, "n-2.ipynb", "three");
	assert_int_equal(unlinkat(place->dirfd, "n-2.ipynb", 0), 0);
	assert_int_equal(mkfifoat(place->dirfd, "n-2.ipynb", 0600), 0); /* must not block */
	assert_true(write_text(save, "four"));
	assert_int_equal(fstatat(place->dirfd, "n-2.ipynb", &st, 0), 0);
	assert_true(S_ISFIFO(st.st_mode));
	save_free(save);
}

static void test_symlink_is_followed_at_the_start(void **state)
{
	struct place *place = *state;
	struct save *save;
	struct stat st;

	assert_int_equal(mkdirat(place->dirfd, "real", 0700), 0);
	edit(place->dirfd, "real/book.ipynb", "old");
	assert_int_equal(symlinkat("real/book.ipynb", place->dirfd, "second"), 0);
	assert_int_equal(symlinkat("second", place->dirfd, "n.ipynb"), 0);
	save = make(place->dirfd, "n.ipynb", true);
	assert_false(write_text(save, "new"));
	check_file(place->dirfd, "real/book.ipynb", "new");
	assert_int_equal(fstatat(place->dirfd, "n.ipynb", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	edit(place->dirfd, "n.ipynb", "edit");
	assert_true(write_text(save, "aside"));
	assert_string_equal(save_name(save), "book-1.ipynb");
	check_file(place->dirfd, "real/book-1.ipynb", "aside");
	save_free(save);

	assert_int_equal(symlinkat("real/later.ipynb", place->dirfd, "dangling"), 0);
	save = make(place->dirfd, "dangling", false);
	assert_false(write_text(save, "made"));
	check_file(place->dirfd, "real/later.ipynb", "made");
	save_free(save);
}

static void test_symlinks_that_lead_nowhere(void **state)
{
	struct place *place = *state;
	struct err err = ERR_INIT;

	assert_int_equal(symlinkat("b", place->dirfd, "a"), 0);
	assert_int_equal(symlinkat("a", place->dirfd, "b"), 0);
	assert_null(save_new(place->dirfd, "a", false, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(symlinkat("none/n.ipynb", place->dirfd, "c"), 0);
	assert_null(save_new(place->dirfd, "c", false, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(symlinkat("/tmp/", place->dirfd, "d"), 0);
	assert_null(save_new(place->dirfd, "d", false, NULL));
}

static mode_t mode_of(int dirfd, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
	return st.st_mode & 07777;
}

static void test_mode_is_kept(void **state)
{
	struct place *place = *state;
	mode_t mask = umask(027);
	struct save *save = make(place->dirfd, "n.ipynb", false);

	write_text(save, "one");
	assert_int_equal(mode_of(place->dirfd, "n.ipynb"), 0640);
	assert_int_equal(fchmodat(place->dirfd, "n.ipynb", 0604, 0), 0);
	write_text(save, "two");
	assert_int_equal(mode_of(place->dirfd, "n.ipynb"), 0604);
	umask(mask);
	save_free(save);
}

static void test_long_name(void **state)
{
	struct place *place = *state;
	cleanup_free char *name = mem_zalloc(256);
	struct save *save;

	for (size_t i = 0; i + 2 < 255; i += 2)
		memcpy(name + i, "\xc3\xa9", 2);
	edit(place->dirfd, name, "theirs");
	save = make(place->dirfd, name, false);
	assert_true(write_text(save, "ours"));
	check_file(place->dirfd, save_name(save), "ours");
	save_free(save);
}

/* The limit on file sizes stands for a full disk: the old file stays whole, and nothing is left
 * over. */
static void test_write_fails(void **state)
{
	struct place *place = *state;
	struct save *save = make(place->dirfd, "n.ipynb", false);
	struct rlimit before, tight;
	struct err err = ERR_INIT;
	cleanup_free char *large = mem_zalloc(100000);
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	bool moved = false;

	write_text(save, "old");
	getrlimit(RLIMIT_FSIZE, &before);
	tight = before;
	tight.rlim_cur = 4096;
	setrlimit(RLIMIT_FSIZE, &tight);
	assert_int_equal(save_write(save, large, 100000, &moved, &err), -1);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, handler);
	assert_int_equal(err.code, ERR_IO);
	check_file(place->dirfd, "n.ipynb", "old");
	assert_int_equal(count_files(place->dirfd), 1);
	assert_false(write_text(save, "new"));
	save_free(save);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain_saves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_that_was_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adopted_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_edits_between, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moves_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_content_is_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_file_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_things_at_the_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_symlink_is_followed_at_the_start, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_symlinks_that_lead_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mode_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write_fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
