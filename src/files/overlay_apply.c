/*
 * From the layer into the directory; see overlay.h.
 *
 * What is read is the session's, which may still run and change it; what is written is a person's.
 * So a file is read through the descriptor of a regular file, and written as every file is
 * (tree.h): beneath the directory, without following symlinks, under another name first.
 */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "files/overlay.h"
#include "sandbox/protect.h"

static bool is_within(const char *path, const char *top)
{
	size_t len = strlen(top);

	return len == 0 || strcmp(top, ".") == 0 ||
	       (strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

static bool is_asked_for(const struct overlay_apply *how, const char *path)
{
	if (!how->paths)
		return true;
	for (size_t i = 0; how->paths[i]; i++)
		if (is_within(path, how->paths[i]))
			return true;
	return false;
}

static bool is_named(const struct overlay_apply *how, const char *path)
{
	for (size_t i = 0; how->paths && how->paths[i]; i++)
		if (strcmp(path, how->paths[i]) == 0)
			return true;
	return false;
}

/* Whether a symlink at `path` with this text leads out of the directory, by its words alone. */
static bool leads_out(const char *path, const char *text)
{
	long depth = 0;

	if (text[0] == '/')
		return true;
	for (; *path; path++)
		depth += *path == '/';
	while (*text) {
		size_t len = strcspn(text, "/");

		if (len == 2 && memcmp(text, "..", 2) == 0)
			depth--;
		else if (len > 0 && !(len == 1 && text[0] == '.'))
			depth++;
		if (depth < 0)
			return true;
		text += len;
		text += *text == '/';
	}
	return false;
}

static enum overlay_held judge(const struct overlay *overlay, const struct overlay_apply *how,
			       const struct overlay_item *item)
{
	if (item->change != OVERLAY_REMOVED && item->kind == TREE_OTHER)
		return OVERLAY_SPECIAL;
	if (item->change != OVERLAY_REMOVED && item->kind == TREE_LINK) {
		cleanup_free char *text = overlay_link_text(&overlay->upper, item->path, NULL);

		if (!text || leads_out(item->path, text))
			return OVERLAY_LEADS_OUT;
	}
	if (protect_covers(how->protect, item->path, item->kind == TREE_FOLDER) &&
	    !is_named(how, item->path))
		return OVERLAY_LATER;
	if (item->stale && !how->force)
		return OVERLAY_STALE;
	if (item->change == OVERLAY_CHANGED && item->kind != item->before &&
	    (item->kind == TREE_FOLDER || item->before == TREE_FOLDER) && !how->force)
		return OVERLAY_REPLACES;
	return OVERLAY_FINE;
}

static int copy_parts(const struct overlay *overlay, const char *path, const char *upload,
		      struct err *err)
{
	cleanup_fd int fd = tree_open_file(&overlay->upper, path, err);
	cleanup_free char *part = mem_resize(NULL, 1, TREE_PART_BYTES_MAX);
	uint64_t at = 0;

	if (fd < 0)
		return -1;
	for (;;) {
		ssize_t got = read(fd, part, TREE_PART_BYTES_MAX);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tree_fail(path, err);
		if (got == 0 && at > 0)
			return 0;
		if (tree_write(&overlay->lower, path, upload, at, part, (size_t)got, err) != 0)
			return -1;
		if (got == 0)
			return 0;
		at += (uint64_t)got;
	}
}

static int copy_file(const struct overlay *overlay, const struct overlay_item *item,
		     struct err *err)
{
	char upload[HASH_ID_SIZE];

	hash_random_id(upload);
	if (copy_parts(overlay, item->path, upload, err) != 0 ||
	    tree_commit(&overlay->lower, item->path, upload, item->mode, err) != 0) {
		tree_abandon(&overlay->lower, item->path, upload);
		return -1;
	}
	return 0;
}

static int copy_link(const struct overlay *overlay, const struct overlay_item *item,
		     struct err *err)
{
	cleanup_free char *text = overlay_link_text(&overlay->upper, item->path, err);

	if (!text)
		return -1;
	if (leads_out(item->path, text)) /* it has been changed since it was judged */
		return err_set(err, ERR_BUSY, "the session changes its files; try again");
	return tree_link(&overlay->lower, item->path, text, err);
}

static int apply_one(const struct overlay *overlay, const struct overlay_item *item,
		     struct err *err)
{
	bool replaces = item->change == OVERLAY_CHANGED &&
			(item->kind != TREE_FILE || item->before != TREE_FILE);

	if ((item->change == OVERLAY_REMOVED || replaces) &&
	    tree_remove(&overlay->lower, item->path, true, err) != 0)
		return -1;
	if (item->change == OVERLAY_REMOVED)
		return 0;
	switch (item->kind) {
	case TREE_FILE:
		return copy_file(overlay, item, err);
	case TREE_FOLDER:
		return tree_make_folder(&overlay->lower, item->path, err);
	case TREE_LINK:
		return copy_link(overlay, item, err);
	case TREE_OTHER:
		break;
	}
	return 0;
}

/* Notes how the directory's file is now, so that this is no change by somebody else. */
static void note_applied(struct overlay *overlay, const char *path)
{
	cleanup_buf struct buf key = BUF_INIT;
	struct tree_status status;

	hash_base64_encode(&key, path, strlen(path));
	if (tree_look(&overlay->lower, path, &status, NULL) == 0)
		json_set_int(json_get(overlay->base, "applied"), buf_bytes(&key), status.ctime_ns);
	else
		json_remove(json_get(overlay->base, "applied"), buf_bytes(&key));
}

static int save_base(const struct overlay *overlay, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, overlay->base);
	buf_append_char(&text, '\n');
	return file_replace(overlay->folder, "base.json", buf_bytes(&text), text.len, 0600, err);
}

static int check_names(const struct overlay_diff *diff, const struct overlay_apply *how,
		       struct err *err)
{
	for (size_t i = 0; how->paths && how->paths[i]; i++) {
		cleanup_buf struct buf shown = BUF_INIT;
		bool found = false;

		for (size_t j = 0; j < diff->count && !found; j++)
			found = is_within(diff->items[j].path, how->paths[i]);
		if (found)
			continue;
		text_escape(&shown, how->paths[i], strlen(how->paths[i]), false, false);
		return err_set(err, ERR_NOT_FOUND, "%.150s has not been changed",
			       buf_bytes(&shown));
	}
	return 0;
}

/* Tells of all that stands in the way of the whole. */
static size_t count_conflicts(const struct overlay *overlay, const struct overlay_diff *diff,
			      const struct overlay_apply *how)
{
	size_t count = 0;

	for (size_t i = 0; i < diff->count; i++) {
		enum overlay_held held;

		if (!is_asked_for(how, diff->items[i].path))
			continue;
		held = judge(overlay, how, &diff->items[i]);
		if (held != OVERLAY_STALE && held != OVERLAY_REPLACES)
			continue;
		how->tell(how->data, &diff->items[i], held);
		count++;
	}
	return count;
}

int overlay_apply(struct overlay *overlay, const struct overlay_diff *diff,
		  const struct overlay_apply *how, struct err *err)
{
	int result = 0;
	size_t conflicts;

	if (json_type_of(json_get(overlay->base, "applied")) != JSON_OBJECT)
		json_set(overlay->base, "applied", json_new_object());
	if (check_names(diff, how, err) != 0)
		return -1;
	conflicts = count_conflicts(overlay, diff, how);
	if (conflicts > 0)
		return err_set(err, ERR_BUSY,
			       "%zu of them cannot be applied as they are, so nothing was; look at "
			       "them, then name others or use --force",
			       conflicts);
	for (size_t i = 0; i < diff->count && result == 0; i++) {
		const struct overlay_item *item = &diff->items[i];
		enum overlay_held held;

		if (!is_asked_for(how, item->path))
			continue;
		held = judge(overlay, how, item);
		if (held == OVERLAY_FINE)
			result = apply_one(overlay, item, err);
		if (held == OVERLAY_FINE && result == 0)
			note_applied(overlay, item->path);
		if (result == 0)
			how->tell(how->data, item, held);
	}
	if (save_base(overlay, result == 0 ? err : NULL) != 0)
		return -1;
	return result;
}
