/*
 * What of the host becomes visible: from paths to mounts and symlinks.
 *
 * A Python environment is rarely one folder. /root/.pyenv/versions/3.11 may be a symlink to 3.11.7,
 * /home/u/venv/bin/python points to /usr/bin/python3.11, /lib is usr/lib on one system and a folder
 * on the next. So each path is walked component by component on the host, as the kernel would: a
 * symlink on the way is noted, to be made again at the same place with the same text; the place
 * where the walk ends is noted to be bound there. Inside, the same walk then gives the same file,
 * and nothing beside it is visible.
 *
 * No place that is bound is a symlink or has one among its parents, so no mount destination ever
 * goes through one.
 */
#ifndef FH_SANDBOX_VISIBLE_H
#define FH_SANDBOX_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct visible_link {
	char *path;
	char *text;
};

struct visible {
	struct visible_link *links;
	size_t link_count;
	char **binds; /* real paths of directories and regular files */
	size_t bind_count;
	char *known; /* a directory: it and those above it have been looked at, and none is a
			symlink */
};

#define VISIBLE_INIT \
	{ \
		.links = NULL, .link_count = 0, .binds = NULL, .bind_count = 0, .known = NULL \
	}

void visible_release(struct visible *visible);

/* Adds an absolute path. One that does not exist, or ends at neither directory nor regular file,
 * adds no bind. */
void visible_add(struct visible *visible, const char *path);

/* As visible_add for a path that a policy asks for: refused (ERR_DENIED) when it would show a whole
 * home or system directory, or lies where the box has something of its own (/proc, /dev, /workspace
 * ...); ERR_INVALID when it is not absolute or is too long. */
int visible_add_checked(struct visible *visible, const char *path, struct err *err);

/* Whether the path is bound, by itself or with what is above it; whether it is one of the links.
 * After visible_settle(). */
bool visible_covers(const struct visible *visible, const char *path);
bool visible_links(const struct visible *visible, const char *path);

/* Drops what lies under another bind and what is there twice. Call once, after all were added. */
void visible_settle(struct visible *visible);

#endif
