/*
 * /proc/self/cgroup gives "4:memory:/a/b" (version 1) or "0::/a/b" (version 2): a path from the
 * root of the hierarchy. /proc/self/mountinfo gives what of the hierarchy is mounted where; in a
 * container a part of it may be mounted as the root.
 */
#include "sandbox/cgroup_find.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { PROC_BYTES_MAX = 4 << 20 };

void cgroup_place_release(struct cgroup_place *place)
{
	free(place->mount);
	free(place->path);
	*place = (struct cgroup_place)CGROUP_PLACE_INIT;
}

static bool has_word(const char *list, size_t len, const char *word)
{
	size_t word_len = strlen(word);

	for (size_t at = 0; at < len;) {
		size_t part = 0;

		while (at + part < len && !strchr(", \n", list[at + part]))
			part++;
		if (part == word_len && memcmp(list + at, word, part) == 0)
			return true;
		at += part + 1;
	}
	return false;
}

bool cgroup_has_word(const char *list, const char *word)
{
	return has_word(list, strlen(list), word);
}

/* Our path in the hierarchy, owned by the caller; NULL. */
static char *find_path(const char *self, const char *controller)
{
	while (*self) {
		size_t len = strcspn(self, "\n");
		const char *list = memchr(self, ':', len);
		const char *path =
			list ? memchr(list + 1, ':', len - (size_t)(list + 1 - self)) : NULL;

		if (path) {
			size_t list_len = (size_t)(path - list - 1);

			if (*controller ? has_word(list + 1, list_len, controller) : list_len == 0)
				return mem_copy(path + 1, len - (size_t)(path + 1 - self));
		}
		self += len + (self[len] == '\n');
	}
	return NULL;
}

/* Undoes what mountinfo does to blanks and backslashes: \040 and the like. In place. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
		    from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
			*to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0');
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

struct mount_line {
	char *root, *point, *type, *super;
};

/* Reads "id parent dev ROOT POINT options ... - TYPE source SUPER"; the words' places in `line`. */
static bool read_mount(char *line, struct mount_line *mount)
{
	char *dash = strstr(line, " - ");
	char *save = NULL, *word;

	if (!dash)
		return false;
	*dash = '\0';
	dash += 3;
	word = strtok_r(line, " ", &save);
	for (int i = 0; word && i < 3; i++)
		word = strtok_r(NULL, " ", &save);
	mount->root = word;
	mount->point = strtok_r(NULL, " ", &save);
	save = NULL;
	mount->type = strtok_r(dash, " ", &save);
	if (!strtok_r(NULL, " ", &save))
		return false;
	mount->super = strtok_r(NULL, " ", &save);
	if (!mount->root || !mount->point || !mount->type || !mount->super)
		return false;
	unescape(mount->root);
	unescape(mount->point);
	return true;
}

static bool is_hierarchy(const struct mount_line *mount, const char *controller)
{
	return *controller ? strcmp(mount->type, "cgroup") == 0 &&
				     has_word(mount->super, strlen(mount->super), controller)
			   : strcmp(mount->type, "cgroup2") == 0;
}

/* What is left of `path` below the mounted part `root`; NULL when it is not in it. */
static const char *below(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0') ||
	    strncmp(path, "/..", 3) == 0)
		return NULL;
	path += len;
	return strcmp(path, "/") == 0 ? "" : path;
}

bool cgroup_place_parse(const char *self, const char *mounts, const char *controller,
			struct cgroup_place *place)
{
	cleanup_free char *path = find_path(self, controller);
	cleanup_free char *copy = mem_string(mounts);
	char *next;

	for (char *line = path ? copy : NULL; line && *line; line = next) {
		struct mount_line mount;
		const char *rest;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!strstr(line, " - cgroup") || !read_mount(line, &mount) ||
		    !is_hierarchy(&mount, controller))
			continue;
		rest = below(path, mount.root);
		if (!rest)
			continue;
		*place = (struct cgroup_place){.mount = mem_string(mount.point),
					       .path = mem_string(rest),
					       .version = *controller ? 1 : 2};
		return true;
	}
	return false;
}

bool cgroup_place_find(const char *controller, struct cgroup_place *place)
{
	cleanup_buf struct buf self = BUF_INIT;
	cleanup_buf struct buf mounts = BUF_INIT;

	if (file_read(AT_FDCWD, "/proc/self/cgroup", PROC_BYTES_MAX, &self, NULL) != 0 ||
	    file_read(AT_FDCWD, "/proc/self/mountinfo", PROC_BYTES_MAX, &mounts, NULL) != 0)
		return false;
	return cgroup_place_parse(buf_bytes(&self), buf_bytes(&mounts), controller, place);
}
