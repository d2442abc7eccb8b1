/*
 * Where a path lies, whatever it is called: the table of mounts, read.
 *
 * Two names can lead to one directory although neither has a symlink in it: it may be mounted in
 * two places (mount --bind). The mount table tells: each mount has the device and the directory of
 * its file system that it shows (proc_pid_mountinfo(5)).
 */
#ifndef FH_SANDBOX_MOUNTS_H
#define FH_SANDBOX_MOUNTS_H

#include <stdbool.h>

#include "base/buf.h"

/* The text of a mount table. */
struct mounts {
	struct buf text;
};

#define MOUNTS_INIT \
	{ \
		.text = BUF_INIT \
	}

/* Reads this process's table. -1 when there is no /proc: then paths are compared as they are. */
int mounts_read(struct mounts *mounts);
void mounts_release(struct mounts *mounts);

/* "DEVICE /path/in/its/file/system" of an absolute path without symlinks (only its last component
 * may be one, and is not followed). The path itself when the table does not say. The caller owns
 * the result. */
char *mounts_place(const struct mounts *mounts, const char *path);

/* Whether `path` is `folder` or lies in it, by their places; both as for mounts_place. */
bool mounts_inside(const struct mounts *mounts, const char *path, const char *folder);

#endif
