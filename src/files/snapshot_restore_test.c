/*
 * Going back: everything is as it was, whatever has been done to it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "files/snapshot_kit.h"

/* --- against the model --- */

/* What the model does not do: modes, times, hard links, writing in place. */
static void edit_more(struct desk *desk, unsigned seed)
{
	int root = desk->model.fd;
	const struct model_item *item;
	cleanup_fd int fd = -1;
	char name[32];
	struct stat st;

	if (desk->model.count == 0)
		return;
	item = &desk->model.items[seed % desk->model.count];
	snprintf(name, sizeof(name), "more%u", seed % 5);
	switch (seed % 6) {
	case 0: /* chmod(2) would follow a symlink, out of the workspace */
		assert_int_equal(fstatat(root, item->path, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (!S_ISLNK(st.st_mode))
			(void)!fchmodat(root, item->path, item->is_folder ? 0755 : 0640, 0);
		break;
	case 1:
		(void)!utimensat(root, item->path, NULL, AT_SYMLINK_NOFOLLOW);
		break;
	case 2:
		unlinkat(root, name, 0);
		(void)!linkat(root, item->path, root, name, 0);
		break;
	case 3:
		fd = openat(root, item->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			assert_int_equal(write(fd, "more", 4), 4);
		break;
	case 4:
		fd = openat(root, item->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			assert_int_equal(pwrite(fd, "!", 1, 0), 1);
		break;
	default:
		unlinkat(root, name, 0);
		break;
	}
}

static void random_restores(uint64_t seed)
{
	enum { HELD = 3 };
	struct desk desk;
	struct snapshot *snapshots[HELD];
	struct dump dumps[HELD];
	struct model models[HELD];

	desk_open(&desk, seed);
	desk.model.same_size = seed % 2;
	for (int i = 0; i < HELD; i++) {
		snapshots[i] = desk_take(&desk, i ? snapshots[i - 1] : NULL);
		dump_make(&dumps[i], desk.model.fd);
		models[i] = desk.model;
	}
	for (int round = 0; round < 60; round++) {
		int which = (int)(desk.model.random >> 40) % HELD;
		struct snapshot *next;
		struct dump now;

		for (int i = 0; i < 1 + round % 12; i++) {
			model_edit(&desk.model);
			edit_more(&desk, (unsigned)(desk.model.random >> 37));
		}
		if (round % 2) { /* a new one */
			next = desk_take(&desk, snapshots[(which + 1) % HELD]);
			snapshot_free(snapshots[which]);
			dump_release(&dumps[which]);
			snapshots[which] = next;
			dump_make(&dumps[which], desk.model.fd);
			models[which] = desk.model;
			continue;
		}
		desk_restore_all(&desk, snapshots[which]);
		dump_make(&now, desk.model.fd);
		dump_assert_equal(&dumps[which], &now);
		dump_release(&now);
		models[which].random = desk.model.random;
		models[which].version = desk.model.version;
		desk.model = models[which];
	}
	for (int i = 0; i < HELD; i++) {
		snapshot_free(snapshots[i]);
		dump_release(&dumps[i]);
	}
	desk_close(&desk);
}

static void test_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++)
		random_restores(seed);
}

/* --- one thing after the other --- */

static void assert_content(const struct desk *desk, const char *path, const char *text)
{
	size_t len;
	cleanup_free char *content = content_of(desk->model.fd, path, &len);

	assert_string_equal(content, text);
	assert_int_equal(len, strlen(text));
}

static ino_t inode_of(const struct desk *desk, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(desk->model.fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_ino;
}

/* A file that somebody has open keeps its inode; the others are replaced whole. */
static void test_open_files(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	cleanup_fd int reader = -1, mapped = -1;
	ino_t open_inode, closed_inode, mapped_inode;
	char *map, bytes[16] = "";

	(void)state;
	desk_open(&desk, 1);
	model_write(&desk.model, "open", "as it was");
	model_write(&desk.model, "closed", "as it was");
	model_write(&desk.model, "mapped", "as it was");
	open_inode = inode_of(&desk, "open");
	closed_inode = inode_of(&desk, "closed");
	mapped_inode = inode_of(&desk, "mapped");
	snapshot = desk_take(&desk, NULL);
	reader = openat(desk.model.fd, "open", O_RDONLY | O_CLOEXEC);
	mapped = openat(desk.model.fd, "mapped", O_RDWR | O_CLOEXEC);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	close(fd_take(&mapped));
	memcpy(map, "AS", 2);
	model_write(&desk.model, "open", "something longer than that");
	model_write(&desk.model, "closed", "short");
	desk_restore_all(&desk, snapshot);
	assert_content(&desk, "open", "as it was");
	assert_content(&desk, "closed", "as it was");
	assert_content(&desk, "mapped", "as it was");
	assert_int_equal(inode_of(&desk, "open"), open_inode);
	assert_int_equal(inode_of(&desk, "mapped"), mapped_inode);
	assert_int_not_equal(inode_of(&desk, "closed"), closed_inode);
	assert_int_equal(pread(reader, bytes, sizeof(bytes), 0), 9);
	assert_string_equal(bytes, "as it was");
	assert_memory_equal(map, "as it was", 9);
	munmap(map, 4096);
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_hard_links(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;

	(void)state;
	desk_open(&desk, 1);
	model_mkdir(&desk.model, "d");
	model_write(&desk.model, "a", "text");
	assert_int_equal(linkat(desk.model.fd, "a", desk.model.fd, "d/b", 0), 0);
	assert_int_equal(linkat(desk.model.fd, "a", desk.model.fd, "d/c", 0), 0);
	snapshot = desk_take(&desk, NULL);
	model_write(&desk.model, "a", "other"); /* in all three */
	assert_int_equal(unlinkat(desk.model.fd, "d/b", 0), 0);
	desk_restore_all(&desk, snapshot);
	assert_int_equal(inode_of(&desk, "a"), inode_of(&desk, "d/b"));
	assert_int_equal(inode_of(&desk, "a"), inode_of(&desk, "d/c"));
	assert_content(&desk, "d/b", "text");
	/* All gone: they are made anew, as one file. */
	assert_int_equal(unlinkat(desk.model.fd, "a", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "d/b", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "d/c", 0), 0);
	model_write(&desk.model, "d/c", "another");
	desk_restore_all(&desk, snapshot);
	assert_int_equal(inode_of(&desk, "a"), inode_of(&desk, "d/b"));
	assert_int_equal(inode_of(&desk, "a"), inode_of(&desk, "d/c"));
	assert_content(&desk, "d/c", "text");
	/* Two files become one, through a link that was not there. */
	snapshot_free(snapshot);
	model_write(&desk.model, "e", "of its own");
	snapshot = desk_take(&desk, NULL);
	assert_int_equal(unlinkat(desk.model.fd, "e", 0), 0);
	assert_int_equal(linkat(desk.model.fd, "a", desk.model.fd, "e", 0), 0);
	model_write(&desk.model, "e", "both");
	desk_restore_all(&desk, snapshot);
	assert_content(&desk, "e", "of its own");
	assert_content(&desk, "a", "text");
	assert_int_not_equal(inode_of(&desk, "a"), inode_of(&desk, "e"));
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* A folder for a file, a file for a folder, a symlink for both. */
static void test_kinds(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after;
	int root;

	(void)state;
	desk_open(&desk, 1);
	root = desk.model.fd;
	model_write(&desk.model, "file", "text");
	model_write(&desk.model, "file2", "text");
	model_write(&desk.model, "file3", "text");
	model_mkdir(&desk.model, "folder");
	model_write(&desk.model, "folder/in", "text");
	model_mkdir(&desk.model, "folder2");
	model_write(&desk.model, "folder2/in", "text");
	model_mkdir(&desk.model, "empty");
	assert_int_equal(symlinkat("file", root, "link"), 0);
	snapshot = desk_take(&desk, NULL);
	dump_make(&before, root);
	assert_int_equal(unlinkat(root, "file", 0), 0);
	model_mkdir(&desk.model, "file");
	model_mkdir(&desk.model, "file/deeper");
	model_write(&desk.model, "file/deeper/in", "text");
	assert_int_equal(unlinkat(root, "file2", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", root, "file2"), 0);
	assert_int_equal(unlinkat(root, "file3", 0), 0);
	assert_int_equal(mkfifoat(root, "file3", 0600), 0);
	assert_int_equal(unlinkat(root, "folder/in", 0), 0);
	assert_int_equal(unlinkat(root, "folder", AT_REMOVEDIR), 0);
	model_write(&desk.model, "folder", "text");
	assert_int_equal(unlinkat(root, "folder2/in", 0), 0);
	assert_int_equal(unlinkat(root, "folder2", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("/etc", root, "folder2"), 0);
	assert_int_equal(unlinkat(root, "empty", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(root, "link", 0), 0);
	assert_int_equal(symlinkat("elsewhere", root, "link"), 0);
	desk_restore_all(&desk, snapshot);
	dump_make(&after, root);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* A trial that takes all rights away, from what was there and from what it made. */
static void test_modes(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after;
	const mode_t none = geteuid() == 0 ? 0 : 0555; /* a user's keeper opens no others */
	int root;

	(void)state;
	desk_open(&desk, 1);
	if (geteuid() == 0) { /* as an owner to whom modes mean something */
		tree_release(&desk.tree);
		assert_int_equal(fchown(desk.model.fd, 65534, 65534), 0);
		assert_int_equal(tree_adopt(&desk.tree, dup(desk.model.fd), NULL), 0);
	}
	root = desk.model.fd;
	{
		cleanup_ids struct tree_ids ids = tree_enter(&desk.tree);

		model_mkdir(&desk.model, "d");
		model_write(&desk.model, "d/f", "text");
		model_mkdir(&desk.model, "e");
		model_write(&desk.model, "e/g", "text");
		model_write(&desk.model, "h", "text");
		assert_int_equal(fchmodat(root, "e", 0555, 0), 0);
		assert_int_equal(fchmodat(root, "e/g", 0444, 0), 0);
		snapshot = desk_take(&desk, NULL);
		dump_make(&before, root);
		assert_int_equal(fchmodat(root, "e", 0755, 0), 0);
		assert_int_equal(unlinkat(root, "e/g", 0), 0);
		assert_int_equal(fchmodat(root, "e", 0555, 0), 0);
		model_write(&desk.model, "d/f", "other");
		model_write(&desk.model, "d/new", "other");
		assert_int_equal(fchmodat(root, "d/f", 0, 0), 0);
		assert_int_equal(fchmodat(root, "d", none, 0), 0);
		model_mkdir(&desk.model, "n");
		model_mkdir(&desk.model, "n/m");
		model_write(&desk.model, "n/m/new", "other");
		assert_int_equal(fchmodat(root, "n/m", none, 0), 0);
		assert_int_equal(fchmodat(root, "n", none, 0), 0);
		model_write(&desk.model, "h", "other");
		assert_int_equal(fchmodat(root, "h", 0, 0), 0);
	}
	desk_restore_all(&desk, snapshot);
	dump_make(&after, root);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	if (geteuid() == 0) {
		struct stat st;

		assert_int_equal(fstatat(root, "e/g", &st, 0), 0);
		assert_int_equal(st.st_uid, 65534);
		assert_int_equal(st.st_gid, 65534);
	}
	assert_int_equal(fchmodat(root, "e", 0755, 0), 0);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* What is not kept, not removed and not touched is named. */
static void test_named(void **state)
{
	static const char *const protect[] = {".git/hooks", "*.pth", NULL};
	struct snapshot_limits limits = SNAPSHOT_LIMITS;
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
	struct desk desk;
	struct snapshot_work work = {.tree = &desk.tree, .time_us_max = SNAPSHOT_RESTORE_US_MAX};
	struct snapshot *snapshot;
	struct json *body;
	cleanup_buf struct buf text = BUF_INIT;

	(void)state;
	limits.file_bytes_max = 10;
	desk_open(&desk, 1);
	model_mkdir(&desk.model, ".git");
	model_mkdir(&desk.model, ".git/hooks");
	model_write(&desk.model, ".git/hooks/a", "text");
	model_write(&desk.model, "large", "more than ten");
	model_write(&desk.model, "large2", "more than ten");
	model_write(&desk.model, "large3", "more than ten");
	assert_int_equal(mkfifoat(desk.model.fd, "fifo", 0600), 0);
	snapshot = snapshot_take(&work, desk.store, &limits, NULL);
	model_write(&desk.model, ".git/hooks/a", "other");
	model_write(&desk.model, ".git/hooks/b", "new");
	model_write(&desk.model, "x.pth", "new");
	model_write(&desk.model, "large", "more than twenty bytes");
	assert_int_equal(unlinkat(desk.model.fd, "large2", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "fifo", 0), 0);
	model_mkdir(&desk.model, "new");
	assert_int_equal(mkfifoat(desk.model.fd, "new/fifo", 0600), 0);
	model_write(&desk.model, "new/file", "new");
	snapshot_restore(snapshot, &work, protect, &restored);
	assert_notes(&restored.restored, "");
	assert_notes(&restored.removed, "new/file \n");
	assert_notes(&restored.unprotected, "fifo special\nlarge file_bytes\nlarge2 file_bytes\n");
	assert_notes(&restored.failed, ".git/hooks/b executes_later\nnew/fifo special\n"
				       "x.pth executes_later\n.git/hooks/a executes_later\n");
	assert_content(&desk, "large3", "more than ten");
	assert_content(&desk, ".git/hooks/a", "other");
	body = snapshot_restored_to_json(&restored);
	json_write(&text, body);
	assert_non_null(
		strstr(buf_bytes(&text), "\"removed\":[{\"path\":\"new/file\",\"bytes\":3}]"));
	assert_non_null(strstr(buf_bytes(&text), "{\"path\":\"fifo\",\"reason\":\"special\"}"));
	assert_null(strstr(buf_bytes(&text), "\"restored\""));
	json_free(body);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* More new names than a look takes. */
static void test_many_new(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after;

	(void)state;
	desk_open(&desk, 1);
	model_write(&desk.model, "file", "text");
	snapshot = desk_take(&desk, NULL);
	dump_make(&before, desk.model.fd);
	model_mkdir(&desk.model, "new");
	for (int i = 0; i < 2 * SNAPSHOT_ENTRIES_MAX + 1000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%sf%d", i % 2 ? "new/" : "", i);
		assert_int_equal(mknodat(desk.model.fd, name, S_IFREG | 0600, 0), 0);
	}
	desk_restore_all(&desk, snapshot);
	dump_make(&after, desk.model.fd);
	dump_assert_equal(&before, &after);
	dump_release(&before);
	dump_release(&after);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* Deeper than a look goes: what is seen is removed, the rest is named. */
static void test_deep_new(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
	int at;

	(void)state;
	desk_open(&desk, 1);
	snapshot = desk_take(&desk, NULL);
	model_write(&desk.model, "new", "text");
	at = dup(desk.model.fd);
	for (int depth = 0; depth < 100; depth++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	close(at);
	desk_restore(&desk, snapshot, &restored);
	assert_notes(&restored.removed, "new \n");
	assert_int_equal(restored.failed.count, 1);
	assert_int_equal(restored.failed.list[0].why, WHY_UNSEEN);
	assert_int_equal(restored.stop, STOP_DEPTH);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* The disk of the workspace is full: a file is there, old or new, and it is named. */
static void test_full_disk(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	char path[] = "/tmp/snapshot_test_XXXXXX";
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
	cleanup_fd int fd = -1;
	cleanup_free char *fill = mem_zalloc(4096);

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can mount\n");
		skip();
	}
	assert_non_null(mkdtemp(path));
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=256k") != 0) {
		rmdir(path);
		print_message("skipped: mounting a tmpfs is not permitted\n");
		skip();
	}
	desk_open(&desk, 1);
	tree_release(&desk.tree);
	assert_int_equal(tree_open(&desk.tree, path, NULL), 0);
	memset(fill, 'a', 4095);
	fd = openat(desk.tree.root, "gone", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, fill, 4095), 4095);
	close(fd_take(&fd));
	fd = openat(desk.tree.root, "changed", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, fill, 4095), 4095);
	snapshot = desk_take(&desk, NULL);
	assert_int_equal(pwrite(fd, "!", 1, 0), 1);
	close(fd_take(&fd));
	assert_int_equal(unlinkat(desk.tree.root, "gone", 0), 0);
	{ /* What fills it is no new file, but one from before, so that it stays. */
		struct snapshot *again;
		const struct snapshot_limits limits = {
			.entries_max = 10, .file_bytes_max = 5000, .sum_bytes_max = 8190};
		const struct snapshot_work work = {.tree = &desk.tree,
						   .time_us_max = SNAPSHOT_TAKE_US_MAX};

		fd = openat(desk.tree.root, "gone", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, fill, 4095), 4095);
		close(fd_take(&fd));
		assert_int_equal(
			pwrite(fd = openat(desk.tree.root, "changed", O_WRONLY | O_CLOEXEC), "a", 1,
			       0),
			1);
		close(fd_take(&fd));
		fd = openat(desk.tree.root, "zfill", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		again = snapshot_take(&work, desk.store, &limits, snapshot);
		snapshot_free(snapshot);
		snapshot = again;
		assert_int_equal(unlinkat(desk.tree.root, "gone", 0), 0);
		while (write(fd, fill, 4096) == 4096)
			continue;
		assert_int_equal(errno, ENOSPC);
		close(fd_take(&fd));
		fd = openat(desk.tree.root, "changed", O_WRONLY | O_CLOEXEC);
		assert_int_equal(pwrite(fd, "!", 1, 0), 1);
		close(fd_take(&fd));
	}
	/* zfill was empty: it is restored last, so there is no room for the others but in place. */
	desk_restore(&desk, snapshot, &restored);
	assert_notes(&restored.restored, "changed \nzfill \n");
	assert_notes(&restored.failed, "gone no_space\n");
	snapshot_free(snapshot);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	rmdir(path);
	desk_close(&desk);
}

/* A workspace of an overlay: what is restored goes into its upper layer. */
static void test_overlay(void **state)
{
	static const char options[] = "lowerdir=lower,upperdir=upper,workdir=work,userxattr";
	char path[] = "/tmp/snapshot_test_XXXXXX";
	cleanup_fd int top = -1, here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int lower = -1;
	cleanup_buf struct buf lines = BUF_INIT;
	struct desk desk;
	struct snapshot *snapshot;
	struct dump before, after, below, below_after;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can mount\n");
		skip();
	}
	assert_non_null(mkdtemp(path));
	assert_int_equal(chdir(path), 0);
	top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (const char *const *name = (const char *const[]){"lower", "upper", "work", "merged",
							     "lower/d", "lower/gone", NULL};
	     *name; name++)
		assert_int_equal(mkdir(*name, 0755), 0);
	desk_open(&desk, 1);
	close(desk.model.fd);
	desk.model.fd = open("lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	model_write(&desk.model, "a", "below");
	model_write(&desk.model, "b", "below");
	model_write(&desk.model, "d/c", "below");
	model_write(&desk.model, "gone/e", "below");
	lower = dup(desk.model.fd);
	close(desk.model.fd);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("overlay", "merged", "overlay", 0, options) != 0)
		fail_msg("an overlay cannot be mounted: %s", strerror(errno));
	desk.model.fd = open("merged", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tree_release(&desk.tree);
	assert_int_equal(tree_adopt(&desk.tree, dup(desk.model.fd), NULL), 0);
	snapshot = desk_take(&desk, NULL);
	dump_make(&before, desk.model.fd);
	dump_make(&below, lower);
	model_write(&desk.model, "a", "changed");
	model_write(&desk.model, "d/c", "changed");
	model_write(&desk.model, "d/new", "new");
	assert_int_equal(unlinkat(desk.model.fd, "b", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "gone/e", 0), 0);
	assert_int_equal(unlinkat(desk.model.fd, "gone", AT_REMOVEDIR), 0);
	desk_diff(&desk, snapshot, &lines);
	assert_string_equal(buf_bytes(&lines), "changed a\nchanged d/c\ncreated d/new\n"
					       "deleted b\ndeleted gone/e\n");
	desk_restore_all(&desk, snapshot);
	dump_make(&after, desk.model.fd);
	dump_assert_equal(&before, &after);
	dump_make(&below_after, lower);
	dump_assert_equal(&below, &below_after);
	desk_diff(&desk, snapshot, &lines);
	assert_string_equal(buf_bytes(&lines), "");
	dump_release(&before);
	dump_release(&after);
	dump_release(&below);
	dump_release(&below_after);
	snapshot_free(snapshot);
	tree_release(&desk.tree);
	close(desk.model.fd);
	assert_int_equal(umount("merged"), 0);
	desk.model.fd = open(desk.model.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	desk_close(&desk);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(file_remove_tree(AT_FDCWD, path, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),     cmocka_unit_test(test_open_files),
		cmocka_unit_test(test_kinds),     cmocka_unit_test(test_hard_links),
		cmocka_unit_test(test_modes),     cmocka_unit_test(test_named),
		cmocka_unit_test(test_deep_new),  cmocka_unit_test(test_many_new),
		cmocka_unit_test(test_full_disk), cmocka_unit_test(test_overlay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
