/*
 * The model, its edits and its differences; see tree_kit.h.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "keeper/tree_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { NAMES = 5, DEPTH_MAX = 4 };

void tree_open(struct tree *tree, const char *name, uint64_t seed)
{
	memset(tree, 0, sizeof(*tree));
	/* In memory if there is a place: a hundred thousand files are slow to make and remove on a
	 * busy disk. */
	snprintf(tree->root, sizeof(tree->root), "%s/%s_XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", name);
	assert_non_null(mkdtemp(tree->root));
	tree->fd = open(tree->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree->fd >= 0);
	tree->random = seed * 2 + 1;
}

void tree_close(struct tree *tree)
{
	close(tree->fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, tree->root, NULL), 0);
}

void tree_write(const struct tree *tree, const char *path, const char *text)
{
	cleanup_fd int fd = openat(tree->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

void tree_mkdir(const struct tree *tree, const char *path)
{
	assert_int_equal(mkdirat(tree->fd, path, 0700), 0);
}

/* --- the model
 * ---------------------------------------------------------------------------------- */

static unsigned pick(struct tree *tree, size_t below)
{
	tree->random = tree->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((tree->random >> 33) % below);
}

static struct tree_item *find(struct tree *tree, const char *path)
{
	for (size_t i = 0; i < tree->count; i++)
		if (strcmp(tree->items[i].path, path) == 0)
			return &tree->items[i];
	return NULL;
}

static bool is_beneath(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static void forget(struct tree *tree, const char *path)
{
	for (size_t i = 0; i < tree->count;) {
		if (strcmp(tree->items[i].path, path) == 0 || is_beneath(tree->items[i].path, path))
			tree->items[i] = tree->items[--tree->count];
		else
			i++;
	}
}

static void learn(struct tree *tree, const char *path, bool is_folder)
{
	struct tree_item *item = find(tree, path);

	if (!item) {
		item = &tree->items[tree->count++];
		snprintf(item->path, sizeof(item->path), "%s", path);
	}
	item->is_folder = is_folder;
	item->version = ++tree->version;
}

/* A path in a folder that is there; small alphabet, so that edits meet. */
static void pick_path(struct tree *tree, char path[static TREE_PATH_MAX])
{
	static const char *const names[NAMES] = {"a", "b c", "d.csv", "e\n\xff", "f"};
	unsigned depth = 0, at = pick(tree, tree->count + 1);

	path[0] = '\0';
	if (at < tree->count && tree->items[at].is_folder) {
		for (const char *c = tree->items[at].path; *c; c++)
			depth += *c == '/';
		if (depth < DEPTH_MAX)
			snprintf(path, TREE_PATH_MAX, "%s/", tree->items[at].path);
	}
	snprintf(path + strlen(path), TREE_PATH_MAX - strlen(path), "%s", names[pick(tree, NAMES)]);
}

/* An item of this kind, or NULL. */
static struct tree_item *pick_item(struct tree *tree, bool is_folder)
{
	size_t start = tree->count ? pick(tree, tree->count) : 0;

	for (size_t i = 0; i < tree->count; i++) {
		struct tree_item *item = &tree->items[(start + i) % tree->count];

		if (item->is_folder == is_folder)
			return item;
	}
	return NULL;
}

/* --- edits
 * -------------------------------------------------------------------------------------- */

static void write_version(struct tree *tree, const char *path)
{
	cleanup_fd int fd =
		openat(tree->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[2048];

	if (fd < 0) { /* a symlink stands there */
		assert_int_equal(errno, ELOOP);
		assert_int_equal(unlinkat(tree->fd, path, 0), 0);
		write_version(tree, path);
		return;
	}
	memset(text, 'a' + (int)(tree->version % 26), sizeof(text));
	assert_int_equal(file_write_all(fd, text,
					tree->same_size ? 100 : tree->version % sizeof(text), NULL),
			 0);
}

static void edit_write(struct tree *tree)
{
	char path[TREE_PATH_MAX];
	struct tree_item *item;

	pick_path(tree, path);
	item = find(tree, path);
	if ((item && item->is_folder) || tree->count >= TREE_ITEMS_MAX - 1)
		return;
	learn(tree, path, false);
	write_version(tree, path);
}

/* As careful programs write: a file beside it, then its name. */
static void edit_replace(struct tree *tree)
{
	struct tree_item *item = pick_item(tree, false);

	if (!item)
		return;
	learn(tree, item->path, false);
	write_version(tree, "temp");
	assert_int_equal(renameat(tree->fd, "temp", tree->fd, item->path), 0);
}

static void edit_link(struct tree *tree)
{
	char path[TREE_PATH_MAX], target[32];
	struct tree_item *item;

	pick_path(tree, path);
	item = find(tree, path);
	if (item || tree->count >= TREE_ITEMS_MAX - 1)
		return;
	learn(tree, path, false);
	snprintf(target, sizeof(target), tree->version % 2 ? ".." : "/no/%u", tree->version);
	assert_int_equal(symlinkat(target, tree->fd, path), 0);
}

static void edit_mkdir(struct tree *tree)
{
	char path[TREE_PATH_MAX];

	pick_path(tree, path);
	if (find(tree, path) || tree->count >= TREE_ITEMS_MAX - 1)
		return;
	learn(tree, path, true);
	tree_mkdir(tree, path);
}

static void edit_remove(struct tree *tree, bool is_folder)
{
	struct tree_item *item = pick_item(tree, is_folder);
	char path[TREE_PATH_MAX];

	if (!item)
		return;
	snprintf(path, sizeof(path), "%s", item->path);
	forget(tree, path);
	if (is_folder) {
		cleanup_free char *whole = mem_format("%s/%s", tree->root, path);

		assert_int_equal(file_remove_tree(AT_FDCWD, whole, NULL), 0);
	} else {
		assert_int_equal(unlinkat(tree->fd, path, 0), 0);
	}
}

/* A renamed file has another ctime, so another version; those in a renamed folder have not. */
static void edit_rename(struct tree *tree, bool is_folder)
{
	struct tree_item *item = pick_item(tree, is_folder);
	char from[TREE_PATH_MAX], to[TREE_PATH_MAX];

	pick_path(tree, to);
	if (!item || find(tree, to) || is_beneath(to, item->path) ||
	    strlen(to) + strlen(item->path) > TREE_PATH_MAX / 2)
		return;
	snprintf(from, sizeof(from), "%s", item->path);
	assert_int_equal(renameat(tree->fd, from, tree->fd, to), 0);
	for (size_t i = 0; i < tree->count; i++) {
		cleanup_free char *old = mem_string(tree->items[i].path);

		if (strcmp(old, from) == 0 || is_beneath(old, from))
			snprintf(tree->items[i].path, TREE_PATH_MAX, "%s%s", to,
				 old + strlen(from));
	}
	if (is_folder)
		return;
	learn(tree, to, false);
	if (!tree->same_size) /* there and back in a tick of the clock would show in nothing */
		write_version(tree, to);
}

void tree_edit(struct tree *tree)
{
	switch (pick(tree, 12)) {
	case 0:
	case 1:
		edit_mkdir(tree);
		break;
	case 2:
		edit_replace(tree);
		break;
	case 3:
		edit_link(tree);
		break;
	case 4:
	case 5:
		edit_remove(tree, false);
		break;
	case 6:
		edit_remove(tree, true);
		break;
	case 7:
		edit_rename(tree, false);
		break;
	case 8:
		edit_rename(tree, true);
		break;
	default:
		edit_write(tree);
		break;
	}
}

/* --- differences
 * -------------------------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts and joins the lines, and frees them. */
static void join(char **lines, size_t count, struct buf *text)
{
	if (count > 0)
		qsort(lines, count, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < count; i++) {
		buf_append_string(text, lines[i]);
		buf_append_char(text, '\n');
		free(lines[i]);
	}
}

void tree_expect(const struct tree *old, const struct tree *new, struct buf *text)
{
	char *lines[2 * TREE_ITEMS_MAX];
	size_t count = 0;
	struct tree before = *old, now = *new;

	for (size_t i = 0; i < now.count; i++) {
		const struct tree_item *item = &now.items[i], *was = find(&before, item->path);

		if (!item->is_folder && (!was || was->is_folder))
			lines[count++] = mem_format("created %s", item->path);
		else if (!item->is_folder && was->version != item->version)
			lines[count++] = mem_format("changed %s", item->path);
	}
	for (size_t i = 0; i < before.count; i++) {
		const struct tree_item *item = &before.items[i], *is = find(&now, item->path);

		if (!item->is_folder && (!is || is->is_folder))
			lines[count++] = mem_format("deleted %s", item->path);
	}
	join(lines, count, text);
}

void tree_found(const struct changes *changes, struct buf *text)
{
	static const char *const kinds[] = {"created", "changed", "deleted"};
	char *lines[CHANGES_MAX];

	for (size_t i = 0; i < changes->count; i++)
		lines[i] = mem_format("%s %s", kinds[changes->list[i].kind], changes->list[i].path);
	join(lines, changes->count, text);
}
