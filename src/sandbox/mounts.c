/*
 * A line of the table is
 *
 *     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
 *
 * with the device, the directory of the file system and the mount point third to fifth. Of the
 * mounts above a path the deepest counts, of several at one point the last: it covers the others.
 */
#include "sandbox/mounts.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { TABLE_BYTES_MAX = 16 << 20, FIELDS = 5 };

struct line {
	char *fields[FIELDS]; /* unescaped in place */
};

int mounts_read(struct mounts *mounts)
{
	return file_read(AT_FDCWD, "/proc/self/mountinfo", TABLE_BYTES_MAX, &mounts->text, NULL);
}

void mounts_release(struct mounts *mounts)
{
	buf_release(&mounts->text);
}

static bool is_octal(char c, char most)
{
	return c >= '0' && c <= most;
}

/* Undoes the octal escapes (\040 for a blank) in place. */
static void unescape(char *text)
{
	char *out = text;

	while (*text) {
		if (text[0] == '\\' && is_octal(text[1], '3') && is_octal(text[2], '7') &&
		    is_octal(text[3], '7')) {
			*out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 +
					(text[3] - '0'));
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

/* Cuts a line into its first fields; false when it has fewer. */
static bool cut(char *text, struct line *line)
{
	for (size_t i = 0; i < FIELDS; i++) {
		char *end = text ? strchr(text, ' ') : NULL;

		if (!end)
			return false;
		*end = '\0';
		line->fields[i] = text;
		text = end + 1;
	}
	for (size_t i = 0; i < FIELDS; i++)
		unescape(line->fields[i]);
	return true;
}

/* The length of `folder` when `path` is it or lies in it, not counting a slash at its end; -1. */
static ssize_t length_above(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	while (len > 0 && folder[len - 1] == '/')
		len--;
	if (strncmp(path, folder, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return -1;
	return (ssize_t)len;
}

char *mounts_place(const struct mounts *mounts, const char *path)
{
	cleanup_free char *text = mem_copy(buf_bytes(&mounts->text), mounts->text.len);
	struct line line, best = {.fields = {NULL}};
	ssize_t best_len = -1;
	char *next;

	for (char *at = text; at && *at; at = next) {
		ssize_t len;

		next = strchr(at, '\n');
		if (next)
			*next++ = '\0';
		len = cut(at, &line) ? length_above(path, line.fields[4]) : -1;
		if (len >= 0 && len >= best_len) {
			best = line;
			best_len = len;
		}
	}
	if (best_len < 0)
		return mem_string(path);
	return mem_format("%s %s%s", best.fields[2],
			  strcmp(best.fields[3], "/") == 0 ? "" : best.fields[3], path + best_len);
}

bool mounts_inside(const struct mounts *mounts, const char *path, const char *folder)
{
	cleanup_free char *inner = mounts_place(mounts, path);
	cleanup_free char *outer = mounts_place(mounts, folder);

	return length_above(inner, outer) >= 0;
}
