/*
 * Looks and differences: against a model with random edits, and on trees that mean harm.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "files/manifest.h"
#include "files/model_kit.h"

/* What a test wants of a look. */
struct want {
	struct model *tree;
	size_t entries_max;
	unsigned depth_max;
	int64_t now_us, step_us; /* a clock that goes on when it is looked at */
	int64_t deadline_us;
	int entered;
	void (*on_enter)(struct want *want);
	bool all_unchanged;
};

static int64_t clock_us(void *data)
{
	struct want *want = data;

	return want->now_us += want->step_us;
}

static int enter(void *data, int fd)
{
	struct want *want = data;
	struct stat st;

	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	if (want->on_enter)
		want->on_enter(want);
	want->entered++;
	return (int)(st.st_ino & INT_MAX); /* as inotify: the same folder has the same number */
}

static bool is_unchanged(void *data, int watch)
{
	const struct want *want = data;

	(void)watch;
	return want->all_unchanged;
}

static struct manifest *look(struct want *want, const struct manifest *before)
{
	const struct manifest_params params = {
		.root = want->tree->fd,
		.entries_max = want->entries_max,
		.depth_max = want->depth_max,
		.deadline_us = want->deadline_us,
		.clock_us = clock_us,
		.enter = enter,
		.is_unchanged = is_unchanged,
		.before = before,
		.data = want,
	};

	return manifest_scan(&params);
}

static struct want want_of(struct model *tree)
{
	return (struct want){.tree = tree,
			     .entries_max = MANIFEST_ENTRIES_MAX,
			     .depth_max = MANIFEST_DEPTH_MAX,
			     .deadline_us = INT64_MAX};
}

/* The differences as lines. */
static enum manifest_stop differ(const struct manifest *old, const struct manifest *new,
				 int64_t since_ns, struct buf *text)
{
	const struct diff_params params = {.old = old, .new = new, .since_ns = since_ns};
	struct changes changes = CHANGES_INIT;
	enum manifest_stop stop;

	buf_clear(text);
	manifest_diff(&params, &changes);
	model_found(&changes, text);
	stop = changes.stop;
	changes_release(&changes);
	return stop;
}

static void assert_differ(const struct manifest *old, const struct manifest *new, const char *lines)
{
	cleanup_buf struct buf text = BUF_INIT;

	differ(old, new, 0, &text);
	assert_string_equal(buf_bytes(&text), lines);
}

/* Looks, compares with what was found before, which it replaces. */
static void assert_next(struct want *want, struct manifest **manifest, const char *lines)
{
	struct manifest *next = look(want, *manifest);

	assert_differ(*manifest, next, lines);
	manifest_free(*manifest);
	*manifest = next;
}

/* --- the model
 * ---------------------------------------------------------------------------------- */

static void random_edits(uint64_t seed)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;
	cleanup_buf struct buf expected = BUF_INIT, found = BUF_INIT;

	model_open(&tree, "manifest_test", seed);
	manifest = look(&want, NULL);
	for (int round = 0; round < 60; round++) {
		struct model before = tree;
		struct manifest *next;

		for (int i = 0; i < 1 + round % 9; i++)
			model_edit(&tree);
		next = look(&want, manifest);
		buf_clear(&expected);
		model_expect(&before, &tree, &expected);
		assert_int_equal(differ(manifest, next, 0, &found), STOP_NOTHING);
		if (strcmp(buf_bytes(&expected), buf_bytes(&found)) != 0)
			fail_msg("seed %d round %d: expected\n%sfound\n%s", (int)seed, round,
				 buf_bytes(&expected), buf_bytes(&found));
		manifest_free(manifest);
		manifest = next;
	}
	manifest_free(manifest);
	model_close(&tree);
}

static void test_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 25; seed++)
		random_edits(seed);
}

/* --- what is told
 * ------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	manifest = look(&want, NULL);
	model_mkdir(&tree, "empty");
	model_mkdir(&tree, "__pycache__");
	model_write(&tree, "__pycache__/x.pyc", "x");
	model_mkdir(&tree, ".git");
	model_write(&tree, ".git/HEAD", "x");
	model_write(&tree, ".fumehood-abc.tmp", "x");
	model_write(&tree, ".hidden", "x");
	assert_int_equal(symlinkat(".", tree.fd, "loop"), 0);
	assert_int_equal(symlinkat("/etc", tree.fd, "out"), 0);
	assert_int_equal(mkfifoat(tree.fd, "fifo", 0600), 0);
	model_write(&tree, "new\nline", "x");
	assert_next(
		&want, &manifest,
		"created .hidden\ncreated fifo\ncreated loop\ncreated new\nline\ncreated out\n");
	assert_int_equal(unlinkat(tree.fd, "loop", 0), 0);
	model_mkdir(&tree, "loop"); /* a folder in a link's place */
	model_write(&tree, "loop/in", "x");
	assert_next(&want, &manifest, "created loop/in\ndeleted loop\n");
	assert_int_equal(unlinkat(tree.fd, "loop/in", 0), 0);
	assert_int_equal(unlinkat(tree.fd, "loop", AT_REMOVEDIR), 0);
	model_write(&tree, "loop", "x"); /* and a file in the folder's */
	assert_next(&want, &manifest, "created loop\ndeleted loop/in\n");
	manifest_free(manifest);
	model_close(&tree);
}

static void test_copied(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	model_mkdir(&tree, "a");
	model_mkdir(&tree, "a/b");
	model_write(&tree, "a/b/c", "x");
	manifest = look(&want, NULL);
	assert_int_equal(want.entered, 3);
	model_write(&tree, "a/b/c", "xy");
	want.all_unchanged = true;
	assert_next(&want, &manifest, ""); /* we lied, and were believed */
	assert_int_equal(want.entered, 3);
	want.all_unchanged = false;
	assert_next(&want, &manifest, "changed a/b/c\n");
	assert_int_equal(want.entered, 6);
	manifest_free(manifest);
	model_close(&tree);
}

static void test_more_changes(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *old, *new;
	struct diff_params params = {.since_ns = 0};
	struct changes changes = CHANGES_INIT, more = CHANGES_INIT;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	old = look(&want, NULL);
	for (int i = 0; i < CHANGES_MAX + 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(mknodat(tree.fd, name, S_IFREG | 0600, 0), 0);
	}
	new = look(&want, NULL);
	params.old = old;
	params.new = new;
	manifest_diff(&params, &changes);
	assert_int_equal(changes.count, CHANGES_MAX);
	assert_int_equal(changes.more, 50);
	manifest_diff(&params, &more);
	changes_append(&changes, &more);
	assert_int_equal(changes.count, CHANGES_MAX);
	assert_int_equal(changes.more, 100 + CHANGES_MAX);
	assert_int_equal(more.count, 0);
	changes_release(&changes);
	manifest_free(old);
	manifest_free(new);
	model_close(&tree);
}

/* Without a manifest of before, times decide. */
static void test_times(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;
	cleanup_buf struct buf text = BUF_INIT;
	const struct manifest_entry *entry;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	model_write(&tree, "f", "x");
	manifest = look(&want, NULL);
	entry = manifest_find(manifest, 0, "f", 1);
	assert_non_null(entry);
	differ(NULL, manifest, entry->ctime_ns + 1, &text);
	assert_string_equal(buf_bytes(&text), "");
	/* It was born, then written, perhaps a tick of the clock later. */
	differ(NULL, manifest, entry->btime_ns + 1, &text);
	if (entry->ctime_ns > entry->btime_ns)
		assert_string_equal(buf_bytes(&text), "changed f\n");
	if (entry->btime_ns) {
		differ(NULL, manifest, entry->btime_ns, &text);
		assert_string_equal(buf_bytes(&text), "created f\n");
	}
	manifest_free(manifest);
	model_close(&tree);
}

/* --- limits
 * ------------------------------------------------------------------------------------- */

static void test_many_files(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	model_mkdir(&tree, "a");
	for (int i = 0; i < 100000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "a/f%d", i);
		assert_int_equal(mknodat(tree.fd, name, S_IFREG | 0600, 0), 0);
	}
	model_mkdir(&tree, "b");
	model_write(&tree, "b/c", "x");
	manifest = look(&want, NULL);
	assert_int_equal(manifest->entry_count, MANIFEST_ENTRIES_MAX);
	assert_int_equal(manifest->stop, STOP_ENTRIES);
	/* What was not looked at is not told of, and not taken for deleted. */
	assert_next(&want, &manifest, "");
	model_write(&tree, "b/c", "xy");
	assert_next(&want, &manifest, "");
	model_write(&tree, "top", "x");
	assert_next(&want, &manifest, "created top\n");
	manifest_free(manifest);
	model_close(&tree);
}

static void test_deep(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;
	int at;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	at = dup(tree.fd);
	for (int depth = 0; depth < 500; depth++) {
		int next;

		assert_int_equal(mkdirat(at, "a folder", 0700), 0);
		next = openat(at, "a folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	manifest = look(&want, NULL);
	assert_int_equal(manifest->stop, STOP_DEPTH);
	assert_int_equal(manifest->folder_count, MANIFEST_DEPTH_MAX + 1);
	manifest_free(manifest);
	want.depth_max = 1000; /* the kernel takes no path over 4,095 bytes */
	manifest = look(&want, NULL);
	assert_int_equal(manifest->stop, STOP_DEPTH);
	assert_in_range(manifest->folder_count, 400, 500);
	manifest_free(manifest);
	model_close(&tree);
}

static void test_time(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	model_write(&tree, "top", "x");
	for (int i = 0; i < 9; i++) {
		char name[16];

		snprintf(name, sizeof(name), "d%d", i);
		model_mkdir(&tree, name);
		snprintf(name, sizeof(name), "d%d/f", i);
		model_write(&tree, name, "x");
	}
	manifest = look(&want, NULL);
	assert_int_equal(manifest->stop, STOP_NOTHING);
	model_write(&tree, "top", "xy");
	model_write(&tree, "d0/f", "xy");
	model_write(&tree, "d8/f", "xy");
	want.step_us = 1;
	want.deadline_us = 4; /* asked once a folder: the root, d0, d1 */
	assert_next(&want, &manifest, "changed d0/f\nchanged top\n");
	assert_int_equal(manifest->stop, STOP_TIME);
	want.step_us = 0;
	want.now_us = 0;
	want.all_unchanged = true; /* but those that were left out are read now */
	assert_next(&want, &manifest, "changed d8/f\n");
	assert_int_equal(manifest->stop, STOP_NOTHING);
	manifest_free(manifest);
	want.deadline_us = 0;
	manifest = look(&want, NULL);
	assert_int_equal(manifest->stop, STOP_TIME);
	assert_int_equal(manifest->entry_count, 0);
	manifest_free(manifest);
	model_close(&tree);
}

/* --- trees that mean harm
 * ----------------------------------------------------------------------- */

static void on_enter_vanish(struct want *want)
{
	if (want->entered != 1) /* the first folder below the root, before it is read */
		return;
	assert_int_equal(unlinkat(want->tree->fd, "a/f", 0), 0);
	assert_int_equal(unlinkat(want->tree->fd, "a", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(want->tree->fd, "b", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(want->tree->fd, "c", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("/etc", want->tree->fd, "b"), 0);
	model_write(want->tree, "c", "x");
}

static void test_vanishing(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	model_mkdir(&tree, "a");
	model_write(&tree, "a/f", "x");
	model_mkdir(&tree, "b");
	model_mkdir(&tree, "c");
	want.on_enter = on_enter_vanish;
	manifest = look(&want, NULL);
	assert_int_equal(manifest->entry_count, 3); /* a, b, c: nothing of /etc */
	assert_int_equal(manifest->stop, STOP_NOTHING);
	want.on_enter = NULL;
	assert_next(&want, &manifest, "created b\ncreated c\n");
	manifest_free(manifest);
	model_close(&tree);
}

static void test_unreadable(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest, *next;
	bool root = geteuid() == 0;

	(void)state;
	model_open(&tree, "manifest_test", 1);
	assert_int_equal(fchmod(tree.fd, 0755), 0);
	model_mkdir(&tree, "a");
	model_write(&tree, "a/f", "x");
	manifest = look(&want, NULL);
	assert_int_equal(fchmodat(tree.fd, "a", 0, 0), 0);
	if (root)
		setfsuid(65534); /* as someone who is not let in; the capability goes with it */
	next = look(&want, manifest);
	if (root)
		setfsuid(0);
	assert_int_equal(next->stop, STOP_UNREADABLE);
	assert_differ(manifest, next, "");
	assert_int_equal(fchmodat(tree.fd, "a", 0700, 0), 0);
	manifest_free(manifest);
	manifest_free(next);
	model_close(&tree);
}

/* Not crossing into another file system keeps a hanging one from holding the keeper. */
static void test_mount(void **state)
{
	struct model tree;
	struct want want = want_of(&tree);
	struct manifest *manifest;
	cleanup_free char *path = NULL;

	(void)state;
	if (geteuid() != 0) {
		printf("skipped: only root can mount\n");
		skip();
	}
	model_open(&tree, "manifest_test", 1);
	model_mkdir(&tree, "m");
	path = mem_format("%s/m", tree.root);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", path, "tmpfs", 0, NULL) != 0) {
		model_close(&tree);
		printf("skipped: mounting a tmpfs is not permitted\n");
		skip();
	}
	close(tree.fd); /* it leads to the mounts of before */
	tree.fd = open(tree.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree.fd >= 0);
	model_write(&tree, "m/f", "x");
	model_write(&tree, "g", "x");
	manifest = look(&want, NULL);
	assert_int_equal(manifest->stop, STOP_MOUNT);
	assert_int_equal(manifest->entry_count, 2);
	manifest_free(manifest);
	assert_int_equal(umount(path), 0);
	model_close(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),     cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_copied),    cmocka_unit_test(test_more_changes),
		cmocka_unit_test(test_times),     cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_deep),      cmocka_unit_test(test_time),
		cmocka_unit_test(test_vanishing), cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
