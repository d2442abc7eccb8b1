/*
 * Trees: paths, what is refused, and a guest that swaps folders and files for symlinks all the
 * while.
 */
#include "files/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { SWAPS = 100000 };

struct place {
	char *top;  /* holds both */
	char *host; /* a folder that must stay untouched */
	struct tree tree;
};

static int set_up(void **state)
{
	struct place *place = mem_zalloc(sizeof(*place));
	char name[] = "/tmp/fumehood-tree-XXXXXX";
	cleanup_free char *work = NULL;

	assert_non_null(mkdtemp(name));
	place->top = mem_string(name);
	place->host = mem_format("%s/host", name);
	work = mem_format("%s/work", name);
	assert_int_equal(mkdir(place->host, 0755), 0);
	assert_int_equal(mkdir(work, 0755), 0);
	place->tree = (struct tree)TREE_INIT;
	assert_int_equal(tree_open(&place->tree, work, NULL), 0);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	tree_release(&place->tree);
	assert_int_equal(file_remove_tree(AT_FDCWD, place->top, NULL), 0);
	free(place->top);
	free(place->host);
	free(place);
	return 0;
}

/* A file outside of the tree. */
static void plant(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static void put(const struct tree *tree, const char *path, const char *text)
{
	struct err err = ERR_INIT;

	if (tree_write(tree, path, "up", 0, text, strlen(text), &err) != 0 ||
	    tree_commit(tree, path, "up", 0644, &err) != 0)
		fail_msg("%s: %s", path, err.text);
}

static void expect(const struct tree *tree, const char *path, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct tree_status status;
	struct err err = ERR_INIT;

	if (tree_read(tree, path, 0, TREE_PART_BYTES_MAX, &out, &status, &err) != 0)
		fail_msg("%s: %s", path, err.text);
	assert_string_equal(buf_bytes(&out), text);
	assert_int_equal(status.bytes, strlen(text));
}

static enum err_code refusal(const struct tree *tree, const char *path)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct tree_status status;
	struct err err = ERR_INIT;

	assert_int_equal(tree_read(tree, path, 0, 100, &out, &status, &err), -1);
	return err.code;
}

static void paths(void **state)
{
	static const char *const good[] = {"",    ".", "a",    "a/b",  "..a",
					   "a..", "-", "a\nb", "\xff", "~"};
	static const char *const bad[] = {"/",      "/a",   "..", "../a", "a/..",
					  "a/../b", "a//b", "a/", "./a",  "a/./b"};
	char name[300];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(tree_check_path(good[i], strlen(good[i]), NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (tree_check_path(bad[i], strlen(bad[i]), NULL) == 0)
			fail_msg("%s is taken", bad[i]);
	assert_int_equal(tree_check_path("a\0b", 3, NULL), -1);
	memset(name, 'n', sizeof(name));
	assert_int_equal(tree_check_path(name, 255, NULL), 0);
	assert_int_equal(tree_check_path(name, 256, NULL), -1);
}

static void names_come_back(void **state)
{
	const struct place *place = *state;
	static const char *const names[] = {
		"-rf", "a\nb", "bad\xff\xfe", "quote\"'`$(x)", "rtl\xe2\x80\xaejpg.exe", " blank "};
	cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;
	char longest[256];

	memset(longest, 'n', 255);
	longest[255] = '\0';
	put(&place->tree, longest, longest);
	expect(&place->tree, longest, longest);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		cleanup_free char *nested = mem_format("d/%s/f", names[i]);

		put(&place->tree, names[i], names[i]);
		expect(&place->tree, names[i], names[i]);
		put(&place->tree, nested, "x");
		expect(&place->tree, nested, "x");
	}
	assert_int_equal(tree_list(&place->tree, "", NULL, 100, &listing, NULL), 0);
	assert_int_equal(listing.count, 8);
	for (size_t i = 1; i < listing.count; i++)
		assert_true(strcmp(listing.entries[i - 1].name, listing.entries[i].name) < 0);
}

static void lists_in_parts(void **state)
{
	const struct place *place = *state;
	cleanup_listing struct tree_listing first = TREE_LISTING_INIT, rest = TREE_LISTING_INIT;

	put(&place->tree, "a", "1");
	put(&place->tree, "b", "22");
	put(&place->tree, "c/d", "333");
	assert_int_equal(tree_list(&place->tree, ".", NULL, 2, &first, NULL), 0);
	assert_int_equal(first.count, 2);
	assert_true(first.more);
	assert_int_equal(first.entries[1].status.bytes, 2);
	assert_int_equal(tree_list(&place->tree, "", "b", 2, &rest, NULL), 0);
	assert_int_equal(rest.count, 1);
	assert_false(rest.more);
	assert_int_equal(rest.entries[0].status.kind, TREE_FOLDER);
}

/* What a session may leave in its workspace to be met by us. */
static void traps(void **state)
{
	const struct place *place = *state;
	int root = place->tree.root;
	struct tree_status status;
	struct err err = ERR_INIT;

	put(&place->tree, "d/f", "x");
	assert_int_equal(symlinkat("/etc/passwd", root, "link"), 0);
	assert_int_equal(symlinkat("/", root, "slash"), 0);
	assert_int_equal(symlinkat("d", root, "inner"), 0);
	assert_int_equal(symlinkat("/proc/self/environ", root, "magic"), 0);
	assert_int_equal(mkfifoat(root, "fifo", 0644), 0);
	assert_int_equal(refusal(&place->tree, "link"), ERR_DENIED);
	assert_int_equal(refusal(&place->tree, "slash/etc/passwd"), ERR_DENIED);
	assert_int_equal(refusal(&place->tree, "inner/f"), ERR_DENIED);
	assert_int_equal(refusal(&place->tree, "magic"), ERR_DENIED);
	assert_int_equal(refusal(&place->tree, "fifo"), ERR_INVALID); /* and does not wait */
	assert_int_equal(refusal(&place->tree, "d"), ERR_INVALID);
	assert_int_equal(refusal(&place->tree, "none"), ERR_NOT_FOUND);
	assert_int_equal(tree_look(&place->tree, "link", &status, NULL), 0);
	assert_int_equal(status.kind, TREE_LINK);
	/* Nothing is written over or through them, and no upload is left behind. */
	assert_int_equal(tree_write(&place->tree, "link", "u", 0, "x", 1, &err), 0);
	assert_int_equal(tree_commit(&place->tree, "link", "u", 0644, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(faccessat(root, ".fumehood-u.tmp", F_OK, 0), -1);
	assert_int_equal(tree_write(&place->tree, "inner/g", "u", 0, "x", 1, &err), -1);
	assert_int_equal(tree_make_folder(&place->tree, "inner/h", &err), -1);
	assert_int_equal(tree_remove(&place->tree, "inner/f", true, &err), -1);
	assert_int_equal(tree_remove(&place->tree, "link", false, &err), 0);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* An upload whose file the session has swapped goes nowhere. */
static void swapped_upload(void **state)
{
	const struct place *place = *state;
	cleanup_free char *secret = mem_format("%s/secret", place->host);
	cleanup_buf struct buf now = BUF_INIT;
	int root = place->tree.root;
	struct err err = ERR_INIT;

	plant(secret, "s");
	assert_int_equal(tree_write(&place->tree, "f", "u", 0, "abc", 3, &err), 0);
	assert_int_equal(tree_write(&place->tree, "f", "u", 2, "d", 1, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(unlinkat(root, ".fumehood-u.tmp", 0), 0);
	assert_int_equal(symlinkat(secret, root, ".fumehood-u.tmp"), 0);
	assert_int_equal(tree_write(&place->tree, "f", "u", 1, "d", 1, &err), -1);
	assert_int_equal(tree_commit(&place->tree, "f", "u", 0644, &err), -1);
	assert_int_equal(unlinkat(root, ".fumehood-u.tmp", 0), 0);
	assert_int_equal(linkat(AT_FDCWD, secret, root, ".fumehood-u.tmp", 0), 0);
	assert_int_equal(tree_write(&place->tree, "f", "u", 1, "d", 1, &err), -1);
	assert_int_equal(tree_commit(&place->tree, "f", "u", 0644, &err), -1);
	assert_int_equal(file_read(AT_FDCWD, secret, 10, &now, &err), 0);
	assert_string_equal(buf_bytes(&now), "s");
}

static void modes_and_removal(void **state)
{
	const struct place *place = *state;
	struct tree_status status;
	struct err err = ERR_INIT;

	assert_int_equal(tree_write(&place->tree, "p", "u", 0, "#!", 2, &err), 0);
	assert_int_equal(tree_commit(&place->tree, "p", "u", 06755, &err), 0);
	assert_int_equal(tree_look(&place->tree, "p", &status, &err), 0);
	assert_int_equal(status.mode, 0755);
	put(&place->tree, "a/b/c", "x");
	assert_int_equal(tree_remove(&place->tree, "a", false, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(tree_remove(&place->tree, "a", true, &err), 0);
	assert_int_equal(tree_remove(&place->tree, ".", true, &err), -1);
	assert_int_equal(tree_remove(&place->tree, "", true, &err), -1);
	assert_int_equal(tree_look(&place->tree, "a", &status, &err), -1);
}

/* --- the race --- */

struct racer {
	int root;
	atomic_bool stop;
	atomic_long swaps;
};

/* `d` is a folder, then a symlink to the host's; `f` a file, then a symlink to the secret. */
static void *race(void *data)
{
	struct racer *racer = data;

	while (!atomic_load(&racer->stop)) {
		renameat2(racer->root, "d", racer->root, "d2", RENAME_EXCHANGE);
		renameat2(racer->root, "f", racer->root, "f2", RENAME_EXCHANGE);
		atomic_fetch_add(&racer->swaps, 1);
	}
	return NULL;
}

static void one_round(const struct tree *tree, long round, unsigned *seen)
{
	static const char *const targets[] = {"f", "d/secret"};
	cleanup_buf struct buf out = BUF_INIT;
	struct tree_status status;

	if (tree_read(tree, targets[round % 2], 0, 100, &out, &status, NULL) == 0) {
		assert_string_equal(buf_bytes(&out), "mine");
		seen[0]++;
	} else {
		seen[1]++;
	}
	if (round % 4 == 0 && tree_write(tree, "d/new", "u", 0, "n", 1, NULL) == 0 &&
	    tree_commit(tree, "d/new", "u", 0644, NULL) != 0)
		tree_abandon(tree, "d/new", "u");
	if (round % 4 == 1)
		(void)tree_make_folder(tree, "d/sub/sub", NULL);
	if (round % 4 == 2)
		(void)tree_remove(tree, "d/sub", true, NULL);
}

static void never_the_hosts(void **state)
{
	struct place *place = *state;
	cleanup_free char *secret = mem_format("%s/secret", place->host);
	struct racer racer = {.root = place->tree.root};
	struct tree host = TREE_INIT;
	cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;
	unsigned seen[2] = {0, 0};
	pthread_t thread;

	plant(secret, "host");
	put(&place->tree, "d/secret", "mine");
	put(&place->tree, "f", "mine");
	assert_int_equal(symlinkat(place->host, racer.root, "d2"), 0);
	assert_int_equal(symlinkat(secret, racer.root, "f2"), 0);
	assert_int_equal(pthread_create(&thread, NULL, race, &racer), 0);
	for (long round = 0; round < SWAPS || atomic_load(&racer.swaps) < SWAPS; round++)
		one_round(&place->tree, round, seen);
	atomic_store(&racer.stop, true);
	pthread_join(thread, NULL);
	assert_true(seen[0] > 0 && seen[1] > 0); /* it was a race */
	assert_int_equal(tree_open(&host, place->host, NULL), 0);
	assert_int_equal(tree_list(&host, "", NULL, 100, &listing, NULL), 0);
	assert_int_equal(listing.count, 1); /* nothing was written there */
	expect(&host, "secret", "host");
	tree_release(&host);
}

/* What root writes into somebody's folder is theirs. */
static void owners(void **state)
{
	struct place *place = *state;
	struct tree tree = TREE_INIT;
	struct stat st;

	if (geteuid() != 0) {
		print_message("owners: only root can give files away\n");
		skip();
	}
	assert_int_equal(fchown(place->tree.root, 12345, 12346), 0);
	assert_int_equal(tree_adopt(&tree, dup(place->tree.root), NULL), 0);
	put(&tree, "d/f", "x");
	assert_int_equal(fstatat(tree.root, "d/f", &st, 0), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 12346);
	assert_int_equal(fstatat(tree.root, "d", &st, 0), 0);
	assert_int_equal(st.st_uid, 12345);
	/* And what they may not, we may not for them. */
	assert_int_equal(mkdirat(tree.root, "roots", 0700), 0);
	assert_int_equal(tree_write(&tree, "roots/x", "u", 0, "x", 1, NULL), -1);
	assert_int_equal(geteuid(), 0);
	assert_int_equal(faccessat(tree.root, "roots", W_OK, AT_EACCESS), 0);
	tree_release(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test_setup_teardown(names_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lists_in_parts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(traps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(swapped_upload, set_up, tear_down),
		cmocka_unit_test_setup_teardown(modes_and_removal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(never_the_hosts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(owners, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
