/*
 * What is in a folder; see tree.h.
 *
 * Names are gathered first and sorted, then only those that are asked for are looked at: a folder
 * of a hundred thousand files is answered in parts.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "files/tree.h"

enum { READ_BYTES = 32 << 10 };

void tree_listing_release(struct tree_listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->entries[i].name);
	free(listing->entries);
	*listing = (struct tree_listing)TREE_LISTING_INIT;
}

static bool is_passed_over(const char *name)
{
	static const char ours[] = ".fumehood-", temp[] = ".tmp";
	size_t len = strlen(name);

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	return len >= sizeof(ours) + sizeof(temp) - 2 &&
	       memcmp(name, ours, sizeof(ours) - 1) == 0 &&
	       strcmp(name + len - (sizeof(temp) - 1), temp) == 0;
}

static void take_name(struct tree_listing *listing, size_t *room, const char *name)
{
	if (listing->count == *room) {
		*room = *room ? 2 * *room : 64;
		listing->entries = mem_resize(listing->entries, *room, sizeof(*listing->entries));
	}
	listing->entries[listing->count++] =
		(struct tree_entry){.name = mem_string(name), .len = strlen(name)};
}

static int read_names(int fd, const char *after, struct tree_listing *listing)
{
	_Alignas(struct dirent64) char buffer[READ_BYTES];
	size_t room = 0, seen = 0;
	ssize_t len;

	while ((len = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *item = (const void *)(buffer + at);

			at += item->d_reclen;
			if (is_passed_over(item->d_name))
				continue;
			if (++seen > TREE_NAMES_MAX) {
				listing->incomplete = true;
				return 0;
			}
			if (!after || strcmp(item->d_name, after) > 0)
				take_name(listing, &room, item->d_name);
		}
	}
	return len == 0 || errno == ENOENT ? 0 : -1; /* ENOENT: removed meanwhile */
}

static int compare_names(const void *left, const void *right)
{
	const struct tree_entry *a = left, *b = right;

	return strcmp(a->name, b->name);
}

/* Cuts to `max`, and looks at those; what has vanished meanwhile is left out. */
static void look_at_all(int fd, size_t max, struct tree_listing *listing)
{
	size_t kept = 0;

	for (size_t i = 0; i < listing->count; i++) {
		struct tree_entry *entry = &listing->entries[i];
		struct stat st;

		if (kept == max)
			listing->more = true;
		if (kept < max &&
		    fstatat(fd, entry->name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0) {
			tree_status_of(&st, &entry->status);
			listing->entries[kept++] = *entry;
		} else {
			free(entry->name);
		}
	}
	listing->count = kept;
}

int tree_list(const struct tree *tree, const char *path, const char *after, size_t max,
	      struct tree_listing *listing, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int fd = -1;

	if (tree_check_path(path, strlen(path), err) != 0)
		return -1;
	fd = tree_open_at(tree, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 || read_names(fd, after, listing) != 0)
		return tree_fail(path, err);
	if (listing->count > 1)
		qsort(listing->entries, listing->count, sizeof(*listing->entries), compare_names);
	look_at_all(fd, max < TREE_LIST_MAX ? max : TREE_LIST_MAX, listing);
	return 0;
}
