/*
 * Saving while others write or kill: edits at exact moments (by ptrace) and at random ones,
 * writers killed anywhere in a save, and a file system without the calls that make it easy (by
 * seccomp).
 *
 * Races at random moments run many times; no outcome depends on who wins, only on nothing being
 * lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "notebook/save_kit.h"

/*
 * Edits at an exact moment: the writer is traced, and each time it is about to call renameat2(2),
 * the next deed of a list is done.
 */
enum deed { DEED_NOTHING, DEED_EDIT, DEED_UNLINK };

static void do_deed(int dirfd, enum deed deed, int number)
{
	cleanup_free char *text = mem_format("edit %d", number);

	if (deed == DEED_EDIT)
		edit_by_rename(dirfd, "n.ipynb", text);
	else if (deed == DEED_UNLINK)
		assert_int_equal(unlinkat(dirfd, "n.ipynb", 0), 0);
}

/* Runs until the child has ended; returns its exit status. */
static int trace(pid_t pid, int dirfd, const enum deed *deeds, int count)
{
	int number = 0;
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL,
				(void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)),
			 0);
	for (;;) {
		struct __ptrace_syscall_info info;

		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) > 0);
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_renameat2)
			continue;
		if (number < count)
			do_deed(dirfd, deeds[number], number);
		number++;
	}
}

/* Saves "ours" in a traced child while the deeds are done; `first` (may be NULL) was saved
 * before. */
static void save_traced(int dirfd, const char *first, const enum deed *deeds, int count)
{
	struct save *save = make(dirfd, "n.ipynb", false);
	pid_t pid;

	if (first != NULL)
		write_text(save, first);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
			_exit(2);
		_exit(save_write(save, "ours", 4, NULL, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(trace(pid, dirfd, deeds, count), 0);
	save_free(save);
}

#define DEEDS(...) \
	(const enum deed[]){__VA_ARGS__}, \
		(int)(sizeof((enum deed[]){__VA_ARGS__}) / sizeof(enum deed))

static void test_edit_before_the_exchange(void **state)
{
	struct place *place = *state;

	save_traced(place->dirfd, "first", DEEDS(DEED_EDIT));
	check_file(place->dirfd, "n.ipynb", "edit 0");
	check_file(place->dirfd, "n-1.ipynb", "ours");
	assert_int_equal(count_files(place->dirfd), 2);
}

static void test_edit_before_both_exchanges(void **state)
{
	struct place *place = *state;

	save_traced(place->dirfd, "first", DEEDS(DEED_EDIT, DEED_EDIT));
	check_file(place->dirfd, "n.ipynb", "edit 0");
	check_file(place->dirfd, "n-1.ipynb", "edit 1");
	check_file(place->dirfd, "n-2.ipynb", "ours");
	assert_int_equal(count_files(place->dirfd), 3);
}

/* The new file is removed while the edit that it displaced waits to be put back. */
static void test_removed_between_exchanges(void **state)
{
	struct place *place = *state;

	save_traced(place->dirfd, "first", DEEDS(DEED_EDIT, DEED_UNLINK));
	check_file(place->dirfd, "n.ipynb", "edit 0");
	check_file(place->dirfd, "n-1.ipynb", "ours");
	assert_int_equal(count_files(place->dirfd), 2);
}

static void test_removed_before_the_exchange(void **state)
{
	struct place *place = *state;

	save_traced(place->dirfd, "first", DEEDS(DEED_UNLINK));
	check_file(place->dirfd, "n.ipynb", "ours");
	assert_int_equal(count_files(place->dirfd), 1);
}

static void test_made_before_the_first_rename(void **state)
{
	struct place *place = *state;

	save_traced(place->dirfd, NULL, DEEDS(DEED_EDIT));
	check_file(place->dirfd, "n.ipynb", "edit 0");
	check_file(place->dirfd, "n-1.ipynb", "ours");
	assert_int_equal(count_files(place->dirfd), 2);
}

enum { BOOK_SIZE = 200000 };

/* A text whose every byte tells whether it is whole. */
static void fill_book(char *book, int number)
{
	memset(book, 'a' + number % 26, BOOK_SIZE);
	book[BOOK_SIZE - 1] = '\n';
}

/* Saves for ever, and says so after each save. */
static void write_for_ever(int dirfd, int ready)
{
	char *book = mem_zalloc(BOOK_SIZE);
	struct save *save = save_new(dirfd, "n.ipynb", true, NULL);

	for (int i = 0; save != NULL; i++) {
		fill_book(book, i);
		if (save_write(save, book, BOOK_SIZE, NULL, NULL) < 0 || write(ready, "x", 1) != 1)
			break;
	}
	_exit(1);
}

static void check_book(int dirfd, const char *name)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;
	const char *book;

	if (file_read(dirfd, name, 1 << 20, &bytes, &err) < 0)
		fail_msg("%s", err.text);
	book = buf_bytes(&bytes);
	assert_int_equal(bytes.len, BOOK_SIZE);
	assert_int_equal(book[BOOK_SIZE - 1], '\n');
	for (size_t i = 1; i < BOOK_SIZE - 1; i++)
		assert_true(book[i] == book[0]);
}

/* Reads one byte, which the writer sends after each save. */
static void await_save(int ready)
{
	char byte;

	assert_int_equal(read(ready, &byte, 1), 1);
}

/* Killed while it saves, again and again, each time a bit later in the course of a save. Each new
 * writer adopts what the last one left. */
static void test_killed_writer(void **state)
{
	enum { ROUNDS = 120, SLICES = 40 };
	struct place *place = *state;

	for (int round = 0; round < ROUNDS; round++) {
		int64_t before, duration_us;
		int ready[2];
		pid_t pid;

		assert_int_equal(pipe(ready), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			close(ready[0]);
			write_for_ever(place->dirfd, ready[1]);
		}
		close(ready[1]);
		await_save(ready[0]);
		before = clock_monotonic_us();
		await_save(ready[0]);
		duration_us = clock_monotonic_us() - before;
		before = clock_monotonic_us();
		while (clock_monotonic_us() - before < duration_us * (round % SLICES) / SLICES)
			;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		close(ready[0]);
		check_book(place->dirfd, "n.ipynb");
	}
	assert_int_equal(faccessat(place->dirfd, "n-1.ipynb", F_OK, 0), -1);
}

/* Whether any file of the directory has this text. */
static bool text_is_somewhere(int dirfd, const char *text)
{
	DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	bool found = false;
	struct dirent *entry;

	assert_non_null(dir);
	while (!found && (entry = readdir(dir)) != NULL) {
		cleanup_buf struct buf bytes = BUF_INIT;

		if (entry->d_type == DT_REG &&
		    file_read(dirfd, entry->d_name, 1 << 20, &bytes, NULL) == 0)
			found = strcmp(buf_bytes(&bytes), text) == 0;
	}
	closedir(dir);
	return found;
}

/* Someone replaces the file while it is being saved: their text and ours are both there
 * afterwards. */
static void test_edits_during(void **state)
{
	struct place *place = *state;

	for (int round = 0; round < 100; round++) {
		cleanup_free char *name = mem_format("r%d.ipynb", round);
		cleanup_free char *theirs = mem_format("theirs %d", round);
		cleanup_free char *ours = NULL;
		struct save *save = make(place->dirfd, name, false);
		int go[2];
		pid_t pid;

		write_text(save, "first");
		assert_int_equal(pipe(go), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			char byte;

			if (read(go[0], &byte, 1) == 1)
				for (volatile int spin = 0; spin < round * 4000; spin++)
					;
			edit_by_rename(place->dirfd, name, theirs);
			_exit(0);
		}
		assert_int_equal(write(go[1], "x", 1), 1);
		for (int i = 0; i < 8; i++) {
			free(ours);
			ours = mem_format("ours %d.%d", round, i);
			write_text(save, ours);
		}
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		free(ours);
		ours = mem_format("ours %d, the last", round);
		write_text(save, ours);
		check_file(place->dirfd, save_name(save), ours);
		assert_true(text_is_somewhere(place->dirfd, theirs));
		close(go[0]);
		close(go[1]);
		save_free(save);
	}
}

/* From here on this process sees a file system that has neither unnamed files nor rename flags:
 * the seccomp filter looks at the flags of openat(2) and renameat2(2). */
static void lose_features(void)
{
	enum {
		NUMBER = offsetof(struct seccomp_data, nr),
		ARGS = offsetof(struct seccomp_data, args)
	};
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGS + 4 * 8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGS + 2 * 8),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
	};
	struct sock_fprog program = {.len = sizeof(steps) / sizeof(steps[0]), .filter = steps};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(2);
}

/* Saves with few features, with an edit in between; the exit status says where it went wrong. */
static void save_with_few_features(int dirfd)
{
	struct save *save;
	bool moved = false;

	lose_features();
	if (openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) >= 0)
		_exit(3);
	if (renameat2(dirfd, "x", dirfd, "y", RENAME_NOREPLACE) == 0 || errno != EINVAL)
		_exit(4);
	save = save_new(dirfd, "n.ipynb", false, NULL);
	if (save == NULL || save_write(save, "one", 3, &moved, NULL) < 0 || moved)
		_exit(5);
	if (save_write(save, "two", 3, &moved, NULL) < 0 || moved)
		_exit(6);
	edit(dirfd, "n.ipynb", "edit");
	if (save_write(save, "three", 5, &moved, NULL) < 0 || !moved)
		_exit(7);
	if (save_write(save, "four", 4, &moved, NULL) < 0 || moved)
		_exit(8);
	save_free(save);
	_exit(0);
}

static void test_file_system_with_few_features(void **state)
{
	struct place *place = *state;
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		save_with_few_features(place->dirfd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	check_file(place->dirfd, "n.ipynb", "edit");
	check_file(place->dirfd, "n-1.ipynb", "four");
	assert_int_equal(count_files(place->dirfd), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_edit_before_the_exchange, setup, teardown),
		cmocka_unit_test_setup_teardown(test_edit_before_both_exchanges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_between_exchanges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_before_the_exchange, setup, teardown),
		cmocka_unit_test_setup_teardown(test_made_before_the_first_rename, setup, teardown),
		cmocka_unit_test_setup_teardown(test_edits_during, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_system_with_few_features, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_killed_writer, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
