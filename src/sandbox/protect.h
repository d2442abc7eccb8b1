/*
 * Write-then-execute: what in a person's own project is run later by programs that no sandbox
 * holds.
 *
 * Code in a session that may write a project could leave something there for the next `git status`,
 * the editor, the shell or the next Python: a hook, a task file, an .envrc, a .pth. The places are
 * a list of patterns in the policy. What is there when the box is built is bound read-only over
 * itself, and each folder above it is made a mount point, so that it cannot be moved away and made
 * anew. What is not there cannot be forbidden: a mount needs something to be mounted on, Landlock
 * knows no names, and to make the name on the host would be a change of the project itself. So it
 * is looked for after each cell and at the end (keeper/guard.h), and put aside.
 *
 * A pattern is one to three names between '/', each with the wildcards of fnmatch(3), and means
 * every path in the workspace that ends so: `.git/hooks` is `.git/hooks` and `lib/x/.git/hooks`.
 * With ":file" at its end it does not mean folders.
 *
 * Not in the list, because to write them is the work that sessions are for: conftest.py, setup.py,
 * Makefile, package.json and the source itself. Who runs these trusts the session's work as a
 * whole.
 */
#ifndef FH_SANDBOX_PROTECT_H
#define FH_SANDBOX_PROTECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	PROTECT_NAMES_MAX = 100000, /* of the workspace that are looked at while a session works */
	PROTECT_ALL_NAMES_MAX = 5000000, /* at its end */
	PROTECT_FOUND_MAX = 20000,
	PROTECT_MOUNTS_MAX = 2000, /* of those found that are made read-only */
	PROTECT_DEPTH_MAX = 64,
	PROTECT_PARTS_MAX = 3,
	PROTECT_PATTERNS_MAX = 256,
};

/* NULL-terminated. */
extern const char *const PROTECT_DEFAULT[];

/* Whether it is a pattern. ERR_INVALID says what is wrong. */
int protect_check(const char *pattern, struct err *err);

/* Whether a path (no '/' at its ends) is meant by one of the patterns. Pure. */
bool protect_matches(const char *const *patterns, const char *path, bool folder);

/* Whether the path or a folder above it is meant. */
bool protect_covers(const char *const *patterns, const char *path, bool folder);

struct protect_item {
	char *path; /* from the workspace, any bytes */
	ino_t inode;
	int64_t ctime_ns;
	bool link; /* a symlink: nothing can be mounted on it */
};

struct protect_list {
	struct protect_item *items; /* parents before what is in them */
	size_t count;
	bool incomplete; /* a limit came, or a folder could not be read */
};

#define PROTECT_LIST_INIT \
	{ \
		.items = NULL, .count = 0, .incomplete = false \
	}

/* What there is of the patterns beneath the folder `root`, among its first `names_max` names.
 * Follows no symlink, and enters neither other mounts nor what is found, nor git's objects. */
void protect_find(int root, const char *const *patterns, size_t names_max,
		  struct protect_list *list);
void protect_list_release(struct protect_list *list);
#define cleanup_protect __attribute__((cleanup(protect_list_release)))

/* Whether the same thing is in the list: the path, and what lies there. */
bool protect_has(const struct protect_list *list, const struct protect_item *item);

#endif
