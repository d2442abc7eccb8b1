/*
 * The model, its edits and its differences; see model_kit.h.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "files/model_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { NAMES = 5, DEPTH_MAX = 4 };

void model_open(struct model *model, const char *name, uint64_t seed)
{
	memset(model, 0, sizeof(*model));
	/* In memory if there is a place: a hundred thousand files are slow to make and remove on a
	 * busy disk. */
	snprintf(model->root, sizeof(model->root), "%s/%s_XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", name);
	assert_non_null(mkdtemp(model->root));
	model->fd = open(model->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(model->fd >= 0);
	model->random = seed * 2 + 1;
}

void model_close(struct model *model)
{
	close(model->fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, model->root, NULL), 0);
}

void model_write(const struct model *model, const char *path, const char *text)
{
	cleanup_fd int fd = openat(model->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

void model_mkdir(const struct model *model, const char *path)
{
	assert_int_equal(mkdirat(model->fd, path, 0700), 0);
}

/* --- the model
 * ---------------------------------------------------------------------------------- */

static unsigned pick(struct model *model, size_t below)
{
	model->random = model->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((model->random >> 33) % below);
}

static struct model_item *find(struct model *model, const char *path)
{
	for (size_t i = 0; i < model->count; i++)
		if (strcmp(model->items[i].path, path) == 0)
			return &model->items[i];
	return NULL;
}

static bool is_beneath(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static void forget(struct model *model, const char *path)
{
	for (size_t i = 0; i < model->count;) {
		if (strcmp(model->items[i].path, path) == 0 ||
		    is_beneath(model->items[i].path, path))
			model->items[i] = model->items[--model->count];
		else
			i++;
	}
}

static void learn(struct model *model, const char *path, bool is_folder)
{
	struct model_item *item = find(model, path);

	if (!item) {
		item = &model->items[model->count++];
		snprintf(item->path, sizeof(item->path), "%s", path);
	}
	item->is_folder = is_folder;
	item->version = ++model->version;
}

/* A path in a folder that is there; small alphabet, so that edits meet. */
static void pick_path(struct model *model, char path[static MODEL_PATH_MAX])
{
	static const char *const names[NAMES] = {"a", "b c", "d.csv", "e\n\xff", "f"};
	unsigned depth = 0, at = pick(model, model->count + 1);

	path[0] = '\0';
	if (at < model->count && model->items[at].is_folder) {
		for (const char *c = model->items[at].path; *c; c++)
			depth += *c == '/';
		if (depth < DEPTH_MAX)
			snprintf(path, MODEL_PATH_MAX, "%s/", model->items[at].path);
	}
	snprintf(path + strlen(path), MODEL_PATH_MAX - strlen(path), "%s",
		 names[pick(model, NAMES)]);
}

/* An item of this kind, or NULL. */
static struct model_item *pick_item(struct model *model, bool is_folder)
{
	size_t start = model->count ? pick(model, model->count) : 0;

	for (size_t i = 0; i < model->count; i++) {
		struct model_item *item = &model->items[(start + i) % model->count];

		if (item->is_folder == is_folder)
			return item;
	}
	return NULL;
}

/* --- edits
 * -------------------------------------------------------------------------------------- */

static void write_version(struct model *model, const char *path)
{
	cleanup_fd int fd = openat(model->fd, path,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[2048];

	if (fd < 0) { /* a symlink stands there */
		assert_int_equal(errno, ELOOP);
		assert_int_equal(unlinkat(model->fd, path, 0), 0);
		write_version(model, path);
		return;
	}
	memset(text, 'a' + (int)(model->version % 26), sizeof(text));
	assert_int_equal(file_write_all(fd, text,
					model->same_size ? 100 : model->version % sizeof(text),
					NULL),
			 0);
}

static void edit_write(struct model *model)
{
	char path[MODEL_PATH_MAX];
	struct model_item *item;

	pick_path(model, path);
	item = find(model, path);
	if ((item && item->is_folder) || model->count >= MODEL_ITEMS_MAX - 1)
		return;
	learn(model, path, false);
	write_version(model, path);
}

/* As careful programs write: a file beside it, then its name. */
static void edit_replace(struct model *model)
{
	struct model_item *item = pick_item(model, false);

	if (!item)
		return;
	learn(model, item->path, false);
	write_version(model, "temp");
	assert_int_equal(renameat(model->fd, "temp", model->fd, item->path), 0);
}

static void edit_link(struct model *model)
{
	char path[MODEL_PATH_MAX], target[32];
	struct model_item *item;

	pick_path(model, path);
	item = find(model, path);
	if (item || model->count >= MODEL_ITEMS_MAX - 1)
		return;
	learn(model, path, false);
	snprintf(target, sizeof(target), model->version % 2 ? ".." : "/no/%u", model->version);
	assert_int_equal(symlinkat(target, model->fd, path), 0);
}

static void edit_mkdir(struct model *model)
{
	char path[MODEL_PATH_MAX];

	pick_path(model, path);
	if (find(model, path) || model->count >= MODEL_ITEMS_MAX - 1)
		return;
	learn(model, path, true);
	model_mkdir(model, path);
}

static void edit_remove(struct model *model, bool is_folder)
{
	struct model_item *item = pick_item(model, is_folder);
	char path[MODEL_PATH_MAX];

	if (!item)
		return;
	snprintf(path, sizeof(path), "%s", item->path);
	forget(model, path);
	if (is_folder) {
		cleanup_free char *whole = mem_format("%s/%s", model->root, path);

		assert_int_equal(file_remove_tree(AT_FDCWD, whole, NULL), 0);
	} else {
		assert_int_equal(unlinkat(model->fd, path, 0), 0);
	}
}

/* A renamed file has another ctime, so another version; those in a renamed folder have not. */
static void edit_rename(struct model *model, bool is_folder)
{
	struct model_item *item = pick_item(model, is_folder);
	char from[MODEL_PATH_MAX], to[MODEL_PATH_MAX];

	pick_path(model, to);
	if (!item || find(model, to) || is_beneath(to, item->path) ||
	    strlen(to) + strlen(item->path) > MODEL_PATH_MAX / 2)
		return;
	snprintf(from, sizeof(from), "%s", item->path);
	assert_int_equal(renameat(model->fd, from, model->fd, to), 0);
	for (size_t i = 0; i < model->count; i++) {
		cleanup_free char *old = mem_string(model->items[i].path);

		if (strcmp(old, from) == 0 || is_beneath(old, from))
			snprintf(model->items[i].path, MODEL_PATH_MAX, "%s%s", to,
				 old + strlen(from));
	}
	if (is_folder)
		return;
	learn(model, to, false);
	if (!model->same_size) /* there and back in a tick of the clock would show in nothing */
		write_version(model, to);
}

void model_edit(struct model *model)
{
	switch (pick(model, 12)) {
	case 0:
	case 1:
		edit_mkdir(model);
		break;
	case 2:
		edit_replace(model);
		break;
	case 3:
		edit_link(model);
		break;
	case 4:
	case 5:
		edit_remove(model, false);
		break;
	case 6:
		edit_remove(model, true);
		break;
	case 7:
		edit_rename(model, false);
		break;
	case 8:
		edit_rename(model, true);
		break;
	default:
		edit_write(model);
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

void model_expect(const struct model *old, const struct model *new, struct buf *text)
{
	char *lines[2 * MODEL_ITEMS_MAX];
	size_t count = 0;
	struct model before = *old, now = *new;

	for (size_t i = 0; i < now.count; i++) {
		const struct model_item *item = &now.items[i], *was = find(&before, item->path);

		if (!item->is_folder && (!was || was->is_folder))
			lines[count++] = mem_format("created %s", item->path);
		else if (!item->is_folder && was->version != item->version)
			lines[count++] = mem_format("changed %s", item->path);
	}
	for (size_t i = 0; i < before.count; i++) {
		const struct model_item *item = &before.items[i], *is = find(&now, item->path);

		if (!item->is_folder && (!is || is->is_folder))
			lines[count++] = mem_format("deleted %s", item->path);
	}
	join(lines, count, text);
}

void model_found(const struct changes *changes, struct buf *text)
{
	static const char *const kinds[] = {"created", "changed", "deleted"};
	char *lines[CHANGES_MAX];

	for (size_t i = 0; i < changes->count; i++)
		lines[i] = mem_format("%s %s", kinds[changes->list[i].kind], changes->list[i].path);
	join(lines, changes->count, text);
}
