/*
 * A guest that means harm: whatever it puts where files are kept or restored, nothing outside of
 * the workspace is touched, and nothing from there comes in.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"
#include "files/snapshot_kit.h"
#include "sandbox/confine.h"

enum { SWAPS = 20000 };

struct attack {
	const struct desk *desk;
	atomic_bool stop;
	atomic_uint rounds;
};

/* Swaps a folder and a file for symlinks to outside, without a moment in which neither is there. */
static void *swap_always(void *data)
{
	struct attack *attack = data;
	int root = attack->desk->model.fd;

	while (!atomic_load(&attack->stop)) {
		renameat2(root, "folder", root, "folder-link", RENAME_EXCHANGE);
		renameat2(root, "file", root, "file-link", RENAME_EXCHANGE);
		renameat2(root, "new", root, "new-link", RENAME_EXCHANGE);
		atomic_fetch_add(&attack->rounds, 1);
	}
	return NULL;
}

static void plant(int folder, const char *name, const char *text)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	cleanup_fd int fd = openat(folder, name, flags, 0644);

	if (fd < 0 && errno == EACCES && unlinkat(folder, name, 0) == 0) /* of mode 0 */
		fd = openat(folder, name, flags, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

/* The workspace of the attack, and what lies beside it. */
static void plant_all(const struct desk *desk, const char *host)
{
	int root = desk->model.fd;
	cleanup_free char *file = mem_format("%s/file", host);

	(void)!mkdirat(root, "folder", 0755);
	(void)!mkdirat(root, "folder-link", 0755);
	(void)!mkdirat(root, "new", 0755);
	unlinkat(root, "folder-link", AT_REMOVEDIR);
	unlinkat(root, "folder-link", 0);
	unlinkat(root, "file-link", 0);
	unlinkat(root, "new-link", 0);
	unlinkat(root, "file", 0);
	(void)!symlinkat(host, root, "folder-link");
	(void)!symlinkat(file, root, "file-link");
	(void)!symlinkat(host, root, "new-link");
	plant(root, "file", "inside");
}

/* The file, whichever name it has just now: another content, another mode, or both. */
static void change_file(const struct desk *desk, int round)
{
	cleanup_fd int fd = openat(desk->model.fd, round % 5 ? "file" : "file-link",
				   O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	if (round % 3)
		assert_int_equal(pwrite(fd, round % 2 ? "INside" : "insIDE", 6, 0), 6);
	assert_int_equal(fchmod(fd, round % 4 ? 0640 : 0600), 0);
}

/* A file of that name has come from inside. */
static void assert_inside(const struct desk *desk, const char *name)
{
	cleanup_fd int fd = openat(desk->model.fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[16] = "";

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		assert_int_equal(strncasecmp(text, "inside", 6), 0);
}

static void test_swaps(void **state)
{
	struct desk desk;
	struct attack attack = {.desk = &desk};
	char host[] = "/tmp/snapshot_host_XXXXXX";
	cleanup_fd int outside = -1;
	pthread_t thread;
	struct dump before, after;

	(void)state;
	assert_non_null(mkdtemp(host));
	outside = open(host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	plant(outside, "file", "outside");
	plant(outside, "in", "outside");
	dump_make(&before, outside);
	desk_open(&desk, 1);
	plant_all(&desk, host);
	atomic_init(&attack.stop, false);
	atomic_init(&attack.rounds, 0);
	assert_int_equal(pthread_create(&thread, NULL, swap_always, &attack), 0);
	for (int i = 0; i < 300 || atomic_load(&attack.rounds) < SWAPS; i++) {
		cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
		struct snapshot *snapshot = desk_take(&desk, NULL);
		cleanup_fd int fd = openat(desk.model.fd, "folder",
					   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		/* What is in it now, the snapshot has not, or otherwise. */
		if (fd >= 0) {
			plant(fd, "in", i % 2 ? "inside" : "inside too");
			plant(fd, "other", "inside");
			(void)!fchmodat(fd, "in", i % 3 ? 0 : 0600, 0);
		}
		change_file(&desk, i);
		desk_restore(&desk, snapshot, &restored);
		assert_inside(&desk, "file");
		assert_inside(&desk, "file-link");
		snapshot_free(snapshot);
		if (i % 16 == 0)
			plant_all(&desk, host);
		if (i > 5000000)
			break;
	}
	atomic_store(&attack.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	dump_make(&after, outside);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	desk_close(&desk);
	assert_int_equal(file_remove_tree(AT_FDCWD, host, NULL), 0);
}

/* The folder of a file that is restored has become a symlink: it leads nowhere. */
static void test_planted(void **state)
{
	struct desk desk;
	char host[] = "/tmp/snapshot_host_XXXXXX";
	cleanup_fd int outside = -1;
	struct snapshot *snapshot;
	struct dump before, after, inside, inside_after;

	(void)state;
	assert_non_null(mkdtemp(host));
	outside = open(host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	plant(outside, "file", "outside");
	plant(outside, "new", "outside");
	dump_make(&before, outside);
	desk_open(&desk, 1);
	model_mkdir(&desk.model, "folder");
	model_write(&desk.model, "folder/file", "inside");
	model_write(&desk.model, "file", "inside");
	snapshot = desk_take(&desk, NULL);
	dump_make(&inside, desk.model.fd);
	assert_int_equal(unlinkat(desk.model.fd, "folder/file", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "folder", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat(host, desk.model.fd, "folder"), 0);
	assert_int_equal(unlinkat(desk.model.fd, "file", 0), 0);
	{
		cleanup_free char *file = mem_format("%s/file", host);

		assert_int_equal(symlinkat(file, desk.model.fd, "file"), 0);
	}
	desk_restore_all(&desk, snapshot);
	dump_make(&inside_after, desk.model.fd);
	dump_assert_equal(&inside, &inside_after);
	dump_make(&after, outside);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	dump_release(&inside);
	dump_release(&inside_after);
	snapshot_free(snapshot);
	desk_close(&desk);
	assert_int_equal(file_remove_tree(AT_FDCWD, host, NULL), 0);
}

/* As in a keeper, which gives up most system calls and all other files (sandbox/confine.h). 0: all
 * is restored. */
static int restore_confined(struct desk *desk, const struct snapshot *snapshot)
{
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
	const struct confine_place place = {.fd = desk->model.fd, .write = true};
	const struct confine_params params = {.places = &place, .count = 1};
	struct confined confined;
	struct snapshot *taken;
	struct snapshot_figures figures;

	if (confine(&params, &confined, NULL) != 0)
		return 2;
	taken = desk_take(desk, snapshot);
	snapshot_figures(taken, &figures);
	desk_restore(desk, snapshot, &restored);
	snapshot_free(taken);
	if (restored.failed.count > 0)
		fprintf(stderr, "%s %s\n", restored.failed.list[0].path,
			strerror(restored.failed.list[0].sys));
	return figures.unprotected > 0                                       ? 3
	       : restored.failed.count > 0 || restored.unprotected.count > 0 ? 4
									     : 0;
}

static void test_confined(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after;
	int root, status;
	pid_t child;

	(void)state;
	desk_open(&desk, 1);
	root = desk.model.fd;
	model_mkdir(&desk.model, "d");
	model_write(&desk.model, "d/f", "text");
	model_write(&desk.model, "open", "text");
	model_write(&desk.model, "mode", "text");
	model_mkdir(&desk.model, "gone");
	model_write(&desk.model, "gone/f", "text");
	assert_int_equal(linkat(root, "d/f", root, "gone/peer", 0), 0);
	assert_int_equal(symlinkat("open", root, "link"), 0);
	snapshot = desk_take(&desk, NULL);
	dump_make(&before, root);
	model_write(&desk.model, "d/f", "other");
	model_write(&desk.model, "open", "other");
	model_mkdir(&desk.model, "new");
	model_write(&desk.model, "new/f", "new");
	assert_int_equal(fchmodat(root, "mode", 0444, 0), 0);
	for (const char *const *name = (const char *const[]){"gone/f", "gone/peer", "link", NULL};
	     *name; name++)
		assert_int_equal(unlinkat(root, *name, 0), 0);
	assert_int_equal(unlinkat(root, "gone", AT_REMOVEDIR), 0);
	assert_int_equal(fchmodat(root, "d", 0555, 0), 0);
	child = fork();
	if (child == 0)
		_exit(restore_confined(&desk, snapshot));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	dump_make(&after, root);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* A folder stands where a file is to be put: it keeps its place, and nothing is left beside it. */
static void test_folder_in_place(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after;
	int sys = 0;

	(void)state;
	desk_open(&desk, 1);
	model_write(&desk.model, "file", "inside");
	snapshot = desk_take(&desk, NULL);
	assert_int_equal(unlinkat(desk.model.fd, "file", 0), 0);
	model_mkdir(&desk.model, "file");
	model_write(&desk.model, "file/in", "inside");
	dump_make(&before, desk.model.fd);
	assert_int_equal(put_file(snapshot, 0, desk.model.fd, "file", &sys), WHY_CHANGING);
	dump_make(&after, desk.model.fd);
	before.items[0].mtime_ns = after.items[0].mtime_ns; /* of the root */
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	snapshot_free(snapshot);
	desk_close(&desk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_folder_in_place),
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_swaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
