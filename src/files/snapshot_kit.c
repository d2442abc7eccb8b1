/*
 * A workspace to edit; see snapshot_kit.h.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "files/snapshot_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

void desk_open(struct desk *desk, uint64_t seed)
{
	struct err err = ERR_INIT;

	memset(desk, 0, sizeof(*desk));
	model_open(&desk->model, "snapshot_test", seed);
	desk->tree = (struct tree)TREE_INIT;
	assert_int_equal(fchmod(desk->model.fd, 0755), 0);
	assert_int_equal(tree_adopt(&desk->tree, dup(desk->model.fd), &err), 0);
	desk->aside = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	desk->store = store_new(desk->aside, SNAPSHOT_STORE_BYTES_MAX, &err);
	if (!desk->store)
		fail_msg("%s", err.text);
}

void desk_close(struct desk *desk)
{
	store_free(desk->store);
	close(desk->aside);
	tree_release(&desk->tree);
	model_close(&desk->model);
}

static struct snapshot_work work_of(const struct desk *desk)
{
	return (struct snapshot_work){.tree = &desk->tree, .time_us_max = SNAPSHOT_RESTORE_US_MAX};
}

struct snapshot *desk_take(struct desk *desk, const struct snapshot *before)
{
	const struct snapshot_work work = work_of(desk);
	const struct snapshot_limits limits = SNAPSHOT_LIMITS;

	return snapshot_take(&work, desk->store, &limits, before);
}

void desk_restore(struct desk *desk, const struct snapshot *snapshot,
		  struct snapshot_restored *restored)
{
	const struct snapshot_work work = work_of(desk);

	snapshot_restore(snapshot, &work, NULL, restored);
}

void desk_restore_all(struct desk *desk, const struct snapshot *snapshot)
{
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;

	desk_restore(desk, snapshot, &restored);
	assert_notes(&restored.failed, "");
	assert_notes(&restored.unprotected, "");
	assert_int_equal(restored.stop, STOP_NOTHING);
}

void desk_diff(struct desk *desk, const struct snapshot *snapshot, struct buf *lines)
{
	const struct snapshot_work work = work_of(desk);
	struct changes changes = CHANGES_INIT;

	buf_clear(lines);
	snapshot_diff(snapshot, &work, &changes);
	model_found(&changes, lines);
	changes_release(&changes);
}

/* --- dumps --- */

char *content_of(int root, const char *path, size_t *len)
{
	cleanup_fd int fd = openat(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct buf out = BUF_INIT;
	ssize_t got;

	if (fd < 0)
		fail_msg("%s is not there", path);
	do {
		got = read(fd, buf_reserve(&out, 64 << 10), 64 << 10);
		assert_true(got >= 0);
		buf_added(&out, (size_t)got);
	} while (got > 0);
	buf_append_char(&out, '\0');
	*len = out.len - 1;
	return buf_take(&out, NULL);
}

static char *text_of(int root, const char *path, const struct stat *st)
{
	char link[4096];
	ssize_t len;
	size_t size;

	if (S_ISREG(st->st_mode)) {
		cleanup_free char *content = content_of(root, path, &size);

		return mem_format("file %o %zu %s", st->st_mode & 0777, size, content);
	}
	if (S_ISLNK(st->st_mode)) {
		len = readlinkat(root, path, link, sizeof(link) - 1);
		assert_true(len >= 0);
		link[len] = '\0';
		return mem_format("link %s", link);
	}
	return mem_format("%s %o", S_ISDIR(st->st_mode) ? "folder" : "other", st->st_mode & 07777);
}

static void dump_add(struct dump *dump, int root, const char *path)
{
	struct dump_item *item;
	struct stat st;

	if (dump->count == dump->room) {
		dump->room = dump->room ? 2 * dump->room : 16;
		dump->items = mem_resize(dump->items, dump->room, sizeof(*item));
	}
	item = &dump->items[dump->count++];
	assert_int_equal(fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	item->path = mem_string(path);
	item->text = text_of(root, path, &st);
	item->folder = S_ISDIR(st.st_mode);
	item->mtime_ns = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

static void dump_folder(struct dump *dump, int root, const char *path)
{
	DIR *dir = fdopendir(openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;

	assert_non_null(dir);
	dump_add(dump, root, path);
	while ((entry = readdir(dir))) {
		cleanup_free char *inner = mem_format("%s/%s", path, entry->d_name);

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (entry->d_type == DT_DIR)
			dump_folder(dump, root, inner);
		else
			dump_add(dump, root, inner);
	}
	closedir(dir);
}

static int compare_items(const void *a, const void *b)
{
	const struct dump_item *left = a, *right = b;

	return strcmp(left->path, right->path);
}

void dump_make(struct dump *dump, int root)
{
	*dump = (struct dump){.items = NULL, .count = 0, .room = 0};
	dump_folder(dump, root, ".");
	qsort(dump->items, dump->count, sizeof(*dump->items), compare_items);
}

void dump_release(struct dump *dump)
{
	for (size_t i = 0; i < dump->count; i++) {
		free(dump->items[i].path);
		free(dump->items[i].text);
	}
	free(dump->items);
}

void dump_assert_equal(const struct dump *expected, const struct dump *found)
{
	for (size_t i = 0; i < expected->count && i < found->count; i++) {
		const struct dump_item *a = &expected->items[i], *b = &found->items[i];

		if (strcmp(a->path, b->path) != 0)
			fail_msg("expected %s, found %s", a->path, b->path);
		if (strcmp(a->text, b->text) != 0)
			fail_msg("%s: expected\n%s\nfound\n%s", a->path, a->text, b->text);
		if (a->mtime_ns != b->mtime_ns)
			fail_msg("%s: expected mtime %lld, found %lld", a->path,
				 (long long)a->mtime_ns, (long long)b->mtime_ns);
	}
	assert_int_equal(expected->count, found->count);
}

/* --- what two dumps say differs --- */

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void dump_expect(const struct dump *old, const struct dump *new, struct buf *lines)
{
	char **list = mem_resize(NULL, old->count + new->count + 1, sizeof(*list));
	size_t count = 0, i = 0, j = 0;

	while (i < old->count || j < new->count) {
		const struct dump_item *a = i < old->count ? &old->items[i] : NULL;
		const struct dump_item *b = j < new->count ? &new->items[j] : NULL;
		int order = !a ? 1 : !b ? -1 : strcmp(a->path, b->path);
		bool other = order == 0 && a->folder != b->folder;

		if ((order < 0 || other) && !a->folder)
			list[count++] = mem_format("deleted %s", a->path + 2);
		if ((order > 0 || other) && !b->folder)
			list[count++] = mem_format("created %s", b->path + 2);
		if (order == 0 && !other && !a->folder && strcmp(a->text, b->text) != 0)
			list[count++] = mem_format("changed %s", a->path + 2);
		i += order <= 0;
		j += order >= 0;
	}
	qsort(list, count, sizeof(*list), compare_lines);
	for (size_t k = 0; k < count; k++) {
		buf_append_string(lines, list[k]);
		buf_append_char(lines, '\n');
		free(list[k]);
	}
	free(list);
}

/* --- notes --- */

void notes_text(const struct snapshot_notes *notes, struct buf *text)
{
	for (size_t i = 0; i < notes->count; i++)
		buf_printf(text, "%s %s\n", notes->list[i].path,
			   snapshot_why_name(notes->list[i].why));
	if (notes->more > 0)
		buf_printf(text, "and %llu more\n", (unsigned long long)notes->more);
}

void assert_notes(const struct snapshot_notes *notes, const char *text)
{
	cleanup_buf struct buf found = BUF_INIT;

	notes_text(notes, &found);
	assert_string_equal(buf_bytes(&found), text);
}
